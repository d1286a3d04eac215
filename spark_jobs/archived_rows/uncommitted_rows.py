"""``records_uncommitted``: what a consumer with ``isolation.level=read_uncommitted`` reads, maintained on request.

    decided    offsets below the log's frontier: added once, with the outcome of their transactions
    tail       from there up to the high watermark: replaced as a whole in one commit whenever it changes

The version of application ``records_uncommitted/<log>`` is the offset where the tail begins. That of ``…/tail`` is a
digest of the tail's input: offsets, states, segments. A tail with the same input is left as it is.

``publish`` runs this after its own commit. Damage is handled as there: the table ends before the first missing or
corrupt offset, unless the log's policy passes damage. Control records have no rows.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
import pyarrow as pa

from logcore.errors import LogError
from logcore.logs.model.findings import found
from logcore.logs.model.offset_ledger import OffsetState
from logcore.logs.model.transactions import TransactionState
from logcore.ranges import joined
from spark_jobs.archived_rows.archived_bytes import ArchivedBytes
from spark_jobs.archived_rows.records_file import WriteTask, decoded
from spark_jobs.engine.executor import Executor, run_tasks
from spark_jobs.groups import by_key
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.files.live_files import LiveFile, live_files
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import open_table, table_uri
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.ledger.offset_ranges import clipped
from spark_jobs.lake.segments.ledger_ranges import records_within
from spark_jobs.lake.segments.validations import RULES_VERSION
from spark_jobs.lake.store.written_file import WriteResult, WrittenFile, first_error
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.outlines import UncommittedRange
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.policies.compression import Compression
from spark_jobs.policies.policies_file import Policies
from spark_jobs.reads import Reads

READ_UNCOMMITTED = "read_uncommitted"
TABLE = "records_uncommitted"

STATES = {
    OffsetState.PRESENT: TransactionState.COMMITTED,
    OffsetState.ABORTED: TransactionState.ABORTED,
    OffsetState.OPEN: TransactionState.OPEN,
    OffsetState.UNKNOWN: TransactionState.UNKNOWN,
}
"""Transaction state of a row by the state of its offset. Offsets in other states have no rows."""
WITHOUT_ROWS = frozenset({OffsetState.CONTROL, OffsetState.COMPACTED, OffsetState.EMPTY})
"""States of offsets inside of the log that never have rows."""


@dataclass(frozen=True, slots=True)
class TailPlan(UncommittedRange):
    """The change for one log: its rows from ``start_offset`` on are rebuilt."""

    removed: tuple[str, ...]
    """Files that the new ones replace."""
    states: tuple[tuple[int, int, str], ...]
    """Start, end and transaction state of the offsets that have rows, in order."""
    counted: int
    """Records in states other than ``open`` by the ledger. For open offsets the ledger counts markers too."""
    tasks: tuple[WriteTask, ...]
    guards: tuple[Guard, Guard]


@dataclass(frozen=True, slots=True)
class UncommittedPlan:
    """The logs whose decided part or tail in the table is out of date."""

    logs: tuple[TailPlan, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the table is up to date."""
        return not self.logs

    def without(self, logs: Collection[str]) -> UncommittedPlan:
        """The plan for the other logs."""
        return UncommittedPlan(tuple(log for log in self.logs if log.log not in logs))

    @property
    def outline(self) -> tuple[UncommittedRange, ...]:
        """What a report and a dry run say of it."""
        return tuple(map(UncommittedRange.of, self.logs))


@dataclass(slots=True)
class UncommittedResult:
    """Rows written, and logs that were left as they were."""

    records: int = 0
    refused: list[PlacedFinding] = field(default_factory=list)


def logs_of(lake: str, logs: Sequence[str]) -> set[str]:
    """Those of the logs that the table was written for."""
    return {log for log, version in commits.versions_of_logs(lake, TABLE, logs).items() if version is not None}


def plan(
    lake: str,
    ledger: Mapping[str, Sequence[LedgerRow]],
    decided: Mapping[str, int],
    passing: Collection[str],
    held: ArchivedBytes,
    policies: Policies,
) -> UncommittedPlan:
    """Plan the changes that bring logs to their frontiers.

    Args:
        decided: Frontier by log, as ``publish`` leaves it.
        passing: Logs whose policy publishes offsets after damage.
    """
    ids = [application for log in decided for application in _applications(log)]
    recorded = commits.versions(lake, TABLE, ids)
    table = open_table(lake, TABLE)
    live = live_files(table) if table is not None else ()
    files = by_key(live, lambda file: (file.partition_values["topic"], file.log_id))
    plans = []
    for log, frontier_offset in sorted(decided.items()):
        first = ledger[log][0]
        mine = [file for file in files.get((first.topic, first.log_id), ()) if file.partition == first.partition]
        compression = policies.compression_of(first.topic)
        made = _plan_log(ledger[log], frontier_offset, log in passing, held, recorded, mine, compression)
        if made is not None:
            plans.append(made)
    return UncommittedPlan(tuple(plans))


