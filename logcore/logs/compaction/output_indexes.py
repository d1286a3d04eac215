"""The indexes of a segment that is written batch by batch.

As on a broker's append, an entry is added before a batch if more than `index.interval.bytes` were written since the
last one. Closing the segment adds a last entry to the time index. The bytes are counted over everything in the segment,
whatever its portions. So the result is that of a recovery of the segment.

Source: Kafka LogSegment.{append, onBecomeInactiveSegment}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import NoReturn

from logcore.logs.compaction.cleaning_round import CleanedSegment, Uncleanable
from logcore.records.batch import BatchHeader
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET
from logcore.segments.side_files import offset_index, time_index, transaction_index
from logcore.segments.side_files.offset_index import OffsetEntry
from logcore.segments.side_files.time_index import NO_TIMESTAMP, TimeEntry
from logcore.segments.side_files.transaction_index import AbortedTransaction


class SegmentIndexes(ABC):
    """The indexes of one segment based at `base_offset`.

    `size`, `batches`, `last_offset` and `max_timestamp` describe its content until now; the last two are None without
    one.
    """

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._aborted: list[AbortedTransaction] = []
        self.size = 0
        self.batches = 0
        self.last_offset: int | None = None

    @property
    @abstractmethod
    def max_timestamp(self) -> int | None:
        """The greatest timestamp of a batch, in ms."""

    @abstractmethod
    def offset_index(self) -> bytes:
        """The offset index."""

    @abstractmethod
    def time_index(self) -> bytes:
        """The time index with its closing entry."""

    def abort(self, transaction: AbortedTransaction) -> None:
        """Add an aborted transaction whose marker stays in the segment."""
        self._aborted.append(transaction)

    def transaction_index(self) -> bytes | None:
        """The transaction index; None if it has no entry: then there is no such file."""
        return transaction_index.encode(self._aborted) if self._aborted else None

    def _refuse(self, base_offset: int, last_offset: int) -> NoReturn:
        """Raise Uncleanable for a batch whose offset is too far from the base."""
        raise Uncleanable(
            f"a batch ends at offset {last_offset}, which a segment based at {self._base_offset} cannot contain",
            offset=base_offset,
            advice="Run `loglake recover` first: it splits such a segment.",
        )


class OutputIndexes(SegmentIndexes):
    """The indexes of a segment whose batches come one by one."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        super().__init__(base_offset)
        self._interval = interval_bytes
        self._unindexed = 0
        self._greatest = TimeEntry(NO_TIMESTAMP, base_offset)
        self._offsets: list[OffsetEntry] = []
        self._times: list[TimeEntry] = []

    @property
    def max_timestamp(self) -> int | None:
        """The greatest timestamp of what was appended; None if there is none."""
        return None if self._greatest.timestamp == NO_TIMESTAMP else self._greatest.timestamp

    def take(self, header: BatchHeader) -> None:
        """Add the next batch of the segment.

        Raises:
            Uncleanable: Its offset is too far from the base.
        """
        last_offset = header.last_offset
        if not 0 <= last_offset - self._base_offset <= MAX_RELATIVE_OFFSET:
            self._refuse(header.base_offset, last_offset)
        if header.max_timestamp > self._greatest.timestamp:
            self._greatest = TimeEntry(header.max_timestamp, last_offset)
        if self._unindexed > self._interval:
            self._offsets.append(OffsetEntry(last_offset, self.size))
            self._consider()
            self._unindexed = 0
        self.size += header.size
        self._unindexed += header.size
        self.batches += 1
        self.last_offset = last_offset

    def offset_index(self) -> bytes:
        """The content of the offset index."""
        return offset_index.encode(self._offsets, self._base_offset)

    def time_index(self) -> bytes:
        """Bytes of the time index; its last entry is the latest timestamp of the segment."""
        self._consider()
        return time_index.encode(self._times, self._base_offset)

    def _consider(self) -> None:
        if self._greatest.timestamp > (self._times[-1].timestamp if self._times else NO_TIMESTAMP):
            self._times.append(self._greatest)


def check_room(segment: CleanedSegment, index_bytes: int | None) -> None:
    """Check that a broker's indexes, which are `segment.index.bytes` large, would have room for a cleaned segment.

    A broker fails at an entry without room. The time index keeps one place free for its closing entry.

    Args:
        segment: The cleaned segment.
        index_bytes: The size of an index; None: no limit.

    Raises:
        Uncleanable: There is no room.
    """
    if index_bytes is None:
        return
    base = segment.base_offset
    room, time_room = index_bytes // offset_index.ENTRY_SIZE, index_bytes // time_index.ENTRY_SIZE - 1
    used, time_used = (
        len(segment.offset_index) // offset_index.ENTRY_SIZE,
        len(segment.time_index) // time_index.ENTRY_SIZE,
    )
    if used == 0 or (used <= room and time_used < time_room):
        return
    last_time = 0
    if used > 1:
        # Every entry of the offset index needs room for one of the time index. How many were there before the last?
        offsets, times = offset_index.parse(segment.offset_index, base), time_index.parse(segment.time_index, base)
        last_time = bisect_right(times, offsets[-2].offset, key=lambda entry: entry.offset)
    if used > room or last_time >= time_room:
        raise Uncleanable(
            f"the indexes of the segment that begins at offset {base} would be larger than segment.index.bytes "
            f"{index_bytes}; a broker fails at this too.",
            offset=base,
            advice="Allow for larger ones with --config segment.index.bytes=N.",
        )
