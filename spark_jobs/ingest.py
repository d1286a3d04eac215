"""``ingest``: what is new at the end of each log, from read-only sources into the archive.

    plan    look at the sources, decide by `logcore.logs.growth` what each log may take   (driver, no JVM)
    copy    one task a source segment: stat, read, stat, cut, digest, rename              (workers)
    commit  `segments`, then `logs`, then `findings`                                      (driver)

A file is visible in the archive only under its final name, and part of it only with its row. Growth is contiguous:
behind a segment that could not be copied nothing of that log is committed, and the next run takes it up there.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from logcore.logs.findings import Finding, found
from logcore.logs.growth import Growth, LogTail, Take, decide_growth
from logcore.segments.filenames import DirectoryKind
from logcore.storage.local import LocalReader, SourceLog, discover
from spark_jobs.contracts import IngestConfig, JobReport, LogChange
from spark_jobs.lake import archive, finding_rows
from spark_jobs.lake.archive import LogRow, Segment
from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.finding_rows import PlacedFinding
from spark_jobs.lake.identity import claim, cluster_of
from spark_jobs.segment_copy import CopyTask, copy_segment, nothing_readable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class LogPlan:
    """What one log takes, and its row in ``logs`` as seen now."""

    observed: LogRow
    tasks: tuple[CopyTask, ...]
    known: LogRow | None
    """Its row in the table."""
    version: int | None
    """Version of the log in ``segments`` that this plan stands on."""

    def is_news(self, row: LogRow) -> bool:
        """Whether a row says more than the one in the table; when it was looked at does not count."""
        return self.known is None or replace(row, as_of_ms=self.known.as_of_ms) != self.known

    @property
    def is_changed(self) -> bool:
        """Whether there is something to write down even if nothing is copied."""
        return self.is_news(self.observed)


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """What there is to do; printed, it is the dry run."""

    logs: tuple[LogPlan, ...]
    findings: tuple[PlacedFinding, ...]
    """Not said before."""
    cluster: str | None

    @property
    def needs_spark(self) -> bool:
        """Whether bytes have to be read."""
        return any(log.tasks for log in self.logs)

    @property
    def is_empty(self) -> bool:
        """Nothing to copy, nothing to write down."""
        return not self.findings and not any(log.tasks or log.is_changed for log in self.logs)

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "cluster": self.cluster,
            "logs": [
                {
                    "log": plan.observed.log,
                    "topic_partition": plan.observed.topic_partition,
                    "stopped": plan.observed.stopped,
                    "takes": [{"file": t.source, "from": t.start, "sealed": t.sealed} for t in plan.tasks],
                }
                for plan in self.logs
                if plan.tasks or plan.is_changed
            ],
            "findings": [f"{p.finding.rule}: {p.finding.message}" for p in self.findings],
        }


def plan(config: IngestConfig) -> IngestPlan:
    """Look at the sources and decide what each log takes.

    Raises:
        LakeRefused: the lake is another cluster's.
        UsageError: an option that is not one, or that is not built yet.
    """
    _check(config)
    # A source is known by its absolute path: the same directory named in another way is no second source.
    discovery = discover([os.path.realpath(path) for path in config.sources])
    placed = [PlacedFinding(finding) for finding in discovery.findings]
    sources = [log for log in discovery.logs if log.kind is DirectoryKind.LIVE and _is_chosen(config, log)]
    clusters = sorted({log.cluster_id for log in sources if log.cluster_id})
    if len(clusters) > 1:
        raise UsageError(
            f"The sources are of several clusters ({', '.join(clusters)}); a lake holds one. Run once each."
        )
    cluster = clusters[0] if clusters else config.cluster
    if sources:
        cluster = cluster_of(config.lake, cluster)

    rows = archive.read_logs(config.lake)
    newest = {row.topic_partition: row for row in sorted(rows.values(), key=lambda row: row.incarnation)}
    ingested = archive.ingested_segments(config.lake)
    tails = archive.tails_of(ingested)
    held_from = {segment.log: segment.base_offset for segment in reversed(ingested)}
    plans: list[LogPlan] = []
    taken: dict[str, SourceLog] = {}
    for source in sorted(sources, key=lambda log: _kept_first(log, newest)):
        name = str(source.topic_partition)
        if name in taken:
            placed.append(_second_source(taken[name], source))
            continue
        known = newest.get(name)
        if known is not None and known.source != source.directory:
            placed.append(_second_source(known, source))
            continue
        taken[name] = source
        log_plan, found_here = _plan_log(config, source, known, cluster, tails, held_from)
        plans.append(log_plan)
        placed.extend(found_here)
    versions = archive.planned_versions(config.lake, [p.observed.log for p in plans if p.tasks])
    plans = [replace(p, version=versions.get(p.observed.log)) for p in plans]
    return IngestPlan(tuple(plans), tuple(finding_rows.unseen(config.lake, placed)), cluster)


def apply(plan: IngestPlan, config: IngestConfig, spark: SparkSession | None) -> JobReport:
    """Copy, then commit.

    Raises:
        ConcurrentChange: another run moved a log since the plan; nothing of this run is visible then.
    """
    from spark_jobs.spread import spread

    claim(config.lake, plan.cluster)
    placed = list(plan.findings)
    segments: list[Segment] = []
    rows: list[LogRow] = []
    changes: list[LogChange] = []
    tasks = [task for log in plan.logs for task in log.tasks]
    results: Iterator[dict[str, Any]] = iter(())
    if spark is not None:
        results = iter(spread(spark, [asdict(task) for task in tasks], copy_segment, [t.size - t.start for t in tasks]))
    for log in plan.logs:
        mine = list(itertools.islice(results, len(log.tasks)))
        placed += [
            _of(log.observed, finding_rows.from_plain(finding)) for result in mine for finding in result["findings"]
        ]
        copied, failure = _until_failure(log.tasks, mine)
        segments += copied
        row = _grown(log.observed, copied, failure)
        if row.high_watermark is not None and row.high_watermark > row.next_offset and row.stopped is None:
            placed.append(_of(row, _beyond_log_end(row)))
        if log.is_news(row):
            rows.append(row)
            changes.append(_change(row, copied))
    if segments:
        archive.commit_segments(
            config.lake, segments, {log.observed.log: log.version for log in plan.logs}, config.run_id
        )
    archive.commit_logs(config.lake, rows, config.run_id)
    new = finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)
    return JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        changed=tuple(changes),
        findings=tuple(new),
        plan=plan.as_dict(),
        used_spark=spark is not None,
        metrics={
            "segments": len(segments),
            "bytes": sum(segment.size for segment in segments),
            "logs": len(plan.logs),
            "stopped_logs": sum(log.observed.stopped is not None for log in plan.logs),
        },
    )


def _kept_first(log: SourceLog, known: Mapping[str, LogRow]) -> tuple[str, bool]:
    """Order in which sources are looked at: the one that a log is kept to comes first."""
    row = known.get(str(log.topic_partition))
    return str(log.topic_partition), row is None or row.source != log.directory


def _check(config: IngestConfig) -> None:
    if config.mode not in ("copy", "reference"):
        raise UsageError(f"mode {config.mode!r}: use copy or reference.")
    if config.high_watermark not in ("checkpoint", "log-end") and not config.high_watermark.isdecimal():
        raise UsageError(f"high watermark {config.high_watermark!r}: use checkpoint, log-end or an offset.")
    remote = [source for source in config.sources if "://" in source]
    if remote:
        raise UsageError(f"{remote[0]}: object stores are not built yet; give a local path.")


def _is_chosen(config: IngestConfig, log: SourceLog) -> bool:
    topic, partition = log.topic_partition.topic, log.topic_partition.partition
    return (
        (not config.topics or any(fnmatch.fnmatchcase(topic, glob) for glob in config.topics))
        and (not config.partitions or partition in config.partitions)
        and (not config.logs or str(log.topic_partition) in config.logs)
    )


def _plan_log(
    config: IngestConfig,
    source: SourceLog,
    known: LogRow | None,
    cluster: str | None,
    tails: Mapping[str, LogTail],
    held_from: Mapping[str, int],
) -> tuple[LogPlan, list[PlacedFinding]]:
    topic, partition = source.topic_partition.topic, source.topic_partition.partition
    log_id = known.log_id if known else archive.new_log_id(topic, source.topic_id, cluster)
    log = archive.log_key(log_id, partition)
    tail = tails.get(log)
    growth = decide_growth(
        tail,
        source,
        LocalReader(),
        known_topic_id=known.topic_id if known else None,
        known_high_watermark=known.high_watermark if known else None,
        known_log_start_offset=known.source_log_start_offset if known else None,
        known_leader_epochs=_epochs(known),
    )
    observed = _observe(config, source, known, growth, log_id, cluster, tail, held_from.get(log))
    placed = [_of(observed, finding) for finding in growth.findings]
    tasks: list[CopyTask] = []
    for take in growth.takes:
        task = _task(config, source, observed, take)
        idle = nothing_readable(task)
        if idle is None:
            tasks.append(task)
        else:
            placed += [_of(observed, finding) for finding in idle]
    if not tasks and tail is not None and growth.stop is None:
        high_watermark = observed.high_watermark
        if high_watermark is not None and high_watermark > observed.next_offset:
            placed.append(_of(observed, _beyond_log_end(observed)))
    return LogPlan(observed, tuple(tasks), known, None), placed


def _observe(
    config: IngestConfig,
    source: SourceLog,
    known: LogRow | None,
    growth: Growth,
    log_id: str,
    cluster: str | None,
    tail: LogTail | None,
    held_from: int | None,
) -> LogRow:
    """The log's row as of this look at the source; a stopped log keeps what was seen before it stopped."""
    topic, partition = source.topic_partition.topic, source.topic_partition.partition
    if growth.stop is not None and not growth.takes and known is not None:
        return replace(
            known,
            next_offset=tail.next_offset if tail else known.next_offset,
            as_of_ms=config.as_of_ms,
            stopped=growth.stop.rule,
            stopped_because=growth.stop.message,
            stopped_file=None,
        )
    seen = source.high_watermark
    if config.high_watermark == "log-end":
        seen = None
    elif config.high_watermark != "checkpoint":
        seen = int(config.high_watermark)
    before = known.high_watermark if known else None
    high_watermark = before if seen is None and config.high_watermark != "log-end" else seen
    if high_watermark is not None and before is not None:
        high_watermark = max(before, high_watermark)
    gaps = json.loads(known.gaps) if known else []
    gaps += [list(gap) for gap in growth.gaps if list(gap) not in gaps]
    # Before anything is taken the log begins at its first segment, also at one that can't be read yet.
    first = min([*(file.base_offset for file in source.segments), *source.unreadable], default=source.log_start_offset)
    log_start_offset = known.log_start_offset if known else source.log_start_offset
    if known is None and held_from is not None:
        log_start_offset = min(log_start_offset, held_from)  # a run died before it wrote this row
    return LogRow(
        log=archive.log_key(log_id, partition),
        topic=topic,
        log_id=log_id,
        partition=partition,
        incarnation=known.incarnation if known else 0,
        topic_id=source.topic_id or (known.topic_id if known else None),
        cluster=cluster,
        source=source.directory,
        next_offset=tail.next_offset if tail else first,
        log_start_offset=log_start_offset,
        source_log_start_offset=source.log_start_offset,
        high_watermark=high_watermark,
        leader_epochs=json.dumps([[entry.epoch, entry.start_offset] for entry in source.leader_epochs]),
        cleaner_checkpoint=source.cleaner_checkpoint,
        gaps=json.dumps(gaps),
        as_of_ms=config.as_of_ms,
        stopped=growth.stop.rule if growth.stop else None,
        stopped_because=growth.stop.message if growth.stop else None,
        stopped_file=None,
    )