def apply(plan: UncommittedPlan, lake: str, run_id: str, executor: Executor | None) -> UncommittedResult:
    """Write the rows and commit them, one commit for all logs.

    Raises:
        ConcurrentChange: Another commit was made in between.
    """
    outcome = UncommittedResult()
    if plan.is_empty:
        return outcome
    tasks = [TailTask(task, tuple(states_of(task, log.states))) for log in plan.logs for task in log.tasks]
    results = iter(run_tasks(executor, write_uncommitted, tasks, [task.source.size for task in tasks]))
    removed: list[str] = []
    added: list[WrittenFile] = []
    guards: list[Guard] = []
    for log in plan.logs:
        written = [next(results) for _ in log.tasks]
        problem = first_error(result.written for result in written)
        settled = sum(result.settled for result in written)
        if problem is None and settled != log.counted:
            problem = f"{settled} records that are not open were decoded where the ledger counts {log.counted}"
        if problem is not None:
            outcome.refused.append(_mismatch(log, problem))
            continue
        removed += log.removed
        added += [file for result in written for file in result.written.files]
        guards += log.guards
    if guards:
        commits.rewrite_files(lake, TABLE, removed, added, run_id, guards, data_change=True)
    outcome.records = sum(file.rows for file in added)
    return outcome


def begin_again(lake: str, offsets: Mapping[str, int], run_id: str) -> None:
    """Make the next plan rebuild rows from these offsets on, where they are already decided.

    Needed where ``records`` was replaced, or where the ledger changed. Writes nothing if there is nothing to do.

    Raises:
        ConcurrentChange: Another commit was made in between.
    """
    if not offsets or open_table(lake, TABLE) is None:
        return
    recorded = commits.versions_of_logs(lake, TABLE, offsets)
    guards = [
        Guard(_applications(log)[0], recorded[log], at) for log, at in offsets.items() if at < (recorded[log] or 0)
    ]
    if guards:
        commits.add_files(lake, TABLE, [], run_id, guards)


def first_difference(before: Sequence[LedgerRow], after: Sequence[LedgerRow]) -> int | None:
    """The first offset at which two ledgers of a log differ; None where they do not.

    Only two things are compared: which offsets have rows, and the state of their transactions.
    """
    old, new = (_states(rows, 0, rows[-1].end_offset) if rows else [] for rows in (before, after))
    for left, right in zip_longest(old, new):
        if left is None or right is None:
            return int((left or right)[0])
        if left != right:
            alike = left[0] == right[0] and left[2] == right[2]
            return min(left[1], right[1]) if alike else min(left[0], right[0])
    return None


def states_of(task: WriteTask, states: Sequence[tuple[int, int, str]]) -> Sequence[tuple[int, int, str]]:
    """The states of the task's offsets. A log may have as many states as transactions."""
    if not task.visible:
        return ()
    first = bisect_right(states, task.visible[0][0], key=lambda each: each[1])
    return states[first : bisect_left(states, task.visible[-1][1], key=lambda each: each[0])]


@dataclass(frozen=True, slots=True)
class TailTask:
    """Rows to write, and the transaction states of their offsets."""

    source: WriteTask
    states: tuple[tuple[int, int, str], ...]
    """See :class:`TailPlan`."""

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return self.source.reads


@dataclass(frozen=True, slots=True)
class WrittenTail:
    """The result of a task."""

    written: WriteResult
    settled: int = 0
    """Rows in states other than ``open``."""


def write_uncommitted(task: TailTask) -> WrittenTail:
    """Write one file, or none if there are no rows. Runs in a worker."""
    source = task.source
    counts = dict.fromkeys(TransactionState, 0)
    try:
        rows = _with_states(decoded(source), task.states, counts)
        root, place = table_uri(source.lake, TABLE), {"topic": source.topic}
        written = write_file(root, TABLES[TABLE], rows, place, compression=source.compression)
    except (LogError, OSError) as error:
        return WrittenTail(WriteResult(error=str(error)))
    settled = sum(count for state, count in counts.items() if state is not TransactionState.OPEN)
    return WrittenTail(WriteResult.of(written), settled)


def _with_states(
    chunks: Iterator[pa.RecordBatch], states: Sequence[tuple[int, int, str]], counts: dict[TransactionState, int]
) -> Iterator[pa.RecordBatch]:
    words = list(TransactionState)
    starts = np.array([start for start, _, _ in states], dtype=np.int64)
    codes = np.array([words.index(TransactionState(state)) for _, _, state in states], dtype=np.int32)
    for chunk in chunks:
        offsets = chunk.column("offset").to_numpy(zero_copy_only=False)
        of_rows = codes[np.searchsorted(starts, offsets, side="right") - 1]
        for code, word in enumerate(words):
            counts[word] += int((of_rows == code).sum())
        column = pa.DictionaryArray.from_arrays(pa.array(of_rows, pa.int32()), pa.array([str(word) for word in words]))
        yield chunk.append_column("transaction_state", column)


