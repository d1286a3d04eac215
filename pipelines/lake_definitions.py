"""Everything that Dagster needs for one lake, for any code location: assets, checks, jobs, schedules and a sensor.

:mod:`pipelines.definitions` uses it for the lakes of the operator's home. docs/dagster.md shows it in another code
location.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import dagster as dg

from spark_jobs import launch
from spark_jobs.contracts import Intake
from spark_jobs.errors import UsageError
from spark_jobs.lake.view.registered_lakes import RegisteredLake, lake_path, read_registered

from .alerts.sensor import alerts
from .assets import POOL, chain_assets, outside_assets
from .catalog.names import name_in_lake, tags_of
from .later_events import later_events
from .nightly_verification import build_verification
from .resources import LAUNCHER, RESULTS, JobLauncher, StepResults
from .run.chains import CHAINS, INTAKE_JOB, MAINTENANCE_JOB
from .schedules import build_schedules
from .sensors import build_sensor

_JOBS = {
    INTAKE_JOB: "Archives what is new of every source, validates and publishes it. Without configuration: all that the "
    "registration of the lake names. A run that finds nothing new changes nothing.",
    MAINTENANCE_JOB: "Retention, compaction, deletion, merging and indexes of the archive, by the lake's policies; "
    "then optimization of the tables. Only a plan unless the run has apply.",
}
"""What each job does."""


def loglake_assets(
    lake: str | RegisteredLake,
    policies: str | None = None,
    *,
    sources: Sequence[str] = (),
    launcher: JobLauncher | None = None,
    pool: str | None = POOL,
) -> dg.Definitions:
    """Build the definitions of a lake. Merge them with your own: ``dg.Definitions.merge(loglake_assets(...), mine)``.

    The keys of the assets are ``[NAME, "records"]`` and so on, with the name of the lake in the operator's home.
    A lake that is not registered there is registered now, as ``loglake run`` does it. Nothing runs.

    Args:
        lake: Path or address of the lake; it may not exist yet. Or a registered lake.
        policies: Path of its ``policies.yaml``; only together with ``sources``, which have it.
        sources: Log directories to read, as ``loglake run`` names them. Without them those that are registered.
        launcher: Starts the jobs. All lakes of a code location must have the same; None: the usual one.
        pool: Dagster's pool in which each step takes a slot; None: steps do not wait.

    Raises:
        UsageError: The lake, its registration or the arguments cannot be used.
    """
    if isinstance(lake, str):
        lake = _registered(lake, policies, tuple(sources))
    elif policies or sources:
        raise UsageError("policies and sources belong to a registered lake already. Name the lake by its path.")
    verified, verification = build_verification(lake)
    made = {job: chain_assets(lake, job, pool) for job in CHAINS}
    jobs = [
        dg.define_asset_job(
            name_in_lake(lake, job),
            selection=dg.AssetSelection.assets(*assets.keys),
            description=_JOBS[job],
            executor_def=dg.in_process_executor,
            run_tags=tags_of(lake),
        )
        for job, assets in made.items()
    ]
    return dg.Definitions(
        assets=[*outside_assets(lake), *made.values()],
        asset_checks=[verified],
        jobs=[*jobs, verification],
        schedules=build_schedules(lake),
        sensors=[build_sensor(lake)],
        resources={LAUNCHER: launcher or _launcher(), RESULTS: _results()},
    )


def loglake_sensors() -> list[dg.SensorDefinition]:
    """The sensors for all lakes of the home: alerts, and the events of the command line that are reported later."""
    return [alerts, later_events]


def _registered(lake: str, policies: str | None, sources: tuple[str, ...]) -> RegisteredLake:
    path = lake_path(lake)
    if policies and not sources:
        raise UsageError(f"policies of the lake {path}: name its sources too. Policies are registered with sources.")
    launch.register(path, Intake(tuple(map(lake_path, sources)), policies=policies) if sources else None)
    return read_registered(path)


# Dagster merges definitions only if equal keys have the same object.
@cache
def _launcher() -> JobLauncher:
    return JobLauncher()


@cache
def _results() -> StepResults:
    return StepResults()
