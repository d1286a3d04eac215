"""``validate``: one pass over new segments, then over the logs they belong to.

    segment pass   one task a segment: every byte validated; files of `batches` and `quarantine`   (workers)
                   rows of small segments return to the driver, which writes them into few files
    log pass       one task a log: transactions and offset ledger, from where they may change       (workers)
    commit         `batches`, `quarantine`, `findings`, `transactions`, `offset_ledger`, last `validations`

Only a segment's row in ``validations`` means that it is validated. A run that was killed before it may have left rows
of that segment in the other tables: they are deleted and rebuilt. The row of a segment that was cut back is deleted,
because the segment may return.
If a log has only grown, its ledger is rebuilt from its first ``open`` offset; earlier decisions are not read again. If
bytes of a log changed (a range was filled late, its end was cut back), its ledger is rebuilt from there, and where it
grew after a gap that nothing explained, from that gap. The result
that returns to the driver grows with transactions and with state changes in the rebuilt part. A plain log returns a few
values however many batches it has.

The table ``transactions`` as columns, one log at a time: a log may have as many transactions as batches.

Files of ``batches`` with the rows of many small segments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logcore.logs.ledger.ledger_history import changed_findings, published_boundaries, rebuild_offset, rebuilt_ledger
from logcore.logs.model.findings import Finding
from logcore.logs.model.gaps import ALWAYS_COMPACTED, NO_EXPLANATION
from logcore.logs.model.offset_ledger import OffsetState, offsets_by_state
from spark_jobs.archived_rows.batch_rows import SMALL_ROWS, BatchRows
from spark_jobs.archived_rows.segment_pass import ValidatedSegment, validate_one
from spark_jobs.contracts import JobReport, LogChange, ValidateConfig
from spark_jobs.engine.executor import Executor
from spark_jobs.errors import ConcurrentChange
from spark_jobs.groups import by_key
from spark_jobs.lake.cluster.cluster_settings import lake_policies
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import TableVersions
from spark_jobs.lake.delta.files.live_files import ByLog, LiveFile, newest_files, open_parquet
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import read_rows, reading, table_uri
from spark_jobs.lake.ledger import finding_rows, frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.published import withdrawals
from spark_jobs.lake.segments import archive, ledger_ranges, removals
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_specs import TABLES, TRANSACTIONS, VALIDATIONS
from spark_jobs.outlines import UnvalidatedLog, ValidateOutline
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.validate.batch_stream import BatchFile, SegmentPlace
from spark_jobs.validate.log_pass import LogFacts, LogTask, ValidatedLog, validate_log

FILE_ROWS = 8192
"""A file takes segments until it has so many rows. One log needs few of them later, and reads the whole file."""


def write_rows(lake: str, rows: Iterable[tuple[Segment, BatchRows]]) -> list[WrittenFile]:
    """Write the rows of small segments, which come in the order of the table, into few files."""
    files = []
    for chunks in _of_files(rows):
        joined = pa.Table.from_batches(chunks).combine_chunks().to_batches()
        file = write_file(table_uri(lake, "batches"), TABLES["batches"], joined, {})
        if file is not None:
            files.append(file)
    return files


def _of_files(rows: Iterable[tuple[Segment, BatchRows]]) -> Iterator[list[pa.RecordBatch]]:
    waiting: list[pa.RecordBatch] = []
    count = 0
    for segment, of_segment in rows:
        waiting.append(of_segment.table_rows(segment))
        count += waiting[-1].num_rows
        if count >= FILE_ROWS:
            yield waiting
            waiting, count = [], 0
    if waiting:
        yield waiting


def may_have_rows_of(lake: str, file: LiveFile, segments: frozenset[str]) -> bool:
    """Whether a file of ``batches`` may have rows of one of these segments."""
    of_one = file.only("segment_id")
    if of_one is not None:
        return of_one in segments
    if _is_small(file):
        return not segments.isdisjoint(_segments_of(lake, "batches", file.path))
    return True


def with_rows(lake: str, table: str, segments: frozenset[str]) -> set[str]:
    """Those of the segments that have rows in ``batches`` or ``quarantine``."""
    found: set[str] = set()
    for file in newest_files(lake, table) if segments else ():
        of_one = file.only("segment_id")
        if of_one is not None:
            found |= {of_one} & segments
        elif _is_small(file):
            found |= _segments_of(lake, table, file.path) & segments
        else:  # merged files: Arrow reads the row groups that may have such rows
            rows = read_rows(lake, table, ["segment_id"], [("segment_id", "in", sorted(segments))])
            return set(map(str, rows["segment_id"].to_pylist()))
    return found


def _is_small(file: LiveFile) -> bool:
    return 0 <= file.rows < FILE_ROWS + SMALL_ROWS


@lru_cache(maxsize=256)
def _segments_of(lake: str, table: str, file: str) -> frozenset[str]:
    """Ids of the segments in a file, which never changes. A process that stays asks for the same files each round."""
    with (
        reading(lake, table),
        open_parquet(storage.join(table_uri(lake, table), file), read_dictionary=["segment_id"]) as opened,
    ):
        ids = opened.read(["segment_id"], use_threads=False).column("segment_id").unique()
    return frozenset(map(str, ids.to_pylist()))


UNDECIDED = np.iinfo(np.int64).max
"""Replaces the marker offset of a transaction without a marker: it may end anywhere."""


@dataclass(frozen=True, slots=True)
class LogTransactions:
    """The transactions of one log."""

    rows: pa.Table
    """With the columns of the table."""
    first: npt.NDArray[np.int64]
    marker: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: pa.Table) -> LogTransactions:
        """Create it from rows of the table, all of one log."""
        marker = rows["marker_offset"].fill_null(UNDECIDED).to_numpy()  # type: ignore[arg-type]
        return cls(rows, rows["first_offset"].to_numpy(), marker)

    def in_progress_at(self, offset: int) -> npt.NDArray[np.bool_]:
        """Return which transactions have data below an offset, and their marker, if any, at or above it."""
        found: npt.NDArray[np.bool_] = (self.first < offset) & (self.marker >= offset)
        return found

    def earliest_in_progress(self, offset: int) -> int:
        """Return the first offset of transactions in progress at an offset; the offset itself if there are none."""
        return int(min(self.first[self.in_progress_at(offset)], default=offset))

    def ongoing_at(self, offset: int) -> tuple[tuple[int, int, int, int], ...]:
        """Return producer id, epoch, first and last offset below ``offset`` of those with a marker after it."""
        there = self.rows.filter(pa.array(self._decided_behind(offset)))
        return tuple(
            (row["producer_id"], row["producer_epoch"], row["first_offset"], min(row["last_offset"], offset - 1))
            for row in there.to_pylist()
        )

    def before(self, offset: int) -> pa.Table:
        """Return rows that stay if the log is read again from ``offset`` on; nothing there resolves unknown ones."""
        return self.rows.filter(pa.array((self.first < offset) & ~self._decided_behind(offset)))

    def _decided_behind(self, offset: int) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self.in_progress_at(offset) & (self.marker != UNDECIDED)
        return found


def read_transactions(lake: str, logs: Sequence[str]) -> dict[str, LogTransactions]:
    """Return transactions by log key; every requested log has an entry."""
    rows = read_rows(lake, "transactions", where=[("log", "in", sorted(logs))]).sort_by(
        [("log", "ascending"), ("first_offset", "ascending")]
    )
    runs = pc.run_end_encode(rows["log"].combine_chunks() if rows.num_rows else pa.array([], pa.string()))  # type: ignore[attr-defined]
    found = dict.fromkeys(logs, LogTransactions.of(TRANSACTIONS.empty_table()))
    start = 0
    for log, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        found[log] = LogTransactions.of(rows.slice(start, end - start))
        start = end
    return found


LOG_FIELDS = ("log", "topic", "log_id", "partition")

WRITTEN = tuple(spec.name for spec in TABLES.values() if spec.of_validation)

Validated = tuple[Segment, ValidatedSegment]
"""A segment and the result of its pass."""


@dataclass(frozen=True, slots=True)
class ValidateLogPlan:
    """A log to validate: its new segments, and the offset from which its ledger is rebuilt."""

    row: LogRow
    segments: tuple[Segment, ...]
    """Not validated yet."""
    feeding: tuple[Segment, ...]
    """Segments that feed transactions and ledger and that reach the resume offset."""
    facts: LogFacts
    taken_back: tuple[str, ...] = ()
    """Segments that were cut back after they were validated. Their validations are deleted, so that they can return."""

    @property
    def resume_offset(self) -> int:
        """Offset from which transactions and ledger are rebuilt."""
        return self.facts.resume_offset


@dataclass(frozen=True, slots=True)
class ValidatePlan:
    """The work to do. The dry run prints it."""

    logs: tuple[ValidateLogPlan, ...]
    unfinished: tuple[str, ...]
    """Segments that an earlier run began but did not finish."""
    versions: Mapping[str, int | None]
    """Versions of the tables that validation writes, read by the plan. They prevent two concurrent runs from both
    adding rows."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no new segment and no high watermark moved."""
        return not self.logs

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks read; None: there are no tasks."""
        return sum(segment.size for log in self.logs for segment in log.segments) if self.logs else None

    @property
    def outline(self) -> ValidateOutline:
        """What a report and a dry run say of it."""
        logs = [
            UnvalidatedLog(
                log.row.log,
                log.row.topic_partition,
                tuple(segment.segment_id for segment in log.segments),
                log.resume_offset,
                log.row.high_watermark,
            )
            for log in self.logs
        ]
        return ValidateOutline(tuple(logs), self.unfinished)


def plan(config: ValidateConfig) -> ValidatePlan:
    """Find the logs that need validation.

    These have segments without validation, end at another offset than their ledger, or have a high watermark that
    passed open offsets. Or their ledger misses offsets of a segment that is validated: the tables were made again, and
    the segment came back with the bytes that it had.
    """
    # Read the versions first: a later commit of another run then refuses this plan.
    versions = commits.table_versions(config.lake, *WRITTEN)
    rows = archive.read_logs(config.lake, config.logs)
    segments = archive.read_segments(config.lake, config.logs, live=False, joined=False)
    done = set(archive.read_validations(config.lake, (segment.segment_id for segment in segments)))
    feeding = by_key((s for s in segments if s.feeds), lambda segment: segment.log)
    cut_back = (s for s in segments if s.retired_because == archive.CUT_BACK and s.segment_id in done)
    taken_back = by_key(cut_back, lambda segment: segment.log)
    ledger = frontier.read_ledger(config.lake, config.logs)
    back = _missed_by_ledger(config.lake, ledger, feeding, done)
    due: list[tuple[LogRow, list[Segment]]] = []
    for log, row in sorted(rows.items()):
        if log in feeding:
            # A run that was killed between the two commits left a row with another end. The segments are right.
            row = replace(row, next_offset=feeding[log][-1].next_offset)
        # A segment whose file was deleted cannot be read again. If its row was lost, the ledger stays as it is.
        left = (segment for segment in feeding.get(log, ()) if segment.deleted_ms is None)
        waiting = [segment for segment in left if segment.segment_id not in done]
        ranges = ledger.get(log, [])
        ends_elsewhere = row.next_offset != (ranges[-1].end_offset if ranges else 0)
        moved = row.readable_high_watermark() > frontier.ledger_high_watermark(ranges)
        if waiting or ends_elsewhere or moved or log in taken_back or log in back:
            due.append((row, waiting))
    plans = _plans(config, due, feeding, taken_back, back, ledger) if due else ()
    new = [segment.segment_id for _, waiting in due for segment in waiting]
    unfinished: set[str] = set()
    for table in ("batches", "quarantine"):
        unfinished |= with_rows(config.lake, table, frozenset(new))
    return ValidatePlan(tuple(plans), tuple(sorted(unfinished)), versions)


def _missed_by_ledger(
    lake: str,
    ledger: Mapping[str, Sequence[LedgerRow]],
    feeding: Mapping[str, Sequence[Segment]],
    done: Collection[str | None],
) -> dict[str, list[Segment]]:
    """Validated segments by log that begin, with a good batch, where the ledger says that offsets are missing."""
    missing = {log: [row for row in rows if row.state is OffsetState.MISSING] for log, rows in ledger.items()}
    there = {
        segment.segment_id: segment
        for log, rows in missing.items()
        for segment in feeding.get(log, ())
        if segment.segment_id in done and any(row.start_offset <= segment.base_offset < row.end_offset for row in rows)
    }
    if not there:
        return {}
    where: list[tuple[str, str, object]] = [("segment_id", "in", sorted(there))]
    batches = read_rows(lake, "batches", ["segment_id", "base_offset", "last_offset"], where).to_pylist()
    begun = [
        there[batch["segment_id"]]
        for batch in batches
        if batch["last_offset"] is not None and batch["base_offset"] == there[batch["segment_id"]].base_offset
    ]
    return by_key(begun, lambda segment: segment.log)


def _plans(
    config: ValidateConfig,
    due: Sequence[tuple[LogRow, list[Segment]]],
    feeding: Mapping[str, Sequence[Segment]],
    taken_back: Mapping[str, Sequence[Segment]],
    back: Mapping[str, Sequence[Segment]],
    ledger: Mapping[str, Sequence[LedgerRow]],
) -> Iterator[ValidateLogPlan]:
    policies = lake_policies(config.policies, config.lake, config.as_of_ms)
    logs = [row.log for row, _ in due]
    known = read_transactions(config.lake, logs)
    frontiers = frontier.frontiers_of(config.lake, {log: ledger.get(log, ()) for log in logs})
    for row, waiting in due:
        before = ledger_ranges.with_published(config.lake, ledger.get(row.log, ()), frontiers[row.log])
        transactions = known[row.log]
        gone = taken_back.get(row.log, ())
        changed = _changed_from(row, (*waiting, *gone, *back.get(row.log, ())), before, frontiers[row.log] or 0)
        resume = rebuild_offset(before, changed, transactions.earliest_in_progress)
        policy = policies.for_log(row.topic, row.topic_id)
        facts = LogFacts(
            row.topic_partition,
            resume,
            row.log_start_offset,
            row.readable_high_watermark(),
            row.next_offset,
            row.cleaner_checkpoint,
            row.topic in ALWAYS_COMPACTED or (policy is not None and policy.may_have_gaps),
            row.gap_evidence,
            transactions.ongoing_at(resume),
            tuple(published_boundaries(before, resume, frontiers[row.log] or 0)),
        )
        reaching = tuple(s for s in feeding.get(row.log, ()) if s.next_offset >= resume)
        yield ValidateLogPlan(row, tuple(waiting), reaching, facts, tuple(segment.segment_id for segment in gone))


def _changed_from(
    row: LogRow, moved: Sequence[Segment], ledger: Sequence[LedgerRow], frontier_offset: int
) -> int | None:
    """The lowest offset whose bytes, or their meaning, changed since the ledger was made; None where the log only grew.

    Args:
        moved: Segments that were added or removed since. Their batches may show that an earlier gap was cleaned.
        frontier_offset: The next offset to publish.
    """
    end = ledger[-1].end_offset if ledger else 0
    changed = [segment.base_offset for segment in moved if segment.base_offset < end]
    gaps = (each.start_offset for each in ledger if each.evidence == NO_EXPLANATION)
    changed += [gap for gap in gaps if moved and gap >= frontier_offset][:1]
    if row.next_offset < end:
        changed.append(row.next_offset)
    return min(changed, default=None)


def apply(plan: ValidatePlan, config: ValidateConfig, executor: Executor) -> JobReport[ValidateOutline]:
    """Validate the new segments, then rebuild transactions and ledger from each log's resume offset."""
    expected = TableVersions(plan.versions)
    segments = [segment for log in plan.logs for segment in log.segments]
    if plan.unfinished:
        for table in ("batches", "quarantine"):
            commits.delete(config.lake, table, ("segment_id", plan.unfinished), config.run_id, expected)
    work = partial(validate_one, config.lake)
    results = executor.run(work, segments, [segment.size for segment in segments])
    both = list(zip(segments, results, strict=True))
    placed = [_of_segment(segment, result) for segment, result in both if isinstance(result, Finding)]
    unread = {finding.log for finding in placed}
    plan = replace(plan, logs=tuple(log for log in plan.logs if log.row.log not in unread))
    validated = [(s, result) for s, result in both if not isinstance(result, Finding) and s.log not in unread]
    placed += [_of_segment(segment, finding) for segment, result in validated for finding in result.findings]
    for table in ("batches", "quarantine"):
        files = [result.files[table] for _, result in validated if table in result.files]
        if table == "batches":
            small = ((segment, result.rows) for segment, result in validated if result.rows is not None)
            files += write_rows(config.lake, small)
        commits.add_files(config.lake, table, files, config.run_id, expected=expected)

    at_hand = {segment.segment_id: result.rows for segment, result in validated if result.rows is not None}
    passes, refused = _log_passes(plan, config, executor, at_hand)
    placed += refused
    plan = replace(plan, logs=tuple(log for log in plan.logs if log.row.log in passes))
    validated = [(segment, result) for segment, result in validated if segment.log in passes]
    placed += [_placed(log.row, finding) for log in plan.logs for finding in passes[log.row.log].findings]
    before = ledger_ranges.sync_published(config.lake, config.run_id, [log.row.log for log in plan.logs], expected)
    counted = {segment.segment_id: result.counts.records for segment, result in validated}
    ledger = _ledgers(plan, passes, config, before, counted)
    for log in plan.logs:
        placed += [_placed(log.row, f) for f in changed_findings(before.get(log.row.log, ()), ledger[log.row.log])]
    new_findings = finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)
    _commit_transactions(plan, passes, config, expected)
    moved = [log for log in ledger if ledger[log] != before.get(log, [])]
    rows = [row for log in moved for row in ledger[log]]
    _begin_again(plan, before, ledger, config)
    frontier.commit_ledger(config.lake, rows, moved, config.run_id, expected)
    taken_back = [identity for log in plan.logs for identity in log.taken_back]
    if taken_back:
        commits.delete(config.lake, "validations", ("segment_id", taken_back), config.run_id, expected)
    _commit_validations(validated, config, expected)
    of_logs = by_key(validated, lambda each: each[0].log)
    return JobReport.of(
        config,
        plan.outline,
        changed=tuple(_change(log, of_logs.get(log.row.log, ()), ledger[log.row.log]) for log in plan.logs),
        findings=tuple(new_findings),
        metrics={
            "segments": len(validated),
            "batches": sum(result.counts.batches for _, result in validated),
            "records": sum(result.counts.records for _, result in validated),
            "quarantined_bytes": sum(result.counts.quarantined_bytes for _, result in validated),
        },
    )


