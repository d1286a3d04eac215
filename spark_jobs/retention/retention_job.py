"""``retention``: finds archived segments that a broker would delete by its topic's policy, and retires their rows; then
rows of tables that are older than `records.retention.ms` (``expired_rows``).

    plan     Kafka's predicates over each log's live segments, at the run's clock     (driver, no JVM)
    apply    retire in one commit                                                     (driver)
    explain  why each segment went, and why the first one stayed, a task a log        (workers)
    record   `log_actions` and the ledger's `archived`                                (driver)

Only logs whose topic has a policy with ``delete`` or with ``on_trim: follow``. The latter also retires offsets below a
log start that moved at the source (`kafka-delete-records`, or the source's own retention). Unpublished and unvalidated
offsets are never retired. No file is deleted here: ``tidy_archive`` does that later, after `file.delete.delay.ms`.
Without ``apply`` only the plan is made.

If every segment is due, a broker rolls an empty one to keep the log end. The archive does not need it: the rows of the
segments, including retired ones, give the log end, and the log grows on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from logcore.logs.retention.retention import Decision, Deletion, RetentionFacts, RetentionRule, decide
from spark_jobs.contracts import JobReport, RetentionConfig
from spark_jobs.engine.executor import Executor, run_tasks
from spark_jobs.lake.cluster.cluster_settings import lake_policies
from spark_jobs.lake.segments import archive, log_actions, removals
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.segments.log_segments import GovernedLog, LogSegment, governed_logs, log_segments
from spark_jobs.lake.segments.removals import Unfinished
from spark_jobs.outlines import DoubtedLog, DueLog, DueSegment, KeptLog, OldRuns, RetentionOutline
from spark_jobs.policies.topic_policies import TopicPolicy
from spark_jobs.reads import Reads
from spark_jobs.retention import expired_rows
from spark_jobs.retention.expired_rows import ExpiryPlan

_ANY_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Leaving(DueSegment):
    """A source segment whose slices are retired."""

    segment: LogSegment


@dataclass(frozen=True, slots=True)
class RetentionLogPlan:
    """Segments of one log that are retired, oldest first."""

    row: LogRow
    leaving: tuple[Leaving, ...]
    staying: LogSegment | None
    """The first segment that stays; None where all are retired."""
    why_it_stays: tuple[str, ...]
    version: int | None

    @property
    def segments(self) -> list[Segment]:
        """The rows to retire."""
        return [segment for each in self.leaving for segment in each.segment.slices]


@dataclass(frozen=True, slots=True)
class RetentionJobPlan:
    """The work to do. The dry run prints it."""

    logs: tuple[RetentionLogPlan, ...]
    """Logs with segments to retire."""
    others: tuple[RetentionLogPlan, ...]
    """Logs with a policy and nothing to retire."""
    unfinished: Unfinished
    """What an earlier run retired but did not record."""
    in_doubt: tuple[tuple[LogRow, str], ...] = ()
    """Logs with ``from: cluster`` of which no setting of the cluster is used, and why."""
    applied: bool = False
    expiry: ExpiryPlan = field(default_factory=ExpiryPlan)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is due."""
        return not self.logs and not self.unfinished and self.expiry.is_empty

    @property
    def task_bytes(self) -> int | None:
        """Bytes of files that lose rows. Other tasks only explain what went. None: nothing goes."""
        return None if self.is_empty or not self.applied else self.expiry.task_bytes

    @property
    def outline(self) -> RetentionOutline:
        """What a report and a dry run say of it."""
        return RetentionOutline(
            tuple(map(_due, self.logs)),
            tuple(KeptLog(log.row.log, log.row.topic_partition, *_stay(log)) for log in self.others),
            self.unfinished.outline,
            tuple(DoubtedLog(row.log, row.topic_partition, why) for row, why in self.in_doubt),
            self.expiry.logs,
            self.expiry.kept,
            OldRuns(len(self.expiry.runs)) if self.expiry.runs else None,
        )


@dataclass(frozen=True, slots=True)
class ExplainTask:
    """A log of which a run retired segments."""

    row: LogRow
    policy: TopicPolicy
    then: tuple[LogSegment, ...]
    """Its segments before that."""
    retired_ms: int
    """Clock of the run that retired them."""
    left: GovernedLog | None
    """The log as it is now; None: no segment is left."""

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(self.row.topic_partition, None, self.then[0].base_offset, self.then[-1].next_offset)


