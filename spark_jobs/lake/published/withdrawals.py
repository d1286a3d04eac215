"""Rows that users or retention removed from ``records``: found, recorded, and ignored by every later run.

    plan     compare existing rows with rows that the ledger counts, log by log     (reads the tables only)
    apply    write table ``withdrawals``, then the ledger's ``withdrawn``, cut at the bounds
    marked   a ledger that was rebuilt gets ``withdrawn`` from the table

A withdrawal removes nothing: the archive still holds the bytes. The ledger's state remains the state in the log, and
``published`` follows the frontier; only ``withdrawn`` says that ``records`` has no rows there.

The table is written first, so a run that dies between the two commits leaves ranges that the next ``apply`` marks.

Rows that the ledger counts as published and that ``records`` does not have are found within each range of the ledger,
among gaps batch by batch. Neighbouring parts are joined, also across offsets that never have rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logcore.errors import LogError
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.offset_ledger import EVIDENCE_FILLED, OffsetState
from logcore.ranges import joined
from logcore.reading.nearest_names import unmatched
from spark_jobs.errors import ConcurrentChange, JobError, UsageError
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import TableVersions, versions
from spark_jobs.lake.delta.tables.delta_log import EXPIRED
from spark_jobs.lake.delta.tables.snapshots import open_table, read_rows, table_of
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.ledger.offset_ranges import clipped, holds
from spark_jobs.lake.published.held_offsets import HeldOffsets
from spark_jobs.lake.published.present_offsets import present_offsets
from spark_jobs.lake.repair_commands import frontiers_command
from spark_jobs.lake.segments import archive, ledger_ranges
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.table_specs import WITHDRAWALS

MAX_RANGES = 10_000
"""Ranges of one log in one command. Each cuts the ledger, which every job reads whole and keeps in memory. More would
make every later run slow, and deletions that scattered are seldom intended."""

WITHDRAW = "withdraw"
"""The command, as the table ``runs`` names it."""

Span = tuple[int, int]


class Cause(StrEnum):
    """Why rows were removed."""

    WITHDRAWN = "withdrawn"
    """Somebody deleted them, and said so."""
    EXPIRED = "expired"
    """They were older than `records.retention.ms`."""
    UNKNOWN = "unknown"
    """One of both: the table was lost, and what is left does not say which."""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A row of ``withdrawals``."""

    log: str
    topic: str
    log_id: str
    partition: int
    start_offset: int
    end_offset: int
    records: int
    table_version: int
    run_id: str
    who: str
    withdrawn_ms: int
    reason: str | None
    cause: str | None = Cause.WITHDRAWN


@dataclass(frozen=True, slots=True)
class LogWithdrawal:
    """The rows of one log that can be withdrawn."""

    row: LogRow
    ranges: tuple[Gone, ...]
    unclear: tuple[Unclear, ...]
    ledger: tuple[LedgerRow, ...]

    @property
    def records(self) -> int:
        """Number of lost rows."""
        return sum(each.records for each in self.ranges)


@dataclass(frozen=True, slots=True)
class WithdrawalPlan:
    """The withdrawals that a command would record."""

    table_version: int
    logs: tuple[LogWithdrawal, ...]
    """Logs with withdrawals or unclear offsets."""
    ledger_version: TableVersions
    """Version of `offset_ledger` that the plan read."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be withdrawn."""
        return not any(log.ranges for log in self.logs)


def read_withdrawals(lake: str, logs: Sequence[str] | None = None) -> dict[str, list[Withdrawal]]:
    """Return withdrawals by log key, in offset order; logs without any are left out."""
    where = None if logs is None else [("log", "in", sorted(logs))]
    found: dict[str, list[Withdrawal]] = {}
    for values in read_rows(lake, "withdrawals", where=where).to_pylist():
        found.setdefault(values["log"], []).append(Withdrawal(**values))
    for rows in found.values():
        rows.sort(key=lambda row: (row.start_offset, row.withdrawn_ms))
    return found


