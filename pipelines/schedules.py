"""When maintenance is looked at. It plans every night; it acts only where the lake's registration says so."""

from __future__ import annotations

import os

import dagster as dg

from pipelines.jobs import maintenance, run_config
from pipelines.resources import LAKE_TAG
from spark_jobs.lake import registry, storage


@dg.schedule(
    job=maintenance,
    cron_schedule="0 3 * * *",
    execution_timezone="UTC",
    description="Every night at 03:00 UTC, one run for each lake that is registered in the operator's home. A dry run, "
    'unless the file of the lake there says `"apply_nightly": true`; and even then only topics with a policy are '
    "touched. Nothing that lies in a lake changes this.",
)
def nightly_maintenance(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
    """One run request for each lake; one that cannot be used is named in the log and left out."""
    home = registry.home()
    registered = registry.registrations(home)
    for problem in registered.broken:
        context.log.warning(f"A lake is left out tonight: {problem}")
    day = context.scheduled_execution_time.strftime("%Y-%m-%d")
    requests = []
    for lake, memory in registered.lakes.items():
        if not storage.is_remote(lake) and not os.path.isdir(lake):
            context.log.warning(f"The lake {lake} is left out tonight: there is no such directory.")
            continue
        key = registry.key_of(lake)
        requests.append(
            dg.RunRequest(
                run_key=f"{key} {day}",
                run_config=run_config(lake=lake, apply=memory.apply_nightly),
                tags={LAKE_TAG: key},
            )
        )
    return requests or dg.SkipReason(f"No lake of {home} can be looked at: none is registered, or each is left out.")
