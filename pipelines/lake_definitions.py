"""Everything that Dagster needs for one lake, for any code location: assets, checks, jobs, schedules and a sensor.

:mod:`pipelines.definitions` uses it for the lakes of the operator's home. docs/dagster.md shows it in another code
location.

Reports the topic partitions that runs of the command line changed and did not report themselves.

Dagster needs some 15 ms for each event. So a run of the command line reports the first topic partitions, and this
sensor the others, some hundred a tick. Their figures are those of the lake at the tick. It is one sensor for all lakes
of the home.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import cache

import dagster as dg

from spark_jobs import launch
from spark_jobs.contracts import Intake
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.view.dagster_reports import waiting_keys
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake.view.registered_lakes import RegisteredLake, home_folder, lake_path, read_home, read_registered

from .alerts import alerts
from .assets import POOL, chain_assets, outside_assets
from .catalog.asset_results import AssetResult
from .catalog.dagster_values import as_metadata
from .catalog.names import asset_key, name_in_lake, tags_of
from .nightly_verification import build_verification
from .resources import LAUNCHER, RESULTS, JobLauncher, StepResults
from .run.chains import CHAINS, INTAKE_JOB, MAINTENANCE_JOB
from .schedules import build_schedules
from .sensors import build_sensor

MOST_EVENTS = 300
"""Events of a tick. Dagster stores them before it evaluates the next sensor."""

_PRODUCTS = {step.product.name: step.product for chain in CHAINS.values() for step in chain if step.product}


@dg.sensor(
    name="later_events",
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Reports topic partitions that large runs of the command line changed. It is on, and requests no run.",
)
def later_events(context: dg.SensorEvaluationContext) -> dg.SensorResult:
    """Report the next topic partitions."""
    now_ms = time.time_ns() // 1_000_000
    for lake in read_home(home_folder()).lakes:
        for waiting in waiting_keys(lake.path, context.instance.root_directory):
            done = _done(context.cursor, waiting.run_id)
            if done >= len(waiting.keys):
                waiting.forget()
                continue
            keys = waiting.keys[done : done + MOST_EVENTS]
            try:
                events = _events(lake, keys, now_ms)
            except (JobError, UsageError, OSError) as error:
                context.log.warning(f"The lake {lake.path} is not examined: {error}")
                break
            cursor = json.dumps({"run": waiting.run_id, "done": done + len(keys)})
            return dg.SensorResult(asset_events=events, cursor=cursor)
    return dg.SensorResult(skip_reason="Nothing waits.", cursor=context.cursor)


def _done(cursor: str | None, run_id: str) -> int:
    """How many keys of a run are reported."""
    content = json.loads(cursor or "{}")
    return int(content["done"]) if content.get("run") == run_id else 0


def _events(lake: RegisteredLake, keys: Sequence[tuple[str, str]], now_ms: int) -> list[dg.AssetMaterialization]:
    state = read_state(lake.path)
    logs = {log.topic_partition: log for log in state.logs}
    found = []
    for asset, key in keys:
        if asset in _PRODUCTS and key in logs:  # a log may be gone since
            made = AssetResult(_PRODUCTS[asset], state, {}, now_ms)
            metadata = as_metadata(made.of_log(logs[key], with_pictures=False))
            found.append(dg.AssetMaterialization(asset_key(lake, asset), partition=key, metadata=metadata))
    return found


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
