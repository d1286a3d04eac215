"""The steps of maintenance: each runs its job where a policy says so, or shows its plan.

The checks of a step are answered from the report of its job and the lake after it. A check has no answer if there was
nothing to look at, for instance because no topic has such a policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from logcore.logs.model.findings import Severity, offsets_text
from spark_jobs.contracts import (
    CompactionConfig,
    JobConfig,
    JobReport,
    OptimizeConfig,
    RebuildIndexesConfig,
    RetentionConfig,
    TidyArchiveConfig,
    as_values,
)
from spark_jobs.lake.view.harm import Harm, look_at_archive
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.lake.view.open_transactions import duration
from spark_jobs.outlines import (
    CompactionOutline,
    IndexesOutline,
    LogOutline,
    OptimizeOutline,
    Outline_co,
    RetentionOutline,
    TidyOutline,
)
from spark_jobs.placed_finding import PlacedFinding

from ..metadata.values import JsonValue, Metadata, Observation, PathValue, table_value
from .check_definitions import (
    ARCHIVE_BYTES_MATCH,
    COMPACTED,
    INDEXES,
    INDEXES_WRITTEN,
    NO_CLEANING_REFUSED,
    NO_FILE_WAITS_FOR_DELETION,
    OPTIMIZED,
    RETAINED,
    RETENTION_CARRIED_OUT,
    TABLE_FILES_SOUND,
    TIDY,
    CheckAnswer,
    Failure,
    counted,
)
from .checks import failure_of
from .outcome import StepResult
from .steps import Run, publish_waiting, restricted


def retain(run: Run) -> StepResult:
    """Retire segments by ``retention.ms`` and ``retention.bytes``, where a policy says so.

    Before that, publish what waits in the archive to ``records_uncommitted``, if a run without sources requests it.
    """
    publish_waiting(run)
    return _planned_or_done(
        run,
        RETAINED,
        lambda logs: RetentionConfig(run.lake, run.run_id, run.as_of_ms, run.policies, logs, run.request.apply),
        lambda state, report: [retention_carried_out(state, report, run.as_of_ms, run.request.apply)],
    )


def compact(run: Run) -> StepResult:
    """Clean logs by key, where a policy says so."""
    return _planned_or_done(
        run,
        COMPACTED,
        lambda logs: CompactionConfig(run.lake, run.run_id, run.as_of_ms, run.policies, logs, run.request.apply),
        lambda state, report: [no_cleaning_refused(state, report)],
    )


def tidy_archive(run: Run) -> StepResult:
    """Delete archive files that are no longer needed, and join small slices."""
    done = _planned_or_done(
        run,
        TIDY,
        lambda logs: TidyArchiveConfig(run.lake, run.run_id, run.as_of_ms, run.policies, run.request.apply),
        lambda state, report: [
            archive_bytes_match(state, look_at_archive(run.lake)),
            no_file_waits_for_deletion(state, report, run.request.apply),
        ],
    )
    did = {name: count for report in done.reports for name, count in report.metrics.items() if count}
    if did:  # also changes that belong to no log
        figures: Metadata = {"lake": PathValue(run.lake), "did": JsonValue(did)}
        done.observations.append(Observation(TIDY, figures))
    return done


def rebuild_indexes(run: Run) -> StepResult:
    """Write the side files of live segments that lack them."""
    return _planned_or_done(
        run,
        INDEXES,
        lambda logs: RebuildIndexesConfig(run.lake, run.run_id, run.as_of_ms, run.policies, logs, run.request.apply),
        lambda state, report: [indexes_written(restricted(state, run.logs()), report, run.request.apply)],
    )


def optimize(run: Run) -> StepResult:
    """Merge small files of the tables in their order, and remove files that are no longer needed."""
    return _planned_or_done(
        run,
        OPTIMIZED,
        lambda logs: OptimizeConfig(run.lake, run.run_id, run.as_of_ms, run.request.apply, policies=run.policies),
        lambda state, report: [table_files_sound(state, report)],
    )


def _planned_or_done(
    run: Run,
    asset: str,
    config: Callable[[tuple[str, ...] | None], JobConfig[Outline_co]],
    answers: Callable[[LakeState, JobReport[Outline_co]], Sequence[CheckAnswer]],
) -> StepResult:
    """Run a maintenance job. Without `apply` there is only a plan, which is shown to the user.

    Args:
        config: Makes the configuration of the job, for log keys.
        answers: Answers the checks of the step, from the lake after the job and the job's report.
    """
    logs = run.logs()
    if logs == ():
        return StepResult()
    report = run.start(config(logs))
    state = run.state()
    done = StepResult(state=state, answers=[*answers(state, report)])
    if run.request.apply:
        done.reports.append(report)
        return done
    done.plans[asset] = report.plan
    done.observations.append(
        Observation(
            asset,
            {"lake": PathValue(run.lake), "plan": JsonValue(as_values(report.plan))},
            "A plan only: nothing was changed. Run with apply to carry it out.",
        )
    )
    return done


OLD_MS = 7 * 86_400_000
"""Time after which planned work should have been done."""


def retention_carried_out(
    state: LakeState, report: JobReport[RetentionOutline], as_of_ms: int, applied: bool
) -> CheckAnswer:
    """Check that what is due by age was retired.

    Args:
        state: The lake after the job.
        report: Of the job ``retention``.
        as_of_ms: The clock of the run.
        applied: Whether the job was allowed to act.
    """
    due = report.plan.logs
    kept = report.plan.rows_kept
    looked_at = len(due) + len(report.plan.nothing_due) + len(kept)
    if not looked_at:
        return RETENTION_CARRIED_OUT.unanswered(f"No segment of the lake {state.name} has a policy with retention.")
    failures = [_planned(state, log, f"rows do not expire: {log.why}") for log in kept]
    for log in due:
        ages = [as_of_ms - segment.due_since_ms for segment in log.segments if segment.due_since_ms is not None]
        if not applied and ages and max(ages) > OLD_MS:
            what = f"{counted(len(ages), 'segment')} due by retention.ms, the first for {duration(max(ages))}"
            failures.append(_planned(state, log, what))
    done = "retired in this run" if applied else "due; this run only planned"
    segments = sum(len(log.segments) for log in due)
    return RETENTION_CARRIED_OUT.answer(
        state.lake,
        failures,
        f"{counted(looked_at, 'log')} with a policy, {counted(segments, 'segment')} {done}",
        {
            "logs with a policy": looked_at,
            "segments": segments,
            "bytes": sum(log.bytes for log in due),
            "expired rows": sum(log.records for log in report.plan.rows),
            "applied": applied,
        },
        is_of_plan=not applied,
    )


def no_cleaning_refused(state: LakeState, report: JobReport[CompactionOutline]) -> CheckAnswer:
    """Check that no log could not be cleaned.

    Args:
        state: The lake after the job.
        report: Of the job ``compaction``.
    """
    due, passed = report.plan.logs, report.plan.passed
    if not due and not passed and not report.findings:
        return NO_CLEANING_REFUSED.unanswered(f"No segment of the lake {state.name} has a policy with compact.")
    failures = [_planned(state, each, f"not cleaned: {each.reason}") for each in passed if each.refused]
    failures += _of_findings(state, report.findings)
    return NO_CLEANING_REFUSED.answer(
        state.lake,
        failures,
        f"{counted(len(due), 'log')} due, {counted(len(passed), 'log')} not due, none refused",
        {"logs due": len(due), "logs refused": len({failure.log for failure in failures})},
    )


def archive_bytes_match(state: LakeState, harm: Sequence[Harm]) -> CheckAnswer:
    """Check that the archive's files have the bytes that the table says.

    Args:
        state: The lake after the job.
        harm: Files of the archive that are gone or changed.
    """
    segments = sum(log.segments for log in state.logs)
    if not segments and not harm:
        return ARCHIVE_BYTES_MATCH.unanswered(f"The archive of the lake {state.name} has no segment.")
    size = sum(log.archive_bytes for log in state.logs)
    return ARCHIVE_BYTES_MATCH.answer(
        state.lake,
        [failure_of(each) for each in harm],
        f"{counted(size, 'byte')} in {counted(segments, 'segment')} of lake {state.name}",
        {"segments": segments, "bytes by the table": size, "files that differ": len(harm)},
    )


def no_file_waits_for_deletion(state: LakeState, report: JobReport[TidyOutline], applied: bool) -> CheckAnswer:
    """Check that files that are no longer needed could be deleted, in time.

    Args:
        state: The lake after the job.
        report: Of the job ``tidy_archive``.
        applied: Whether the job was allowed to act.
    """
    if not any(log.segments for log in state.logs):
        return NO_FILE_WAITS_FOR_DELETION.unanswered(f"The archive of the lake {state.name} has no segment.")
    kinds = report.plan.deletable, report.plan.orphans
    late = [] if applied else [file for kind in kinds for file in kind.files if file.waits_ms > OLD_MS]
    failures = [
        Failure(f"waits for its deletion for {duration(file.waits_ms)}", severity=Severity.WARNING, file=file.path)
        for file in late
    ]
    failures += _of_findings(state, (each for each in report.findings if each.finding.rule == "archive-not-deleted"))
    count, size = sum(kind.count for kind in kinds), sum(kind.bytes for kind in kinds)
    done = "deleted in this run" if applied else "can be deleted; this run only planned"
    shown: Metadata = {"files": count, "bytes": size, "applied": applied}
    kept = report.plan.kept.segments
    if kept:
        rows: list[list[str | int | None]] = [[each.log, each.base_offset, each.reason] for each in kept]
        shown = {**shown, "kept after their delay": table_value(["log", "base offset", "reason"], rows)}
    what, notes = f"{counted(count, 'file')} {done}", []
    if (orphans := report.plan.kept_orphans).count:
        of_archive = f"{counted(orphans.count, 'file')} of the archive, {counted(orphans.bytes, 'byte')}"
        notes.append(f"kept, though no segment has it: {of_archive}. There may be no other copy of the records")
    return NO_FILE_WAITS_FOR_DELETION.answer(state.lake, failures, what, shown, notes, is_of_plan=not applied)


def indexes_written(state: LakeState, report: JobReport[IndexesOutline], applied: bool) -> CheckAnswer:
    """Check that all index files could be written.

    Args:
        state: The lake after the job.
        report: Of the job ``rebuild_indexes``.
        applied: Whether the job was allowed to act.
    """
    segments, skipped = sum(log.segments for log in state.logs), len(report.plan.skipped)
    if not applied:
        return INDEXES_WRITTEN.unanswered("This run only planned: no index file was written.")
    if segments <= skipped:
        return INDEXES_WRITTEN.unanswered(f"No segment of the lake {state.name} can have index files.")
    return INDEXES_WRITTEN.answer(
        state.lake,
        _of_findings(state, report.findings),
        f"{counted(segments - skipped, 'segment')} of lake {state.name} have index files",
        {"segments": segments, "segments without index files, because of damage or their place": skipped},
    )


def table_files_sound(state: LakeState, report: JobReport[OptimizeOutline]) -> CheckAnswer:
    """Check that no file of a table was left as it is.

    Args:
        state: The lake after the job.
        report: Of the job ``optimize``.
    """
    if not state.logs:
        return TABLE_FILES_SOUND.unanswered(f"The lake {state.name} has no table yet.")
    failures = [
        Failure(f"table {left.table}: its files stay as they are, because {left.why}", severity=Severity.WARNING)
        for left in report.plan.left
    ]
    failures += _of_findings(state, report.findings)
    merges = len(report.plan.merges)
    return TABLE_FILES_SOUND.answer(
        state.lake, failures, f"{counted(merges, 'merge')} of small files, none refused", {"merges": merges}
    )


def _planned(state: LakeState, log: LogOutline, what: str) -> Failure:
    name = f"{log.topic_partition} of lake {state.name}"
    return Failure(what, log.log, name, severity=Severity.WARNING)


def _of_findings(state: LakeState, findings: Iterable[PlacedFinding]) -> list[Failure]:
    failures = []
    for placed in findings:
        each = placed.finding
        if each.severity is Severity.INFO:
            continue
        name = None if placed.topic_partition is None else f"{placed.topic_partition} of lake {state.name}"
        offsets = offsets_text(each.start_offset, each.end_offset)
        what = f"{each.rule}: {each.message}"
        failures.append(Failure(what, placed.log, name, offsets, each.severity, each.file, each.position))
    return failures
