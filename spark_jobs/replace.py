"""``replace``: published ranges published again from the archive, below the frontier, which never moves.

    request   offsets, times (widened to whole record batches), or nothing: what was filled late
    cut       at each log's frontier, and to what the archive still holds as it was published
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
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from spark_jobs import uncommitted
from spark_jobs.contracts import JobReport, LogChange, ReplaceConfig
from spark_jobs.lake import archive, commits, finding_rows, frontier, removals, withdrawals
from spark_jobs.lake.commits import Guard, Standing, WrittenFile
from spark_jobs.lake.errors import ConcurrentChange, OutputMismatch
from spark_jobs.lake.finding_rows import PlacedFinding
from spark_jobs.lake.frontier import LedgerRow
from spark_jobs.lake.live_files import live_files
from spark_jobs.lake.tables import open_table
from spark_jobs.pieces import Held, clipped, merged
from spark_jobs.replacement_layout import FileSpan, MixedFile, Part, RecordFiles, by_topic, connected, parts_of
from spark_jobs.replacement_request import LogRequest, TopicRequest, refusal, requested
from spark_jobs.rewritten_file import TABLE, compare_rows, rewrite_rows
from spark_jobs.segment_pass import RULES_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMIT_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Laid:
    """A log's request on one version of the table: the files it meets, and what becomes of them."""

    request: LogRequest
    files: tuple[FileSpan, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class ReplacePlan:
    """What is looked at; printed, it is the dry run. What differs, workers find out."""

    topics: tuple[TopicRequest, ...]
    refused: tuple[PlacedFinding, ...]
    """Also what an earlier run refused: whoever asks again is told again."""
    unseen: bool
    """Whether any of it was not refused before."""

    @property
    def is_empty(self) -> bool:
        """No range is asked for or due, and nothing new is refused."""
        return not self.topics and not self.unseen

    @property
    def needs_spark(self) -> bool:
        """Whether rows have to be compared."""
        return bool(self.topics)

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
class Done:
    """What became of requests."""

    changed: list[LogChange] = field(default_factory=list)
    refused: list[PlacedFinding] = field(default_factory=list)
    ranges: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Ranges by log that are now as the archive has them."""

    def refuse(self, request: LogRequest, why: str) -> None:
        """Leave a log as it is, and say so of each of its ranges."""
        self.refused += [refusal(request, start, end, why) for start, end in request.ranges]
        self.ranges.pop(request.log, None)

    def add(self, other: Done) -> None:
        """Take what became of other requests in; a log may have several."""
        self.changed += other.changed
        self.refused += other.refused
        for log, ranges in other.ranges.items():
            self.ranges[log] = merged(sorted(self.ranges.get(log, []) + ranges))


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The parts of a log that differ, with those that share a file with them."""

    laid: Laid
    parts: tuple[Part, ...]
    gained: int
    """Rows more, or fewer, than the files had."""

    @property
    def removed(self) -> list[FileSpan]:
        """The files that they stand for."""
        gone = {path for part in self.parts for path in part.stretch.files}
        return [span for span in self.laid.files if span.path in gone]


@dataclass(frozen=True, slots=True)
class Looked:
    """What became clear of a request by comparing."""

    request: LogRequest
    problem: str | None = None
    """Why it can't be done."""
    rewrite: Rewrite | None = None
    """None: nothing differs."""


@dataclass(frozen=True, slots=True)
class Archived:
    """Where a log's bytes lie, and whose rows the table's files have."""

    held: Held
    files: RecordFiles


def plan(config: ReplaceConfig) -> ReplacePlan:
    """The ranges that were asked for, or that were filled behind the frontier, cut to what can be replaced."""
    topics, refused = requested(config)
    return ReplacePlan(tuple(topics), tuple(refused), bool(finding_rows.unseen(config.lake, refused)))


def apply(plan: ReplacePlan, config: ReplaceConfig, spark: SparkSession | None) -> JobReport:
    """Compare, rewrite what differs, one commit a topic; then bring the ledger up to date.

    Raises:
        ConcurrentChange: other commits kept coming between look and commit.
    """
    done = Done(refused=list(plan.refused))
    if spark is not None:
        _replace(plan.topics, config, spark, done)
    _mark_published(config.lake, done.ranges, config.run_id, include_withdrawn=config.include_withdrawn)
    new = finding_rows.record(config.lake, done.refused, config.run_id, config.as_of_ms)
    return JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        changed=tuple(done.changed),
        findings=tuple(new),
        plan=plan.as_dict(),
        used_spark=spark is not None,
        metrics={
            "compared_records": sum(log.records for topic in plan.topics for log in topic.logs),
            "records": sum(int(change.metrics["records"] or 0) for change in done.changed),
        },
    )


