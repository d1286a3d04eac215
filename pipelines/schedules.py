"""The nightly schedules: maintenance is planned, or executed where a registration allows it; a part is proved."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from pipelines.jobs import maintenance, run_config
from pipelines.proving import part_of, proof
from pipelines.resources import LAKE_TAG
from spark_jobs.lake.view.registered_lakes import RegisteredLake, home_folder, read_home

NO_LAKE = "There is no usable lake: none is registered in the operator's home, or all are left out."


@dg.schedule(
    job=maintenance,
    cron_schedule="0 3 * * *",
    execution_timezone="UTC",
    description="Every night at 03:00 UTC, one run for each lake that is registered in the operator's home. A dry run, "
    'unless the file of the lake there says `"apply_nightly": true`; and even then only topics with a policy are '
    "changed. No file inside a lake can change this.",
)
def nightly_maintenance(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
    """Return one run request for each lake. An unusable lake is named in the log and left out."""
    day = context.scheduled_execution_time.strftime("%Y-%m-%d")
    return [
        dg.RunRequest(
            run_key=f"{lake.key} {day}",
            run_config=run_config(lake=lake.path, apply=lake.apply_nightly),
            tags={LAKE_TAG: lake.key},
        )
        for lake in _lakes(context)
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
            run_key=f"{lake.key} proof {night:%Y-%m-%d}",
            run_config=run_config(lake=lake.path, proof_part=part_of(night)),
            tags={LAKE_TAG: lake.key},
        )
        for lake in _lakes(context)
    ] or dg.SkipReason(NO_LAKE)


def _lakes(context: dg.ScheduleEvaluationContext) -> Iterator[RegisteredLake]:
    """Registered lakes that exist; the others are named in the log."""
    home = read_home(home_folder())
    for problem in home.broken:
        context.log.warning(f"A lake is left out tonight: {problem}")
    for lake in home.lakes:
        if lake.is_there:
            yield lake
        else:
            context.log.warning(f"The lake {lake.path} is left out tonight: there is no such directory.")
