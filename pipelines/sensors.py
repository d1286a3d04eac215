"""Watches the sources of registered lakes, and requests runs for what is new.

A tick reads only directory entries (names, sizes and times of files) and the high watermarks of each log directory.

new log, closed segment, more of closed segments visible    a run at once
growth inside an active segment                             a run after the longest `publish.max.delay` of the lake
what such runs left for later (small growth)                one more run after the same delay

A change counts as handled when its run has succeeded. A run that failed is requested again, later each time. While a
run of a lake waits or runs, no other is requested for it. Lakes whose policies state another `ingest` are left out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import dagster as dg

from pipelines.catalog.names import name_in_lake
from pipelines.jobs import run_config
from pipelines.run.chains import INTAKE_JOB
from pipelines.run.source_listing import SourceState, source_state
from spark_jobs.lake.errors import JobError, UsageError
from spark_jobs.lake.view.registered_lakes import RegisteredLake, lake_key, read_registered

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
        "the operator's home, and requests a run. Off until it is switched on.",
    )
    def new_segments(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        """Return at most one run request."""
        now_ms = time.time_ns() // 1_000_000

        def status(run_key: str) -> dg.DagsterRunStatus | None:
            runs = context.instance.get_runs(dg.RunsFilter(tags={"dagster/run_key": run_key}), limit=1)
            return runs[0].status if runs else None

        return look((lake.path,), context.cursor, now_ms, status, context.log.warning)

    return new_segments


def look(
    registered: tuple[str, ...],
    cursor: str | None,
    now_ms: int,
    status: RunStatus,
    warn: Callable[[str], object] = lambda problem: None,
) -> dg.SensorResult | dg.SkipReason:
    """Run one tick.

    Args:
        registered: The lakes.
        cursor: JSON: what was handled and requested, by key of the lake.
        now_ms: The clock, epoch milliseconds.
        status: Finds the runs of earlier requests.
        warn: Gets a sentence for each lake that cannot be examined. The other lakes are examined.
    """
    known = _read_cursor(cursor)
    after: dict[str, Handled] = {}
    requests: list[dg.RunRequest] = []
    examined = 0
    for path in registered:
        key = lake_key(path)
        try:
            lake = _usable(path)
            if lake is None:
                continue
            sources = [path for intake in lake.intakes for path in intake.paths]
            if not sources:
                continue
            delay_ms = lake.longest_delay_ms
        except (JobError, UsageError, OSError) as error:
            warn(f"The lake {path} is not examined: {error}")
            if key in known:
                after[key] = known[key]
            continue
        examined += 1
        before = known.get(key, Handled())
        settled = _settled(before, status, now_ms, delay_ms)
        after[key] = _next(key, settled, source_state(sources), now_ms, delay_ms)
        asked = after[key].requested
        if asked is not None and asked != before.requested:
            requests.append(dg.RunRequest(run_key=asked.key, run_config=run_config(at_once=False)))
    if not examined:
        return dg.SkipReason(
            "No lake of this home has a readable source; loglake run PATH... --lake LAKE registers one."
        )
    text = json.dumps({"lakes": {key: asdict(lake) for key, lake in after.items()}})
    if not requests:
        # A SensorResult keeps the cursor; a bare SkipReason would lose it.
        return dg.SensorResult(skip_reason=f"Nothing new in {examined} lakes.", cursor=text)
    return dg.SensorResult(run_requests=requests, cursor=text)


def _usable(path: str) -> RegisteredLake | None:
    """The lake; None if its policies leave it to something else.

    Raises:
        JobError: The lake cannot be used.
        UsageError: Its registration or its policies cannot be used.
    """
    lake = read_registered(path)
    if not lake.is_there:
        raise JobError("there is no such directory.")
    return lake if lake.is_watched_by_sensor else None


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


def _read_cursor(cursor: str | None) -> dict[str, Handled]:
    """The content of a cursor; of an earlier version's cursor nothing, so that each lake gets one run."""
    lakes: dict[str, Any] = json.loads(cursor).get("lakes", {}) if cursor else {}
    known = {}
    for key, value in lakes.items():
        asked = value.pop("requested")
        known[key] = Handled(**value, requested=None if asked is None else Requested(**asked))
    return known
