"""Assembles the code location `loglake` of workspace.yaml.

Imports are absolute because this file is loaded by its path. Loading it starts nothing, and imports neither pyspark nor
Great Expectations: only the jobs need them.
"""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from pipelines.alerts.sensor import alerts
from pipelines.assets import POOL, build_assets
from pipelines.jobs import JOBS
from pipelines.nightly_verification import lake_verified, verification
from pipelines.resources import JobLauncher, LakeResource
from pipelines.run.listener import ReportKeeper
from pipelines.schedules import nightly_maintenance, nightly_verification, timed_intake
from pipelines.sensors import new_segments


def build_definitions(
    launcher: JobLauncher | None = None,
    loggers: Mapping[str, dg.LoggerDefinition] | None = None,
    pool: str | None = POOL,
) -> dg.Definitions:
    """Build the definitions. Tests and the command line pass their own launcher and loggers.

    Args:
        pool: Dagster's pool in which each step takes a slot; None: steps do not wait.
    """
    return dg.Definitions(
        assets=build_assets(pool),
        asset_checks=[lake_verified],
        jobs=[*JOBS, verification],
        schedules=[nightly_maintenance, nightly_verification, timed_intake],
        sensors=[new_segments, alerts],
        resources={
            "launcher": launcher or JobLauncher(),
            "lake": LakeResource.configure_at_launch(),
            "listener": ReportKeeper(),
        },
        # The steps of a run share one process, and so one Spark session.
        executor=dg.in_process_executor,
        loggers=dict(loggers) if loggers else None,
    )


defs = build_definitions()
