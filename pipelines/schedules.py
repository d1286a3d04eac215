"""The schedules of a lake: maintenance and verification every night, and the intake if its policies state an interval.

All are off until they are switched on in Dagster, each lake for itself: lakes may share a policies file. Only the
maintenance of the demo's lakes is on, because these can be made again. What a schedule does is in the section `lake`
of the file, which is read at each tick. If it cannot be used, the tick fails with the reason. The schedule of the
intake has the interval that the policies state when the definitions are built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from spark_jobs.errors import UsageError
from spark_jobs.lake.view.alarms import TIMED_INTAKE
from spark_jobs.lake.view.registered_lakes import RegisteredLake, home_folder, read_registered

from .catalog.names import name_in_lake
from .catalog.run_configuration import run_config
from .command.demo import lakes_of_samples
from .errors.failures import refused_tick
from .nightly_verification import VERIFICATION_JOB, part_of, verification_config
from .run.chains import INTAKE_JOB, MAINTENANCE_JOB
from .run.run_request import RunRequest

_ON, _OFF = dg.DefaultScheduleStatus.RUNNING, dg.DefaultScheduleStatus.STOPPED
_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000

Tick = dg.RunRequest | dg.SkipReason


def build_schedules(lake: RegisteredLake) -> list[dg.ScheduleDefinition]:
    """The schedules of a lake."""
    interval_ms = _interval_ms(lake)

    @dg.schedule(
        name=name_in_lake(lake, "nightly_maintenance"),
        job_name=name_in_lake(lake, MAINTENANCE_JOB),
        cron_schedule="0 3 * * *",
        execution_timezone="UTC",
        default_status=_ON if lake.path in lakes_of_samples(home_folder()) else _OFF,
        description="Every night at 03:00 UTC what policies say of topics is carried out. In every lake files of "
        "retired segments and of old table versions are deleted, and files of tables are merged. The setting "
        "nightly: plan in the policies of the lake makes it a dry run. No file inside a lake can change this.",
    )
    def nightly_maintenance(context: dg.ScheduleEvaluationContext) -> Tick:
        """One run request."""

        def request(now: RegisteredLake) -> Tick:
            day = context.scheduled_execution_time.strftime("%Y-%m-%d")
            return _request(now, day, run_config(now, MAINTENANCE_JOB, RunRequest(apply=now.policy.nightly == "apply")))

        return _if_usable(lake, request)

    @dg.schedule(
        name=name_in_lake(lake, "nightly_verification"),
        job_name=name_in_lake(lake, VERIFICATION_JOB),
        cron_schedule="0 4 * * *",
        execution_timezone="UTC",
        description="Every night at 04:00 UTC a seventh of the lake is verified from its own bytes, so that it is "
        "verified once a week. Only reads.",
    )
    def nightly_verification(context: dg.ScheduleEvaluationContext) -> Tick:
        """One run request."""

        def request(now: RegisteredLake) -> Tick:
            night = context.scheduled_execution_time
            return _request(now, f"verification {night:%Y-%m-%d}", verification_config(now, part_of(night)))

        return _if_usable(lake, request)

    @dg.schedule(
        name=name_in_lake(lake, TIMED_INTAKE),
        job_name=name_in_lake(lake, INTAKE_JOB),
        cron_schedule=cron_of(interval_ms or _MINUTE_MS),
        execution_timezone="UTC",
        description="Reads the sources of the lake at the interval that its policies state, for instance "
        "ingest: every 5 min. Small growth of a log may wait, at most for its publish.max.delay.",
    )
    def timed_intake(context: dg.ScheduleEvaluationContext) -> Tick:
        """One run request, if the policies state an interval."""
        minute = int(context.scheduled_execution_time.timestamp()) // 60

        def request(now: RegisteredLake) -> Tick:
            if not isinstance(now.policy.ingest, int):
                return dg.SkipReason(f"The policies of the lake say ingest: {now.policy.ingest}.")
            if cron_of(now.policy.ingest) != cron_of(interval_ms or _MINUTE_MS):
                return dg.SkipReason("The policies state another interval than when Dagster loaded them. Reload them.")
            return _request(now, f"intake {minute}", run_config(now, INTAKE_JOB, RunRequest(at_once=False)))

        return _if_usable(lake, request)

    return [nightly_maintenance, nightly_verification, *([] if interval_ms is None else [timed_intake])]


def _interval_ms(lake: RegisteredLake) -> int | None:
    """The interval that the policies state; a minute if they cannot be used, so that ticks say why; None: none."""
    try:
        return lake.policy.ingest if isinstance(lake.policy.ingest, int) else None
    except UsageError:
        return _MINUTE_MS


def cron_of(interval_ms: int) -> list[str]:
    """The expressions of cron for an interval that begins again each midnight, or each month if it is over a day.

    Args:
        interval_ms: At least a minute.
    """
    if interval_ms >= _DAY_MS:
        return [f"0 0 {_cron_field(range(1, 32, interval_ms // _DAY_MS), 1, 31)} * *"]
    hours: dict[tuple[int, ...], list[int]] = {}
    for hour in range(24):
        due = [at for at in range(0, _DAY_MS, interval_ms) if at // _HOUR_MS == hour]
        if due:
            hours.setdefault(tuple(at % _HOUR_MS // _MINUTE_MS for at in due), []).append(hour)
    return [f"{_cron_field(minutes, 0, 60)} {_cron_field(of, 0, 24)} * * *" for minutes, of in hours.items()]


def _cron_field(values: Sequence[int], first: int, count: int) -> str:
    """Values of a field of cron: as ``*`` or ``*/step`` where they are regular."""
    step = values[1] - values[0] if len(values) > 1 else count
    if list(values) == list(range(first, first + count, step)) and len(values) > 1:
        return "*" if step == 1 else f"*/{step}"
    return ",".join(map(str, values))


def _request(lake: RegisteredLake, what: str, config: dict[str, Any]) -> dg.RunRequest:
    return dg.RunRequest(run_key=f"{lake.key} {what}", run_config=config)


def _if_usable(lake: RegisteredLake, request: Callable[[RegisteredLake], Tick]) -> Tick:
    """What a tick requests for the lake as it is registered now; why it is left out if it is not there.

    Raises:
        Failure: Its registration or its policies cannot be used.
    """
    if not lake.is_there:
        return dg.SkipReason(f"The lake {lake.path} is left out: its directory is gone or has no lake.")
    try:
        return request(read_registered(lake.path))
    except UsageError as error:
        raise refused_tick(lake.path, error) from None