def _task(config: IngestConfig, source: SourceLog, observed: LogRow, take: Take) -> CopyTask:
    file = next(file for file in source.segments if file.base_offset == take.segment_base)
    return CopyTask(
        lake=config.lake,
        log=observed.log,
        topic=observed.topic,
        log_id=observed.log_id,
        partition=observed.partition,
        source=file.path,
        file_base_offset=file.base_offset,
        start=take.start_position,
        first_offset=take.first_offset_expected,
        sealed=take.sealed,
        next_base_offset=source.next_base_offset(file) if take.sealed else None,
        modified_ms=file.modified_ms,
        size=file.size,
        in_place=config.mode == "reference",
    )


def _epochs(known: LogRow | None) -> tuple[tuple[int, int], ...]:
    return tuple((epoch, start) for epoch, start in json.loads(known.leader_epochs)) if known else ()


@dataclass(frozen=True, slots=True)
class _Failure:
    """The first segment of a log that could not be copied, and why."""

    task: CopyTask
    finding: Finding


def _until_failure(
    tasks: Sequence[CopyTask], results: Sequence[dict[str, Any]]
) -> tuple[list[Segment], _Failure | None]:
    """Segments in front of the first one that could not be copied, and that one: no hole is archived."""
    copied: list[Segment] = []
    for task, result in zip(tasks, results, strict=True):
        if result["failed"]:
            return copied, _Failure(task, finding_rows.from_plain(result["findings"][-1]))
        if result["segment"] is not None:
            copied.append(Segment(**result["segment"]))
    return copied, None