def withdrawn_spans(lake: str, logs: Sequence[str]) -> dict[str, Sequence[Span]]:
    """Return withdrawn offsets by log key, as ascending ranges that do not touch; logs without any are left out."""
    found = read_withdrawals(lake, logs) if logs else {}
    return {log: joined((row.start_offset, row.end_offset) for row in rows) for log, rows in found.items()}


def plan(
    lake: str,
    selection: LogSelection | None = None,
    start: int | None = None,
    end: int | None = None,
) -> WithdrawalPlan:
    """Find published rows that are gone.

    Args:
        selection: Logs to check; None: all.
        start: First offset to check in every chosen log.
        end: End of the offsets to check, exclusive.

    Raises:
        UsageError: No log is chosen.
        JobError: The table ``records`` does not exist, or too many ranges of one log are gone.
    """
    chosen = LogSelection() if selection is None else selection
    known = list(archive.read_logs(lake).values())
    rows = [row for row in known if chosen.matches(row.topic, row.partition)]
    if not rows:
        raise UsageError(
            f"The lake {lake} has no log of these topics and partitions.{unmatched(chosen, (r.topic for r in known))}"
        )
    expected = TableVersions.of(lake, "offset_ledger")
    table = open_table(lake, "records")
    if table is None:
        raise JobError("The table records does not exist: the next loglake run writes it again from the archive.")
    ledgers = frontier.read_ledger(lake, [row.log for row in rows])
    recorded = frontier.read_frontiers(lake, list(ledgers))
    logs = []
    for row, offsets in present_offsets(table, [row for row in rows if row.log in ledgers]):
        raw = ledgers[row.log]
        if recorded[row.log] is None and any(each.has_rows for each in raw):
            why = f"its frontier is gone; repair it first: {frontiers_command(lake)}"
            logs.append(LogWithdrawal(row, (), (Unclear(0, frontier.published_end(raw), why),), tuple(raw)))
            continue
        ledger = ledger_ranges.with_published(lake, raw, recorded[row.log])
        found = _of_log(lake, row, ledger, offsets, start or 0, end)
        if found.ranges or found.unclear:
            logs.append(found)
    return WithdrawalPlan(table.version(), tuple(sorted(logs, key=lambda each: each.row.log)), expected)


def apply(
    lake: str,
    made: WithdrawalPlan,
    *,
    who: str,
    reason: str | None,
    run_id: str,
    as_of_ms: int,
    cause: Cause = Cause.WITHDRAWN,
) -> tuple[Withdrawal, ...]:
    """Record the plan's withdrawals, then cut the ledgers; if there is nothing to withdraw, nothing is written.

    Raises:
        ConcurrentChange: The ledger was changed since the plan.
    """
    logs = [log for log in made.logs if log.ranges]
    if not logs:
        return ()
    known = withdrawn_spans(lake, [log.row.log for log in logs])
    rows = [
        _withdrawal(log.row, each, made.table_version, run_id, who, as_of_ms, reason, cause)
        for log in logs
        for each in log.ranges
        # recorded by a run that died before it cut the ledger
        if not holds(known.get(log.row.log, ()), each.start_offset, each.end_offset)
    ]
    synced = ledger_ranges.sync_published(lake, run_id, [log.row.log for log in logs], made.ledger_version)
    moved = [log for log in logs if list(log.ledger) != synced[log.row.log]]
    if moved:
        raise ConcurrentChange(f"Table offset_ledger: {moved[0].row.topic_partition} was changed meanwhile; run again.")
    _record(lake, rows, run_id)
    ledger = [row for log in logs for row in _cut_log(lake, log)]
    frontier.commit_ledger(lake, ledger, [log.row.log for log in logs], run_id, made.ledger_version)
    return tuple(rows)