def _log_passes(
    plan: ValidatePlan, config: ValidateConfig, executor: Executor, rows: Mapping[str, BatchRows]
) -> tuple[dict[str, ValidatedLog], list[PlacedFinding]]:
    """Compute transactions and ledger of each log in workers, from its batches after the resume offset.

    Args:
        plan: The logs.
        config: The lake.
        executor: Runs the tasks.
        rows: Rows of small segments that this run validated, by segment id. They are not read back from files.

    Returns:
        The results by log key, and findings for the logs that have none.
    """
    root = table_uri(config.lake, "batches")
    files = ByLog(newest_files(config.lake, "batches")) if plan.logs else ByLog(())
    tasks, sizes = [], []
    for log in plan.logs:
        chosen = _files_to_read(config.lake, log, files, rows)
        here = [rows[s.segment_id] for s in log.feeding if s.segment_id in rows]
        places = [
            SegmentPlace(s.segment_id, s.base_offset, s.next_offset, s.local_path(config.lake), s.start, s.registered)
            for s in log.feeding
        ]
        opened = [BatchFile(storage.join(root, f.path), f.least.get("base_offset")) for f in chosen]
        tasks.append(LogTask(log.facts, tuple(places), (*opened, *here)))
        sizes.append(sum(file.size for file in chosen) + sum(len(each.content) for each in here))
    passes, refused = {}, []
    for log, result in zip(plan.logs, executor.run(validate_log, tasks, sizes), strict=True):
        if isinstance(result, Finding):
            refused.append(_placed(log.row, result))
        else:
            passes[log.row.log] = result
    return passes, refused


