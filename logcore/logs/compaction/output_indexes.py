"""The indexes of a segment that is being written batch by batch.

An entry is made in front of a batch when more than `index.interval.bytes` were written since the last one, as a broker
does on append; closing the segment adds a last entry to the time index. Since the bytes are counted over everything
that goes into the segment, in whatever portions, the result is that of a recovery of the segment.

Source: Kafka LogSegment.{append, onBecomeInactiveSegment}.
"""

from __future__ import annotations

from bisect import bisect_right

from logcore.logs.compaction.cleaning_round import CleanedSegment, Uncleanable
from logcore.records.batch import BatchHeader
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET
from logcore.segments.side_files import offset_index, time_index, transaction_index
from logcore.segments.side_files.offset_index import OffsetEntry
from logcore.segments.side_files.time_index import NO_TIMESTAMP, TimeEntry
from logcore.segments.side_files.transaction_index import AbortedTransaction


class OutputIndexes:
    """Of one segment based at `base_offset`. size, batches, last_offset, max_timestamp: of what it holds so far, the
    last two None without one."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval = interval_bytes
        self._unindexed = 0
        self._greatest = TimeEntry(NO_TIMESTAMP, base_offset)
        self._offsets: list[OffsetEntry] = []
        self._times: list[TimeEntry] = []
        self._aborted: list[AbortedTransaction] = []
        self.size = 0
        self.batches = 0
        self.last_offset: int | None = None

    @property
    def max_timestamp(self) -> int | None:
        return None if self._greatest.timestamp == NO_TIMESTAMP else self._greatest.timestamp

    def take(self, header: BatchHeader) -> None:
        """The next batch of the segment. Raises Uncleanable for an offset that the indexes cannot hold."""
        last_offset = header.last_offset
        if not 0 <= last_offset - self._base_offset <= MAX_RELATIVE_OFFSET:
            raise Uncleanable(
                f"a batch ends at offset {last_offset}, which a segment based at {self._base_offset} cannot hold",
                offset=header.base_offset,
                advice="Run `loglake recover` first: it splits such a segment.",
            )
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

    def abort(self, transaction: AbortedTransaction) -> None:
        """An aborted transaction whose marker stays in the segment."""
        self._aborted.append(transaction)

    def offset_index(self) -> bytes:
        return offset_index.encode(self._offsets, self._base_offset)

    def time_index(self) -> bytes:
        """With the entry that closes it."""
        self._consider()
        return time_index.encode(self._times, self._base_offset)

    def transaction_index(self) -> bytes | None:
        """None if there is nothing to say: then there is no such file."""
        return transaction_index.encode(self._aborted) if self._aborted else None

    def _consider(self) -> None:
        if self._greatest.timestamp > (self._times[-1].timestamp if self._times else NO_TIMESTAMP):
            self._times.append(self._greatest)


def check_room(segment: CleanedSegment, index_bytes: int | None) -> None:
    """Whether a broker's indexes, which are made `segment.index.bytes` large, would have held those of a cleaned
    segment. It fails at an entry for which there is no room; the time index keeps a place free for the entry that
    closes it. index_bytes: None for any. Raises Uncleanable."""
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
        # Every entry of the offset index asks for one of the time index; what was there before the last one asked?
        offsets, times = offset_index.parse(segment.offset_index, base), time_index.parse(segment.time_index, base)
        last_time = bisect_right(times, offsets[-2].offset, key=lambda entry: entry.offset)
    if used > room or last_time >= time_room:
        raise Uncleanable(
            f"the indexes of the segment that begins at offset {base} would be larger than segment.index.bytes "
            f"{index_bytes}; a broker fails at this too.",
            offset=base,
            advice="Allow for larger ones with --config segment.index.bytes=N.",
        )
