"""``replace``: published ranges published again from the archive, below the frontier, which never moves.

    request   offsets, times (widened to whole record batches), or nothing: what was filled late
    cut       at each log's frontier, and to what the archive still holds as it was published
    order     files with rows of several logs become files of one log each, the rows unchanged      (``ordering``)
    widen     to all that a file held that cannot be read any more: it leaves with the commit       (``lost_files``)
    compare   rows of the table and of the archive, every column                                    (workers)
    rewrite   the files that hold a difference; rows outside of the request are carried over        (workers)
    commit    per topic and at most 200 ranges: old files out, new ones in; then the ledger's `published`

What can't be replaced is said by name and its rows stay: taken out of the archive, damaged, undecided, not published
yet. Nothing differs: no new version. Each attempt to commit is laid out anew on the newest version of the table, so of
two that overlap the second finds what the first has done. Application ``replace/<digest>`` names request, segments and
rules that a commit was made from.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from spark_jobs.contracts import JobReport, LogChange, ReplaceConfig
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard, WrittenFile
from spark_jobs.lake.delta.live_files import LiveFile, live_files, newest_files
from spark_jobs.lake.errors import ConcurrentChange, OutputMismatch
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.ledger.finding_rows import PlacedFinding
from spark_jobs.lake.ledger.offset_ranges import merged
from spark_jobs.replace.comparison import ArchivedLogs, Looked, Rewrite, compared, shared_names, unless_lost
from spark_jobs.replace.layout import PART_BYTES, MixedFile, RecordFiles, by_topic
from spark_jobs.replace.ledger import mark_published
from spark_jobs.replace.lost_files import (
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
from spark_jobs.row_files import uncommitted
from spark_jobs.row_files.ordering import incarnations, plan_orders, put_in_order
from spark_jobs.row_files.pieces import ArchivedBytes
from spark_jobs.row_files.rewritten_file import TABLE, rewrite_rows
from spark_jobs.tasks.segment_pass import RULES_VERSION

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor

COMMIT_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class ReplacePlan:
    """What is looked at; printed, it is the dry run. What differs, workers find out."""

    topics: tuple[TopicRequest, ...]
    refused: tuple[PlacedFinding, ...]
    """Also what an earlier run refused: whoever asks again is told again."""
    unseen: bool
    """Whether any of it was not refused before."""
    meets_lost_file: bool
    """Whether a file that is gone or cut held rows of what is refused: others of its rows may be replaceable."""

    @property
    def is_empty(self) -> bool:
        """No range is asked for or due, nothing new is refused, and no file is lost."""
        return not self.topics and not self.unseen and not self.meets_lost_file

    @property
    def needs_spark(self) -> bool:
        """Whether rows have to be compared."""
        return bool(self.topics) or self.meets_lost_file

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        logs = [log for topic in self.topics for log in topic.logs]
        keys = ("log", "topic", "partition", "records")
        return {
            "logs": [
                {key: getattr(log, key) for key in keys} | {"ranges": [list(r) for r in log.ranges]} for log in logs
            ],
            "refused": [placed.finding.message for placed in self.refused],
        }


@dataclass(slots=True)
class ReplaceResult:
    """What became of requests."""

    changed: list[LogChange] = field(default_factory=list)
    refused: list[PlacedFinding] = field(default_factory=list)
    ranges: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Ranges by log that are now as the archive has them."""

    def refuse(self, request: LogRequest, why: str) -> None:
        """Leave a log as it is, and say so of each of its ranges."""
        self.refused += [refusal(request, start, end, why) for start, end in request.ranges]
        self.ranges.pop(request.log, None)

    def add(self, other: ReplaceResult) -> None:
        """Take what became of other requests in; a log may have several."""
        self.changed += other.changed
        self.refused += other.refused
        for log, ranges in other.ranges.items():
            self.ranges[log] = merged(sorted(self.ranges.get(log, []) + ranges))


def plan(config: ReplaceConfig) -> ReplacePlan:
    """The ranges that were asked for, or that were filled behind the frontier, cut to what can be replaced."""
    topics, refused = requested(config)
    unseen = bool(finding_rows.unseen(config.lake, refused))
    in_vain = _in_vain(refused)
    files = _live_files(config.lake, {topic for topic, _ in in_vain}) if in_vain else []
    lost = lost_files(config.lake, files, missing_or_cut(config.lake, files)) if files else []
    meets_lost = any(each.meets_any(log, ranges) for each in lost for (_, log), ranges in in_vain.items())
    return ReplacePlan(tuple(topics), tuple(refused), unseen, meets_lost)


