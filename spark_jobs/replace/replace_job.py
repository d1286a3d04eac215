"""``replace``: published ranges published again from the archive, below the frontier, which never moves.

    request   offsets, times (widened to whole record batches), or nothing: what was filled late
    cut       at each log's frontier, and to what the archive still has as it was published
    widen     to all rows of a file that cannot be read any more: the commit removes it             (``lost_files``)
    add       the other logs of a file with rows of several: each gets files of its own
    compare   rows of the table and of the archive, every column                                    (workers)
    rewrite   the files with a difference, or out of order; other rows are copied                   (workers)
    commit    per topic and at most 200 ranges: old files out, new ones in; then the ledger's `published`

A finding names what cannot be replaced, and its rows stay: removed from the archive, damaged, undecided, or not
published yet. If nothing differs there is no new version. Each attempt to commit is planned again on the latest version
of the table. So of two overlapping runs the second sees what the first has done. Application ``replace/<digest>``
identifies the request, segments and rules from which a commit was made.

Compares a request with the archive on one version of ``records``: the files that it meets, and the parts that
differ.

``rewritten_file`` compares the rows, in workers. ``replace`` handles the differences.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from deltalake import DeltaTable

from logcore.logs.model import offset_ledger
from logcore.ranges import joined
from spark_jobs.archived_rows import uncommitted_rows
from spark_jobs.archived_rows.archived_bytes import ArchivedBytes
from spark_jobs.contracts import JobReport, LogChange, ReplaceConfig
from spark_jobs.engine.executor import Executor
from spark_jobs.errors import ConcurrentChange, OutputMismatch
from spark_jobs.groups import by_key
from spark_jobs.lake.decoded.table_columns import extra_columns
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard, TableVersions
from spark_jobs.lake.delta.files.live_files import LiveFile, live_files, newest_files
from spark_jobs.lake.delta.state.tables_file import doubt_archive
from spark_jobs.lake.delta.tables.snapshots import open_table
from spark_jobs.lake.ledger import finding_rows, frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.ledger.offset_ranges import Ranges, clipped, holds
from spark_jobs.lake.published import withdrawals
from spark_jobs.lake.repair_commands import rebuild_command, run_command
from spark_jobs.lake.retries import COMMIT_ATTEMPTS, retried
from spark_jobs.lake.segments import archive, ledger_ranges
from spark_jobs.lake.segments.validations import RULES_VERSION
from spark_jobs.lake.store.written_file import WriteResult, WrittenFile, first_error
from spark_jobs.outlines import ReplacedRanges, ReplaceOutline
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.replace.layout import FileSpan, RecordFiles, SizedStretch, by_topic, connected, parts_of
from spark_jobs.replace.lost_files import (
    LayoutChanged,
    LostFile,
    NewlyLost,
    lost_files,
    missing_or_cut,
    noticed,
    rebuilt,
    rows_lost,
    widened,
)
from spark_jobs.replace.request import LogRequest, TopicRequest, refusal, requested
from spark_jobs.replace.rewritten_file import TABLE, RowDifference, compare_rows, rewrite_rows


@dataclass(frozen=True, slots=True)
class Laid:
    """A log's request on one version of the table: the files that it meets, and its parts."""

    request: LogRequest
    files: tuple[FileSpan, ...]
    parts: tuple[SizedStretch, ...]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The parts of a log that differ, and parts that share a file with them."""

    laid: Laid
    parts: tuple[SizedStretch, ...]
    gained: int
    """Change of the number of rows; may be negative."""

    @property
    def removed(self) -> list[FileSpan]:
        """The files that the parts replace."""
        gone = {path for part in self.parts for path in part.stretch.files}
        return [span for span in self.laid.files if span.path in gone]


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of comparing a request."""

    request: LogRequest
    problem: str | None = None
    """Why the request cannot be executed."""
    rewrite: Rewrite | None = None
    """The parts to rewrite; None: nothing differs."""


