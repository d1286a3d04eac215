"""The schedules: maintenance and verification every night, and the intake of lakes whose policies state an interval.

What they do with a lake is in the section `lake` of its policies file. A lake whose policies cannot be used is named in
the log of the tick and left out; the other lakes go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg

from pipelines.jobs import loglake, maintenance, run_config
from pipelines.nightly_verification import part_of, verification
from pipelines.resources import LAKE_TAG
from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.view.registered_lakes import RegisteredLake, home_folder, read_home

NO_LAKE = "There is no usable lake: none is registered in the operator's home, or all are left out."
_MINUTE_MS = 60_000


@dg.schedule(
    job=maintenance,
    cron_schedule="0 3 * * *",
    execution_timezone="UTC",
    description="Every night at 03:00 UTC, one run for each lake that is registered in the operator's home. A dry run, "
    "unless the policies of the lake say `nightly: apply`; and even then only topics with a policy are changed. No "
    "file inside a lake can change this.",
)
def nightly_maintenance(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
    """Return one run request for each lake. An unusable lake is named in the log and left out."""
    day = context.scheduled_execution_time.strftime("%Y-%m-%d")
    return [
        _request(lake, day, apply=lake.policy.nightly == "apply")
        for lake in _lakes(context)
        if lake.policy.nightly != "off"
    ] or dg.SkipReason(NO_LAKE)


@dg.schedule(
    job=verification,
    cron_schedule="0 4 * * *",
    execution_timezone="UTC",
    description="Every night at 04:00 UTC a seventh of each lake that is registered in the operator's home is "
    "verified from its own bytes, so that each lake is verified once a week. Only reads. `verify: off` in the policies "
    "of a lake leaves it out.",
)
def nightly_verification(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
    """One run request for each lake."""
    night = context.scheduled_execution_time
    return [
        _request(lake, f"verification {night:%Y-%m-%d}", verified_part=part_of(night))
        for lake in _lakes(context)
        if lake.policy.verify != "off"
    ] or dg.SkipReason(NO_LAKE)


@dg.schedule(
    job=loglake,
    cron_schedule="* * * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Reads the sources of each registered lake whose policies state an interval, for instance "
    "`ingest: every 5 min`. It is on: without such a policy it starts nothing.",
)
def timed_intake(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
    """One run request for each lake whose interval ends at this minute."""
    minute_ms = int(context.scheduled_execution_time.timestamp()) // 60 * _MINUTE_MS
    return [
        _request(lake, f"intake {minute_ms // _MINUTE_MS}", at_once=False)
        for lake in _lakes(context)
        if isinstance(interval_ms := lake.policy.ingest, int) and _is_due(interval_ms, minute_ms)
    ] or dg.SkipReason("No lake is due: its policies state an interval with `ingest: every ...`.")


def _is_due(interval_ms: int, minute_ms: int) -> bool:
    """Whether an interval that is counted from 1970 ends in the minute that begins at this time."""
    return minute_ms // interval_ms != (minute_ms - _MINUTE_MS) // interval_ms


def _request(lake: RegisteredLake, what: str, **settings: Any) -> dg.RunRequest:
    config = run_config(lake=lake.path, **settings)
    if (engine := lake.policy.engine) != "auto":
        config["resources"]["launcher"] = {"config": {"engine": engine}}
    return dg.RunRequest(run_key=f"{lake.key} {what}", run_config=config, tags={LAKE_TAG: lake.key})


def _lakes(context: dg.ScheduleEvaluationContext) -> Iterator[RegisteredLake]:
    """Registered lakes that exist and whose policies can be used; the others are named in the log."""
    home = read_home(home_folder())
    for problem in home.broken:
        context.log.warning(f"A lake is left out: {problem}")
    for lake in home.lakes:
        if not lake.is_there:
            context.log.warning(f"The lake {lake.path} is left out: there is no such directory.")
            continue
        try:
            lake.check_policies()
        except UsageError as error:
            context.log.warning(f"The lake {lake.path} is left out: {error}")
        else:
            yield lake
