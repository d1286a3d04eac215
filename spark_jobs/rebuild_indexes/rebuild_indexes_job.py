"""``rebuild_indexes``: writes the side files of every live segment of the archive, as a broker's recovery writes them.

    .index .timeindex    of the segment alone
    .txnindex            where a transaction was aborted; it may have begun in an earlier segment
    .snapshot            the producers at the segment's base, from all segments before it

One task per log computes the producers through all its segments (`logcore.logs.recovery.reindexing`). A segment never
changes under its name, so an existing file is right and stays. ``again`` rebuilds all of them. A log is processed when
a segment lacks an index, or when its live segments changed since the last time. In the latter case the version of
application ``indexed/<log>`` in the table ``segments`` differs from that of the log.

Damaged or not yet validated bytes get no side files, because these would lead readers into the damage. After damage
there are no `.txnindex` and `.snapshot`, because the lost contents are unknown. Nothing is written next to a segment
that is registered at its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from logcore.columns.engines import segment_recovery
from logcore.errors import LogError
from logcore.logs.model.findings import found
from logcore.logs.model.partition_directory import PartitionDirectory, Proposal, Write
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.reindexing import plan_reindex
from logcore.segments.filenames import (
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    TopicPartition,
    segment_file_name,
)
from logcore.segments.scanning.scan import End
from spark_jobs.contracts import JobReport, LogChange, RebuildIndexesConfig
from spark_jobs.engine.executor import Executor
from spark_jobs.groups import by_key
from spark_jobs.lake.cluster.cluster_settings import lake_policies
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.log_directory import segment_files, side_file
from spark_jobs.lake.store import storage
from spark_jobs.outlines import IndexesOutline, Skipped, UnindexedLog, UnindexedSegment
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.policies.policies_file import Policies
from spark_jobs.policies.topic_policies import TopicPolicy
from spark_jobs.reads import Reads

INDEXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
"""Files of every segment; a segment without them was not processed."""
SIDE_FILES = (PRODUCER_SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX, TIME_INDEX_SUFFIX, OFFSET_INDEX_SUFFIX)
"""In the order in which they are written: the offset index is last."""


@dataclass(frozen=True, slots=True)
class IndexTask:
    """A log whose side files must be written."""

    lake: str
    segments: tuple[Segment, ...]
    """Live segments in offset order."""
    due: tuple[int, ...]
    """Base offsets of segments that may have side files."""
    index_interval_bytes: int
    as_of_ms: int
    again: bool

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return archive.reads_of(self.segments)


@dataclass(slots=True)
class WrittenIndexes:
    """The side files that were written for one log."""

    segments: int = 0
    files: int = 0
    bytes: int = 0
    refused: list[tuple[int | None, str]] = field(default_factory=list)
    """Base offset, None for the whole log, and why its side files could not be written."""


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """The work to do. The dry run prints it."""

    logs: tuple[tuple[Segment, ...], ...]
    """Live segments of each log to process."""
    without: tuple[Segment, ...]
    """Segments of these logs that lack an index."""
    skipped: tuple[Skipped, ...]
    policies: Policies
    versions: Mapping[str, int | None]
    """Versions of the logs in ``segments``, read before the rows."""
    indexed: Mapping[str, int | None]
    """The version of each log when it was last processed."""
    applied: bool

    @property
    def is_empty(self) -> bool:
        """Whether every segment that may have side files has them, or only a plan is requested."""
        return not self.logs or not self.applied

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks read; None: there are no tasks."""
        return None if self.is_empty else sum(segment.size for log in self.logs for segment in log)

    @property
    def outline(self) -> IndexesOutline:
        """What a report and a dry run say of it."""
        return IndexesOutline(
            tuple(UnindexedLog(log[0].log, len(log), sum(s.size for s in log)) for log in self.logs),
            tuple(UnindexedSegment(s.log, s.base_offset, s.size) for s in self.without),
            self.skipped,
        )


def plan(config: RebuildIndexesConfig) -> RebuildPlan:
    """Find logs with live segments that were not processed yet.

    Raises:
        UsageError: The policies cannot be read.
    """
    lake = config.lake
    versions = archive.planned_versions(lake, archive.read_logs(lake, config.logs))
    indexed = commits.versions(lake, "segments", [indexed_id(log) for log in versions])
    rows = read_rows(lake, "validations", ["segment_id", "verdict"]).to_pylist()
    verdicts = {row["segment_id"]: row["verdict"] for row in rows}
    live = by_key(archive.read_segments(lake, config.logs), lambda segment: segment.log)
    there = _files_of(lake, live, config.logs)
    logs, without, skipped = [], [], []
    for log, segments in sorted(live.items()):
        sound = []
        for segment in segments:
            reason = _why_not(segment, verdicts.get(segment.segment_id))
            if reason is None:
                sound.append(segment)
            else:
                skipped.append(Skipped(log, segment.base_offset, reason))
        lacking = [s for s in sound if not all(side_file(s.path, suffix) in there for suffix in INDEXES)]
        if lacking or (sound and (config.again or indexed[indexed_id(log)] != versions.get(log))):
            logs.append(tuple(segments))
            without += lacking
    return RebuildPlan(
        tuple(logs),
        tuple(without),
        tuple(skipped),
        lake_policies(config.policies, config.lake, config.as_of_ms),
        versions,
        indexed,
        config.apply,
    )