@dataclass(frozen=True, slots=True)
class ArchivedLogs:
    """What a replacement works with: archived bytes of logs, the owners of the table's files, and the lost files."""

    config: ReplaceConfig
    executor: Executor
    held: ArchivedBytes
    files: RecordFiles
    lost: Mapping[str, list[LostFile]]
    """Lost files that a request meets, by topic."""

    @property
    def lost_paths(self) -> set[str]:
        """Paths of all lost files."""
        return {each.file.path for files in self.lost.values() for each in files}


def with_mixed_files(
    topics: Sequence[TopicRequest], files: RecordFiles, live: Sequence[LiveFile]
) -> list[TopicRequest]:
    """Add to requests that meet a file with rows of several logs the other logs of the file, without ranges.

    A topic with such a file is one commit, because the file is replaced as a whole.

    Raises:
        FileUnreadable: A file that a request meets cannot be read.
    """
    by_name = by_topic(live)
    done: list[TopicRequest] = []
    for topic in dict.fromkeys(each.topic for each in topics):
        of_topic = [each for each in topics if each.topic == topic]
        requests = [request for each in of_topic for request in each.logs]
        met = [span for request in requests for span in files.of(by_name.get(topic, ()), request)]
        mixed = {span.path: span.logs for span in met if len(span.logs) > 1}
        if not mixed:
            done += of_topic
            continue
        parts = by_key(requests, lambda request: (request.log_id, request.partition))
        logs = [
            LogRequest(
                f"{key[0]}/{key[1]}",
                topic,
                *key,
                tuple(span for part in parts.get(key, ()) for span in part.ranges),
                tuple(span for part in parts.get(key, ()) for span in part.visible),
                sum(part.records for part in parts.get(key, ())),
                frozenset(path for path, held in mixed.items() if key in held),
            )
            for key in sorted({*parts, *(key for held in mixed.values() for key in held)})
        ]
        done.append(TopicRequest(topic, tuple(logs)))
    return done


def compared(requests: Sequence[LogRequest], archived: ArchivedLogs) -> list[Looked]:
    """Compare each request with the latest version of the table.

    Raises:
        LayoutChanged: A request meets a file with rows of several logs that it does not know yet.
        NewlyLost: A file of the table cannot be read.
    """
    lake, run = archived.config.lake, archived.executor.run
    table = open_table(lake, TABLE)
    if table is None:
        again = f"{rebuild_command(lake, TABLE)} && {run_command(lake)}"
        raise OutputMismatch(f"Table {TABLE} is gone, and the frontiers with it. `{again}` publishes its rows again.")
    lost = archived.lost_paths
    files = by_topic(file for file in live_files(table) if file.path not in lost)
    extra = extra_columns(lake, TABLE)
    laid: list[Laid] = []
    for log in requests:
        with noticed():
            spans = archived.files.of(files.get(log.topic, ()), log)
        if any(len(span.logs) > 1 and span.path not in log.mixed for span in spans):
            raise LayoutChanged
        begins = [each.spans[log.log][0] for each in archived.lost.get(log.topic, ()) if log.log in each.spans]
        parts = parts_of(
            log,
            spans,
            archived.held,
            begins=begins,
            extra=extra,
            published_ms=archived.config.as_of_ms,
            compression=archived.config.policies.compression_of(log.topic),
        )
        laid.append(Laid(log, spans, tuple(parts)))
    parts = [part for each in laid for part in each.parts]
    asked = [part for part in parts if part.stretch.ranges]
    results = unless_lost(run(compare_rows, [p.stretch for p in asked], [p.size for p in asked]))
    compared_parts = dict(zip(asked, results, strict=True))
    different = {part for part in parts if part.is_disordered}
    different |= {part for part, result in compared_parts.items() if not result.equal}
    chosen = set(connected(parts, different))
    return [_looked(each, [part for part in each.parts if part in chosen], compared_parts) for each in laid]


def _looked(laid: Laid, chosen: Sequence[SizedStretch], results: Mapping[SizedStretch, RowDifference]) -> Looked:
    of_log = {part: results[part] for part in laid.parts if part in results}
    problem = _problem(laid.request, of_log.values())
    if problem is not None or not chosen:
        return Looked(laid.request, problem)
    gained = sum(of_log[part].after - of_log[part].before for part in chosen if part in of_log)
    right = {part for part in chosen if part in of_log and of_log[part].equal}
    # Without ranges: the rows of such a part only go into other files.
    parts = [replace(part, stretch=replace(part.stretch, ranges=())) if part in right else part for part in chosen]
    return Looked(laid.request, rewrite=Rewrite(laid, tuple(parts), gained))


