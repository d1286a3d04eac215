"""``compaction``: cleans the archive by key as a broker of a given version would, by the topics' policies.

    select   logs dirty beyond `min.cleanable.dirty.ratio`, and how far they may be cleaned     (driver, no JVM)
    clean    one task a log, or many for a large one: new files, read again and proven          (workers)
    swap     one commit: old rows retired, new ones in, and how far each log is clean now       (driver)
    record   `log_actions` and the ledger's `archived`
    again    with `log.cleaner.dedupe.buffer.size`: another round of the logs whose map was full

Only offsets below the frontier are cleaned, so no unpublished offset is removed. Cleaning also ends before offsets that
arrived late and are not published yet, and before missing offsets: while these may still arrive, no record after them
is known to be obsolete. A group of segments with damage stays as it is, with a finding that names the place. The other
groups of its log are cleaned, and the log counts as clean up to the damage. Without ``apply`` only the plan is made.

How far a log is clean is the version of application ``cleaned/<log>`` in the table ``segments``. It is Kafka's cleaner
checkpoint, recorded in the same commit as the swap. A log that changed since its plan is left out of the commit and
planned again; the other logs are committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from logcore.logs.compaction.selection import CleanableRange, RefusalReason, cleanable_range, is_overdue, why_not_now
from logcore.logs.model.findings import found
from spark_jobs.contracts import CompactionConfig, JobReport
from spark_jobs.errors import ConcurrentChange
from spark_jobs.lake.cluster.cluster_settings import lake_policies
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.retries import retried
from spark_jobs.lake.segments import archive, log_directory, removals
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.segments.log_segments import GovernedLog, governed_logs
from spark_jobs.lake.segments.removals import Removal, Unfinished
from spark_jobs.lake.table_specs import VALIDATIONS
from spark_jobs.outlines import CompactionOutline, DirtyLog, NotCleaned
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.policies.topic_policies import TopicPolicy

if TYPE_CHECKING:
    from spark_jobs.compaction.log_cleaning import CleaningResult, CleaningTask, DamagedPlace, Replacement
    from spark_jobs.engine.executor import Executor


__all__ = ["apply", "plan"]


def apply(plan: CompactionJobPlan, config: CompactionConfig, executor: Executor | None) -> JobReport[CompactionOutline]:
    """Clean, prove, swap in one commit, and record it. Without ``config.apply`` only report the plan.

    Raises:
        ConcurrentChange: A log changed since the plan. The other logs are cleaned.
    """
    report = JobReport.of(
        config,
        plan.outline,
        metrics={"applied": config.apply, "due_logs": len(plan.logs)},
    )
    if not config.apply:
        return report
    done: list[Cleaned] = []
    finished: list[Removal] = []
    new: list[PlacedFinding] = []
    rounds = 0
    round: CompactionJobPlan | None = plan
    while round is not None:
        of_round = _clean(round, config, executor)
        _commit_validations(config, of_round)
        overtaken = _swap(config, of_round)
        new += finding_rows.record(config.lake, _findings_of(of_round), config.run_id, config.as_of_ms)
        finished += removals.finish(config.lake, config.run_id, config.logs)
        if overtaken is not None:
            raise overtaken
        done += of_round
        rounds += bool(of_round)
        round = _next_round(config, of_round)
    replaced = [each for log in done for each in log.replaced]
    cleaned = [removal for removal in finished if removal.replacement is not None]
    metrics = {
        "applied": True,
        "due_logs": len(plan.logs),
        "rounds": rounds,
        "cleaned_logs": len({log.plan.row.log for log in done if log.moves}),
        "spread_logs": len({log.plan.row.log for log in done if log.was_spread}),
        "replaced_segments": sum(len(each.sources) for each in replaced),
        "removed_records": sum(r.records_before - r.records_after for r in cleaned),
    }
    return replace(
        report,
        changed=removals.changes(finished),
        findings=tuple(new),
        metrics=metrics,
    )


def _next_round(config: CompactionConfig, done: Sequence[Cleaned]) -> CompactionJobPlan | None:
    """Plan another round of the logs whose map was full; None if there is none, or none of them is dirty enough.

    A broker's cleaner also takes such a log again at once.
    """
    logs = tuple(log.plan.row.log for log in done if log.needs_another_round)
    if not logs:
        return None
    again = plan(replace(config, logs=logs))
    return again if again.logs else None


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The result for one log."""

    plan: CompactionLogPlan
    replaced: tuple[Replacement, ...] = ()
    first_dirty_offset: int | None = None
    """How far the log is clean now; None: nothing was done."""
    findings: tuple[PlacedFinding, ...] = ()
    was_spread: bool = False
    """Whether many tasks cleaned it."""
    map_was_full: bool = False
    """As in `CleaningResult`."""

    @property
    def moves(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.replaced) or self.first_dirty_offset not in (None, self.plan.cleaned_version)

    @property
    def needs_another_round(self) -> bool:
        """Whether the map was full, and another round would begin later. Damage can keep it from that."""
        return self.map_was_full and (self.first_dirty_offset or 0) > self.plan.first_dirty

    @property
    def retired(self) -> list[Segment]:
        """The segments that are replaced."""
        gone = {identity for each in self.replaced for identity in each.sources}
        return [segment for segment in self.plan.segments if segment.segment_id in gone]

    @property
    def guards(self) -> list[Guard]:
        """How far the log is clean: the expected value, and the one that the swap sets."""
        assert self.first_dirty_offset is not None
        return [Guard(cleaned_id(self.plan.row.log), self.plan.cleaned_version, self.first_dirty_offset)]


