"""``compaction``: the archive cleaned by key as a broker of a stated line would clean it, as its topics' policies say.

    select   logs dirty beyond `min.cleanable.dirty.ratio`, and how far they may be cleaned     (driver, no JVM)
    clean    one task a log, or many for a large one: new files, read again and proven          (workers)
    swap     one commit: old rows retired, new ones in, and how far each log is clean now       (driver)
    tell     `log_actions` and the ledger's `archived`

Only offsets below the frontier are looked at, so nothing unpublished leaves; nor is anything looked at from where
offsets came late, below the frontier, and are not published yet, or are missing: while they may come yet, nothing above
them can be told to be garbage. A group of segments in which damage was
found stays as it is, with a finding that names the place; the others of its log go on, and the log counts as clean up
to the damage. Without ``apply`` only the plan is made.

How far a log is clean is the version of application ``cleaned/<log>`` in the table ``segments``: Kafka's cleaner
checkpoint, recorded in the same commit as the swap. A log that was touched since its plan is left out of the commit and
planned again; the others are not held up by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from logcore.logs.compaction.selection import RefusalReason
from logcore.logs.model.findings import found
from spark_jobs.compaction.plan import CompactionJobPlan, CompactionLogPlan, cleaned_id, plan
from spark_jobs.contracts import CompactionConfig, JobReport
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.tables import VALIDATIONS, read_rows
from spark_jobs.lake.errors import ConcurrentChange
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.ledger.finding_rows import PlacedFinding
from spark_jobs.lake.segments import archive, removals
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.store import run_folder
from spark_jobs.tasks.segment_pass import RULES_VERSION

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor

__all__ = ["apply", "plan"]

SWAP_ATTEMPTS = 5
"""How often the swap is tried where others commit to `segments` meanwhile."""


def apply(plan: CompactionJobPlan, config: CompactionConfig, executor: Executor | None) -> JobReport:
    """Clean, prove, swap in one commit, and tell of it; without ``config.apply`` only report the plan.

    Raises:
        ConcurrentChange: a log was touched since the plan; the others are cleaned.
    """
    report = JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        plan=plan.as_dict(),
        metrics={"applied": config.apply, "due_logs": len(plan.logs)},
    )
    if not config.apply:
        return report
    if plan.has_leftovers:
        run_folder.remove(config.lake)
    done = _clean(plan, config, executor)
    _commit_validations(config, done)
    overtaken = _swap(config, done)
    new = finding_rows.record(config.lake, _findings_of(done), config.run_id, config.as_of_ms)
    finished = removals.finish(config.lake, config.run_id, config.logs)
    if overtaken is not None:
        raise overtaken
    replaced = [each for log in done for each in log.replaced]
    cleaned = [removal for removal in finished if removal.replacement is not None]
    metrics = {
        "applied": True,
        "due_logs": len(plan.logs),
        "cleaned_logs": sum(log.moves for log in done),
        "spread_logs": sum(log.plan.is_spread for log in done),
        "replaced_segments": sum(len(each["sources"]) for each in replaced),
        "removed_records": sum(r.records_before - r.records_after for r in cleaned),
    }
    return replace(
        report,
        changed=removals.changes(finished),
        findings=tuple(new),
        used_spark=executor is not None,
        metrics=metrics,
    )


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What came of one log; ``replaced`` as `log_cleaning.clean_log` gives it."""

    plan: CompactionLogPlan
    replaced: tuple[Mapping[str, Any], ...] = ()
    first_dirty_offset: int | None = None
    """How far it is clean now; None: nothing was done."""
    findings: tuple[PlacedFinding, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.replaced) or self.first_dirty_offset not in (None, self.plan.cleaned_version)

    @property
    def retired(self) -> list[Segment]:
        """The segments that others take the place of."""
        gone = {identity for each in self.replaced for identity in each["sources"]}
        return [segment for segment in self.plan.segments if segment.segment_id in gone]

    @property
    def guards(self) -> list[Guard]:
        """How far the log is clean: as it must be found, and as the swap leaves it."""
        assert self.first_dirty_offset is not None
        return [Guard(cleaned_id(self.plan.row.log), self.plan.cleaned_version, self.first_dirty_offset)]


def _clean(plan: CompactionJobPlan, config: CompactionConfig, executor: Executor | None) -> list[Cleaned]:
    if not plan.logs or executor is None:
        return []
    from spark_jobs.compaction.log_cleaning import clean_log, task_of

    whole = [log for log in plan.logs if not log.is_spread]
    tasks = [asdict(task_of(config, log)) for log in whole]
    results = executor.run(tasks, clean_log, [log.bytes for log in whole])
    done = [_cleaned(log, result) for log, result in zip(whole, results, strict=True)]
    for log in plan.logs:
        if log.is_spread:
            from spark_jobs.compaction.spread_cleaning import clean_spread

            done.append(_cleaned(log, clean_spread(executor, task_of(config, log))))
    return done


