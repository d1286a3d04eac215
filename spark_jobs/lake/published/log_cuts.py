"""Where the rows of a log that are older than a time end.

A time becomes, in each log, the first offset of a published record whose timestamp is not before it, as in Kafka's
``offsetsForTimes``. Where there is none, all published records are older.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.published.published_rows import Span, published_rows
from spark_jobs.lake.segments.archive import LogRow

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
