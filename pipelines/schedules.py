"""When maintenance is looked at. It plans every night; it acts only on lakes whose ``sources.json`` says so."""

from __future__ import annotations

import dagster as dg

from pipelines import lakes
from pipelines.jobs import maintenance, run_config
from pipelines.resources import LAKE_TAG


@dg.schedule(
    job=maintenance,
    cron_schedule="0 3 * * *",
    execution_timezone="UTC",
    description="Every night at 03:00 UTC, one run for each lake of this instance. A dry run, unless the lake's "
    'sources.json has `"apply_nightly": true`; and even then only topics with a policy are touched.',
)
def nightly_maintenance(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
    """One run request for each lake."""
    home = lakes.default_home()
    found = lakes.lakes_of(home)
    if not found:
        return dg.SkipReason(f"There is no lake under {home} yet.")
    day = context.scheduled_execution_time.strftime("%Y-%m-%d")
    return [
        dg.RunRequest(
            run_key=f"{lakes.lake_name(lake)} {day}",
            run_config=run_config(lake=lake, apply=lakes.recall(lake).apply_nightly),
            tags={LAKE_TAG: lakes.lake_name(lake)},
        )
        for lake in found
    ]