def _cleaned(log: CompactionLogPlan, result: Mapping[str, Any]) -> Cleaned:
    row = log.row
    findings = []
    if result["refusal"] is not None:
        reason, message = result["refusal"]
        if reason == str(RefusalReason.NOTHING_CLEANABLE):
            return Cleaned(log)
        findings.append(
            _finding("compaction-refused", log, f"{row.topic_partition} is not cleaned ({reason}): {message}.")
        )
    elif result["unproven"] is not None:
        message = f"{row.topic_partition} is not cleaned: {result['unproven']}."
        findings.append(_finding("compaction-unproven", log, message))
    for damage in result["damage"]:
        message = (
            f"{row.topic_partition}: the segment at base offset {damage['base_offset']} is not cleaned, because bytes "
            f"at position {damage['position']}, offset {damage['offset']}, cannot be trusted: {damage['message']}. "
            "No tombstone and no marker behind them leaves the log until they are repaired."
        )
        findings.append(_finding("compaction-refused", log, message, damage))
    if result["refusal"] is not None or result["unproven"] is not None:
        return Cleaned(log, findings=tuple(findings))
    return Cleaned(log, tuple(result["replaced"]), result["first_dirty_offset"], tuple(findings))


def _finding(rule: str, log: CompactionLogPlan, message: str, damage: Mapping[str, Any] | None = None) -> PlacedFinding:
    place = {} if damage is None else {"file": damage["file"], "position": damage["position"]}
    finding = found(rule, message, start_offset=log.first_dirty, end_offset=log.end_offset, **place)
    segment_id = None if damage is None else damage["segment_id"]
    return PlacedFinding(finding, log.row.log, log.row.topic, log.row.partition, segment_id)


def _findings_of(done: Sequence[Cleaned]) -> list[PlacedFinding]:
    return [placed for log in done for placed in log.findings]


def _commit_validations(config: CompactionConfig, done: Sequence[Cleaned]) -> None:
    """Before the swap: a live segment is a validated one. A run that died here left the same rows behind."""
    replaced = {each["segment"]["segment_id"]: each for log in done for each in log.replaced}
    if not replaced:
        return
    where: list[tuple[str, str, object]] = [("segment_id", "in", sorted(replaced))]
    there = set(read_rows(config.lake, "validations", ["segment_id"], where)["segment_id"].to_pylist())
    rows = [
        {name: each["segment"][name] for name in ("segment_id", "log", "topic", "log_id", "partition", "base_offset")}
        | each["validation"]
        | {"rules_version": RULES_VERSION, "file_bytes": each["segment"]["size"], "digest": each["segment"]["digest"]}
        | {"as_of_ms": config.as_of_ms}
        for identity, each in sorted(replaced.items())
        if identity not in there
    ]
    commits.append(config.lake, "validations", pa.Table.from_pylist(rows, schema=VALIDATIONS), config.run_id)


def _swap(config: CompactionConfig, done: Sequence[Cleaned]) -> ConcurrentChange | None:
    """One commit for all logs, also for those in which nothing was obsolete: they are clean up to here.

    Returns:
        Why some were left out, if they were: their guards moved since the plan, and they are to be planned again.
    """
    left = [log for log in done if log.moves]
    overtaken: ConcurrentChange | None = None
    for _ in range(SWAP_ATTEMPTS):
        if not left:
            return overtaken
        try:
            _commit_swap(config, left)
        except ConcurrentChange as error:
            overtaken = error
            left = _not_overtaken(config.lake, left)
        else:
            return overtaken if len(left) < sum(log.moves for log in done) else None
    return overtaken


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
        [Segment(**each["segment"]) for log in logs for each in log.replaced],
        {log: versions[log] for log in touched},
        config.run_id,
        config.as_of_ms,
        archive.COMPACTION,
        {old: each["segment"]["segment_id"] for log in logs for each in log.replaced for old in each["sources"]},
        guards,
    )


def _not_overtaken(lake: str, logs: Sequence[Cleaned]) -> list[Cleaned]:
    """Those whose guards stand where they did."""
    names = [log.plan.row.log for log in logs]
    versions = archive.planned_versions(lake, names)
    cleaned = commits.versions(lake, "segments", [cleaned_id(log) for log in names])
    return [
        log
        for log in logs
        if versions[log.plan.row.log] == log.plan.version
        and cleaned[cleaned_id(log.plan.row.log)] == log.plan.cleaned_version
    ]
