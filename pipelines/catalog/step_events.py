"""Dagster's events of a step that has run. A step of Dagster logs them; a run of the command line reports them."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from spark_jobs.lake.view.dagster_reports import record_answers
from spark_jobs.lake.view.registered_lakes import RegisteredLake

from ..events import as_metadata, asset_observation
from ..metadata.values import Observation
from ..run import check_definitions
from ..run.step_result import StepResult
from .asset_results import AssetResult
from .names import asset_key

MANY_KEYS = 500
"""If more keys changed, a summary comes first, and the events of the keys are brief."""


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
    answers = {a.name: a.recorded for a in done.answers if a.asset not in check_definitions.OF_MAINTENANCE}
    if answers and instance.is_persistent:
        record_answers(lake, instance.root_directory, run_id, answers)
