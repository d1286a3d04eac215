"""The active segment while it is written: its bytes, its indexes as they grow, and when it is full.

    per batch     if its max timestamp is greater than all before: stored with the batch's last offset
                  more than index.interval.bytes since the last entry: an entry of the offset index, and one of the time
                  index if the greatest timestamp has increased
    closing       the greatest timestamp once more, then both indexes are cut to their entries

The count of bytes since the last entry restarts when a segment is opened and when it is truncated. So a live segment's
indexes depend on the history of its broker. An index has room for `segment.index.bytes` in whole entries. Until it is
closed its file has that size, with zeros after the entries. The time index keeps one entry free for closing.

Source: Kafka LogSegment.append, shouldRoll, truncateTo, onBecomeInactiveSegment; AbstractIndex. Belongs here: one
segment. `writer` has the list of segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from logcore.logs.model.topic_config import TopicConfig
from logcore.records.batch import BatchHeader
from logcore.records.varint import Buffer
from logcore.segments.scanning.file_batches import file_batches
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET
from logcore.segments.side_files import offset_index, time_index, transaction_index
from logcore.segments.side_files.offset_index import OffsetEntry
from logcore.segments.side_files.time_index import NO_TIMESTAMP, TimeEntry
from logcore.segments.side_files.transaction_index import AbortedTransaction

PlacedBatch = tuple[int, BatchHeader]
"""Position in the bytes of the append call, and header."""


class RollReason(StrEnum):
    """Why a new segment was begun, in the order of the checks."""

    SIZE = "segment.bytes"
    TIME = "segment.ms"
    OFFSET_INDEX = "the offset index is full"
    TIME_INDEX = "the time index is full"
    OFFSET_SPAN = "an offset too far above the base"


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """The part of a topic's configuration that decides on segments and index entries. Sizes in bytes, time in ms."""

    segment_bytes: int
    segment_ms: int
    index_bytes: int
    index_interval_bytes: int

    @classmethod
    def of(cls, config: TopicConfig) -> SegmentLimits:
        """The limits of a configuration. A compacted topic rolls in time for max.compaction.lag.ms."""
        rolls_after = min(config.max_compaction_lag_ms, config.segment_ms) if config.compacts else config.segment_ms
        return cls(config.segment_bytes, rolls_after, config.segment_index_bytes, config.index_interval_bytes)