def record_again(lake: str, *, who: str, reason: str, run_id: str, as_of_ms: int) -> int:
    """Record what the ledger has as withdrawn in a table that was lost; return the number of ranges.

    Who withdrew them, when and why is lost. Below the mark of an expiry the cause is unknown if ``loglake withdraw``
    ever wrote, or if ``runs`` does not prove that it never did.
    """
    logs, table = archive.read_logs(lake), open_table(lake, "records")
    marks = versions(lake, "records", [f"{EXPIRED}{log}" for log in logs])
    below = Cause.EXPIRED if _has_never_withdrawn(lake) else Cause.UNKNOWN
    version = 0 if table is None else table.version()
    rows = [
        _withdrawal(each, each, version, run_id, who, as_of_ms, reason, cause)
        for log, ranges in sorted(frontier.read_ledger(lake, list(logs)).items())
        for withdrawn in ranges
        if withdrawn.withdrawn
        for each, cause in _with_causes(lake, withdrawn, marks[f"{EXPIRED}{log}"] or 0, below)
    ]
    _record(lake, rows, run_id)
    return len(rows)


def _withdrawal(
    log: LogRow | LedgerRow,
    part: Gone | LedgerRow,
    table_version: int,
    run_id: str,
    who: str,
    withdrawn_ms: int,
    reason: str | None,
    cause: Cause,
) -> Withdrawal:
    """Return the row of some offsets of a log."""
    place = log.log, log.topic, log.log_id, log.partition, part.start_offset, part.end_offset, part.records
    return Withdrawal(*place, table_version, run_id, who, withdrawn_ms, reason, cause)


def _has_never_withdrawn(lake: str) -> bool:
    """Whether ``runs`` proves that no ``withdraw`` ever wrote: it has all runs since the lake was made, and none."""
    rows = read_rows(lake, "runs", ["job", "as_of_ms"]).to_pylist()
    logs = open_table(lake, "logs")
    made_ms = None if logs is None else logs.metadata().created_time
    if not rows or made_ms is None or WITHDRAW in {row["job"] for row in rows}:
        return False
    return bool(min(row["as_of_ms"] for row in rows) <= made_ms)


def _with_causes(lake: str, row: LedgerRow, mark: int, below: Cause) -> Iterator[tuple[LedgerRow, Cause]]:
    """Yield the parts of a withdrawn range below and above the mark of an expiry, with their cause."""
    if row.start_offset < mark < row.end_offset:
        left, right = ledger_ranges.cut(lake, row, [(row.start_offset, mark)])
        yield from ((left, below), (right, Cause.WITHDRAWN))
    else:
        yield row, below if row.end_offset <= mark else Cause.WITHDRAWN


def _record(lake: str, rows: Sequence[Withdrawal], run_id: str) -> None:
    """Write rows. A range that expires right after another one of its log is joined to it: a log has one row then, and
    not one a night.
    """
    expiring = sorted({row.log for row in rows if row.cause == Cause.EXPIRED})
    before = read_withdrawals(lake, expiring) if expiring else {}
    if not before:
        if rows:
            commits.append(lake, "withdrawals", table_of(rows, WITHDRAWALS), run_id)
        return
    made = [row for known in before.values() for row in known]
    for row in rows:
        earlier = [e for e in made if (e.log, e.cause, e.end_offset) == (row.log, Cause.EXPIRED, row.start_offset)]
        for each in earlier[:1]:
            made.remove(each)
            row = replace(row, start_offset=each.start_offset, records=each.records + row.records)
        made.append(row)
    commits.replace(lake, "withdrawals", ("log", expiring), table_of(made, WITHDRAWALS), run_id)


def marked(lake: str, ledger: Sequence[LedgerRow], spans: Sequence[Span]) -> list[LedgerRow]:
    """Return a log's ledger with ``withdrawn`` set in ``spans``, cut at their bounds.

    Ranges that are already withdrawn stay unchanged.
    """
    result: list[LedgerRow] = []
    for row in ledger:
        inside = clipped(spans, row.start_offset, row.end_offset)
        if row.withdrawn or row.state is not OffsetState.PRESENT or not inside:
            result.append(row)
            continue
        result += _cut(lake, row, inside)
    return result


