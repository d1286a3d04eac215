"""``rebuild_indexes``: the side files of every live segment of the archive, as a broker's recovery writes them.

    .index .timeindex    of the segment alone
    .txnindex            where a transaction was aborted; it may have begun in an earlier segment
    .snapshot            the producers at the segment's base: what all segments before it come to

One task a log: producers run through it (`logcore.logs.recovery.reindexing`). A segment never changes under its name,
so a file that is there is right, and stays; ``again`` makes all of them anew. A log is looked at when a segment lacks
an index, or when other segments are live than last time: then the version of application ``indexed/<log>`` in the table
``segments`` is not that of the log.

Bytes that were judged damaged, or not judged yet, get no side files: they would lead readers into them; behind damage
there are no `.txnindex` and `.snapshot`, because nobody knows what was in it. Nothing is written beside a segment that
lies at its source.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from logcore.columns.engines import segment_recovery
from logcore.errors import LogError
from logcore.logs.model.findings import found
from logcore.logs.model.partition_directory import PartitionDirectory, Write
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
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.tables import read_rows
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.ledger.finding_rows import PlacedFinding
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.log_directory import side_file
from spark_jobs.lake.segments.segment_files import segment_files
from spark_jobs.lake.setup.policies import Policies, TopicPolicy, read_policies
from spark_jobs.lake.store import storage

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor

INDEXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
"""What every segment has; one that lacks them was not come to."""
SIDE_FILES = (PRODUCER_SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX, TIME_INDEX_SUFFIX, OFFSET_INDEX_SUFFIX)
"""In the order in which they are placed: an offset index stands last."""


@dataclass(frozen=True, slots=True)
class IndexTask:
    """A log whose side files are to be written."""

    lake: str
    segments: tuple[Segment, ...]
    """Live ones, in offset order."""
    due: tuple[int, ...]
    """Base offsets of those that may have side files."""
    index_interval_bytes: int
    as_of_ms: int
    again: bool


@dataclass(frozen=True, slots=True)
class Skipped:
    """A live segment that gets no side files, and why."""

    log: str
    base_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """What there is to do; printed, it is the dry run."""

    logs: tuple[tuple[Segment, ...], ...]
    """Live segments of each log that is to be looked at."""
    without: tuple[Segment, ...]
    """Of these, segments that lack an index."""
    skipped: tuple[Skipped, ...]
    policies: Policies
    versions: Mapping[str, int | None]
    """Of the logs in ``segments``, read before them."""
    indexed: Mapping[str, int | None]
    """The version of each log at which it was looked at last."""
    applied: bool

    @property
    def is_empty(self) -> bool:
        """Every segment that may have side files has them, or this is only a plan."""
        return not self.logs or not self.applied

    @property
    def needs_spark(self) -> bool:
        """Segments are read by workers."""
        return not self.is_empty

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "logs": [
                {"log": segments[0].log, "segments": len(segments), "bytes": sum(s.size for s in segments)}
                for segments in self.logs
            ],
            "segments": [{"log": s.log, "base_offset": s.base_offset, "bytes": s.size} for s in self.without],
            "skipped": [asdict(each) for each in self.skipped],
        }


def plan(config: RebuildIndexesConfig) -> RebuildPlan:
    """Logs with live segments that were not looked at yet.

    Raises:
        UsageError: the policies can't be read.
    """
    lake = config.lake
    versions = archive.planned_versions(lake, archive.read_logs(lake, config.logs))
    indexed = commits.versions(lake, "segments", [indexed_id(log) for log in versions])
    rows = read_rows(lake, "validations", ["segment_id", "verdict"]).to_pylist()
    verdicts = {row["segment_id"]: row["verdict"] for row in rows}
    live: dict[str, list[Segment]] = {}
    for segment in archive.read_segments(lake, config.logs):
        live.setdefault(segment.log, []).append(segment)
    logs, without, skipped = [], [], []
    for log, segments in sorted(live.items()):
        sound = []
        for segment in segments:
            reason = _why_not(segment, verdicts.get(segment.segment_id))
            if reason is None:
                sound.append(segment)
            else:
                skipped.append(Skipped(log, segment.base_offset, reason))
        lacking = [s for s in sound if not all(storage.exists(side_file(s.local_path(lake), x)) for x in INDEXES)]
        if lacking or (sound and (config.again or indexed[indexed_id(log)] != versions.get(log))):
            logs.append(tuple(segments))
            without += lacking
    return RebuildPlan(
        tuple(logs), tuple(without), tuple(skipped), read_policies(config.policies), versions, indexed, config.apply
    )


def apply(plan: RebuildPlan, config: RebuildIndexesConfig, executor: Executor | None) -> JobReport:
    """Write the side files, one task a log."""
    assert executor is not None  # a plan with something to do asks for it
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
    results = executor.run([asdict(task) for task in tasks], write_side_files, sizes)
    placed = [
        _not_rebuilt(task.segments, base_offset, why)
        for task, result in zip(tasks, results, strict=True)
        for base_offset, why in result["refused"]
    ]
    new = finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)
    _looked_at(plan, config, [t.segments[0].log for t, r in zip(tasks, results, strict=True) if not r["refused"]])
    return JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        changed=tuple(_changes(tasks, results)),
        findings=tuple(new),
        plan=plan.as_dict(),
        used_spark=True,
        metrics={
            "logs": len(tasks),
            "segments": sum(result["segments"] for result in results),
            "files": sum(result["files"] for result in results),
            "bytes": sum(result["bytes"] for result in results),
            "skipped": len(plan.skipped),
        },
    )


def indexed_id(log: str) -> str:
    """Application id whose version in ``segments`` says for which live segments a log's side files were made."""
    return f"indexed/{log}"