def _replace(topics: Sequence[TopicRequest], config: ReplaceConfig, spark: SparkSession, done: Done) -> None:
    """Compare everything at once, then rewrite and commit topic by topic where something differs."""
    archived = Archived(
        Held.of(config.lake, {log.log for topic in topics for log in topic.logs}),
        RecordFiles(config.lake, _shared_names(config.lake)),
    )
    found_at_first = iter(_compared([log for topic in topics for log in topic.logs], config, archived, spark))
    for topic in topics:
        looked = [next(found_at_first) for _ in topic.logs]
        for attempt in range(COMMIT_ATTEMPTS):
            mine = Done()
            try:
                _settle(looked, config, archived, spark, mine)
                break
            except ConcurrentChange:
                time.sleep(0.05 * 2**attempt)
                looked = _compared(topic.logs, config, archived, spark)
        else:
            raise ConcurrentChange(
                f"Table {TABLE}: {COMMIT_ATTEMPTS} attempts were overtaken by other commits; run again."
            )
        done.add(mine)


def _shared_names(lake: str) -> list[tuple[str, int]]:
    """Topics and partitions of which the lake has several logs: incarnations."""
    names = Counter((row.topic, row.partition) for row in archive.read_logs(lake).values())
    return [name for name, count in names.items() if count > 1]


def _compared(
    requests: Sequence[LogRequest], config: ReplaceConfig, archived: Archived, spark: SparkSession
) -> list[Looked]:
    """What the newest version of the table has of each request, and where it differs."""
    from spark_jobs.spread import spread

    table = open_table(config.lake, TABLE)
    if table is None:
        raise OutputMismatch(f"Table {TABLE} is gone, and the frontiers with it; restore it, or begin a new lake.")
    files = by_topic(live_files(table))
    laid: list[Laid | str] = []
    for log in requests:
        try:
            spans = archived.files.of(files.get(log.topic, ()), log.named, log.ranges)
        except MixedFile as mixed:
            laid.append(str(mixed))
            continue
        parts = parts_of(log.named, log.log, log.ranges, log.visible, spans, archived.held)
        laid.append(Laid(log, spans, tuple(parts)))
    asked = [part for each in laid if isinstance(each, Laid) for part in each.parts if part.stretch.ranges]
    results = iter(spread(spark, [asdict(p.stretch) for p in asked], compare_rows, [p.size for p in asked]))
    looked = []
    for request, each in zip(requests, laid, strict=True):
        if isinstance(each, str):
            looked.append(Looked(request, problem=each))
            continue
        told = {part: next(results) for part in each.parts if part.stretch.ranges}
        problem = _problem(request, told.values())
        different = connected(each.parts, [part for part, result in told.items() if not result["equal"]])
        gained = sum(told[part]["after"] - told[part]["before"] for part in different if part in told)
        rewrite = Rewrite(each, tuple(different), gained) if different and problem is None else None
        looked.append(Looked(request, problem, rewrite))
    return looked


def _settle(
    looked: Sequence[Looked], config: ReplaceConfig, archived: Archived, spark: SparkSession, done: Done
) -> None:
    """Refuse, leave or rewrite each request.

    Raises:
        ConcurrentChange: the version that was looked at is not the newest any more.
    """
    for each in looked:
        if each.problem is None:
            done.ranges[each.request.log] = list(each.request.ranges)
        else:
            done.refuse(each.request, each.problem)
    rewrites = [each.rewrite for each in looked if each.rewrite is not None]
    if rewrites:
        # In front of the commit, so that no run can die between: its rows come from the archive, not from here.
        again = {rewrite.laid.request.log: rewrite.laid.request.ranges[0][0] for rewrite in rewrites}
        uncommitted.begin_again(config.lake, again, config.run_id)
        _rewrite(rewrites, config, archived, spark, done)


