"""The two jobs, ingestion and maintenance, and the run configuration that names their lake."""

from __future__ import annotations

from typing import Any

import dagster as dg

from pipelines.run.chains import INTAKE_JOB, MAINTENANCE_JOB

loglake = dg.define_asset_job(
    INTAKE_JOB,
    selection=dg.AssetSelection.assets("archived_segments", "validated_segments", "records"),
    description="Archives what is new of every source, validates and publishes it. Without configuration: all that the "
    "registration of the lake names. A run that finds nothing new changes nothing.",
    executor_def=dg.in_process_executor,
)
maintenance = dg.define_asset_job(
    MAINTENANCE_JOB,
    selection=dg.AssetSelection.assets(
        "retained_log", "compacted_log", "tidy_archive", "rebuilt_indexes", "optimized_tables"
    ),
    description="Retention, compaction, deletion, merging and indexes of the archive, by the lake's policies; then "
    "optimization of the tables. Only a plan unless `apply`.",
    executor_def=dg.in_process_executor,
)
JOBS = [loglake, maintenance]


def run_config(**settings: Any) -> dict[str, Any]:
    """Build run configuration with the lake of a run and other settings of
    :class:`pipelines.resources.LakeResource`.
    """
    said = {name: value for name, value in settings.items() if value not in (None, "", [], ())}
    return {"resources": {"lake": {"config": said}}}
