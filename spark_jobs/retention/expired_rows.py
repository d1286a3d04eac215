"""Rows of a lake's tables that are older than `records.retention.ms` or, in ``runs``, than `runs.retention.ms`: found,
recorded as expired, and removed.

    find     the oldest rows of each log of ``records``, up to the first one that is young enough    (driver)
    record   table ``withdrawals`` with the cause `expired`, then the ledger's ``withdrawn``         (driver)
    shorten  files with older and younger rows                                                       (workers)
    commit   per table: files without a row that stays go, others are replaced                       (driver)

Rows go from the log's beginning, as a broker's retention does, so a log that keeps one row keeps all later ones. What
is recorded comes first: a run that dies after it leaves rows that the next one removes. Each table that has rows of a
topic loses the same offsets, so tables that follow ``records`` need not be made again. Nothing leaves the archive. The
newest row of each job stays in ``runs``.

A file of a table without the rows below the first kept offset of their logs.

Runs in a worker. Other rows are copied unchanged. Rows are streamed; those of a log are sorted in memory if another
engine left them out of order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logcore.ranges import joined
from spark_jobs.contracts import LogChange
from spark_jobs.engine.executor import Executor, run_tasks
from spark_jobs.errors import OutputMismatch, TableRefused
from spark_jobs.groups import by_key
from spark_jobs.lake.decoded.followed_topics import ROWS
from spark_jobs.lake.decoded.table_columns import extra_columns, with_columns
from spark_jobs.lake.decoded.topic_tables import DECODED, LATEST, UNDECODED, topic_table
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard, TableVersions, rewrite_files, versions
from spark_jobs.lake.delta.files import row_digest
from spark_jobs.lake.delta.files.carried_rows import as_declared
from spark_jobs.lake.delta.files.file_contents import (
    FileUnreadable,
    LogKey,
    by_log,
    in_offset_order,
    integers,
    read_contents,
)
from spark_jobs.lake.delta.files.live_files import LiveFile, read_batches
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.delta.tables import table_features
from spark_jobs.lake.delta.tables.delta_log import EXPIRED
from spark_jobs.lake.delta.tables.snapshots import read_rows, table_uri
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.ledger.offset_ranges import holds
from spark_jobs.lake.published import withdrawals
from spark_jobs.lake.published.log_cuts import cuts_at_time
from spark_jobs.lake.published.published_rows import Span, published_rows
from spark_jobs.lake.published.withdrawals import Cause, Gone, LogWithdrawal, Withdrawal, WithdrawalPlan
from spark_jobs.lake.segments import archive, ledger_ranges
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.store.written_file import WriteResult, first_error
from spark_jobs.lake.table_specs import RECORD_TABLES, TABLES
from spark_jobs.outlines import ExpiredLog, UnexpiredLog
from spark_jobs.policies.compression import Compression
from spark_jobs.policies.policies_file import Policies
from spark_jobs.reads import Reads


@dataclass(frozen=True, slots=True)
class ShortenTask:
    """A file that loses rows."""

    lake: str
    table: str
    path: str
    """Path relative to the table."""
    size: int
    """Bytes."""
    partition_values: dict[str, str]
    floors: Mapping[LogKey, int]
    """First kept offset by log. Logs that it does not name keep all rows."""
    extra: str
    """The table's additional columns, as ``table_columns`` writes them."""
    compression: Compression

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(self.table, self.path)


def shorten_file(task: ShortenTask) -> WriteResult:
    """Write the rows of a file that stay: a file for each log, in the order of offsets; none if no row stays.

    Raises:
        TableUnreadable: The file is damaged.
    """
    root, spec = table_uri(task.lake, task.table), with_columns(task.table, task.extra)
    try:
        contents = read_contents(task.lake, task.table, task.path)
        written = [
            write_file(
                root,
                spec,
                in_offset_order(partial(_of_log, task, key), spec.file_schema, is_ordered=contents.is_ordered),
                task.partition_values,
                lambda: row_digest.are_recorded(root, (task.path,)),
                task.compression,
            )
            for key in contents.logs
        ]
    except (OSError, FileUnreadable, pa.ArrowException) as error:
        return WriteResult(error=f"{task.path}: {error}")
    return WriteResult(tuple(file for file in written if file is not None))