def _files_of(lake: str, live: Iterable[str], chosen: Sequence[str] | None) -> set[str]:
    """Paths of the archive's files, relative to the lake, from listings: one of everything, or one of each chosen log.

    A request for each segment would take minutes on an object store.
    """
    folders = ["archive"] if chosen is None else [archive.log_folder(log) for log in live]
    listed = (file.path for folder in folders for file in storage.files_below(storage.join(lake, folder)))
    return {storage.relative(path, lake) for path in listed}


def apply(plan: RebuildPlan, config: RebuildIndexesConfig, executor: Executor | None) -> JobReport[IndexesOutline]:
    """Write the side files, one task a log."""
    assert executor is not None  # a plan with work requires it
    passed = {(each.log, each.base_offset) for each in plan.skipped}
    tasks = [
        IndexTask(
            config.lake,
            segments,
            tuple(s.base_offset for s in segments if (s.log, s.base_offset) not in passed),
            (plan.policies.for_topic(segments[0].topic) or TopicPolicy("*", ())).index_interval_bytes,
            config.as_of_ms,
            config.again,
        )
        for segments in plan.logs
    ]
    sizes = [sum(s.size for s in task.segments) for task in tasks]
    results = executor.run(write_side_files, tasks, sizes)
    placed = [
        _not_rebuilt(task.segments, base_offset, why)
        for task, result in zip(tasks, results, strict=True)
        for base_offset, why in result.refused
    ]
    new = finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)
    _looked_at(plan, config, [t.segments[0].log for t, r in zip(tasks, results, strict=True) if not r.refused])
    return JobReport.of(
        config,
        plan.outline,
        changed=tuple(_changes(tasks, results)),
        findings=tuple(new),
        metrics={
            "logs": len(tasks),
            "segments": sum(result.segments for result in results),
            "files": sum(result.files for result in results),
            "bytes": sum(result.bytes for result in results),
            "skipped": len(plan.skipped),
        },
    )


def indexed_id(log: str) -> str:
    """Application id whose version in ``segments`` says for which live segments a log's side files were written."""
    return f"indexed/{log}"


def write_side_files(task: IndexTask) -> WrittenIndexes:
    """Write the side files of one log's segments. Runs in a worker."""
    segments = task.segments
    config = TopicConfig(index_interval_bytes=task.index_interval_bytes)
    done = WrittenIndexes()
    try:
        with segment_files(task.lake, segments, joined=False) as files:
            first = segments[0]
            directory = PartitionDirectory(TopicPartition(first.topic, first.partition), files)
            made = plan_reindex(directory, config, as_of_ms=task.as_of_ms, recover=segment_recovery())
            for loss in made.losses:
                base_offset = int(loss.file[:20]) if loss.file[:20].isdecimal() else None
                if base_offset is None or base_offset in task.due:
                    done.refused.append((base_offset, loss.message))
        refused = {base_offset for base_offset, _ in done.refused}
        for segment in segments:
            # An archived segment was whole when it was validated: what is not indexed of it is damage.
            if segment.base_offset in task.due and segment.base_offset not in refused:
                _place_all(task, segment, made.files, done)
    except LogError as error:
        done.refused.append((None, str(error)))
    except OSError as error:
        done.refused.append((None, error.strerror or str(error)))
    return done


def _place_all(task: IndexTask, segment: Segment, files: Proposal, done: WrittenIndexes) -> None:
    """Write the side files of a segment, in their order."""
    written = 0
    for suffix in SIDE_FILES:
        file = files.get(segment_file_name(segment.base_offset, suffix))
        path = storage.join(task.lake, side_file(segment.path, suffix))
        if (
            isinstance(file, Write)
            and (task.again or not storage.exists(path))
            and storage.put_if_new(path, file.content)
        ):
            done.files += 1
            done.bytes += len(file.content)
            written += 1
    done.segments += bool(written)


def _why_not(segment: Segment, verdict: str | None) -> str | None:
    if segment.lies_at_source:
        return "it is at its source, where nothing is ever written"
    if verdict is None:
        return "it is not validated yet"
    return None if verdict == str(End.CLEAN) else f"it is {verdict}"


def _looked_at(plan: RebuildPlan, config: RebuildIndexesConfig, logs: Sequence[str]) -> None:
    """Record for which live segments the side files were written, for logs without a failure."""
    guards = [
        Guard(indexed_id(log), plan.indexed[indexed_id(log)], plan.versions[log] or 0)
        for log in logs
        if plan.indexed[indexed_id(log)] != plan.versions[log]
    ]
    commits.add_files(config.lake, "segments", [], config.run_id, guards)


def _not_rebuilt(segments: Sequence[Segment], base_offset: int | None, why: str) -> PlacedFinding:
    first = next((s for s in segments if s.base_offset == base_offset), segments[0])
    name = f"{first.topic}-{first.partition}"
    what = "its log gets" if base_offset is None else f"the segment at base offset {base_offset} gets"
    finding = found(
        "index-not-rebuilt",
        f"{name}: {what} no side files: {why}",
        file=first.path,
        start_offset=first.base_offset,
        end_offset=segments[-1].next_offset if base_offset is None else first.next_offset,
    )
    return PlacedFinding(finding, first.log, first.topic, first.partition, first.segment_id)


def _changes(tasks: Sequence[IndexTask], results: Sequence[WrittenIndexes]) -> Iterator[LogChange]:
    for task, result in zip(tasks, results, strict=True):
        if result.files:
            first = task.segments[0]
            metrics = {"segments": result.segments, "files": result.files, "bytes": result.bytes}
            yield LogChange(first.log, first.topic, first.partition, metrics)
