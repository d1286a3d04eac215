"""Rows that users or retention removed from ``records``: found, recorded, and ignored by every later run.

    plan     compare existing rows with rows that the ledger counts, log by log     (reads the tables only)
    apply    write table ``withdrawals``, then the ledger's ``withdrawn``, cut at the bounds
    marked   a ledger that was rebuilt gets ``withdrawn`` from the table

A withdrawal removes nothing: the archive still holds the bytes. The ledger's state remains the state in the log, and
``published`` follows the frontier; only ``withdrawn`` says that ``records`` has no rows there.

The table is written first, so a run that dies between the two commits leaves ranges that the next ``apply`` marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.offset_ledger import EVIDENCE_FILLED, OffsetState
from logcore.reading.nearest_names import unmatched
from spark_jobs.errors import ConcurrentChange, JobError, UsageError
from spark_jobs.lake.delta.commits import row_commits
from spark_jobs.lake.delta.commits.commit_guards import TableVersions
from spark_jobs.lake.delta.tables.snapshots import open_table
from spark_jobs.lake.delta.tables.table_rows import read_rows, table_of
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.ledger.offset_ranges import clipped, holds, merged
from spark_jobs.lake.published.gone_rows import Gone, Unclear, gone_parts, gone_ranges
from spark_jobs.lake.published.present_offsets import PresentOffsets, present_offsets
from spark_jobs.lake.repair_commands import frontiers_command
from spark_jobs.lake.segments import archive, ledger_ranges
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.segments.ledger_ranges import CountBetween, counts_between
from spark_jobs.lake.table_schemas import WITHDRAWALS

MAX_RANGES = 10_000
"""Ranges of one log in one command. Each cuts the ledger, which every job reads whole and keeps in memory. More would
make every later run slow, and deletions that scattered are seldom intended."""

Span = tuple[int, int]


class Cause(StrEnum):
    """Why rows were removed."""

    WITHDRAWN = "withdrawn"
    """Somebody deleted them, and said so."""
    EXPIRED = "expired"
    """They were older than `records.retention.ms`."""


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


def withdrawn_spans(lake: str, logs: Sequence[str]) -> dict[str, list[Span]]:
    """Return withdrawn offsets by log key, as ascending ranges that do not touch; logs without any are left out."""
    found = read_withdrawals(lake, logs) if logs else {}
    return {log: merged(sorted((row.start_offset, row.end_offset) for row in rows)) for log, rows in found.items()}


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
        Withdrawal(
            log=log.row.log,
            topic=log.row.topic,
            log_id=log.row.log_id,
            partition=log.row.partition,
            start_offset=each.start_offset,
            end_offset=each.end_offset,
            records=each.records,
            table_version=made.table_version,
            run_id=run_id,
            who=who,
            withdrawn_ms=as_of_ms,
            reason=reason,
            cause=cause,
        )
        for log in logs
        for each in log.ranges
        # recorded by a run that died before it cut the ledger
        if not holds(known.get(log.row.log, ()), each.start_offset, each.end_offset)
    ]
    synced = ledger_ranges.sync_published(lake, run_id, [log.row.log for log in logs], made.ledger_version)
    moved = [log for log in logs if list(log.ledger) != synced[log.row.log]]
    if moved:
        raise ConcurrentChange(f"Table offset_ledger: {moved[0].row.topic_partition} was changed meanwhile; run again.")
    if rows:
        row_commits.append(lake, "withdrawals", table_of(rows, WITHDRAWALS), run_id)
    ledger = [row for log in logs for row in _cut_log(lake, log)]
    frontier.commit_ledger(lake, ledger, [log.row.log for log in logs], run_id, made.ledger_version)
    return tuple(rows)


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
        gone = [Gone(low, high, 0) for low, high in inside]
        result += _cut(row, gone, _counts(lake, row, gone))
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
        row_commits.replace(lake, "withdrawals", ("log", changed), table, run_id)


def _of_log(
    lake: str, row: LogRow, ledger: Sequence[LedgerRow], offsets: PresentOffsets, start: int, end: int | None
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
        inside = clipped(spans, row.start_offset, row.end_offset) if row.has_rows else []
        gone = [Gone(low, high, 0) for low, high in inside]
        yield from _cut(row, gone, _counts(lake, row, gone)) if gone else (row,)


def _cut(row: LedgerRow, gone: Sequence[Gone], count: CountBetween) -> Iterator[LedgerRow]:
    """Split the row into parts, and mark the lost ones as withdrawn.

    Args:
        count: Returns the counts between two offsets.
    """
    # A rebuilt ledger takes them for rows that came late.
    was_late = row.evidence == EVIDENCE_FILLED and not row.published
    evidence = None if was_late else row.evidence
    at = row.start_offset
    for each in gone:
        if each.start_offset > at:
            yield _counted(row, at, each.start_offset, count)
        yield replace(
            _counted(row, each.start_offset, each.end_offset, count),
            withdrawn=True,
            published=row.published or was_late,
            evidence=evidence,
        )
        at = each.end_offset
    if at < row.end_offset:
        yield _counted(row, at, row.end_offset, count)


def _counted(row: LedgerRow, start: int, end: int, count: CountBetween) -> LedgerRow:
    counts = count(start, end)
    gaps = end - start - counts.records
    return replace(row, start_offset=start, end_offset=end, records=counts.records, gaps=gaps, markers=counts.markers)


def _counts(lake: str, row: LedgerRow, gone: Iterable[Gone]) -> CountBetween:
    borders = (border for each in gone for border in (each.start_offset, each.end_offset))
    return counts_between(lake, row, (row.start_offset, row.end_offset, *borders))


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
