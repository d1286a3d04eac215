"""The steps of maintenance: each runs its job where a policy says so, or shows its plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
from spark_jobs.lake.view.harm import look_at_archive
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.outlines import Outline_co

from ..metadata.values import JsonValue, Metadata, Observation, PathValue
from . import maintenance_checks
from .check_definitions import CheckAnswer
from .step_result import StepResult
from .steps import Run, restricted


def retain(run: Run) -> StepResult:
    """Retire segments by ``retention.ms`` and ``retention.bytes``, where a policy says so."""
    return _planned_or_done(
        run,
        "retained_log",
        lambda logs: RetentionConfig(run.lake, run.run_id, run.as_of_ms, run.policies, logs, run.request.apply),
        lambda state, report: [
            maintenance_checks.retention_carried_out(state, report, run.as_of_ms, run.request.apply)
        ],
    )


def compact(run: Run) -> StepResult:
    """Clean logs by key, where a policy says so."""
    return _planned_or_done(
        run,
        "compacted_log",
        lambda logs: CompactionConfig(run.lake, run.run_id, run.as_of_ms, run.policies, logs, run.request.apply),
        lambda state, report: [maintenance_checks.no_cleaning_refused(state, report)],
    )


def tidy_archive(run: Run) -> StepResult:
    """Delete archive files that are no longer needed, and join small slices."""
    done = _planned_or_done(
        run,
        "tidy_archive",
        lambda logs: TidyArchiveConfig(run.lake, run.run_id, run.as_of_ms, run.policies, run.request.apply),
        lambda state, report: [
            maintenance_checks.archive_bytes_match(state, look_at_archive(run.lake)),
            maintenance_checks.no_file_waits_for_deletion(state, report, run.request.apply),
        ],
    )
    did = {name: count for report in done.reports for name, count in report.metrics.items() if count}
    if did:  # also changes that belong to no log
        figures: Metadata = {"lake": PathValue(run.lake), "did": JsonValue(did)}
        done.observations.append(Observation("tidy_archive", figures))
    return done


def rebuild_indexes(run: Run) -> StepResult:
    """Write the side files of live segments that lack them."""
    return _planned_or_done(
        run,
        "rebuilt_indexes",
        lambda logs: RebuildIndexesConfig(run.lake, run.run_id, run.as_of_ms, run.policies, logs, run.request.apply),
        lambda state, report: [
            maintenance_checks.indexes_written(restricted(state, run.logs()), report, run.request.apply)
        ],
    )


def optimize(run: Run) -> StepResult:
    """Merge small files of the tables in their order, and remove files that are no longer needed."""
    return _planned_or_done(
        run,
        "optimized_tables",
        lambda logs: OptimizeConfig(run.lake, run.run_id, run.as_of_ms, run.request.apply, policies=run.policies),
        lambda state, report: [maintenance_checks.table_files_sound(state, report)],
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