def _files_to_read(lake: str, log: ValidateLogPlan, files: ByLog, rows: Mapping[str, BatchRows]) -> list[LiveFile]:
    """Files that may have a row after the resume offset of a segment that feeds the log and has no rows at hand."""
    ids = frozenset(segment.segment_id for segment in log.feeding if segment.segment_id not in rows)
    if not ids:
        return []
    chosen = []
    for file in files.of(log.row.log):
        reaches = any(file.may_reach(name, log.resume_offset) for name in ("base_offset", "last_offset"))
        if reaches and may_have_rows_of(lake, file, ids):
            chosen.append(file)
    return chosen


def _commit_transactions(
    plan: ValidatePlan, passes: Mapping[str, ValidatedLog], config: ValidateConfig, expected: TableVersions
) -> None:
    before = read_transactions(config.lake, [log.row.log for log in plan.logs])
    rows, moved = [], []
    for log in plan.logs:
        known = before[log.row.log]
        made = _of_log(log.row, passes[log.row.log].transactions)
        now = pa.concat_tables([known.before(log.resume_offset), made])
        order = [("first_offset", "ascending"), ("producer_id", "ascending")]
        if not now.sort_by(order).equals(known.rows.sort_by(order)):  # type: ignore[arg-type]
            rows.append(now)
            moved.append(log.row.log)
    if moved:
        made = pa.concat_tables(rows)
        commits.replace(config.lake, "transactions", ("log", moved), made, config.run_id, expected=expected)