@dataclass(frozen=True, slots=True)
class Explained:
    """Rule and reason by segment id, and why the first segment stays."""

    reasons: dict[str, tuple[str, str]]
    stays: log_actions.Row | None = None


def plan(config: RetentionConfig) -> RetentionJobPlan:
    """Plan what is due at the run's clock.

    Raises:
        UsageError: The policies cannot be read.
    """
    policies = lake_policies(config.policies, config.lake, config.as_of_ms)
    known = governed_logs(config.lake, policies, config.logs)
    governed = [log for log in known if log.policy.deletes or log.policy.follows_trims]
    plans = [_plan_log(log, config.as_of_ms) for log in governed]
    return RetentionJobPlan(
        tuple(log for log in plans if log.leaving),
        tuple(log for log in plans if not log.leaving),
        removals.unfinished(config.lake, config.logs),
        tuple((log.row, log.policy.doubt) for log in known if log.policy.doubt is not None),
        config.apply,
        expired_rows.plan(config.lake, policies, config.logs, config.as_of_ms),
    )


def apply(
    plan: RetentionJobPlan, config: RetentionConfig, executor: Executor | None = None
) -> JobReport[RetentionOutline]:
    """Retire what is due in one commit and record it. Without ``config.apply`` only report the plan.

    Raises:
        ConcurrentChange: A log was changed since the plan.
    """
    retired = [segment for log in plan.logs for segment in log.segments]
    report = JobReport.of(
        config,
        plan.outline,
        metrics={
            "applied": config.apply,
            "due_segments": len(retired),
            "due_bytes": sum(segment.size for segment in retired),
            "expired_rows": sum(log.records for log in plan.expiry.logs),
        },
    )
    if not config.apply:
        return report
    expired_rows.apply(plan.expiry, config.lake, config.run_id, config.as_of_ms, executor)
    if retired:
        planned = {log.row.log: log.version for log in plan.logs}
        archive.swap_segments(config.lake, retired, [], planned, config.run_id, config.as_of_ms, archive.RETENTION)
    reasons, stays = _explain(config, executor)
    finished = removals.finish(config.lake, config.run_id, config.logs, reasons, stays)
    return replace(report, changed=expired_rows.with_changes(plan.expiry, removals.changes(finished)))


def _due(log: RetentionLogPlan) -> DueLog:
    size, due = sum(segment.size for segment in log.segments), tuple(map(DueSegment.of, log.leaving))
    return DueLog(log.row.log, log.row.topic_partition, log.leaving[-1].next_offset, size, due, *_stay(log))


def _stay(log: RetentionLogPlan) -> tuple[int | None, tuple[str, ...]]:
    if log.staying is None:
        return None, ("nothing stays: the log continues at its end",)
    return log.staying.base_offset, log.why_it_stays


def _plan_log(log: GovernedLog, as_of_ms: int) -> RetentionLogPlan:
    limit = _limit(log.row, log.published_to, log.validated_to)
    decision = _decide(log.segments, log.row, log.policy, as_of_ms, limit)
    by_base = {segment.base_offset: segment for segment in log.segments}
    leaving = tuple(
        Leaving(s.base_offset, s.next_offset, s.facts.size, str(d.rule), _why(d), _due_since(d, log.policy), s)
        for d, s in ((d, by_base[d.segment.base_offset]) for d in decision.deletions)
    )
    staying = by_base[decision.stays[0].segment.base_offset] if decision.stays else None
    why = _why_it_stays(decision, staying, log.row, log.published_to, log.validated_to)
    return RetentionLogPlan(log.row, leaving, staying, why, log.version)


def _limit(row: LogRow, published_to: int, validated_to: int) -> int:
    """The limit: segments that end above it stay."""
    return min(row.publish_limit(), published_to, validated_to)


