"""Plans compaction: which logs are dirty enough, how far each may be cleaned, and what prevents it.

Made from tables alone, without a JVM. `compaction` executes the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from logcore.logs.compaction.selection import (
    CleanableRange,
    cleanable_range,
    is_overdue,
    why_not_now,
)
from spark_jobs.contracts import CompactionConfig
from spark_jobs.lake.cluster.cluster_settings import lake_policies
from spark_jobs.lake.delta.commits import commit_guards
from spark_jobs.lake.delta.tables.table_rows import read_rows
from spark_jobs.lake.segments import log_directory, removals
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.segments.log_segments import GovernedLog, governed_logs
from spark_jobs.lake.segments.removals import Unfinished
from spark_jobs.outlines import CompactionOutline, DirtyLog, NotCleaned
from spark_jobs.policies.topic_policies import TopicPolicy


@dataclass(frozen=True, slots=True)
class CompactionLogPlan:
    """A log to clean, with all its live segments; those below ``end_offset`` may be cleaned."""

    row: LogRow
    policy: TopicPolicy
    segments: tuple[Segment, ...]
    first_dirty: int
    end_offset: int
    dirty_ratio: float
    limit_offset: int
    version: int | None
    cleaned_version: int | None

    @property
    def cleaned_segments(self) -> tuple[Segment, ...]:
        """The segments in the range."""
        return tuple(segment for segment in self.segments if segment.base_offset < self.end_offset)

    @property
    def bytes(self) -> int:
        """Bytes of the range."""
        return sum(segment.size for segment in self.cleaned_segments)

    @property
    def is_spread(self) -> bool:
        """Whether many tasks clean it."""
        return self.bytes > self.policy.compaction_spread_bytes


@dataclass(frozen=True, slots=True)
class CompactionJobPlan:
    """The work to do. The dry run prints it."""

    logs: tuple[CompactionLogPlan, ...]
    passed: tuple[NotCleaned, ...]
    unfinished: Unfinished
    is_dry_run: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is no log to clean and nothing to record or remove."""
        return not self.logs and not self.unfinished

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks read; None: there are no tasks."""
        return sum(log.bytes for log in self.logs) if self.logs and not self.is_dry_run else None

    @property
    def outline(self) -> CompactionOutline:
        """What a report and a dry run say of it."""
        return CompactionOutline(tuple(map(_dirty, self.logs)), self.passed, self.unfinished.outline)


def _dirty(log: CompactionLogPlan) -> DirtyLog:
    return DirtyLog(
        log.row.log,
        log.row.topic_partition,
        log.policy.compat,
        log.first_dirty,
        log.end_offset,
        round(log.dirty_ratio, 3),
        tuple(segment.base_offset for segment in log.cleaned_segments),
        log.bytes,
        log.is_spread,
    )


def cleaned_id(log: str) -> str:
    """Application id whose version in ``segments`` says how far a log is clean."""
    return f"cleaned/{log}"


def plan(config: CompactionConfig) -> CompactionJobPlan:
    """Find logs that are dirty enough to clean, and the reasons why others are not cleaned.

    Raises:
        UsageError: The policies cannot be read.
    """
    lake = config.lake
    known = governed_logs(lake, lake_policies(config.policies, lake, config.as_of_ms), config.logs)
    governed = [g for g in known if g.policy.compacts]
    logs = [g.row.log for g in governed]
    cleaned = commit_guards.versions(lake, "segments", [cleaned_id(log) for log in logs])
    said = _said_before(lake, logs)
    plans = []
    passed = [
        NotCleaned(g.row.log, g.row.topic_partition, f"its settings are in doubt: {g.policy.doubt}")
        for g in known
        if g.policy.doubt is not None
    ]
    for g in governed:
        log = g.row.log
        checkpoint = cleaned[cleaned_id(log)]
        limit = min(g.published_to, g.validated_to)
        held_back = g.missing_from is not None and g.missing_from < limit
        if held_back:
            limit = g.missing_from or 0
        chosen = _cleanable(g, checkpoint, limit, config.as_of_ms)
        not_now = why_not_now(chosen, min_cleanable_dirty_ratio=g.policy.min_cleanable_dirty_ratio)
        log_plan = _plan_log(g, chosen, checkpoint, limit)
        if not_now is not None and not (chosen.cleanable_bytes and _is_overdue(lake, g, chosen, config.as_of_ms)):
            more = f"; from offset {limit} on some are missing and may come yet" if held_back else ""
            passed.append(NotCleaned(log, g.row.topic_partition, not_now.message + more))
        elif _is_known_to_stay(log_plan, said):
            passed.append(NotCleaned(log, g.row.topic_partition, said[log, log_plan.end_offset][1], refused=True))
        else:
            plans.append(log_plan)
    return CompactionJobPlan(
        tuple(plans),
        tuple(passed),
        removals.unfinished(lake, config.logs),
        is_dry_run=not config.apply,
    )


def _cleanable(g: GovernedLog, checkpoint: int | None, limit_offset: int, as_of_ms: int) -> CleanableRange:
    return cleanable_range(
        [segment.facts for segment in g.segments],
        first_dirty=checkpoint,
        limit_offset=limit_offset,
        log_start_offset=g.row.log_start_offset,
        log_end_offset=g.segments[-1].next_offset,
        as_of_ms=as_of_ms,
        min_compaction_lag_ms=g.policy.min_compaction_lag_ms,
    )


def _is_overdue(lake: str, g: GovernedLog, chosen: CleanableRange, as_of_ms: int) -> bool:
    """Whether `max.compaction.lag.ms` requires cleaning. If it is unlimited, no segment is opened."""
    lag = g.policy.max_compaction_lag_ms
    if lag >= as_of_ms:
        return False
    dirty = [segment.slices[0] for segment in g.segments[:-1] if segment.next_offset > chosen.first_dirty]
    first = [log_directory.first_timestamp(lake, each) for each in dirty]
    return is_overdue(first, as_of_ms=as_of_ms, max_compaction_lag_ms=lag)


def _plan_log(g: GovernedLog, chosen: CleanableRange, checkpoint: int | None, limit_offset: int) -> CompactionLogPlan:
    return CompactionLogPlan(
        row=g.row,
        policy=g.policy,
        segments=tuple(s for each in g.segments for s in each.slices),
        first_dirty=chosen.first_dirty,
        end_offset=chosen.end_offset,
        dirty_ratio=chosen.dirty_ratio,
        limit_offset=limit_offset,
        version=g.version,
        cleaned_version=checkpoint,
    )


Said = Mapping[tuple[str, int], tuple[str | None, str]]
"""Earlier refusals by log and end of the range: the segment that prevented cleaning, if any, and the message."""


def _said_before(lake: str, logs: Sequence[str]) -> Said:
    """What an earlier run could not clean, so that no worker repeats the attempt."""
    if not logs:
        return {}
    where: list[tuple[str, str, object]] = [("log", "in", sorted(logs)), ("rule", "==", "compaction-refused")]
    rows = read_rows(lake, "findings", ["log", "end_offset", "segment_id", "message"], where).to_pylist()
    return {(row["log"], row["end_offset"]): (row["segment_id"], row["message"]) for row in rows}


def _is_known_to_stay(log: CompactionLogPlan, said: Said) -> bool:
    """Whether the same obstacle prevented cleaning of the same range; a damaged segment may have been filled since."""
    known = said.get((log.row.log, log.end_offset))
    return known is not None and (known[0] is None or known[0] in {s.segment_id for s in log.segments})