def _ledgers(
    plan: ValidatePlan,
    passes: Mapping[str, ValidatedLog],
    config: ValidateConfig,
    before: Mapping[str, Sequence[LedgerRow]],
    counted: Mapping[str, int],
) -> dict[str, list[LedgerRow]]:
    """The new ledgers by log key. Rows below the resume offset and published rows are kept; the others are replaced.

    Args:
        plan: The logs.
        passes: What the pass over each log found.
        config: The lake.
        before: The ledgers until now.
        counted: Records by segment id of the segments that this run validated.

    Raises:
        ConcurrentChange: A log was published since the plan, and its ledger has no border there.
    """
    frontiers = frontier.frontiers_of(config.lake, {log.row.log: before.get(log.row.log, ()) for log in plan.logs})
    ledgers: dict[str, list[LedgerRow]] = {}
    for log in plan.logs:
        columns = passes[log.row.log].ledger
        of_log = {name: getattr(log.row, name) for name in LOG_FIELDS}
        made = [
            LedgerRow(**of_log, **dict(zip(columns, values, strict=True)))
            for values in zip(*columns.values(), strict=True)
        ]
        try:
            end = frontiers[log.row.log] or 0
            ledgers[log.row.log] = rebuilt_ledger(before.get(log.row.log, []), made, log.resume_offset, end)
        except ValueError as error:
            raise ConcurrentChange(f"{log.row.topic_partition} was published meanwhile: {error}.") from error
    # For a ledger that was lost or rebuilt: what left the archive was published, and nothing reads it again.
    left = [log.row.log for log in plan.logs if any(map(removals.is_removal, log.feeding))]
    removed = removals.read_removals(config.lake, left, counted) if left else {}
    ledgers |= {log: removals.marked(config.lake, ledgers[log], of_log) for log, of_log in removed.items()}
    # Withdrawn rows are not late, and are not published again.
    withdrawn = withdrawals.withdrawn_spans(config.lake, list(ledgers))
    return ledgers | {log: withdrawals.marked(config.lake, ledgers[log], spans) for log, spans in withdrawn.items()}