def _applications(log: str) -> tuple[str, str]:
    return f"{TABLE}/{log}", f"{TABLE}/{log}/tail"


def _plan_log(
    ranges: Sequence[LedgerRow],
    decided: int,
    passes_damage: bool,
    held: ArchivedBytes,
    recorded: Mapping[str, int | None],
    files: Sequence[LiveFile],
    compression: Compression,
) -> TailPlan | None:
    first = ranges[0]
    of_decided, of_tail = _applications(first.log)
    begun = recorded[of_decided] or 0
    decided = max(decided, begun)
    end = max(decided, _end(ranges, decided, passes_damage))
    tail = _states(ranges, decided, end)
    digest = _digest(tail, end, held, first.log) if end > decided else 0
    if decided == begun and digest == (recorded[of_tail] or 0):
        return None
    start, removed = _rebuilt(begun, files)
    if not held.is_validated(first.log, start, end):
        return None
    states = _states(ranges, start, decided) + tail
    settled = [r for r in ranges if r.end_offset > start and r.end_offset <= end and _is_settled(r)]
    tasks = [
        *held.tasks(first, joined((s, e) for s, e, _ in _states(ranges, start, decided)), compression=compression),
        *held.tasks(first, joined((s, e) for s, e, _ in tail), compression=compression),
    ]
    return TailPlan(
        log=first.log,
        topic=first.topic,
        partition=first.partition,
        start_offset=start,
        decided_offset=decided,
        end_offset=end,
        removed_files=len(removed),
        removed=tuple(file.path for file in removed),
        states=tuple(states),
        counted=sum(records_within(held.lake, row, start, end) for row in settled),
        tasks=tuple(tasks),
        guards=(Guard(of_decided, recorded[of_decided], decided), Guard(of_tail, recorded[of_tail], digest)),
    )


def _rebuilt(begun: int, files: Sequence[LiveFile]) -> tuple[int, list[LiveFile]]:
    """The offset from which rows are rebuilt, and the files that this replaces.

    These are the files of the old tail, and each file that another engine merged across its border, with all files that
    begin after its first row.
    """
    start = begun
    while True:
        removed = [file for file in files if file.max_offset is None or file.max_offset >= start]
        least = min((file.min_offset or 0 for file in removed), default=start)
        if least >= start:
            return start, removed
        start = least


def _is_settled(row: LedgerRow) -> bool:
    return row.state in STATES and row.state is not OffsetState.OPEN and not row.withdrawn


def _end(ranges: Sequence[LedgerRow], decided: int, passes_damage: bool) -> int:
    """End of the tail: the high watermark, or the first damage before it."""
    damage = (OffsetState.MISSING, OffsetState.CORRUPT)
    end = frontier.ledger_high_watermark(ranges)
    if passes_damage:
        return end
    return min([end, *(row.start_offset for row in ranges if row.state in damage and row.end_offset > decided)])


def _states(ranges: Sequence[LedgerRow], start: int, end: int) -> list[tuple[int, int, str]]:
    """Offsets of [start, end) that have rows, with their transaction states; adjacent equal states are joined.

    Offsets that never have rows may lie between them.
    """
    found: list[tuple[int, int, str]] = []
    for row in ranges:
        if row.state in WITHOUT_ROWS and found and found[-1][1] == row.start_offset and row.end_offset <= end:
            found[-1] = (found[-1][0], row.end_offset, found[-1][2])
        if row.state not in STATES or row.withdrawn:
            continue
        state = str(STATES[row.state])
        for low, high in clipped([(row.start_offset, row.end_offset)], start, end):
            if found and found[-1][1:] == (low, state):
                found[-1] = (found[-1][0], high, state)
            else:
                found.append((low, high, state))
    return found


def _digest(tail: Sequence[tuple[int, int, str]], end: int, held: ArchivedBytes, log: str) -> int:
    """A number that changes when the tail would change; never 0, which means no tail."""
    pieces = held.pieces(log, joined((start, stop) for start, stop, _ in tail))
    made_from = [RULES_VERSION, end, tail, sorted({piece.segment_id for piece in pieces})]
    return int.from_bytes(hashlib.sha256(json.dumps(made_from).encode()).digest()[:7], "big") + 1


def _mismatch(log: TailPlan, problem: str) -> PlacedFinding:
    message = (
        f"{log.topic}-{log.partition}: offsets [{log.start_offset}, {log.end_offset}) are left as they were in "
        f"{TABLE}: {problem}."
    )
    finding = found("output-mismatch", message, start_offset=log.start_offset, end_offset=log.end_offset)
    return PlacedFinding(finding, log.log, log.topic, log.partition)
