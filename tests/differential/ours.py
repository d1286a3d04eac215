"""The same operations by the code under test, on the same input with the same parameters."""

from __future__ import annotations

from logcore.errors import LogError
from logcore.logs.retention_plan import plan_retention
from tests.differential import directories
from tests.differential.trials import Left, Trial


def by_ours(trial: Trial) -> Left:
    """What ours makes of it."""
    return _OPERATIONS[trial.operation](trial)


def _retained(trial: Trial) -> Left:
    try:
        plan = plan_retention(
            trial.directory(),
            trial.topic_config,
            line=trial.line,
            as_of_ms=trial.as_of_ms,
            delete_records_before=trial.delete_records_before,
        )
    except (LogError, ValueError) as refused:
        return Left(trial.files, refusal=str(refused))
    files = directories.proposed(trial.files, plan.files)
    return Left(files, plan.new_log_start_offset, plan.log_end_offset)


_OPERATIONS = {"retain": _retained}