Reported = TypeVar("Reported", RowDifference, WriteResult)


def unless_lost(results: list[Reported]) -> list[Reported]:
    """Return the results of workers.

    Raises:
        NewlyLost: A file of the table cannot be read.
    """
    lost = {result.lost: result.error or "" for result in results if result.lost is not None}
    if lost:
        raise NewlyLost(lost)
    return results


def _problem(request: LogRequest, results: Iterable[RowDifference]) -> str | None:
    decoded = 0
    for result in results:
        if result.error is not None:
            return result.error.rstrip(".")
        decoded += result.after
    if decoded != request.records:
        return f"{decoded} records were decoded where the ledger counts {request.records}"
    return None


def mark_published(
    lake: str, done: Mapping[str, Sequence[tuple[int, int]]], run_id: str, *, include_withdrawn: bool = False
) -> None:
    """Set the ledger's `published` on replaced ranges. Writes nothing if nothing changes.

    Args:
        include_withdrawn: Withdrawn rows are published again, so their withdrawals are deleted.
    """
    if not done:
        return
    if include_withdrawn:
        withdrawals.take_back(lake, done, run_id)
    expected = TableVersions.of(lake, "offset_ledger")
    ledger = ledger_ranges.sync_published(lake, run_id, list(done), expected)
    marked = {
        log: offset_ledger.joined(_marked(lake, rows, done[log], include_withdrawn=include_withdrawn))
        for log, rows in ledger.items()
    }
    moved = [log for log in marked if marked[log] != ledger[log]]
    frontier.commit_ledger(lake, [row for log in moved for row in marked[log]], moved, run_id, expected)


def _marked(
    lake: str, rows: Sequence[LedgerRow], ranges: Sequence[tuple[int, int]], *, include_withdrawn: bool
) -> list[LedgerRow]:
    marked = []
    for row in rows:
        is_due = not row.published or (row.withdrawn and include_withdrawn)
        due = clipped(ranges, row.start_offset, row.end_offset) if is_due else []
        for part in ledger_ranges.cut(lake, row, due):
            if holds(due, part.start_offset, part.end_offset):
                part = replace(part, published=True, withdrawn=part.withdrawn and not include_withdrawn)
            marked.append(part)
    return marked


