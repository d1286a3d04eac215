"""Assembles the code location `loglake` of workspace.yaml: the lakes that are registered in the operator's home.

Importing it reads nothing: Dagster calls :func:`defs` when it loads the code location. Neither pyspark nor
Great Expectations is imported, because only the jobs need them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import dagster as dg

from spark_jobs.lake.view.registered_lakes import RegisteredLake, home_folder, read_home

from .assets import POOL
from .lake_definitions import loglake_assets, loglake_sensors
from .resources import JobLauncher


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
    return dg.Definitions.merge(
        *(loglake_assets(lake, launcher=launcher, pool=pool) for lake in lakes),
        dg.Definitions(
            sensors=loglake_sensors(),
            # The steps of a run share one process, and so one Spark session.
            executor=dg.in_process_executor,
            loggers=dict(loggers) if loggers else None,
        ),
    )


@dg.definitions
def defs() -> dg.Definitions:
    """The lakes of the operator's home."""
    return build_definitions(lakes_of_home())


def lakes_of_home() -> tuple[RegisteredLake, ...]:
    """The lakes of the operator's home. A registration that cannot be used hides no other."""
    home = read_home(home_folder())
    for problem in home.broken:
        logging.getLogger("loglake").warning("A lake is left out: %s", problem)
    return home.lakes
