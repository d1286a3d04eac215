"""``rebuild_indexes``: `.index` and `.timeindex` beside every live segment of the archive, as a broker's recovery
writes them (Kafka LogSegment.recover).

A segment never changes under its name, so side files that are there are right: the plan looks only for missing ones,
and a file under its final name is always whole. Bytes that were judged damaged, or not judged yet, get no index: it
would lead readers into them. Nothing is written beside a segment that lies at its source.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from logcore.errors import CorruptionReason, CorruptRecordError, LogError
from logcore.logs.findings import found
from logcore.segments import offset_index, time_index
from logcore.segments.filenames import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from logcore.segments.scan import End, ScannedBatch, Stretch, scan
from spark_jobs.contracts import JobReport, LogChange, RebuildIndexesConfig
from spark_jobs.lake import archive, finding_rows, storage
from spark_jobs.lake.archive import Segment
from spark_jobs.lake.finding_rows import PlacedFinding
from spark_jobs.lake.policies import read_policies
from spark_jobs.lake.tables import read_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIDE_FILES = {OFFSET_INDEX_SUFFIX: offset_index.build, TIME_INDEX_SUFFIX: time_index.build}


@dataclass(frozen=True, slots=True)
class IndexTask:
    """A segment whose side files are to be written."""

    path: str
    size: int
    base_offset: int
    index_interval_bytes: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A live segment that gets no side files, and why."""

    log: str
    base_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """What there is to do; printed, it is the dry run."""

    segments: tuple[Segment, ...]
    """Without side files."""
    tasks: tuple[IndexTask, ...]
    """None for a plan that is not to be carried out."""
    skipped: tuple[Skipped, ...]

    @property
    def is_empty(self) -> bool:
        """Every segment that may have side files has them."""
        return not self.tasks

    @property
    def needs_spark(self) -> bool:
        """Segments are read by workers."""
        return bool(self.tasks)

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "segments": [{"log": s.log, "base_offset": s.base_offset, "bytes": s.size} for s in self.segments],
            "skipped": [asdict(each) for each in self.skipped],
        }


def plan(config: RebuildIndexesConfig) -> RebuildPlan:
    """Live segments without side files.

    Raises:
        UsageError: the policies can't be read.
    """
    policies = read_policies(config.policies)
    rows = read_rows(config.lake, "validations", ["segment_id", "verdict"]).to_pylist()
    verdicts = {row["segment_id"]: row["verdict"] for row in rows}
    segments, tasks, skipped = [], [], []
    for segment in archive.read_segments(config.lake, config.logs):
        reason = _why_not(segment, verdicts.get(segment.segment_id))
        if reason is not None:
            skipped.append(Skipped(segment.log, segment.base_offset, reason))
            continue
        path = segment.local_path(config.lake)
        if all(storage.exists(side_file(path, suffix)) for suffix in SIDE_FILES):
            continue
        policy = policies.for_topic(segment.topic)
        interval = offset_index.DEFAULT_INTERVAL_BYTES if policy is None else policy.index_interval_bytes
        segments.append(segment)
        tasks.append(IndexTask(path, segment.size, segment.base_offset, interval))
    return RebuildPlan(tuple(segments), tuple(tasks) if config.apply else (), tuple(skipped))


def apply(plan: RebuildPlan, config: RebuildIndexesConfig, spark: SparkSession) -> JobReport:
    """Write the side files, one task a segment."""
    from spark_jobs.spread import spread

    results = spread(spark, [asdict(task) for task in plan.tasks], write_side_files)
    placed = [
        PlacedFinding(
            found(
                "index-not-rebuilt",
                f"{s.topic}-{s.partition}: the segment at base offset {s.base_offset} gets no index: {result['error']}",
                file=s.path,
                start_offset=s.base_offset,
                end_offset=s.next_offset,
            ),
            s.log,
            s.topic,
            s.partition,
            s.segment_id,
        )
        for s, result in zip(plan.segments, results, strict=True)
        if result["error"] is not None
    ]
    new = finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)
    return JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        changed=tuple(_changes(plan.segments, results)),
        findings=tuple(new),
        plan=plan.as_dict(),
        used_spark=True,
        metrics={
            "segments": len(plan.segments),
            "files": sum(result["files"] for result in results),
            "bytes": sum(result["bytes"] for result in results),
            "skipped": len(plan.skipped),
        },
    )


def side_file(path: str, suffix: str) -> str:
    """Path of a side file of a segment: same directory, same base offset."""
    return path.removesuffix(LOG_SUFFIX) + suffix


def write_side_files(value: dict[str, Any]) -> dict[str, Any]:
    """Write one segment's side files. Runs in a worker.

    Args:
        value: an :class:`IndexTask` as plain values.

    Returns:
        ``files`` and ``bytes`` written (files that already held the same are left alone), ``error`` (or None).
    """
    task = IndexTask(**value)
    files = written = 0
    try:
        for suffix, build in SIDE_FILES.items():
            # Each index walks over the segment itself: its batches are never all in memory.
            with storage.mapped(task.path) as mapped, memoryview(mapped) as content:
                index = build(_batches(content, task), task.base_offset, task.index_interval_bytes)
            if _place_if_new(side_file(task.path, suffix), index):
                files, written = files + 1, written + len(index)
    except (LogError, OSError) as error:
        return {"files": files, "bytes": written, "error": str(error)}
    return {"files": files, "bytes": written, "error": None}


def _why_not(segment: Segment, verdict: str | None) -> str | None:
    if segment.lies_at_source:
        return "it lies at its source, where nothing is ever written"
    if verdict is None:
        return "it is not validated yet"
    return None if verdict == str(End.CLEAN) else f"it is {verdict}"


def _batches(content: memoryview, task: IndexTask) -> Iterator[ScannedBatch]:
    if len(content) != task.size:
        message = f"the archived file has {len(content)} bytes where {task.size} were registered"
        raise CorruptRecordError(CorruptionReason.LENGTH, message, file=task.path)
    for item in scan(content, base_offset=task.base_offset, sealed=True, decode=False):
        if isinstance(item, Stretch):
            message = f"bytes that were validated cannot be trusted any more: {item.message}"
            raise CorruptRecordError(item.reason, message, file=task.path, position=item.position, offset=item.offset)
        yield item


def _place_if_new(path: str, content: bytes) -> bool:
    """Put a file in its place, whole and on disk; False where the same content was there."""
    with contextlib.suppress(FileNotFoundError):
        if storage.read(path) == content:
            return False
    storage.put(path, content)
    return True


def _changes(segments: Sequence[Segment], results: Sequence[dict[str, Any]]) -> Iterator[LogChange]:
    by_log: dict[str, list[tuple[Segment, dict[str, Any]]]] = {}
    for segment, result in zip(segments, results, strict=True):
        if result["files"]:
            by_log.setdefault(segment.log, []).append((segment, result))
    for log, done in sorted(by_log.items()):
        first = done[0][0]
        metrics = {
            "segments": len(done),
            "files": sum(result["files"] for _, result in done),
            "bytes": sum(result["bytes"] for _, result in done),
        }
        yield LogChange(log, first.topic, first.partition, metrics)
