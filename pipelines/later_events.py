"""Reports the topic partitions that runs of the command line changed and did not report themselves.

Dagster needs some 15 ms for each event. So a run of the command line reports the first topic partitions, and this
sensor the others, some hundred a tick. Their figures are those of the lake at the tick. It is one sensor for all lakes
of the home.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import dagster as dg

from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake.view.later_keys import waiting_keys
from spark_jobs.lake.view.registered_lakes import RegisteredLake, home_folder, read_home

from .catalog.asset_results import AssetResult
from .catalog.names import asset_key
from .events import as_metadata
from .run.chains import CHAINS

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
