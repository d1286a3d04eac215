"""Dagster's events of a run: check results and observations, and what a step did.

A step of Dagster logs them; a run of the command line reports them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg

from logcore.logs.model.findings import Severity
from spark_jobs.lake.view.dagster_reports import record_answers
from spark_jobs.lake.view.registered_lakes import RegisteredLake

from .catalog.asset_results import AssetResult
from .catalog.dagster_values import as_metadata
from .catalog.names import asset_key
from .metadata.values import Observation
from .run.check_definitions import OF_MAINTENANCE, CheckAnswer, CheckDefinition
from .run.outcome import StepResult

MANY_KEYS = 500
"""If more keys changed, a summary comes first, and the events of the keys are brief."""


def check_spec(lake: RegisteredLake, definition: CheckDefinition) -> dg.AssetCheckSpec:
    """The check for Dagster. No check stops a run: problems of one log must not delay the others."""
    return dg.AssetCheckSpec(
        definition.name, asset=asset_key(lake, definition.asset), description=definition.description
    )


def check_result(lake: RegisteredLake, answer: CheckAnswer) -> dg.AssetCheckResult:
    """The answer to a check as Dagster's result."""
    return dg.AssetCheckResult(**_stated(lake, answer))


def check_evaluation(lake: RegisteredLake, answer: CheckAnswer) -> dg.AssetCheckEvaluation:
    """The answer to a check as Dagster's event, for a check that no run of Dagster evaluates."""
    return dg.AssetCheckEvaluation(**_stated(lake, answer))


def _stated(lake: RegisteredLake, answer: CheckAnswer) -> dict[str, Any]:
    """What results and events of Dagster state of an answer."""
    is_error = answer.severity is Severity.ERROR
    return {
        "passed": answer.passed,
        "asset_key": asset_key(lake, answer.asset),
        "check_name": answer.name,
        "severity": dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN,
        "description": answer.description,
        "metadata": as_metadata(answer.shown),
    }


def asset_observation(lake: RegisteredLake, observation: Observation) -> dg.AssetObservation:
    """The observation as Dagster's event."""
    return dg.AssetObservation(
        asset_key(lake, observation.asset),
        description=observation.description,
        metadata=as_metadata(observation.metadata),
    )


def partition_events(
    lake: RegisteredLake, made: AssetResult, done: StepResult, most: int | None = None
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    """Yield the observations of a step, and a materialization for each topic partition that it changed.

    Args:
        lake: The lake.
        made: What the step made of its asset.
        done: What it did.
        most: Of more topic partitions only the first ones are yielded; None: all.
    """
    for observation in done.observations:
        yield asset_observation(lake, observation)
    changed = made.changed
    is_brief = len(changed) > (MANY_KEYS if most is None else most)
    if is_brief:
        what = f"{len(changed):,} topic partitions changed in this run. The event of each follows, without pictures."
        yield asset_observation(lake, Observation(made.product.name, made.summary(), what))
    for log in changed[:most]:
        metadata = as_metadata(made.of_log(log, with_pictures=not is_brief))
        yield dg.AssetMaterialization(
            asset_key(lake, made.product.name), partition=log.topic_partition, metadata=metadata
        )


def keep_answers(instance: dg.DagsterInstance, lake: str, run_id: str, done: StepResult) -> None:
    """Keep in the home which answers this instance shows. A look for work compares those of the intake only.

    Raises:
        JobError: The home cannot be written.
    """
    answers = {a.name: a.recorded for a in done.answers if a.asset not in OF_MAINTENANCE}
    if answers and instance.is_persistent:
        record_answers(lake, instance.root_directory, run_id, answers)