def _of_log(task: ShortenTask, key: LogKey, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a log that are not below its first kept offset."""
    floor = task.floors.get(key, 0)
    for rows in read_batches(task.lake, task.table, task.path):
        places = dict(by_log(rows)).get(key)
        if places is not None:
            kept = places[integers(rows, "offset")[places] >= floor]
            yield as_declared(rows, schema).take(kept)  # Arrow takes no rows of the types that other engines write


SETTING = "records.retention.ms"
WHO = "retention"


@dataclass(frozen=True, slots=True)
class ShortenedTable:
    """The files of a table that lose rows."""

    table: Table
    removed: tuple[str, ...]
    """Paths of files of which no row stays."""
    tasks: tuple[ShortenTask, ...]
    """The files of which some rows stay."""
    floors: Mapping[str, int]
    """First kept offset by log key."""

    @property
    def has_rows(self) -> bool:
        """Whether it has rows to remove."""
        return bool(self.removed or self.tasks)


@dataclass(frozen=True, slots=True)
class ExpiryPlan:
    """What expires, and what a run that died left."""

    logs: tuple[ExpiredLog, ...] = ()
    """Logs with offsets that are not recorded as expired yet."""
    recorded: WithdrawalPlan | None = None
    """What is recorded of them."""
    tables: tuple[ShortenedTable, ...] = ()
    runs: tuple[str, ...] = ()
    """Runs whose rows in the table ``runs`` are too old."""
    kept: tuple[UnexpiredLog, ...] = ()
    """Logs whose rows stay although they are too old."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.logs and not self.tables and not self.runs

    @property
    def task_bytes(self) -> int:
        """Bytes of the files that are written again."""
        return sum(task.size for table in self.tables for task in table.tasks)


def plan(lake: str, policies: Policies, logs: Sequence[str] | None, as_of_ms: int) -> ExpiryPlan:
    """Find the rows that are too old at the run's clock.

    Raises:
        TableUnreadable: A table, or a file that has to be read, is damaged.
        TableRefused: Rows cannot be removed from a table: it is append-only, or has an unsupported feature.
    """
    runs = _old_runs(lake, policies.lake.runs_retention_ms, as_of_ms)
    known = {
        log: rows
        for log, rows in withdrawals.read_withdrawals(lake, logs).items()
        if any(row.cause == Cause.EXPIRED for row in rows)
    }
    if not known and all(policy.records_retention_ms is None for policy in policies.topics):
        return ExpiryPlan(runs=runs)  # the usual case: no table of rows is opened
    expected = TableVersions.of(lake, "offset_ledger")
    limits: dict[str, tuple[LogRow, int | None]] = {}
    for log, row in archive.read_logs(lake, logs).items():
        policy = policies.for_log(row.topic, row.topic_id)
        limit_ms = None if policy is None else policy.records_retention_ms
        if limit_ms is not None or log in known:  # what is recorded is completed, also if the policy is gone
            limits[log] = row, limit_ms
    table = Table(lake, "records").open()
    if not limits or table is None:
        return ExpiryPlan(runs=runs)
    files = Table(lake, "records").files()
    ledger, frontiers = frontier.read_ledger(lake, list(limits)), frontier.read_frontiers(lake, list(limits))
    expired, recorded, floors = [], [], {}
    for log, (row, limit_ms) in sorted(limits.items()):
        published = frontiers.get(log)
        ranges = ledger_ranges.with_published(lake, ledger.get(log, ()), published)
        end = _recorded_end(known.get(log, ()), ranges)
        if limit_ms is not None:
            oldest = _first_kept(lake, files, row, published or 0, as_of_ms - limit_ms)
            end = max(end, _whole_batches(lake, ranges, oldest))
        if gone := _gone(lake, ranges, end):
            records = sum(each.records for each in gone)
            expired.append(ExpiredLog(log, row.topic_partition, gone[0].start_offset, end, records, limit_ms))
            recorded.append(LogWithdrawal(row, gone, (), tuple(ranges)))
        if end:
            floors[log] = end
    rows = {log: limits[log][0] for log in floors}
    shortened = list(_shortened_tables(lake, rows.values(), floors, policies))
    refused = _refused(lake, shortened)
    kept = [
        UnexpiredLog(log, row.topic_partition, refused[row.topic]) for log, row in rows.items() if row.topic in refused
    ]
    for unexpired in kept:
        del rows[unexpired.log]
    recorded = [each for each in recorded if each.row.log in rows]
    losing = {each.row.topic for each in recorded}
    if kept:
        shortened = list(_shortened_tables(lake, rows.values(), floors, policies))
    return ExpiryPlan(
        tuple(log for log in expired if log.log in rows),
        WithdrawalPlan(table.version(), tuple(recorded), expected),
        tuple(
            each for each in shortened if each.has_rows or (each.table.kind == LATEST and each.table.topic in losing)
        ),
        runs,
        tuple(kept),
    )


def _refused(lake: str, shortened: Iterable[ShortenedTable]) -> dict[str, str]:
    """Return why a topic keeps its rows: one of its own tables may not lose some.

    Raises:
        TableRefused: The same of a table that all topics share.
    """
    refused = {}
    for each in shortened:
        if each.has_rows:
            try:
                table_features.refuse_removal(lake, each.table.name)
            except TableRefused as error:
                if not each.table.topic:
                    raise
                refused[each.table.topic] = str(error)
    return refused


def apply(plan: ExpiryPlan, lake: str, run_id: str, as_of_ms: int, executor: Executor | None) -> None:
    """Record what expired, then remove its rows from each table.

    Raises:
        ConcurrentChange: A table was changed since the plan.
        OutputMismatch: A file could not be written again. What is committed stays; the next run goes on.
    """
    if plan.recorded is not None and plan.logs:
        withdrawals.apply(
            lake, plan.recorded, who=WHO, reason=SETTING, run_id=run_id, as_of_ms=as_of_ms, cause=Cause.EXPIRED
        )
    tasks = [task for table in plan.tables for task in table.tasks]
    results = iter(run_tasks(executor, shorten_file, tasks, [task.size for task in tasks]) if tasks else ())
    for each in plan.tables:
        name, written = each.table.name, [next(results) for _ in each.tasks]
        if (error := first_error(written)) is not None:
            raise OutputMismatch(f"Table {name}: its rows did not expire: {error}. Run again.")
        rewrite_files(
            lake,
            name,
            [*each.removed, *(task.path for task in each.tasks)],
            [file for result in written for file in result.files],
            run_id,
            [*_floor_guards(each), *_count_guards(each.table, plan.logs)],
            data_change=True,
            spec=None if name in TABLES else with_columns(name, extra_columns(lake, name)),
        )
    if plan.runs:
        commits.delete(lake, "runs", ("run_id", plan.runs), run_id)


def with_changes(plan: ExpiryPlan, changed: Sequence[LogChange]) -> tuple[LogChange, ...]:
    """Add what expired of each log to what a report says of it."""
    made = {change.log: change for change in changed}
    for log, withdrawal in zip(plan.logs, () if plan.recorded is None else plan.recorded.logs, strict=True):
        span = {"expired_rows": log.records, "start_offset": log.start_offset, "end_offset": log.end_offset}
        before = made.get(log.log, LogChange(log.log, withdrawal.row.topic, withdrawal.row.partition))
        made[log.log] = replace(before, metrics={**before.metrics, **span})
    return tuple(made[log] for log in sorted(made))


def _old_runs(lake: str, limit_ms: int | None, as_of_ms: int) -> tuple[str, ...]:
    if limit_ms is None:
        return ()
    rows = read_rows(lake, "runs", ["run_id", "job", "ended_ms"]).to_pylist()
    newest = {row["job"]: row["run_id"] for row in sorted(rows, key=lambda row: row["ended_ms"] or 0)}
    old = (row["run_id"] for row in rows if (row["ended_ms"] or 0) < as_of_ms - limit_ms)
    return tuple(sorted({*old} - {*newest.values()}))


def _floor_guards(shortened: ShortenedTable) -> list[Guard]:
    """The mark of a commit that only removes rows that have expired."""
    ids = {log: f"{EXPIRED}{log}" for log in shortened.floors}
    before = versions(shortened.table.lake, shortened.table.name, list(ids.values()))
    return [Guard(ids[log], before[ids[log]], floor) for log, floor in shortened.floors.items()]


def _count_guards(table: Table, logs: Sequence[ExpiredLog]) -> list[Guard]:
    """A table of the newest rows records how many rows ``records`` has below its frontier: now fewer."""
    some = [log for log in logs if table.kind == LATEST and log.topic_partition.rpartition("-")[0] == table.topic]
    recorded = table.versions([each for log in some for each in (log.log, ROWS + log.log)]) if some else {}
    guards = []
    for log in some:
        end, rows = recorded[log.log], recorded[ROWS + log.log]
        if end is not None and rows is not None and log.end_offset <= end:
            guards.append(Guard(table.application_id(ROWS + log.log), rows, rows - log.records))
    return guards


# --- the first row that stays -----------------------------------------------------------------------------------------


def _first_kept(lake: str, files: Sequence[LiveFile], row: LogRow, published: int, oldest_ms: int) -> int:
    """Return the first offset of a log that stays: that of its first row that is young enough or without a timestamp;
    with no such row the end of what is published.
    """
    [cut] = cuts_at_time(lake, files, [row], {row.log: published}, oldest_ms)
    without = [file for file in files if file.nulls.get("timestamp") != 0]
    span, columns = (
        Span(row.topic, row.log_id, row.partition, 0, cut.end),
        ("log_id", "partition", "offset", "timestamp"),
    )
    end = cut.end
    for rows in published_rows(lake, without, span, columns):
        offsets = np.asarray(rows["offset"])[np.asarray(pc.is_null(rows["timestamp"]))]
        end = min([end, *offsets.tolist()])
    return end


def _whole_batches(lake: str, ranges: Sequence[LedgerRow], end: int) -> int:
    """Return ``end``, or the beginning of its batch if that has fewer records than offsets: only its bytes say which.

    Other gaps of the range do not count: after one run they may be in another range than the batch.
    """
    for row in ranges:
        if row.gaps and row.start_offset < end < row.end_offset:
            for chunk in ledger_ranges.batches_within(lake, row, end, end + 1):
                first, last = (np.asarray(chunk[name]) for name in ("base_offset", "last_offset"))
                sparse = first[np.asarray(chunk["record_count"]) < last - first + 1]
                end = max(int(sparse.min(initial=end)), row.start_offset)
    return end


def _recorded_end(known: Sequence[Withdrawal], ranges: Sequence[LedgerRow]) -> int:
    """Return the end of what is recorded as expired, or the beginning of the first range below it that is not: its rows
    came late, or were published again. Only their age says whether they expire.
    """
    end = max((row.end_offset for row in known if row.cause == Cause.EXPIRED), default=0)
    spans = joined((row.start_offset, row.end_offset) for row in known)
    for row in ranges:
        high = min(row.end_offset, end)
        if row.start_offset < high and row.shows and not holds(spans, row.start_offset, high):
            return row.start_offset
    return end


def _gone(lake: str, ranges: Sequence[LedgerRow], end: int) -> tuple[Gone, ...]:
    """Return the published offsets below ``end`` with rows, as ranges that end where rows were withdrawn before."""
    gone: list[Gone] = []
    is_next, begin = False, None
    for row in ranges:
        high = min(row.end_offset, end)
        if row.start_offset >= high:
            break
        if row.has_rows and not row.withdrawn:
            span = row.start_offset, high
            is_whole = high == row.end_offset
            records = row.records if is_whole else ledger_ranges.counts_between(lake, row, span)(*span).records
            start = gone[-1].start_offset if is_next else row.start_offset if begin is None else begin
            records += gone.pop().records if is_next else 0
            gone.append(Gone(start, high, records))
            is_next, begin = True, None
        elif row.withdrawn or row.state not in withdrawals.NEVER_ROWS:
            is_next, begin = False, None  # its rows may come late
        elif not is_next and begin is None:
            begin = row.start_offset
    return tuple(each for each in gone if each.records)


# --- tables -----------------------------------------------------------------------------------------------------------


def _shortened_tables(
    lake: str, logs: Iterable[LogRow], floors: Mapping[str, int], policies: Policies
) -> Iterable[ShortenedTable]:
    """Yield the tables with rows below the first kept offset of their log."""
    topics = by_key(logs, lambda log: log.topic)
    for name in RECORD_TABLES:
        yield _shortened(Table(lake, name), topics, floors, policies)
    for topic, some in sorted(topics.items()):
        for kind in (DECODED, UNDECODED, LATEST):
            table = topic_table(lake, kind, topic)
            if table.open() is not None:
                yield _shortened(table, {topic: some}, floors, policies)


def _shortened(
    table: Table, topics: Mapping[str, Sequence[LogRow]], floors: Mapping[str, int], policies: Policies
) -> ShortenedTable:
    removed, tasks = [], []
    losing: dict[str, int] = {}
    extra: str | None = None
    for file in table.files():
        topic = file.partition_values.get("topic", table.topic)
        logs = [log for log in topics.get(topic, ()) if _has_rows_below(table, file, log, floors[log.log])]
        losing |= {log.log: floors[log.log] for log in logs}
        of_one = None if file.log is None else file.max_offset
        if not logs:
            continue
        if of_one is not None and of_one < floors[logs[0].log]:
            removed.append(file.path)
            continue
        keys = {(log.log_id, log.partition): floors[log.log] for log in logs}
        values, compression = dict(file.partition_values), policies.compression_of(topic)
        extra = extra_columns(table.lake, table.name) if extra is None else extra  # opens the table
        tasks.append(ShortenTask(table.lake, table.name, file.path, file.size, values, keys, extra, compression))
    return ShortenedTable(table, tuple(removed), tuple(tasks), losing)


def _has_rows_below(table: Table, file: LiveFile, log: LogRow, floor: int) -> bool:
    if not file.may_have(log.log_id, log.partition):
        return False
    if file.min_offset is not None and (file.min_offset >= floor or file.log is not None):
        return file.min_offset < floor
    offsets = read_contents(table.lake, table.name, file.path).logs.get((log.log_id, log.partition))
    return offsets is not None and offsets.start < floor