def _in_vain(refused: Sequence[PlacedFinding]) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Ranges that were asked for and cannot be replaced, by topic and log."""
    ranges: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for placed in refused:
        span = placed.finding.start_offset or 0, placed.finding.end_offset or 0
        ranges.setdefault((str(placed.topic), str(placed.log)), []).append(span)
    return {key: merged(sorted(found)) for key, found in ranges.items()}


def apply(plan: ReplacePlan, config: ReplaceConfig, executor: Executor | None) -> JobReport:
    """Compare, rewrite what differs, one commit a topic; then bring the ledger up to date.

    Raises:
        ConcurrentChange: other commits kept coming between look and commit.
    """
    done = ReplaceResult(refused=list(plan.refused))
    if executor is not None:
        _replace(plan, config, executor, done)
    mark_published(config.lake, done.ranges, config.run_id, include_withdrawn=config.include_withdrawn)
    new = finding_rows.record(config.lake, done.refused, config.run_id, config.as_of_ms)
    return JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        changed=tuple(done.changed),
        findings=tuple(new),
        plan=plan.as_dict(),
        used_spark=executor is not None,
        metrics={
            "compared_records": sum(log.records for topic in plan.topics for log in topic.logs),
            "records": sum(int(change.metrics["records"] or 0) for change in done.changed),
        },
    )


def _replace(plan: ReplacePlan, config: ReplaceConfig, executor: Executor, done: ReplaceResult) -> None:
    """Compare everything at once, then rewrite and commit topic by topic where something differs.

    A file that turns out to be lost on the way makes it begin again with the topics that are left.
    """
    left, in_vain = list(plan.topics), _in_vain(plan.refused)
    reasons = missing_or_cut(config.lake, _live_files(config.lake, _topics(left, in_vain)))
    while left or in_vain:
        try:
            _replace_left(left, in_vain, reasons, config, executor, done)
            return
        except NewlyLost as lost:
            if lost.reasons.keys() <= reasons.keys():
                raise OutputMismatch(f"Table {TABLE}: {next(iter(lost.reasons))} was lost twice.") from lost
            reasons |= lost.reasons


def _topics(left: Sequence[TopicRequest], in_vain: Iterable[tuple[str, str]]) -> set[str]:
    return {topic.topic for topic in left} | {topic for topic, _ in in_vain}


def _replace_left(
    left: list[TopicRequest],
    in_vain: dict[tuple[str, str], list[tuple[int, int]]],
    reasons: Mapping[str, str],
    config: ReplaceConfig,
    executor: Executor,
    done: ReplaceResult,
) -> None:
    """Take topics off ``left`` and ``in_vain`` as they are done.

    Raises:
        NewlyLost: a file of the table cannot be read.
    """
    _order_mixed(left, reasons, config, executor)
    live = _live_files(config.lake, _topics(left, in_vain))
    left[:], lost, not_replaced = widened(config.lake, left, in_vain, lost_files(config.lake, live, reasons))
    readable = [file for file in live if file.path not in reasons]
    in_lost = [each for files in lost.values() for each in files]
    with noticed():
        named = rows_lost(config.lake, in_lost, not_replaced, readable)
    archived = ArchivedLogs(
        ArchivedBytes.of(config.lake, {log.log for topic in left for log in topic.logs}),
        RecordFiles(config.lake, shared_names(config.lake)),
        lost,
    )
    found_at_first = iter(compared([log for topic in left for log in topic.logs], config.lake, archived, executor))
    for topic in list(left):
        looked = [next(found_at_first) for _ in topic.logs]
        for attempt in range(COMMIT_ATTEMPTS):
            mine = ReplaceResult()
            try:
                _settle(topic.topic, looked, config, archived, executor, mine)
                break
            except ConcurrentChange:
                time.sleep(0.05 * 2**attempt)
                _order_mixed([topic], reasons, config, executor)
                looked = compared(topic.logs, config.lake, archived, executor)
        else:
            raise ConcurrentChange(
                f"Table {TABLE}: {COMMIT_ATTEMPTS} attempts were overtaken by other commits; run again."
            )
        left.remove(topic)
        for key in [key for key in in_vain if key[0] == topic.topic]:
            del in_vain[key]
        done.add(mine)
        if topic.topic not in {each.topic for each in left}:
            done.refused += [placed for placed in named if placed.topic == topic.topic]
    in_vain.clear()


def _live_files(lake: str, topics: Collection[str]) -> list[LiveFile]:
    return [file for file in newest_files(lake, TABLE) if file.partition_values["topic"] in topics]


def _order_mixed(
    topics: Sequence[TopicRequest], reasons: Mapping[str, str], config: ReplaceConfig, executor: Executor
) -> None:
    """Put in order what another engine mixed, where a request meets such a file: rows of one log are replaced only in
    files that hold no other's. What cannot be put in order is refused when it is compared.

    Raises:
        NewlyLost: a file of the table cannot be read.
    """
    for _ in range(COMMIT_ATTEMPTS):  # another engine may mix files again meanwhile
        mixed = _mixed(topics, reasons, config.lake)
        if not mixed:
            return
        orders, _unplaced = plan_orders(config.lake, TABLE, mixed, PART_BYTES, incarnations(config.lake))
        ordered = put_in_order(config.lake, orders, config.run_id, executor)
        if ordered.lost:
            raise NewlyLost(ordered.lost)
        if ordered.failed:
            return


def _mixed(topics: Sequence[TopicRequest], reasons: Mapping[str, str], lake: str) -> list[LiveFile]:
    """The readable files of topics of which a request meets a file with rows of several logs."""
    live = [file for file in _live_files(lake, {topic.topic for topic in topics}) if file.path not in reasons]
    files, by_name = RecordFiles(lake, shared_names(lake)), by_topic(live)
    mixed: list[LiveFile] = []
    for topic in {topic.topic: topic for topic in topics}:
        try:
            with noticed():
                for log in (log for each in topics if each.topic == topic for log in each.logs):
                    files.of(by_name.get(topic, ()), log.named, log.ranges)
        except MixedFile:
            mixed += by_name[topic]
    return mixed


def _settle(
    topic: str,
    looked: Sequence[Looked],
    config: ReplaceConfig,
    archived: ArchivedLogs,
    executor: Executor,
    done: ReplaceResult,
) -> None:
    """Refuse, leave or rewrite each request.

    Raises:
        ConcurrentChange: the version that was looked at is not the newest any more.
        NewlyLost: a file of the table cannot be read.
    """
    for each in looked:
        if each.problem is None:
            done.ranges[each.request.log] = list(each.request.ranges)
        else:
            done.refuse(each.request, each.problem)
    requests = [each.request for each in looked]
    rewrites = [each.rewrite for each in looked if each.rewrite is not None]
    lost = _removable(archived.lost.get(topic, []), requests, done)
    rewrites = [rewrite for rewrite in rewrites if rewrite.laid.request.log in done.ranges]
    if rewrites:
        # In front of the commit, so that no run can die between: its rows come from the archive, not from here.
        again = {rewrite.laid.request.log: rewrite.laid.request.ranges[0][0] for rewrite in rewrites}
        uncommitted.begin_again(config.lake, again, config.run_id)
    if rewrites or lost:
        _rewrite(topic, rewrites, requests, config, archived, executor, done)


def _removable(lost: Sequence[LostFile], requests: Sequence[LogRequest], done: ReplaceResult) -> list[LostFile]:
    """Lost files all of whose rows are there again when the commit is; requests that share another with one that is
    refused are refused too: its rows could come back beside theirs."""
    refused = {request.log for request in requests if request.log not in done.ranges}
    while True:
        kept = [each for each in lost if not refused.intersection(each.spans)]
        stuck = [each for each in lost if each not in kept]
        more = [r for r in requests if r.log not in refused and any(r.log in each.spans for each in stuck)]
        if not more:
            return kept
        for request in more:
            path = next(each.file.path for each in stuck if request.log in each.spans)
            done.refuse(request, f"the file {path} cannot be read, and what it held of other logs cannot be replaced")
            refused.add(request.log)


def _rewrite(
    topic: str,
    chosen: Sequence[Rewrite],
    requests: Sequence[LogRequest],
    config: ReplaceConfig,
    archived: ArchivedLogs,
    executor: Executor,
    done: ReplaceResult,
) -> None:
    parts = [part for rewrite in chosen for part in rewrite.parts]
    tasks = [asdict(p.stretch) for p in parts]
    results = iter(unless_lost(executor.run(tasks, rewrite_rows, [p.size for p in parts])) if tasks else ())
    written: dict[str, list[WrittenFile]] = {}
    for rewrite in chosen:
        request = rewrite.laid.request
        told = [next(results) for _ in rewrite.parts]
        problem = next((result["error"] for result in told if result["error"]), None)
        files = [WrittenFile(**result["file"]) for result in told if result["file"]]
        rows = sum(span.rows for span in rewrite.removed) + rewrite.gained
        if problem is None and sum(file.rows for file in files) != rows:
            problem = f"{sum(file.rows for file in files)} rows were written where {rows} are due"
        if problem is not None:
            done.refuse(request, problem.rstrip("."))
            continue
        written[request.log] = files
    lost = _removable(archived.lost.get(topic, []), requests, done)
    kept = [rewrite for rewrite in chosen if rewrite.laid.request.log in done.ranges]
    removed = [span.path for rewrite in kept for span in rewrite.removed] + [each.file.path for each in lost]
    added = [file for rewrite in kept for file in written[rewrite.laid.request.log]]
    done.changed += [_change(r.laid.request, written[r.laid.request.log], len(r.removed)) for r in kept]
    done.refused += [rebuilt(each, {request.log: request for request in requests}) for each in lost]
    if not removed and not added:
        return
    application = f"replace/{_digest([rewrite.laid.request for rewrite in kept] or requests, archived.held)}"
    planned = commits.versions(config.lake, TABLE, [application])[application]

    def check(table: DeltaTable) -> None:
        gone = archived.lost_paths
        files = by_topic(file for file in live_files(table) if file.path not in gone)
        for rewrite in kept:
            laid = rewrite.laid
            request = laid.request
            try:
                with noticed():
                    now = archived.files.of(files.get(request.topic, ()), request.named, request.ranges)
            except MixedFile as mixed:
                raise ConcurrentChange(f"Table {TABLE}: {mixed}.") from mixed  # refused by name when looked at again
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