def take_back(lake: str, ranges: Mapping[str, Sequence[Span]], run_id: str) -> None:
    """Remove withdrawals of offsets whose rows are back; if only a part of a range is back, the rest stays."""
    before = read_withdrawals(lake, list(ranges))
    ledger = frontier.read_ledger(lake, list(before))
    rows: list[Withdrawal] = []
    changed = []
    for log, known in before.items():
        after = [part for row in known for part in _left_of(row, ranges[log], ledger.get(log, ()))]
        if after != known:
            changed.append(log)
            rows += after
    if changed:
        table = table_of(rows, WITHDRAWALS)
        commits.replace(lake, "withdrawals", ("log", changed), table, run_id)


def _of_log(
    lake: str, row: LogRow, ledger: Sequence[LedgerRow], offsets: HeldOffsets, start: int, end: int | None
) -> LogWithdrawal:
    parts, unclear = gone_parts(lake, ledger, offsets, start, end)
    ranges = parts if unclear else gone_ranges(parts, ledger, offsets)
    if len(ranges) > MAX_RANGES:
        raise JobError(
            f"{row.topic_partition}: the rows of {len(ranges):,} ranges of offsets are gone, from offset "
            f"{ranges[0].start_offset} to {ranges[-1].end_offset - 1}; one command withdraws at most {MAX_RANGES:,} "
            f"of a log. Choose a part of them: --topic {row.topic} --partition {row.partition} --offsets "
            f"{ranges[0].start_offset}..{ranges[MAX_RANGES].start_offset}. Nothing was written."
        )
    return LogWithdrawal(row, tuple(ranges), tuple(unclear), tuple(ledger))


# --- the ledger cut ---------------------------------------------------------------------------------------------------


def _cut_log(lake: str, log: LogWithdrawal) -> Iterator[LedgerRow]:
    spans = [(each.start_offset, each.end_offset) for each in log.ranges]
    for row in log.ledger:
        yield from _cut(lake, row, clipped(spans, row.start_offset, row.end_offset) if row.has_rows else [])


def _cut(lake: str, row: LedgerRow, spans: Sequence[Span]) -> Iterator[LedgerRow]:
    """Split the row into parts, and mark those of the spans, whose rows are lost, as withdrawn."""
    # A rebuilt ledger takes them for rows that came late.
    was_late = row.evidence == EVIDENCE_FILLED and not row.published
    evidence = None if was_late else row.evidence
    for part in ledger_ranges.cut(lake, row, spans):
        if holds(spans, part.start_offset, part.end_offset):
            part = replace(part, withdrawn=True, published=row.published or was_late, evidence=evidence)
        yield part


def _left_of(row: Withdrawal, ranges: Sequence[Span], ledger: Sequence[LedgerRow]) -> Iterator[Withdrawal]:
    at = row.start_offset
    inside = clipped(ranges, row.start_offset, row.end_offset)
    if not inside:
        yield row
        return
    for low, high in [*inside, (row.end_offset, row.end_offset)]:
        if at < low:
            held = [r for r in ledger if r.withdrawn and r.start_offset < low and r.end_offset > at]
            records = sum(min(r.records, min(r.end_offset, low) - max(r.start_offset, at)) for r in held)
            yield replace(row, start_offset=at, end_offset=low, records=records)
        at = high


NEVER_ROWS = frozenset(
    {
        OffsetState.CONTROL,
        OffsetState.ABORTED,
        OffsetState.EMPTY,
        OffsetState.COMPACTED,
        OffsetState.TRIMMED,
        OffsetState.REMOTE,
    }
)
"""States of offsets that never have rows: a range may include them."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Published offsets [start_offset, end_offset) of a log without any of their ``records`` rows."""

    start_offset: int
    end_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class Unclear:
    """Offsets of a log whose lost rows are unknown, or whose rows must not be withdrawn, and why."""

    start_offset: int
    end_offset: int
    why: str