def _grown(observed: LogRow, copied: Sequence[Segment], failure: _Failure | None) -> LogRow:
    row = replace(observed, next_offset=copied[-1].next_offset) if copied else observed
    if failure is None:
        return row
    stopped, because = failure.finding.rule, failure.finding.message
    return replace(row, stopped=stopped, stopped_because=because, stopped_file=failure.task.seen)


def _change(row: LogRow, copied: Sequence[Segment]) -> LogChange:
    return LogChange(
        row.log,
        row.topic,
        row.partition,
        {
            "segments": len(copied),
            "bytes": sum(segment.size for segment in copied),
            "start_offset": copied[0].base_offset if copied else row.next_offset,
            "end_offset": row.next_offset,
            "high_watermark": row.high_watermark,
            "stopped": row.stopped,
        },
    )


def _second_source(kept: LogRow | SourceLog, other: SourceLog) -> PlacedFinding:
    directory = kept.source if isinstance(kept, LogRow) else kept.directory
    finding = found(
        "second-source",
        f"{other.topic_partition} is taken from {directory}; this copy of it is left alone.",
        file=other.directory,
    )
    log = kept.log if isinstance(kept, LogRow) else None
    return PlacedFinding(finding, log, other.topic_partition.topic, other.topic_partition.partition)


def _beyond_log_end(row: LogRow) -> Finding:
    return found(
        "high-watermark-beyond-log-end",
        f"{row.topic_partition}: the high watermark is {row.high_watermark}, but the log can be read only up to "
        f"offset {row.next_offset}: committed records are missing at its end.",
        start_offset=row.next_offset,
        end_offset=row.high_watermark,
    )


def _of(row: LogRow, finding: Finding) -> PlacedFinding:
    return PlacedFinding(finding, row.log, row.topic, row.partition)
