"""The schedules of a lake: maintenance and verification every night, and the intake if its policies state an interval.

What they do is in the section `lake` of the lake's policies file, which is read at each tick. If it cannot be used, the
tick is skipped with the reason. The schedule of the intake exists only where the policies state an interval when the
definitions are built: otherwise it would skip every minute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dagster as dg

from spark_jobs.errors import UsageError
from spark_jobs.lake.view.registered_lakes import RegisteredLake, read_registered

from .catalog.names import name_in_lake
from .catalog.run_configuration import run_config
from .nightly_verification import VERIFICATION_JOB, part_of, verification_config
from .run.chains import INTAKE_JOB, MAINTENANCE_JOB
from .run.run_request import RunRequest

_MINUTE_MS = 60_000

Tick = dg.RunRequest | dg.SkipReason


def build_schedules(lake: RegisteredLake) -> list[dg.ScheduleDefinition]:
    """The schedules of a lake."""

    @dg.schedule(
        name=name_in_lake(lake, "nightly_maintenance"),
        job_name=name_in_lake(lake, MAINTENANCE_JOB),
        cron_schedule="0 3 * * *",
        execution_timezone="UTC",
        description="Every night at 03:00 UTC. A dry run, unless the policies of the lake say nightly: apply; and "
        "even then only topics with a policy are changed. No file inside a lake can change this.",
    )
    def nightly_maintenance(context: dg.ScheduleEvaluationContext) -> Tick:
        """One run request, unless the policies say `nightly: off`."""

        def request(now: RegisteredLake) -> Tick:
            if now.policy.nightly == "off":
                return dg.SkipReason("The policies of the lake say nightly: off.")
            day = context.scheduled_execution_time.strftime("%Y-%m-%d")
            return _request(now, day, run_config(now, MAINTENANCE_JOB, RunRequest(apply=now.policy.nightly == "apply")))

        return _if_usable(lake, request)

    @dg.schedule(
        name=name_in_lake(lake, "nightly_verification"),
        job_name=name_in_lake(lake, VERIFICATION_JOB),
        cron_schedule="0 4 * * *",
        execution_timezone="UTC",
        description="Every night at 04:00 UTC a seventh of the lake is verified from its own bytes, so that it is "
        "verified once a week. Only reads. The setting verify: off in the policies of the lake turns it off.",
    )
    def nightly_verification(context: dg.ScheduleEvaluationContext) -> Tick:
        """One run request, unless the policies say `verify: off`."""

        def request(now: RegisteredLake) -> Tick:
            if now.policy.verify == "off":
                return dg.SkipReason("The policies of the lake say verify: off.")
            night = context.scheduled_execution_time
            return _request(now, f"verification {night:%Y-%m-%d}", verification_config(now, part_of(night)))

        return _if_usable(lake, request)

    @dg.schedule(
        name=name_in_lake(lake, "timed_intake"),
        job_name=name_in_lake(lake, INTAKE_JOB),
        cron_schedule="* * * * *",
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Reads the sources of the lake at the interval that its policies state, for instance "
        "ingest: every 5 min. Without an interval there is no such schedule.",
    )
    def timed_intake(context: dg.ScheduleEvaluationContext) -> Tick:
        """One run request if the interval ends at this minute."""
        minute_ms = int(context.scheduled_execution_time.timestamp()) // 60 * _MINUTE_MS

        def request(now: RegisteredLake) -> Tick:
            interval_ms = now.policy.ingest
            if isinstance(interval_ms, int) and _is_due(interval_ms, minute_ms):
                config = run_config(now, INTAKE_JOB, RunRequest(at_once=False))
                return _request(now, f"intake {minute_ms // _MINUTE_MS}", config)
            return dg.SkipReason("The lake is not due: the interval of its policies does not end in this minute.")

        return _if_usable(lake, request)

    return [nightly_maintenance, nightly_verification, *([timed_intake] if _may_have_interval(lake) else [])]


def _may_have_interval(lake: RegisteredLake) -> bool:
    """Whether the policies state an interval. Also if they cannot be used: the ticks then say why."""
    try:
        return isinstance(lake.policy.ingest, int)
    except UsageError:
        return True


def _is_due(interval_ms: int, minute_ms: int) -> bool:
    """Whether an interval that is counted from 1970 ends in the minute that begins at this time."""
    return minute_ms // interval_ms != (minute_ms - _MINUTE_MS) // interval_ms


def _request(lake: RegisteredLake, what: str, config: dict[str, Any]) -> dg.RunRequest:
    return dg.RunRequest(run_key=f"{lake.key} {what}", run_config=config)


def _if_usable(lake: RegisteredLake, request: Callable[[RegisteredLake], Tick]) -> Tick:
    """What a tick requests for the lake as it is registered now; why it is left out if it cannot be used."""
    if not lake.is_there:
        return dg.SkipReason(f"The lake {lake.path} is left out: there is no such directory.")
    try:
        return request(read_registered(lake.path))
    except UsageError as error:
        return dg.SkipReason(f"The lake {lake.path} is left out: {error}")