def _decide(
    segments: Sequence[LogSegment], row: LogRow, policy: TopicPolicy, as_of_ms: int, limit: int
) -> Decision[RetentionFacts]:
    log_start_offset = row.log_start_offset
    if policy.follows_trims:
        log_start_offset = max(log_start_offset, row.source_log_start_offset)
    return decide(
        [segment.facts for segment in segments],
        retention_ms=policy.retention_ms,
        retention_bytes=policy.retention_bytes,
        as_of_ms=as_of_ms,
        high_watermark=limit,
        log_start_offset=log_start_offset,
        log_end_offset=segments[-1].next_offset,
        cleanup_policy=policy.cleanup_policy,
    )


def _why(deletion: Deletion[RetentionFacts]) -> str:
    timestamp = deletion.segment.max_timestamp
    if deletion.rule is RetentionRule.RETENTION_MS and (timestamp is None or timestamp < 0):
        return f"{deletion.why} (no batch of it has a timestamp: its file's modification time is used instead)"
    return deletion.why


def _due_since(deletion: Deletion[RetentionFacts], policy: TopicPolicy) -> int | None:
    if deletion.rule is not RetentionRule.RETENTION_MS or policy.retention_ms is None:
        return None
    return deletion.segment.largest_timestamp + policy.retention_ms


def _why_it_stays(
    decision: Decision[RetentionFacts], staying: LogSegment | None, row: LogRow, published_to: int, validated_to: int
) -> tuple[str, ...]:
    """Reasons why the segment stays. If a guard keeps it, the guard is the only reason, because no rule was
    evaluated.
    """
    if staying is None:
        return ()
    guards = [
        (row.publish_limit(), "committed"),
        (validated_to, "validated"),
        (published_to, "published"),
    ]
    for limit, what in guards:
        if staying.next_offset > limit:
            return (f"it ends at offset {staying.next_offset}, and only offsets below {limit} are {what}",)
    return decision.stays[0].why


def _explain(
    config: RetentionConfig, executor: Executor | None
) -> tuple[dict[str, tuple[str, str]], list[log_actions.Row]]:
    """Rule and reason of every retired segment that is not recorded yet, and the reason why each log's first segment
    stayed.

    Both are computed at the clock of the run that retired. They are read from the tables after the swap even if the
    plan is known, so that a run that completes another's work writes the same rows. If the policy has changed since,
    the reason is unknown and left out.
    """
    policies = lake_policies(config.policies, config.lake, config.as_of_ms)
    pending = [r for r in removals.unfinished(config.lake, config.logs).actions if r.action == archive.RETENTION]
    rows = archive.read_logs(config.lake, sorted({r.segment.log for r in pending}))
    segments = archive.read_segments(config.lake, sorted(rows), live=False)
    governed = {log.row.log: log for log in governed_logs(config.lake, policies, sorted(rows))} if rows else {}
    tasks: list[ExplainTask] = []
    for log, retired_ms in sorted({(r.segment.log, r.segment.retired_ms or 0) for r in pending}):
        policy = policies.for_log(rows[log].topic, rows[log].topic_id)
        if policy is None:
            continue
        gone = {r.segment.segment_id for r in pending if (r.segment.log, r.segment.retired_ms) == (log, retired_ms)}
        then = log_segments([s for s in segments if s.log == log and (s.segment_id in gone or s.retired_ms is None)])
        tasks.append(ExplainTask(rows[log], policy, tuple(then), retired_ms, governed.get(log)))
    done = run_tasks(executor, explain, tasks, [0] * len(tasks))
    explained = {segment_id: reason for each in done for segment_id, reason in each.reasons.items()}
    return explained, [each.stays for each in done if each.stays is not None]


def explain(task: ExplainTask) -> Explained:
    """Explain what a run retired of one log. Runs in a worker."""
    by_base = {segment.base_offset: segment for segment in task.then}
    deletions = _decide(task.then, task.row, task.policy, task.retired_ms, _ANY_OFFSET).deletions
    reasons = {
        segment.segment_id: (str(deletion.rule), _why(deletion))
        for deletion in deletions
        for segment in by_base[deletion.segment.base_offset].slices
    }
    now = None if task.left is None else _plan_log(task.left, task.retired_ms)
    if now is None or now.staying is None or now.leaving:
        return Explained(reasons)
    first, why = now.staying.slices[0], "; ".join(now.why_it_stays)
    kept = log_actions.row_about(
        first, "keep", "retention", why, task.retired_ms, bytes_after=first.size, records=(None, None)
    )
    return Explained(reasons, kept)
