"""Watches sources for new logs, and for segments that the broker has closed since the last tick.

A tick reads only directory entries (names, sizes and times of files), and the two small checkpoint files of a log
directory. Growth inside an active segment starts no run; the next run of the log ingests it. A tick examines at most
:data:`LOGS_A_TICK` logs and continues where the last one ended, so that its time does not grow with the lake.

Its runs may leave small amounts for later (``active.min.growth``, ``publish.min.bytes``), but not longer than
``publish.max.delay``: one more run of the whole lake is requested when that time is over.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import dagster as dg

from logcore.errors import CorruptIndexError
from logcore.segments.filenames import (
    HIGH_WATERMARK_FILE,
    DirectoryKind,
    TopicPartition,
    parse_partition_directory,
    segment_base_offset,
)
from logcore.segments.side_files.checkpoints import parse_offset_checkpoint
from pipelines.jobs import loglake, run_config
from pipelines.resources import LAKE_TAG
from spark_jobs.lake.errors import JobError, UsageError
from spark_jobs.lake.view.registered_lakes import home_folder, lake_key, read_home, read_registered

LOGS_A_TICK = 500


@dataclass(frozen=True, slots=True, order=True)
class WatchedLog:
    """A partition directory of a lake's source."""

    lake: str
    directory: str
    topic_partition: TopicPartition