def write_side_files(value: dict[str, Any]) -> dict[str, Any]:
    """Write the side files of one log's segments. Runs in a worker.

    Args:
        value: an :class:`IndexTask` as plain values.

    Returns:
        ``segments``, ``files`` and ``bytes`` written, and ``refused``: (base offset or None for the log, why) of what
        could not be.
    """
    segments = tuple(Segment(**each) for each in value["segments"])
    task = IndexTask(**value | {"segments": segments})
    config = TopicConfig(index_interval_bytes=task.index_interval_bytes)
    done: dict[str, Any] = {"segments": 0, "files": 0, "bytes": 0, "refused": []}
    try:
        with segment_files(task.lake, segments, joined=False) as files:
            first = segments[0]
            directory = PartitionDirectory(TopicPartition(first.topic, first.partition), files)
            made = plan_reindex(directory, config, as_of_ms=task.as_of_ms, recover=segment_recovery())
            for loss in made.losses:
                base_offset = int(loss.file[:20]) if loss.file[:20].isdecimal() else None
                if base_offset is None or base_offset in task.due:
                    done["refused"].append([base_offset, loss.message])
        for segment in segments:
            if segment.base_offset in task.due:
                _place_all(task, segment, made.files, done)
    except LogError as error:
        done["refused"].append([None, str(error)])
    except OSError as error:
        done["refused"].append([None, error.strerror or str(error)])
    return done


def _place_all(task: IndexTask, segment: Segment, files: Mapping[str, Any], done: dict[str, Any]) -> None:
    """The side files of a segment, in their order."""
    written = 0
    for suffix in SIDE_FILES:
        file = files.get(segment_file_name(segment.base_offset, suffix))
        path = storage.join(task.lake, side_file(segment.path, suffix))
        if isinstance(file, Write) and (task.again or not storage.exists(path)) and _place_if_new(path, file.content):
            done["files"] += 1
            done["bytes"] += len(file.content)
            written += 1
    done["segments"] += bool(written)


def _why_not(segment: Segment, verdict: str | None) -> str | None:
    if segment.lies_at_source:
        return "it lies at its source, where nothing is ever written"
    if verdict is None:
        return "it is not validated yet"
    return None if verdict == str(End.CLEAN) else f"it is {verdict}"


def _looked_at(plan: RebuildPlan, config: RebuildIndexesConfig, logs: Sequence[str]) -> None:
    """Note for which live segments the side files were made, where all of them could be."""
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


def _place_if_new(path: str, content: bytes) -> bool:
    """Put a file in its place, whole and on disk; False where the same content was there."""
    with contextlib.suppress(FileNotFoundError):
        if storage.read(path) == content:
            return False
    storage.put(path, content)
    return True


def _changes(tasks: Sequence[IndexTask], results: Sequence[Mapping[str, Any]]) -> Iterator[LogChange]:
    for task, result in zip(tasks, results, strict=True):
        if result["files"]:
            first = task.segments[0]
            metrics = {name: result[name] for name in ("segments", "files", "bytes")}
            yield LogChange(first.log, first.topic, first.partition, metrics)