def _problem(request: LogRequest, results: Iterable[Mapping[str, Any]]) -> str | None:
    decoded = 0
    for result in results:
        if result["error"]:
            return str(result["error"]).rstrip(".")
        decoded += result["after"]
    if decoded != request.records:
        return f"{decoded} records were decoded where the ledger counts {request.records}"
    return None


def _rewrite(
    chosen: Sequence[Rewrite],
    config: ReplaceConfig,
    archived: Archived,
    spark: SparkSession,
    done: Done,
) -> None:
    from spark_jobs.spread import spread

    parts = [part for rewrite in chosen for part in rewrite.parts]
    results = iter(spread(spark, [asdict(p.stretch) for p in parts], rewrite_rows, [p.size for p in parts]))
    removed: list[str] = []
    added: list[WrittenFile] = []
    kept: list[Rewrite] = []
    for rewrite in chosen:
        request = rewrite.laid.request
        written = [next(results) for _ in rewrite.parts]
        problem = next((result["error"] for result in written if result["error"]), None)
        files = [WrittenFile(**result["file"]) for result in written if result["file"]]
        rows = sum(span.rows for span in rewrite.removed) + rewrite.gained
        if problem is None and sum(file.rows for file in files) != rows:
            problem = f"{sum(file.rows for file in files)} rows were written where {rows} are due"
        if problem is not None:
            done.refuse(request, problem.rstrip("."))
            continue
        kept.append(rewrite)
        removed += [span.path for span in rewrite.removed]
        added += files
        done.changed.append(_change(request, files, len(rewrite.removed)))
    if not kept:
        return
    application = f"replace/{_digest([rewrite.laid.request for rewrite in kept], archived.held)}"
    planned = commits.versions(config.lake, TABLE, [application])[application]

    def check(table: DeltaTable) -> None:
        files = by_topic(live_files(table))
        for rewrite in kept:
            laid = rewrite.laid
            request = laid.request
            try:
                now = archived.files.of(files.get(request.topic, ()), request.named, request.ranges)
            except MixedFile as mixed:
                raise ConcurrentChange(f"Table {TABLE}: {mixed}.") from mixed  # refused by name when looked at again
            if now != laid.files:
                raise ConcurrentChange(f"Table {TABLE}: files of {request.log} were changed since they were read.")

    guard = Guard(application, planned, (planned or 0) + 1)
    commits.rewrite_files(config.lake, TABLE, removed, added, config.run_id, [guard], data_change=True, check=check)


def _digest(requests: Sequence[LogRequest], held: Held) -> str:
    made_from = [
        [r.log, r.ranges, sorted({piece.segment_id for piece in held.pieces(r.log, r.visible)})] for r in requests
    ]
    return hashlib.sha256(json.dumps([RULES_VERSION, made_from]).encode()).hexdigest()[:32]


def _mark_published(
    lake: str, done: Mapping[str, Sequence[tuple[int, int]]], run_id: str, *, include_withdrawn: bool = False
) -> None:
    """Set the ledger's `published` on what was replaced; nothing to set writes nothing."""
    if not done:
        return
    if include_withdrawn:
        withdrawals.take_back(lake, done, run_id)
    standing = Standing.of(lake, "offset_ledger")
    ledger = frontier.sync_published(lake, run_id, list(done), standing)
    marked = {log: _marked(lake, rows, done[log], include_withdrawn=include_withdrawn) for log, rows in ledger.items()}
    moved = [log for log in marked if marked[log] != ledger[log]]
    frontier.commit_ledger(lake, [row for log in moved for row in marked[log]], moved, run_id, standing)


def _marked(
    lake: str, rows: Sequence[LedgerRow], ranges: Sequence[tuple[int, int]], *, include_withdrawn: bool
) -> list[LedgerRow]:
    marked = []
    for row in rows:
        rest = row
        is_due = not row.published or (row.withdrawn and include_withdrawn)
        for start, end in [] if not is_due else clipped(ranges, row.start_offset, row.end_offset):
            if start > rest.start_offset:
                left, rest = removals.cut(rest, start, partial(removals.count_records, lake))
                marked.append(left)
            right = None
            if end < rest.end_offset:
                rest, right = removals.cut(rest, end, partial(removals.count_records, lake))
            marked.append(replace(rest, published=True, withdrawn=rest.withdrawn and not include_withdrawn))
            if right is None:
                break
            rest = right
        else:
            marked.append(rest)
    return marked


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