@dg.sensor(
    job=loglake,
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.STOPPED,
    description="Finds new logs and newly closed segments at the sources that are registered for each lake in the "
    "operator's home; one run for each lake that has some. Off until it is switched on.",
)
def new_segments(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    """Return one run request per lake, for the logs of this tick that changed."""
    home = read_home(home_folder())
    for problem in home.broken:
        context.log.warning(f"A lake is not examined: {problem}")
    now_ms = time.time_ns() // 1_000_000
    return look(tuple(lake.path for lake in home.lakes), context.cursor, LOGS_A_TICK, now_ms, context.log.warning)


def look(
    registered: tuple[str, ...],
    cursor: str | None,
    limit: int,
    now_ms: int,
    warn: Callable[[str], object] = lambda problem: None,
) -> dg.SensorResult | dg.SkipReason:
    """Run one tick.

    Args:
        cursor: JSON: where to continue, the last state of each log, and when each lake needs another run.
        warn: Gets a sentence for each lake that cannot be examined. The other lakes are examined.
    """
    position, known, due = _read_cursor(cursor)
    delays: dict[str, int] = {}
    for lake in registered:
        try:
            delays[lake] = _longest_delay(lake)
        except (JobError, UsageError, OSError) as error:
            warn(f"The lake {lake} is not examined: {error}")
    watched_lakes = tuple(delays)
    watched = sorted(log for lake in watched_lakes for log in _watch(lake))
    if not watched:
        return dg.SkipReason(
            "No lake of this home has a readable source; loglake run PATH... --lake LAKE registers one."
        )
    names = [_name(log) for log in watched]
    start = next((number for number, name in enumerate(names) if name > position), 0)
    turn = (watched[start:] + watched[:start])[:limit]
    high_watermarks: dict[str, Mapping[TopicPartition, int]] = {}
    changed: dict[str, list[WatchedLog]] = {}
    seen = {name: known[name] for name in names if name in known}
    for log in turn:
        digest = _digest(log, high_watermarks)
        if digest is not None and known.get(_name(log)) != digest:
            seen[_name(log)] = digest
            changed.setdefault(log.lake, []).append(log)
    over = {lake: when for lake, when in due.items() if when <= now_ms and lake in watched_lakes}
    requests = [
        dg.RunRequest(
            run_key=_run_key(lake, logs, seen),
            run_config=run_config(lake=lake, logs=[str(log.topic_partition) for log in logs], at_once=False),
            tags={LAKE_TAG: lake_key(lake)},
        )
        for lake, logs in changed.items()
        if lake not in over  # the run of the whole lake includes these
    ]
    requests += [
        dg.RunRequest(
            run_key=f"{lake_key(lake)} due {when}",
            run_config=run_config(lake=lake, at_once=False),
            tags={LAKE_TAG: lake_key(lake)},
        )
        for lake, when in over.items()
    ]
    due = {lake: when for lake, when in due.items() if lake in watched_lakes and lake not in over}
    due |= {lake: now_ms + delays[lake] for lake in changed if lake not in due}
    after = json.dumps({"position": _name(turn[-1]), "logs": seen, "due": due})
    if not requests:
        # A SensorResult keeps the cursor; a bare SkipReason would lose it.
        return dg.SensorResult(skip_reason=f"Nothing new in {len(turn)} of {len(watched)} logs.", cursor=after)
    return dg.SensorResult(run_requests=requests, cursor=after)


def _watch(lake: str) -> Iterator[WatchedLog]:
    for intake in read_registered(lake).intakes:
        for path in intake.paths:
            here = path if os.path.isdir(path) else os.path.dirname(path)
            for directory in (here, *_subdirectories(here)):
                parsed = parse_partition_directory(os.path.basename(directory))
                if parsed is not None and parsed[1] is DirectoryKind.LIVE:
                    yield WatchedLog(lake, directory, parsed[0])


def _subdirectories(path: str) -> list[str]:
    if parse_partition_directory(os.path.basename(path)) is not None:
        return []
    try:
        with os.scandir(path) as entries:
            return [entry.path for entry in entries if entry.is_dir()]
    except OSError:
        return []  # ingest reports problems of a source; here there is just nothing to see


def _digest(log: WatchedLog, high_watermarks: dict[str, Mapping[TopicPartition, int]]) -> str | None:
    """State of the closed part of a log: its segments except the last, and how much of them is visible.

    None where the directory cannot be read or has no segment.
    """
    segments: list[tuple[int, str, int, int]] = []
    try:
        with os.scandir(log.directory) as entries:
            for entry in entries:
                base_offset = segment_base_offset(entry.name)
                if base_offset is not None:
                    status = entry.stat(follow_symlinks=False)
                    segments.append((base_offset, entry.name, status.st_size, status.st_mtime_ns))
    except OSError:
        return None
    if not segments:
        return None
    segments.sort()
    active = segments[-1]
    parent = os.path.dirname(log.directory)
    if parent not in high_watermarks:
        high_watermarks[parent] = _high_watermarks(parent)
    visible = min(high_watermarks[parent].get(log.topic_partition, 0), active[0])
    text = json.dumps([segments[:-1], active[1], visible])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _high_watermarks(directory: str) -> Mapping[TopicPartition, int]:
    try:
        with open(os.path.join(directory, HIGH_WATERMARK_FILE), "rb") as file:
            return parse_offset_checkpoint(file.read())
    except (OSError, CorruptIndexError):
        return {}


def _name(log: WatchedLog) -> str:
    return f"{lake_key(log.lake)}:{log.directory}"


def _run_key(lake: str, logs: list[WatchedLog], seen: Mapping[str, str]) -> str:
    text = json.dumps([lake, *(f"{_name(log)} {seen[_name(log)]}" for log in logs)])
    return f"{lake_key(lake)} {hashlib.sha256(text.encode()).hexdigest()[:24]}"


def _longest_delay(lake: str) -> int:
    """Time after which everything that a run of this lake left for later is due, ms.

    Raises:
        JobError: The lake cannot be used.
        UsageError: Its registration or its policies cannot be used.
        OSError: A file cannot be read.
    """
    registered = read_registered(lake)
    if not registered.is_there:
        raise JobError("there is no such directory.")
    return registered.longest_delay_ms


def _read_cursor(cursor: str | None) -> tuple[str, dict[str, str], dict[str, int]]:
    if not cursor:
        return "", {}, {}
    content = json.loads(cursor)
    return str(content["position"]), dict(content["logs"]), dict(content.get("due", {}))
