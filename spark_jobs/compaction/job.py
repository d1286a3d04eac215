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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from logcore.logs.compaction.selection import RefusalReason
from logcore.logs.model.findings import found
from spark_jobs.compaction.plan import CompactionJobPlan, CompactionLogPlan, cleaned_id, plan
from spark_jobs.contracts import CompactionConfig, JobReport
from spark_jobs.errors import ConcurrentChange
from spark_jobs.lake.delta.commits import commit_guards, file_commits, row_commits
from spark_jobs.lake.delta.commits.commit_guards import Guard
from spark_jobs.lake.delta.tables.table_rows import read_rows
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.retries import retried
from spark_jobs.lake.segments import archive, removals
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.removals import Removal
from spark_jobs.lake.table_schemas import VALIDATIONS
from spark_jobs.outlines import CompactionOutline
from spark_jobs.placed_finding import PlacedFinding

if TYPE_CHECKING:
    from spark_jobs.compaction.log_cleaning import CleaningResult, DamagedPlace, Replacement
    from spark_jobs.tasks.executor import Executor

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
        used_executor=executor is not None,
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
    from spark_jobs.compaction.log_cleaning import clean_log, task_of

    # Only the kernels clean in many tasks.
    spread = [log for log in plan.logs if log.is_spread]
    if spread and not is_chosen(Work.CLEAN):
        spread = []
    whole = [log for log in plan.logs if log not in spread]
    tasks = [task_of(config, log) for log in whole]
    results = executor.run(clean_log, tasks, [log.bytes for log in whole])
    done = [_cleaned(log, result) for log, result in zip(whole, results, strict=True)]
    for log in spread:
        from spark_jobs.compaction.spread.spread_cleaning import clean_spread

        done.append(replace(_cleaned(log, clean_spread(executor, task_of(config, log))), was_spread=True))
    return done


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
    where: list[tuple[str, str, object]] = [("segment_id", "in", sorted(replaced))]
    there = set(read_rows(config.lake, "validations", ["segment_id"], where)["segment_id"].to_pylist())
    rows = [
        each.counts.row(each.segment, config.as_of_ms)
        for identity, each in sorted(replaced.items())
        if identity not in there
    ]
    row_commits.append(config.lake, "validations", pa.Table.from_pylist(rows, schema=VALIDATIONS), config.run_id)


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
        file_commits.add_files(config.lake, "segments", [], config.run_id, guards)
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
    cleaned = commit_guards.versions(lake, "segments", [cleaned_id(log) for log in names])
    return [
        log
        for log in logs
        if versions[log.plan.row.log] == log.plan.version
        and cleaned[cleaned_id(log.plan.row.log)] == log.plan.cleaned_version
    ]
