"""The cut of each log: the first offset that does not belong to the state.

An offset is stated for a partition, and is the cut of each of its logs: a topic that was created again under its name
has several. A time becomes, in each log, the first offset of a published record whose timestamp is not before it, as
in Kafka's ``offsetsForTimes``. Where there is none, the state has all published records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.errors import UsageError
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.row_files.published_rows import Span, published_rows

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_MICROS = (1 << 63) - 1
_COLUMNS = ("log_id", "partition", "offset", "timestamp")


@dataclass(frozen=True, slots=True)
class LogCut:
    """Where the state of a log ends."""

    log: LogRow
    frontier: int
    """The end of what is published."""
    asked: int | None
    """The requested offset, or the one that the time became; None: no record is at or after the time."""

    @property
    def end(self) -> int:
        """The first offset that is not in the answer."""
        return self.frontier if self.asked is None else min(self.asked, self.frontier)


def stated_offsets(text: str, topic: str) -> dict[int, int] | None:
    """Return offsets by partition from ``orders-0:42,orders-1:7``; None if the text has another form.

    Raises:
        UsageError: It names another topic, or a partition twice.
    """
    form = re.compile(r"(.+)-([0-9]{1,10}):([0-9]{1,18})", re.ASCII)
    parts = [form.fullmatch(part.strip()) for part in text.split(",")]
    stated: dict[int, int] = {}
    for part in parts:
        if part is None:
            return None
        if part[1] != topic:
            raise UsageError(f"--at {part[0]}: the state of {topic} is requested, this is a partition of {part[1]}.")
        if int(part[2]) in stated:
            raise UsageError(f"--at {text}: partition {part[2]} is there twice.")
        stated[int(part[2])] = int(part[3])
    return stated


def cuts_at_offsets(
    logs: Sequence[LogRow], frontiers: Mapping[str, int | None], stated: Mapping[int, int]
) -> list[LogCut]:
    """Return the cuts of the logs of stated partitions.

    Raises:
        UsageError: The topic has no such partition.
    """
    unknown = sorted(set(stated) - {log.partition for log in logs})
    if unknown:
        raise UsageError(f"--at: the lake has no partition {unknown[0]} of {logs[0].topic}.")
    return [LogCut(log, frontiers[log.log] or 0, stated[log.partition]) for log in logs if log.partition in stated]


def cuts_at_time(
    lake: str, files: Sequence[LiveFile], logs: Sequence[LogRow], frontiers: Mapping[str, int | None], time_ms: int
) -> list[LogCut]:
    """Return the cuts of all logs.

    Raises:
        TableUnreadable: A file of ``records`` is missing or damaged.
    """
    return [
        LogCut(log, end, _first_at(lake, files, Span(log.topic, log.log_id, log.partition, 0, end), time_ms))
        for log in logs
        for end in (frontiers[log.log] or 0,)
    ]


def _first_at(lake: str, files: Sequence[LiveFile], span: Span, time_ms: int) -> int | None:
    """The least offset of a record that is not before a time. Records without a readable timestamp are skipped."""
    micros = max(-_MOST_MICROS, min(time_ms * 1000, _MOST_MICROS))  # a time is not bound to the years 1 to 9999
    # Delta keeps milliseconds, and other engines may round a maximum down.
    chosen = [file for file in files if span.may_be_in(file) and _may_reach(file, time_ms - 1)]
    least: int | None = None
    for file in sorted(chosen, key=lambda each: each.min_offset or 0):
        if least is not None and file.min_offset is not None and file.min_offset >= least:
            break
        for batch in published_rows(lake, [file], span, _COLUMNS):
            late = np.asarray(
                pc.greater_equal(batch["timestamp"], pa.scalar(micros, batch["timestamp"].type)).fill_null(False)
            )
            if late.any():
                found = int(np.asarray(batch["offset"])[late].min())
                least = found if least is None else min(least, found)
    return least


def _may_reach(file: LiveFile, time_ms: int) -> bool:
    greatest = file.greatest.get("timestamp")
    if not isinstance(greatest, datetime):
        return True
    moment = greatest if greatest.tzinfo else greatest.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1) >= time_ms