def _clean(plan: CompactionJobPlan, config: CompactionConfig, executor: Executor | None) -> list[Cleaned]:
    if not plan.logs or executor is None:
        return []
    from logcore.columns.kernels.families import Work
    from logcore.columns.kernels.library import is_chosen
    from spark_jobs.compaction.log_cleaning import clean_log

    # Only the kernels clean in many tasks.
    spread = [log for log in plan.logs if log.is_spread]
    if spread and not is_chosen(Work.CLEAN):
        spread = []
    whole = [log for log in plan.logs if log not in spread]
    tasks = [_task(config, log) for log in whole]
    results = executor.run(clean_log, tasks, [log.bytes for log in whole])
    done = [_cleaned(log, result) for log, result in zip(whole, results, strict=True)]
    for log in spread:
        from spark_jobs.compaction.spread_cleaning import clean_spread

        done.append(replace(_cleaned(log, clean_spread(executor, _task(config, log))), was_spread=True))
    return done


def _task(config: CompactionConfig, log: CompactionLogPlan) -> CleaningTask:
    """The task that a worker gets for a log."""
    from spark_jobs.compaction.log_cleaning import CleaningTask

    return CleaningTask(
        lake=config.lake,
        segments=log.segments,
        config=log.policy.config,
        line=log.policy.line,
        as_of_ms=config.as_of_ms,
        limit_offset=log.limit_offset,
        first_dirty_offset=log.cleaned_version,
        log_start_offset=log.row.log_start_offset,
        high_watermark=log.row.publish_limit(),
    )


def _cleaned(log: CompactionLogPlan, result: CleaningResult) -> Cleaned:
    row = log.row
    findings = []
    if result.refusal is not None:
        if result.refusal.reason is RefusalReason.NOTHING_CLEANABLE:
            return Cleaned(log)
        message = f"{row.topic_partition} is not cleaned ({result.refusal.reason}): {result.refusal.message}."
        findings.append(_finding("compaction-refused", log, message))
    elif result.unproven is not None:
        message = f"{row.topic_partition} is not cleaned: {result.unproven}."
        findings.append(_finding("compaction-unproven", log, message))
    for damage in result.damage:
        message = (
            f"{row.topic_partition}: the segment at base offset {damage.base_offset} is not cleaned, because bytes "
            f"at position {damage.position}, offset {damage.offset}, cannot be trusted: {damage.message}. "
            "No tombstone and no marker after them is removed until they are repaired."
        )
        findings.append(_finding("compaction-refused", log, message, damage))
    if result.refusal is not None or result.unproven is not None:
        return Cleaned(log, findings=tuple(findings))
    return Cleaned(log, result.replaced, result.first_dirty_offset, tuple(findings), map_was_full=result.map_was_full)