@dataclass(frozen=True, slots=True)
class ReplacePlan:
    """The requests to compare. The dry run prints it. Workers find the differences."""

    topics: tuple[TopicRequest, ...]
    refused: tuple[PlacedFinding, ...]
    """All refusals. Those of an earlier run are reported again."""
    unseen: bool
    """Whether any refusal is new."""
    meets_lost_file: bool
    """Whether a missing or truncated file had rows of refused ranges: its other rows may be replaceable."""
    withdrawn: tuple[str, ...] = ()
    """Which requested offsets stay withdrawn."""

    @property
    def is_empty(self) -> bool:
        """Whether no range is requested or due, no refusal is new, and no file is lost."""
        return not self.topics and not self.unseen and not self.meets_lost_file

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks read; None: there are no tasks."""
        return 0 if self.topics or self.meets_lost_file else None  # which files, the requests say when they are met

    @property
    def outline(self) -> ReplaceOutline:
        """What a report and a dry run say of it."""
        logs = [log for topic in self.topics for log in topic.logs]
        return ReplaceOutline(
            tuple(ReplacedRanges(log.log, log.topic, log.partition, log.records, log.ranges) for log in logs),
            tuple(placed.finding.message for placed in self.refused),
            self.withdrawn,
        )


@dataclass(slots=True)
class ReplaceResult:
    """The results of requests."""

    changed: list[LogChange] = field(default_factory=list)
    refused: list[PlacedFinding] = field(default_factory=list)
    ranges: dict[str, Ranges] = field(default_factory=dict)
    """Ranges by log that now agree with the archive."""

    def refuse(self, request: LogRequest, why: str) -> None:
        """Leave a log as it is, with a finding for each of its ranges."""
        self.refused += [refusal(request, start, end, why) for start, end in request.ranges]
        self.ranges.pop(request.log, None)

    def add(self, other: ReplaceResult) -> None:
        """Add the results of other requests; a log may have several."""
        self.changed += other.changed
        self.refused += other.refused
        for log, ranges in other.ranges.items():
            self.ranges[log] = joined([*self.ranges.get(log, ()), *ranges])


def plan(config: ReplaceConfig) -> ReplacePlan:
    """Plan the ranges that were requested, or filled late below the frontier, cut to what can be replaced."""
    topics, refused, withdrawn = requested(config)
    unseen = bool(finding_rows.unseen(config.lake, refused))
    in_vain = _in_vain(refused)
    files = _live_files(config.lake, {topic for topic, _ in in_vain}) if in_vain else []
    lost = lost_files(config.lake, files, missing_or_cut(config.lake, files)) if files else []
    meets_lost = any(each.meets_any(log, ranges) for each in lost for (_, log), ranges in in_vain.items())
    return ReplacePlan(tuple(topics), tuple(refused), unseen, meets_lost, tuple(withdrawn))


def _in_vain(refused: Sequence[PlacedFinding]) -> dict[tuple[str, str], Ranges]:
    """Requested ranges that cannot be replaced, by topic and log."""
    ranges: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for placed in refused:
        span = placed.finding.start_offset or 0, placed.finding.end_offset or 0
        ranges.setdefault((str(placed.topic), str(placed.log)), []).append(span)
    return {key: joined(found) for key, found in ranges.items()}


def apply(plan: ReplacePlan, config: ReplaceConfig, executor: Executor | None) -> JobReport[ReplaceOutline]:
    """Compare, rewrite differences with one commit per topic, then update the ledger.

    Raises:
        ConcurrentChange: Other commits kept being made between read and commit.
    """
    done = ReplaceResult(refused=list(plan.refused))
    if executor is not None:
        _replace(plan, config, executor, done)
    published = {log: ranges for log, ranges in done.ranges.items() if ranges}
    mark_published(config.lake, published, config.run_id, include_withdrawn=config.include_withdrawn)
    new = finding_rows.record(config.lake, done.refused, config.run_id, config.as_of_ms)
    _doubt_archive(config.lake, done.refused[len(plan.refused) :])
    return JobReport.of(
        config,
        plan.outline,
        changed=tuple(done.changed),
        findings=tuple(new),
        metrics={
            "compared_records": sum(log.records for topic in plan.topics for log in topic.logs),
            "records": sum(int(change.metrics["records"] or 0) for change in done.changed),
        },
    )


def _doubt_archive(lake: str, refused: Sequence[PlacedFinding]) -> None:
    """Have the archived files read again whose records are not those that were validated."""
    spans = [(placed.log, placed.finding.start_offset or 0, placed.finding.end_offset or 0) for placed in refused]
    paths = [
        segment.path
        for segment in (archive.read_segments(lake) if spans else ())
        if any(
            log == segment.log and start < segment.next_offset and segment.base_offset < end
            for log, start, end in spans
        )
    ]
    if paths:
        doubt_archive(lake, paths)


def _replace(plan: ReplacePlan, config: ReplaceConfig, executor: Executor, done: ReplaceResult) -> None:
    """Compare everything at once, then rewrite and commit topic by topic where something differs.

    If a file turns out to be lost or mixed, begin again with the remaining topics.
    """
    attempts = COMMIT_ATTEMPTS
    left, in_vain = list(plan.topics), _in_vain(plan.refused)
    reasons = missing_or_cut(config.lake, _live_files(config.lake, _topics(left, in_vain)))
    while left or in_vain:
        try:
            _replace_left(left, in_vain, reasons, config, executor, done)
            return
        except LayoutChanged:
            attempts -= 1
            if not attempts:
                raise ConcurrentChange(f"Table {TABLE}: other commits changed its files again and again.") from None
        except NewlyLost as lost:
            if lost.reasons.keys() <= reasons.keys():
                raise OutputMismatch(f"Table {TABLE}: {next(iter(lost.reasons))} was lost twice.") from lost
            reasons |= lost.reasons


def _topics(left: Sequence[TopicRequest], in_vain: Iterable[tuple[str, str]]) -> set[str]:
    return {topic.topic for topic in left} | {topic for topic, _ in in_vain}


def _replace_left(
    left: list[TopicRequest],
    in_vain: dict[tuple[str, str], Ranges],
    reasons: Mapping[str, str],
    config: ReplaceConfig,
    executor: Executor,
    done: ReplaceResult,
) -> None:
    """Process topics, and remove each from ``left`` and ``in_vain`` when it is done.

    Raises:
        LayoutChanged: Another engine made files with rows of several logs meanwhile.
        NewlyLost: A file of the table cannot be read.
    """
    live = _live_files(config.lake, _topics(left, in_vain))
    left[:], lost, not_replaced = widened(config.lake, left, in_vain, lost_files(config.lake, live, reasons))
    readable = [file for file in live if file.path not in reasons]
    in_lost = [each for files in lost.values() for each in files]
    files = RecordFiles(config.lake, archive.incarnations(config.lake))
    with noticed():
        named = rows_lost(config.lake, in_lost, not_replaced, readable)
        left[:] = with_mixed_files(left, files, readable)
    requests = [log for topic in left for log in topic.logs]
    held = ArchivedBytes.of(config.lake, {log.log for log in requests})
    archived = ArchivedLogs(config, executor, held, files, lost)
    found_at_first = iter(compared(requests, archived))
    for topic in list(left):
        looked = [next(found_at_first) for _ in topic.logs]
        mine = _replace_topic(topic, looked, archived)
        left.remove(topic)
        for key in [key for key in in_vain if key[0] == topic.topic]:
            del in_vain[key]
        done.add(mine)
        if topic.topic not in {each.topic for each in left}:
            done.refused += [placed for placed in named if placed.topic == topic.topic]
    in_vain.clear()


def _replace_topic(topic: TopicRequest, looked: Sequence[Looked], archived: ArchivedLogs) -> ReplaceResult:
    """Process the requests of a topic. After a conflicting commit they are compared again.

    Raises:
        ConcurrentChange: Other commits kept being made between read and commit.
        LayoutChanged: Another engine made files with rows of several logs meanwhile.
        NewlyLost: A file of the table cannot be read.
    """
    known: Sequence[Looked] | None = looked

    def attempt() -> ReplaceResult:
        nonlocal known
        if known is None:
            known = compared(topic.logs, archived)
        now, known = known, None
        done = ReplaceResult()
        _settle(topic.topic, now, archived, done)
        return done

    return retried(attempt)


def _live_files(lake: str, topics: Collection[str]) -> list[LiveFile]:
    return [file for file in newest_files(lake, TABLE) if file.partition_values["topic"] in topics]


def _settle(topic: str, looked: Sequence[Looked], archived: ArchivedLogs, done: ReplaceResult) -> None:
    """Refuse, leave or rewrite each request.

    Raises:
        ConcurrentChange: The version that was read is no longer the latest.
        NewlyLost: A file of the table cannot be read.
    """
    for each in looked:
        if each.problem is None:
            done.ranges[each.request.log] = each.request.ranges
        else:
            done.refuse(each.request, each.problem)
    requests = [each.request for each in looked]
    rewrites = [each.rewrite for each in looked if each.rewrite is not None]
    lost = _removable(archived.lost.get(topic, []), requests, done)
    rewrites = [rewrite for rewrite in rewrites if rewrite.laid.request.log in done.ranges]
    if rewrites:
        # Before the commit, so that a killed run cannot leave it out: its rows are read from the archive, not from this
        # table.
        changed = [rewrite.laid.request for rewrite in rewrites if any(part.stretch.ranges for part in rewrite.parts)]
        again = {request.log: request.ranges[0][0] for request in changed}
        uncommitted_rows.begin_again(archived.config.lake, again, archived.config.run_id)
    if rewrites or lost:
        _rewrite(topic, rewrites, requests, archived, done)


def _removable(lost: Sequence[LostFile], requests: Sequence[LogRequest], done: ReplaceResult) -> list[LostFile]:
    """Lost files whose rows are all restored by the commit.

    A request that shares such a file, or a mixed one, with a refused request is refused too: otherwise rows could
    duplicate.
    """
    refused = {request.log for request in requests if request.log not in done.ranges}
    shared = [(each.file.path, set(each.spans), " cannot be read, and its") for each in lost]
    mixed = {path for request in requests for path in request.mixed}
    shared += [(path, {r.log for r in requests if path in r.mixed}, ":") for path in sorted(mixed)]
    while True:
        stuck = [each for each in shared if refused & each[1]]
        more = [r for r in requests if r.log not in refused and any(r.log in logs for _, logs, _ in stuck)]
        if not more:
            return [each for each in lost if not refused.intersection(each.spans)]
        for request in more:
            path, how = next((path, how) for path, logs, how in stuck if request.log in logs)
            done.refuse(request, f"the file {path}{how} rows of other logs cannot be replaced")
            refused.add(request.log)


def _rewrite(
    topic: str, chosen: Sequence[Rewrite], requests: Sequence[LogRequest], archived: ArchivedLogs, done: ReplaceResult
) -> None:
    config, run = archived.config, archived.executor.run
    parts = [part for rewrite in chosen for part in rewrite.parts]
    results = iter(unless_lost(run(rewrite_rows, [p.stretch for p in parts], [p.size for p in parts])))
    written: dict[str, list[WrittenFile]] = {}
    for rewrite in chosen:
        request = rewrite.laid.request
        results_of_parts = [next(results) for _ in rewrite.parts]
        problem = first_error(results_of_parts)
        files = [file for result in results_of_parts for file in result.files]
        rows = sum(span.rows for span in rewrite.removed) + rewrite.gained
        if problem is None and sum(file.rows for file in files) != rows:
            problem = f"{sum(file.rows for file in files)} rows were written where {rows} are due"
        if problem is not None:
            done.refuse(request, problem.rstrip("."))
            continue
        written[request.log] = files
    lost = _removable(archived.lost.get(topic, []), requests, done)
    kept = [rewrite for rewrite in chosen if rewrite.laid.request.log in done.ranges]
    removed = sorted({*(s.path for rewrite in kept for s in rewrite.removed), *(each.file.path for each in lost)})
    added = [file for rewrite in kept for file in written[rewrite.laid.request.log]]
    done.changed += [
        _change(r.laid.request, written[r.laid.request.log], len(r.removed)) for r in kept if r.laid.request.ranges
    ]
    done.refused += [rebuilt(each, {request.log: request for request in requests}) for each in lost]
    if not removed and not added:
        return
    application = f"replace/{_digest([rewrite.laid.request for rewrite in kept] or requests, archived.held)}"
    planned = commits.versions(config.lake, TABLE, [application])[application]

    def check(table: DeltaTable) -> None:
        gone = archived.lost_paths
        files = by_topic(file for file in live_files(table) if file.path not in gone)
        for laid in (rewrite.laid for rewrite in kept):
            request = laid.request
            with noticed():
                now = archived.files.of(files.get(request.topic, ()), request)
            if now != laid.files:
                raise ConcurrentChange(f"Table {TABLE}: files of {request.log} were changed since they were read.")

    guard = Guard(application, planned, (planned or 0) + 1)
    commits.rewrite_files(config.lake, TABLE, removed, added, config.run_id, [guard], data_change=True, check=check)


def _digest(requests: Sequence[LogRequest], held: ArchivedBytes) -> str:
    made_from = [
        [r.log, r.ranges, sorted({piece.segment_id for piece in held.pieces(r.log, r.visible)})] for r in requests
    ]
    return hashlib.sha256(json.dumps([RULES_VERSION, made_from]).encode()).hexdigest()[:32]


def _change(request: LogRequest, files: Sequence[WrittenFile], removed_files: int) -> LogChange:
    return LogChange(
        request.log,
        request.topic,
        request.partition,
        {
            "records": request.records,
            "start_offset": request.ranges[0][0],
            "end_offset": request.ranges[-1][1],
            "ranges": len(request.ranges),
            "files": len(files),
            "removed_files": removed_files,
            "bytes": sum(file.size for file in files),
        },
    )