class OpenSegment:
    """A segment that is being written. `jitter_ms` is how much earlier than segment.ms it is full."""

    def __init__(self, base_offset: int, limits: SegmentLimits, created_ms: int, jitter_ms: int = 0) -> None:
        self.base_offset = base_offset
        self.content = bytearray()
        self.offset_entries: list[OffsetEntry] = []
        self.time_entries: list[TimeEntry] = []
        self.aborted: list[AbortedTransaction] = []
        self.was_asked = False
        """Whether its indexes were used. A broker creates their files only then."""
        self._limits = limits
        self._created_ms = created_ms
        self._jitter_ms = jitter_ms
        self._since_entry = 0
        self._greatest = TimeEntry(NO_TIMESTAMP, base_offset)

    @property
    def offset_index_room(self) -> int:
        """Entries that fit the offset index."""
        return self._limits.index_bytes // offset_index.ENTRY_SIZE

    @property
    def time_index_room(self) -> int:
        """Entries that fit the time index, the closing one included."""
        return self._limits.index_bytes // time_index.ENTRY_SIZE

    def full_for(self, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> RollReason | None:
        """Why an append of this size, greatest timestamp and last offset needs a new segment; None if it fits."""
        if len(self.content) > self._limits.segment_bytes - size:
            return RollReason.SIZE
        if self.content and self._waited(max_timestamp, now_ms) > self._limits.segment_ms - self._jitter_ms:
            return RollReason.TIME
        self.was_asked = True
        if len(self.offset_entries) >= self.offset_index_room:
            return RollReason.OFFSET_INDEX
        if len(self.time_entries) >= self.time_index_room - 1:
            return RollReason.TIME_INDEX
        if not 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
            return RollReason.OFFSET_SPAN
        return None

    def _waited(self, max_timestamp: int, now_ms: int) -> int:
        """By the records' own clock; if the first batch has no timestamp, by the broker's."""
        _, first = next(file_batches(self.content))
        return max_timestamp - first.max_timestamp if first.max_timestamp >= 0 else now_ms - self._created_ms

    def append(self, data: Buffer, batches: Sequence[PlacedBatch]) -> None:
        """Append the batches of one call.

        Raises:
            ValueError: An offset is too far from the base, or an index is full.
        """
        last_offset = batches[-1][1].last_offset
        if not 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
            raise ValueError(f"a segment based at {self.base_offset} cannot contain offset {last_offset}")
        at = len(self.content)
        self.content += data
        for position, header in batches:
            if header.max_timestamp > self._greatest.timestamp:  # the first batch wins ties
                self._greatest = TimeEntry(header.max_timestamp, header.last_offset)
            if self._since_entry > self._limits.index_interval_bytes:
                self._index(OffsetEntry(header.last_offset, at + position))
                self._since_entry = 0
            self._since_entry += header.size

    def _index(self, entry: OffsetEntry) -> None:
        self.was_asked = True
        if len(self.offset_entries) >= self.offset_index_room or len(self.time_entries) >= self.time_index_room - 1:
            raise ValueError(f"an index of the segment based at {self.base_offset} is full within one append call")
        self.offset_entries.append(entry)
        self._note_greatest()

    def _note_greatest(self) -> None:
        last = self.time_entries[-1].timestamp if self.time_entries else NO_TIMESTAMP
        if self._greatest.timestamp > last:
            self.time_entries.append(self._greatest)

    def close(self) -> None:
        """Write the closing entry of the time index, for a segment that is rolled or closed."""
        self._note_greatest()

    def reopen(self, created_ms: int, jitter_ms: int) -> None:
        """Do what a start does: the greatest timestamp becomes that of the last entry of the time index."""
        self._greatest = self.time_entries[-1] if self.time_entries else TimeEntry(NO_TIMESTAMP, self.base_offset)
        self._since_entry = 0
        self.was_asked = True
        self._created_ms, self._jitter_ms = created_ms, jitter_ms

    def truncate(self, offset: int, now_ms: int) -> None:
        """Cut before the batch that reaches an offset. Index entries at or above it are removed."""
        for position, header in file_batches(self.content):
            if header.last_offset >= offset:
                del self.content[position:]
                break
        self.offset_entries = [entry for entry in self.offset_entries if entry.offset < offset]
        self.time_entries = [entry for entry in self.time_entries if entry.offset < offset]
        self.aborted = list(transaction_index.truncate(self.aborted, offset))
        self._since_entry = 0
        if not self.content:
            self._created_ms = now_ms
        if self._greatest.timestamp >= 0:
            self._greatest = self._greatest_left()

    def _greatest_left(self) -> TimeEntry:
        """The last entry of the time index, or a later time in a batch after it."""
        greatest = self.time_entries[-1] if self.time_entries else TimeEntry(NO_TIMESTAMP, self.base_offset)
        start = offset_index.lookup(self.offset_entries, greatest.offset, self.base_offset).position
        for _, header in file_batches(self.content, start):
            if header.max_timestamp > greatest.timestamp:
                greatest = TimeEntry(header.max_timestamp, header.last_offset)
        return greatest

    def index_files(self, *, preallocated: bool) -> tuple[bytes, bytes]:
        """Bytes of the offset index and of the time index, on request with the zeros after them."""
        offsets = offset_index.encode(self.offset_entries, self.base_offset)
        times = time_index.encode(self.time_entries, self.base_offset)
        if not preallocated:
            return offsets, times
        return (
            offsets.ljust(self.offset_index_room * offset_index.ENTRY_SIZE, b"\0"),
            times.ljust(self.time_index_room * time_index.ENTRY_SIZE, b"\0"),
        )