def _finding(rule: str, log: CompactionLogPlan, message: str, damage: DamagedPlace | None = None) -> PlacedFinding:
    finding = found(rule, message, start_offset=log.first_dirty, end_offset=log.end_offset)
    if damage is not None:
        finding = replace(finding, file=damage.file, position=damage.position)
    segment_id = None if damage is None else damage.segment_id
    return PlacedFinding(finding, log.row.log, log.row.topic, log.row.partition, segment_id)


def _findings_of(done: Sequence[Cleaned]) -> list[PlacedFinding]:
    return [placed for log in done for placed in log.findings]


def _commit_validations(config: CompactionConfig, done: Sequence[Cleaned]) -> None:
    """Before the swap, because a live segment must be validated. A run that was killed here left the same rows."""
    replaced = {each.segment.segment_id: each for log in done for each in log.replaced}
    if not replaced:
        return
    there = archive.read_validations(config.lake, sorted(replaced))
    rows = [
        each.counts.row(each.segment, config.as_of_ms)
        for identity, each in sorted(replaced.items())
        if identity not in there
    ]
    commits.append(config.lake, "validations", pa.Table.from_pylist(rows, schema=VALIDATIONS), config.run_id)


def _swap(config: CompactionConfig, done: Sequence[Cleaned]) -> ConcurrentChange | None:
    """Make one commit for all logs, including those without obsolete records: they are clean up to here.

    Returns:
        Why some logs were left out, if any: their guards moved since the plan, so they must be planned again.
    """
    moving = [log for log in done if log.moves]

    def attempt() -> list[Cleaned]:
        left = _not_overtaken(config.lake, moving)
        if left:
            _commit_swap(config, left)
        return left

    try:
        swapped = {log.plan.row.log for log in retried(attempt)}
    except ConcurrentChange as error:
        return error
    overtaken = [log.plan.row.topic_partition for log in moving if log.plan.row.log not in swapped]
    return ConcurrentChange(f"{', '.join(overtaken)}: changed since the plan.") if overtaken else None


def _commit_swap(config: CompactionConfig, logs: Sequence[Cleaned]) -> None:
    guards = [guard for log in logs for guard in log.guards]
    versions = {log.plan.row.log: log.plan.version for log in logs}
    retired = [segment for log in logs for segment in log.retired]
    touched = {segment.log for segment in retired}
    guards += [archive.guard_of(log, version) for log, version in versions.items() if log not in touched]
    if not retired:
        commits.add_files(config.lake, "segments", [], config.run_id, guards)
        return
    archive.swap_segments(
        config.lake,
        retired,
        [each.segment for log in logs for each in log.replaced],
        {log: versions[log] for log in touched},
        config.run_id,
        config.as_of_ms,
        archive.COMPACTION,
        {old: each.segment.segment_id for log in logs for each in log.replaced for old in each.sources},
        guards,
    )


def _not_overtaken(lake: str, logs: Sequence[Cleaned]) -> list[Cleaned]:
    """The logs whose guards have not moved."""
    names = [log.plan.row.log for log in logs]
    versions = archive.planned_versions(lake, names)
    cleaned = commits.versions(lake, "segments", [cleaned_id(log) for log in names])
    return [
        log
        for log in logs
        if versions[log.plan.row.log] == log.plan.version
        and cleaned[cleaned_id(log.plan.row.log)] == log.plan.cleaned_version
    ]


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
    cleaned = commits.versions(lake, "segments", [cleaned_id(log) for log in logs])
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
