"""Assembles the code location `loglake` of workspace.yaml: the lakes that are registered in the operator's home.

Imports are absolute because this file is loaded by its path. Importing it reads nothing: Dagster calls :func:`defs`
when it loads the code location. Neither pyspark nor Great Expectations is imported, because only the jobs need them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import dagster as dg

from pipelines.alerts.sensor import alerts
from pipelines.assets import POOL, build_assets
from pipelines.catalog.products import INTAKE, MAINTENANCE
from pipelines.jobs import build_job
from pipelines.nightly_verification import build_verification
from pipelines.resources import JobLauncher, LakeResource
from pipelines.run.chains import INTAKE_JOB, MAINTENANCE_JOB
from pipelines.run.listener import ReportKeeper
from pipelines.schedules import build_schedules
from pipelines.sensors import build_sensor
from spark_jobs.lake.view.registered_lakes import RegisteredLake, home_folder, read_home


def build_definitions(
    lakes: Sequence[RegisteredLake],
    launcher: JobLauncher | None = None,
    loggers: Mapping[str, dg.LoggerDefinition] | None = None,
    pool: str | None = POOL,
) -> dg.Definitions:
    """Build the definitions of some lakes. Tests and the command line pass their own launcher and loggers.

    Args:
        pool: Dagster's pool in which each step takes a slot; None: steps do not wait.
    """
    parts = [_build_lake(lake, pool) for lake in lakes]
    return dg.Definitions.merge(
        *parts,
        dg.Definitions(
            sensors=[alerts],
            resources={
                "launcher": launcher or JobLauncher(),
                "lake": LakeResource.configure_at_launch(),
                "listener": ReportKeeper(),
            },
            # The steps of a run share one process, and so one Spark session.
            executor=dg.in_process_executor,
            loggers=dict(loggers) if loggers else None,
        ),
    )


def _build_lake(lake: RegisteredLake, pool: str | None) -> dg.Definitions:
    verified, verification = build_verification(lake)
    chains = {INTAKE_JOB: INTAKE, MAINTENANCE_JOB: MAINTENANCE}
    jobs = [
        build_job(lake, job, [step.product.name for step in chain if step.product is not None])
        for job, chain in chains.items()
    ]
    return dg.Definitions(
        assets=build_assets(lake, pool),
        asset_checks=[verified],
        jobs=[*jobs, verification],
        schedules=build_schedules(lake),
        sensors=[build_sensor(lake)],
    )


@dg.definitions
def defs() -> dg.Definitions:
    """The lakes of the operator's home. A registration that cannot be used hides no other."""
    home = read_home(home_folder())
    for problem in home.broken:
        logging.getLogger("loglake").warning("A lake is left out: %s", problem)
    return build_definitions(home.lakes)