def gone_parts(
    lake: str, ledger: Sequence[LedgerRow], offsets: HeldOffsets, start: int, end: int | None
) -> tuple[list[Gone], list[Unclear]]:
    """Return the published offsets of a log in [start, end) without a row, cut at the ledger's ranges.

    Args:
        offsets: Offsets of the existing rows.
        end: None: to the end of the ledger.
    """
    parts: list[Gone] = []
    unclear: list[Unclear] = []
    for each in ledger:
        low, high = max(each.start_offset, start), each.end_offset if end is None else min(each.end_offset, end)
        if not each.has_rows or low >= high:
            continue
        if each.gaps:
            gone, unread = _gone_among_gaps(lake, each, low, high, offsets)
            parts += gone
            unclear += unread
        else:
            parts += [Gone(first, last, last - first) for first, last in offsets.without(low, high)]
    return parts, unclear


def _gone_among_gaps(
    lake: str, row: LedgerRow, start: int, end: int, offsets: HeldOffsets
) -> tuple[list[Gone], list[Unclear]]:
    """Do the same in a range where only some offsets have a record, batch by batch. Only a batch that lost some of its
    records is read, because only its records show their offsets.
    """
    is_whole = (start, end) == (row.start_offset, row.end_offset)
    there = offsets.count(start, end)
    if is_whole and there == row.records:
        return [], []
    if is_whole and not there:
        return [Gone(start, end, row.records)], []
    gone: list[Gone] = []
    unclear: list[Unclear] = []
    for chunk in ledger_ranges.batches_within(lake, row, start, end):
        for batch in chunk.filter(pa.array(_has_lost_rows(chunk, offsets))).to_pylist():
            first, last = batch["base_offset"], batch["last_offset"] + 1
            inside = start <= first and last <= end
            there = offsets.count(first, last)
            if inside and there == batch["record_count"]:
                continue
            if inside and not there:
                gone.append(Gone(first, last, batch["record_count"]))
                continue
            low, high = max(first, start), min(last, end)
            try:
                said = ledger_ranges.offsets_in_batch(lake, row.log, batch)
            except (LogError, OSError) as error:
                why = f"only some of its rows are gone, and the archive does not show which: {error}"
                unclear.append(Unclear(low, high, why))
                continue
            lost = (at for at in said if low <= at < high and not offsets.count(at, at + 1))
            gone += [Gone(at, at + 1, 1) for at in lost]
    gone.sort(key=lambda each: each.start_offset)
    return _joined(gone, lambda end, start: not offsets.count(end, start)), unclear


def _joined(parts: Iterable[Gone], may_join: Callable[[int, int], bool]) -> list[Gone]:
    """Join ascending parts where the offsets from the end of one to the start of the next allow it."""
    found: list[Gone] = []
    for part in parts:
        if found and may_join(found[-1].end_offset, part.start_offset):
            last = found.pop()
            part = Gone(last.start_offset, part.end_offset, last.records + part.records)
        found.append(part)
    return found


def _has_lost_rows(chunk: pa.RecordBatch, offsets: HeldOffsets) -> npt.NDArray[np.bool_]:
    """Which batches have records, and fewer rows than records."""
    first, last, count = (chunk.column(name).to_numpy() for name in ("base_offset", "last_offset", "record_count"))
    lost: npt.NDArray[np.bool_] = ~ledger_ranges.is_control(chunk) & (offsets.counts(first, last + 1) != count)
    return lost


def gone_ranges(parts: Sequence[Gone], ledger: Sequence[LedgerRow], offsets: HeldOffsets) -> list[Gone]:
    """Join neighbouring parts into one range, also if only offsets without records lie between them. Otherwise the
    markers of transactions would split a range.
    """
    return _joined(parts, lambda end, start: _may_go_over(ledger, end, start, offsets))


def _may_go_over(ledger: Sequence[LedgerRow], start: int, end: int, offsets: HeldOffsets) -> bool:
    if start == end:
        return True
    at = bisect_right(ledger, start, key=lambda row: row.end_offset)
    while at < len(ledger) and ledger[at].start_offset < end:
        if not (ledger[at].has_rows or ledger[at].state in NEVER_ROWS):
            return False
        at += 1
    return not offsets.count(start, end)
