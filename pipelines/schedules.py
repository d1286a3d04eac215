"""What happens every night: maintenance is planned, or done where a registration says so; a part is proved."""

from __future__ import annotations

import os
from collections.abc import Iterator

import dagster as dg

from pipelines.jobs import maintenance, run_config
from pipelines.proving import part_of, proof
from pipelines.resources import LAKE_TAG
from spark_jobs.lake.setup import registry
from spark_jobs.lake.setup.registry import Memory
from spark_jobs.lake.store import storage

NO_LAKE = "No lake can be looked at: none is registered in the operator's home, or each is left out."


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
    day = context.scheduled_execution_time.strftime("%Y-%m-%d")
    return [
        dg.RunRequest(
            run_key=f"{registry.key_of(lake)} {day}",
            run_config=run_config(lake=lake, apply=memory.apply_nightly),
            tags={LAKE_TAG: registry.key_of(lake)},
        )
        for lake, memory in _lakes(context)
    ] or dg.SkipReason(NO_LAKE)


@dg.schedule(
    job=proof,
    cron_schedule="0 4 * * *",
    execution_timezone="UTC",
    description="Every night at 04:00 UTC a seventh of each lake that is registered in the operator's home is proved "
    "from its own bytes, so that each lake is proved once a week. Only reads.",
)
def nightly_proof(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
    """One run request for each lake."""
    night = context.scheduled_execution_time
    return [
        dg.RunRequest(
            run_key=f"{registry.key_of(lake)} proof {night:%Y-%m-%d}",
            run_config=run_config(lake=lake, proof_part=part_of(night)),
            tags={LAKE_TAG: registry.key_of(lake)},
        )
        for lake, _ in _lakes(context)
    ] or dg.SkipReason(NO_LAKE)


def _lakes(context: dg.ScheduleEvaluationContext) -> Iterator[tuple[str, Memory]]:
    """Registered lakes that are there; the others are named in the log."""
    registered = registry.registrations(registry.home())
    for problem in registered.broken:
        context.log.warning(f"A lake is left out tonight: {problem}")
    for lake, memory in registered.lakes.items():
        if storage.is_remote(lake) or os.path.isdir(lake):
            yield lake, memory
        else:
            context.log.warning(f"The lake {lake} is left out tonight: there is no such directory.")
