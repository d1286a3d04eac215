"""``retention``: which archived segments a broker would delete by its topic's policy, and their rows retired.

    plan    Kafka's predicates over each log's live segments, at the run's clock      (driver, no JVM)
    apply   retire in one commit; then `log_actions` and the ledger's `archived`

Only logs whose topic has a policy with ``delete``. Nothing unpublished and nothing unvalidated leaves, and no file is
deleted here: that is a step of its own, after `file.delete.delay.ms`. Without ``apply`` only the plan is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from logcore.logs.retention import Deletion, RetentionRule, segments_to_delete
from spark_jobs.contracts import JobReport, RetentionConfig
from spark_jobs.lake import archive, frontier, removals
from spark_jobs.lake.archive import LogRow, Segment
from spark_jobs.lake.log_segments import GovernedLog, LogSegment, governed_logs, log_segments
from spark_jobs.lake.policies import Policies, TopicPolicy, read_policies
from spark_jobs.lake.removals import Unfinished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANY_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Leaving:
    """A source segment whose slices leave, by which rule and why."""

    segment: LogSegment
    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class LogPlan:
    """What leaves of one log, oldest first."""

    row: LogRow
    leaving: tuple[Leaving, ...]
    version: int | None

    @property
    def segments(self) -> list[Segment]:
        """The rows to retire."""
        return [segment for each in self.leaving for segment in each.segment.slices]


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """What there is to do; printed, it is the dry run."""

    logs: tuple[LogPlan, ...]
    unfinished: Unfinished
    """What an earlier run retired and did not get to tell of."""

    @property
    def is_empty(self) -> bool:
        """Nothing is due."""
        return not self.logs and not self.unfinished

    @property
    def needs_spark(self) -> bool:
        """Never: rows are retired, no byte is read."""
        return False

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "logs": [
                {
                    "log": log.row.log,
                    "topic_partition": log.row.topic_partition,
                    "log_start_offset": log.leaving[-1].segment.next_offset,
                    "bytes": sum(segment.size for segment in log.segments),
                    "segments": [
                        {
                            "base_offset": each.segment.base_offset,
                            "next_offset": each.segment.next_offset,
                            "bytes": each.segment.facts.size,
                            "rule": each.rule,
                            "why": each.why,
                        }
                        for each in log.leaving
                    ],
                }
                for log in self.logs
            ],
            "unfinished": {
                "segments": [removal.segment.segment_id for removal in self.unfinished.actions],
                "ledgers": list(self.unfinished.ledgers),
            },
        }


def plan(config: RetentionConfig) -> RetentionPlan:
    """What is due at the run's clock.

    Raises:
        UsageError: the policies can't be read.
    """
    policies = read_policies(config.policies)
    governed = [log for log in governed_logs(config.lake, policies, config.logs) if log.policy.deletes]
    frontiers = frontier.read_frontiers(config.lake, [log.row.log for log in governed])
    plans = [_plan_log(log, frontiers[log.row.log] or 0, config.as_of_ms) for log in governed]
    return RetentionPlan(tuple(log for log in plans if log.leaving), removals.unfinished(config.lake, config.logs))


def apply(plan: RetentionPlan, config: RetentionConfig, spark: SparkSession | None = None) -> JobReport:
    """Retire what is due in one commit and tell of it; without ``config.apply`` only report the plan.

    Raises:
        ConcurrentChange: a log was touched since the plan.
    """
    retired = [segment for log in plan.logs for segment in log.segments]
    report = JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        plan=plan.as_dict(),
        metrics={
            "applied": config.apply,
            "due_segments": len(retired),
            "due_bytes": sum(segment.size for segment in retired),
        },
    )
    if not config.apply:
        return report
    if retired:
        planned = {log.row.log: log.version for log in plan.logs}
        archive.swap_segments(config.lake, retired, [], planned, config.run_id, config.as_of_ms, archive.RETENTION)
    finished = removals.finish(config.lake, config.run_id, config.logs, _explain(config))
    return replace(report, changed=removals.changes(finished))


def _plan_log(log: GovernedLog, published_to: int, as_of_ms: int) -> LogPlan:
    row = log.row
    due = _due(
        log.segments,
        log.policy,
        as_of_ms,
        high_watermark=row.publish_limit(),
        log_start_offset=row.log_start_offset,
        limit_offset=min(published_to, log.validated_to),
    )
    return LogPlan(row, due, log.version)


def _due(
    segments: Sequence[LogSegment],
    policy: TopicPolicy,
    as_of_ms: int,
    *,
    high_watermark: int,
    log_start_offset: int,
    limit_offset: int,
) -> tuple[Leaving, ...]:
    by_base = {segment.base_offset: segment for segment in segments}
    deletions = segments_to_delete(
        [segment.facts for segment in segments],
        retention_ms=policy.retention_ms,
        retention_bytes=policy.retention_bytes,
        as_of_ms=as_of_ms,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        log_end_offset=segments[-1].next_offset,
        limit_offset=limit_offset,
        cleanup_policy=policy.cleanup_policy,
    )
    return tuple(Leaving(by_base[d.segment.base_offset], str(d.rule), _why(d)) for d in deletions)


def _why(deletion: Deletion) -> str:
    timestamp = deletion.segment.max_timestamp
    if deletion.rule is RetentionRule.RETENTION_MS and (timestamp is None or timestamp < 0):
        return f"{deletion.why} (no batch of it has a timestamp: its file's time of change stands for one)"
    return deletion.why


def _explain(config: RetentionConfig) -> dict[str, tuple[str, str]]:
    """Rule and reason of every retired segment that nothing tells of yet, decided again at the clock of its run.

    Made from the tables after the swap also where the plan is at hand, so that a run that completes another's work
    writes the same rows. Where the policy has changed meanwhile the reason can't be found again, and is left out.
    """
    policies = read_policies(config.policies)
    pending = [r for r in removals.unfinished(config.lake, config.logs).actions if r.action == archive.RETENTION]
    rows = archive.read_logs(config.lake, sorted({r.segment.log for r in pending}))
    segments = archive.read_segments(config.lake, sorted(rows), live=False)
    explained: dict[str, tuple[str, str]] = {}
    for log, retired_ms in sorted({(r.segment.log, r.segment.retired_ms or 0) for r in pending}):
        gone = {r.segment.segment_id for r in pending if (r.segment.log, r.segment.retired_ms) == (log, retired_ms)}
        then = [s for s in segments if s.log == log and (s.segment_id in gone or s.retired_ms is None)]
        for leaving in _due_then(then, rows[log], policies, retired_ms):
            for segment in leaving.segment.slices:
                explained[segment.segment_id] = (leaving.rule, leaving.why)
    return explained


def _due_then(segments: Sequence[Segment], row: LogRow, policies: Policies, as_of_ms: int) -> tuple[Leaving, ...]:
    policy = policies.for_topic(row.topic)
    if policy is None or not policy.deletes:
        return ()
    return _due(
        log_segments(segments),
        policy,
        as_of_ms,
        high_watermark=_ANY_OFFSET,
        log_start_offset=row.log_start_offset,
        limit_offset=_ANY_OFFSET,
    )