def _begin_again(
    plan: ValidatePlan,
    before: Mapping[str, Sequence[LedgerRow]],
    ledger: Mapping[str, Sequence[LedgerRow]],
    config: ValidateConfig,
) -> None:
    """Make `records_uncommitted` rebuild from where a late fill changed decided offsets.

    Aborted rows and outcomes are not part of `records`, so no replacement updates them. This runs before the ledger's
    commit: after a kill in between it runs again.
    """
    changed = {}
    for log in plan.logs:
        known = before.get(log.row.log, ())
        if any(row.published and row.end_offset > log.resume_offset for row in known):
            from spark_jobs.archived_rows.uncommitted_rows import first_difference

            offset = first_difference(known, ledger[log.row.log])
            if offset is not None:
                changed[log.row.log] = offset
    if changed:
        from spark_jobs.archived_rows.uncommitted_rows import begin_again

        begin_again(config.lake, changed, config.run_id)


def _of_log(row: LogRow, transactions: pa.Table) -> pa.Table:
    """Rows of ``transactions``."""
    columns = {name: transactions.column(name) for name in transactions.column_names}
    for name in LOG_FIELDS:
        columns[name] = pa.repeat(pa.scalar(getattr(row, name), TRANSACTIONS.field(name).type), transactions.num_rows)
    return pa.table(columns, schema=TRANSACTIONS)


