"""Watches the sources of a registered lake, and requests runs for what is new. Each lake has its own sensor.

A tick reads only directory entries (names, sizes and times of files) and the high watermarks of each log directory.

new log, closed segment, more of closed segments visible    a run at once
growth inside an active segment                             a run after the longest `publish.max.delay` of the lake
what such runs left for later (small growth)                one more run after the same delay

A change counts as handled when its run has succeeded. A run that failed is requested again, later each time. While a
run of a lake waits or runs, no other is requested for it. None is requested for what a run of the command line has
taken in. A lake whose policies state another `ingest` is skipped. A tick is skipped too if an object store fails: what
lies there is not known, and the next tick looks again. A tick fails if the policies cannot be used.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import dagster as dg

from logcore.errors import LogError
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.view.registered_lakes import RegisteredLake, read_registered
from spark_jobs.lake.view.runs.run_ends import last_seen

from .catalog.names import name_in_lake
from .catalog.run_configuration import run_config
from .errors.failures import refused_tick
from .run.chains import INTAKE_JOB
from .run.run_request import RunRequest
from .run.source_listing import SourceState, source_state

RETRY_MS = 60_000
"""Time from a failed run to the next request for the same change; twice as long after each further failure."""
MOST_RETRY_MS = 3_600_000
"""The longest time between two such requests."""
LOST_MS = 600_000
"""Time after which a request without a run counts as failed."""

RunStatus = Callable[[str], dg.DagsterRunStatus | None]
"""Gives the status of the run that was requested under a run key; None: there is no such run."""


@dataclass(frozen=True, slots=True)
class Requested:
    """A run that was requested, and the state that it handles."""

    key: str
    closed: str
    everything: str
    at_ms: int
    tries: int = 1
    is_late: bool = False
    """Whether it was requested because a delay was over."""


@dataclass(frozen=True, slots=True)
class Handled:
    """What the sensor knows about a lake."""

    closed: str = ""
    everything: str = ""
    due_ms: int | None = None
    """When a run is due for what may wait."""
    requested: Requested | None = None


def build_sensor(lake: RegisteredLake) -> dg.SensorDefinition:
    """The sensor of a lake."""

    @dg.sensor(
        name=name_in_lake(lake, "new_segments"),
        job_name=name_in_lake(lake, INTAKE_JOB),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Finds new logs, closed segments and growth at the sources that are registered for the lake in "
        "the operator's home, and requests a run. Small growth may wait, at most for publish.max.delay. Off until it "
        "is switched on.",
    )
    def new_segments(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        """Return at most one run request."""
        now_ms = time.time_ns() // 1_000_000

        def status(run_key: str) -> dg.DagsterRunStatus | None:
            runs = context.instance.get_runs(dg.RunsFilter(tags={"dagster/run_key": run_key}), limit=1)
            return runs[0].status if runs else None

        return evaluate(lake.path, context.cursor, now_ms, status)

    return new_segments


def evaluate(path: str, cursor: str | None, now_ms: int, status: RunStatus) -> dg.SensorResult:
    """Run one tick.

    Args:
        path: The lake. Its registration and its policies are read again in each tick.
        cursor: JSON: what was handled and requested. It does not grow with the logs.
        now_ms: The clock, epoch milliseconds.
        status: Finds the runs of earlier requests.

    Returns:
        At most one run request; else the reason why there is none. Both with the next cursor.

    Raises:
        Failure: The registration or the policies of the lake cannot be used.
    """
    try:
        lake = read_registered(path)
        if not lake.is_there:
            return _skipped(f"The lake {path} is not examined: its directory is gone or has no lake.", cursor)
        if not lake.is_watched_by_sensor:
            return _skipped("The policies of this lake state another value of ingest.", cursor)
        sources = [source for intake in lake.intakes for source in intake.sources]
        if not sources:
            return _skipped(f"This lake has no source. This registers one: loglake run PATH... --lake {path}", cursor)
        delay_ms = lake.longest_delay_ms
        state = source_state(sources)
    except UsageError as error:
        raise refused_tick(path, error) from None
    except (JobError, LogError, OSError) as error:  # an error of a store says nothing about its logs
        return _skipped(f"The lake {path} is not examined: {error}", cursor)
    before = _read_cursor(cursor)
    settled = _settled(before, status, now_ms, delay_ms)
    is_taken_in = (last_seen(path, INTAKE_JOB) or "").startswith(state.everything)
    if is_taken_in and settled.requested is None:
        settled = Handled(state.closed, state.everything)
    after = _next(lake.key, settled, state, now_ms, delay_ms)
    text = json.dumps(asdict(after))
    asked = after.requested
    if asked is None or asked == before.requested:
        return _skipped("Nothing new.", text)
    config = run_config(lake, INTAKE_JOB, RunRequest(at_once=False))
    return dg.SensorResult(run_requests=[dg.RunRequest(asked.key, run_config=config)], cursor=text)


def _skipped(reason: str, cursor: str | None) -> dg.SensorResult:
    """No request. A bare SkipReason would lose the cursor."""
    return dg.SensorResult(skip_reason=reason, cursor=cursor)


def _settled(lake: Handled, status: RunStatus, now_ms: int, delay_ms: int) -> Handled:
    """The lake after the end of the run that was requested for it; unchanged while the run is not at its end."""
    asked = lake.requested
    if asked is None:
        return lake
    ended = status(asked.key)
    if ended is dg.DagsterRunStatus.SUCCESS:
        due_ms = None if asked.is_late else asked.at_ms + delay_ms
        return Handled(asked.closed, asked.everything, due_ms)
    is_lost = ended is None and now_ms - asked.at_ms >= LOST_MS
    if ended in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED) or is_lost:
        wait_ms = min(RETRY_MS * 2 ** min(asked.tries - 1, 16), MOST_RETRY_MS)
        if now_ms - asked.at_ms >= wait_ms:
            again = replace(asked, key=f"{asked.key.partition(' try ')[0]} try {asked.tries + 1}")
            return replace(lake, requested=replace(again, at_ms=now_ms, tries=asked.tries + 1))
    return lake


def _next(key: str, lake: Handled, state: SourceState, now_ms: int, delay_ms: int) -> Handled:
    """The lake after this tick; a new request is in ``requested``."""
    if lake.requested is not None:
        if lake.requested.at_ms == now_ms and lake.requested.tries > 1:  # tried again now, with what is there now
            return replace(lake, requested=replace(lake.requested, closed=state.closed, everything=state.everything))
        return lake
    is_late = lake.due_ms is not None and now_ms >= lake.due_ms
    if state.closed != lake.closed or is_late:
        run_key = f"{key} {state.everything} {now_ms}"
        return replace(
            lake,
            due_ms=None,
            requested=Requested(run_key, state.closed, state.everything, now_ms, is_late=is_late),
        )
    if state.everything != lake.everything and lake.due_ms is None:
        return replace(lake, due_ms=now_ms + delay_ms)
    return lake


def _read_cursor(cursor: str | None) -> Handled:
    """The content of a cursor. Of a cursor in another form nothing, so that the lake gets one run."""
    try:
        content: dict[str, Any] = json.loads(cursor or "{}")
        asked = content.pop("requested", None)
        return Handled(**content, requested=None if asked is None else Requested(**asked))
    except (ValueError, TypeError, AttributeError):
        return Handled()
