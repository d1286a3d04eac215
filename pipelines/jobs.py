"""The jobs of a lake: ingestion and maintenance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import dagster as dg

from spark_jobs.lake.view.registered_lakes import RegisteredLake

from .catalog.names import name_in_lake, tags_of
from .run.chains import INTAKE_JOB, MAINTENANCE_JOB

_DESCRIPTIONS = {
    INTAKE_JOB: "Archives what is new of every source, validates and publishes it. Without configuration: all that the "
    "registration of the lake names. A run that finds nothing new changes nothing.",
    MAINTENANCE_JOB: "Retention, compaction, deletion, merging and indexes of the archive, by the lake's policies; "
    "then optimization of the tables. Only a plan unless the run has apply.",
}


def build_job(lake: RegisteredLake, job: str, assets: Iterable[dg.AssetKey]) -> Any:
    """A job of a lake.

    Args:
        job: ``intake`` or ``maintenance``.
        assets: The assets that it makes.
    """
    return dg.define_asset_job(
        name_in_lake(lake, job),
        selection=dg.AssetSelection.assets(*assets),
        description=_DESCRIPTIONS[job],
        executor_def=dg.in_process_executor,
        run_tags=tags_of(lake),
    )