def _commit_validations(validated: Sequence[Validated], config: ValidateConfig, expected: TableVersions) -> None:
    rows = [result.counts.row(segment, config.as_of_ms) for segment, result in validated]
    columns = pa.Table.from_pylist(rows, schema=VALIDATIONS)
    commits.append(config.lake, "validations", columns, config.run_id, expected=expected)


def _change(log: ValidateLogPlan, validated: Sequence[Validated], ledger: Sequence[LedgerRow]) -> LogChange:
    states, mine = offsets_by_state(ledger), [result.counts for _, result in validated]
    return LogChange(
        log.row.log,
        log.row.topic,
        log.row.partition,
        {
            "segments": len(log.segments),
            "batches": sum(counts.batches for counts in mine),
            "records": sum(counts.records for counts in mine),
            "quarantined_bytes": sum(counts.quarantined_bytes for counts in mine),
            "log_end_offset": log.row.next_offset,
            **{f"offsets_{state}": count for state, count in sorted(states.items())},
        },
    )


def _of_segment(segment: Segment, finding: Finding) -> PlacedFinding:
    return PlacedFinding(finding, segment.log, segment.topic, segment.partition, segment.segment_id)


def _placed(row: LogRow, finding: Finding) -> PlacedFinding:
    return PlacedFinding(finding, row.log, row.topic, row.partition)
