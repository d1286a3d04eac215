"""A segment during a broker's start: its bytes and its offset index at this moment.

The index is trusted, as by a broker: it decides where a batch is searched, and where the log ends.
Source: Kafka LogSegment, AbstractIndex.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from logcore.logs.model.broker_line import DEFAULT_LINE, BrokerLine
from logcore.logs.model.partition_directory import HeldBytes, LazyBytes
from logcore.logs.recovery.segment_recovery import RecoveredSegment
from logcore.records.legacy import unfold
from logcore.records.model import BatchHeader
from logcore.records.varint import Buffer
from logcore.segments.scanning.file_batches import file_batches
from logcore.segments.side_files import offset_index
from logcore.segments.side_files.leader_epochs import Epochs
from logcore.segments.side_files.producer_state import ProducerEntry

_ENTRY = struct.Struct(">ii")
_WARM_ENTRIES = 8192 // offset_index.ENTRY_SIZE


class LoadedSegment(HeldBytes):
    """A segment as the start sees it. Its files may change during the start."""

    def __init__(
        self, base_offset: int, held: Buffer | LazyBytes, index: bytes, line: BrokerLine = DEFAULT_LINE
    ) -> None:
        self.base_offset, self.held, self.index = base_offset, held, index
        self._line = line
        self.recovered: RecoveredSegment | None = None
        self._begun_with: dict[int, ProducerEntry] = {}
        self._ended_with: dict[int, ProducerEntry] = {}

    def remember(
        self, result: RecoveredSegment, begun_with: dict[int, ProducerEntry], ended_with: dict[int, ProducerEntry]
    ) -> None:
        """Store that the segment was recovered with these producers before it and after it."""
        self.recovered, self._begun_with, self._ended_with = result, begun_with, ended_with

    def recovered_from(self, entries: dict[int, ProducerEntry], epochs: Epochs) -> dict[int, ProducerEntry] | None:
        """The producers after it, if a second recovery from these would have the same result; else None."""
        done = self.recovered
        if done is None or self.size != done.valid_bytes or self._begun_with != entries:
            return None
        latest = done.epochs[-1].epoch if done.epochs else -1
        return self._ended_with if latest <= (epochs[-1].epoch if epochs else -1) else None

    def batches(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Batches from the first one that reaches an offset. The search begins where the offset index points."""
        start = max(self._lookup(offset), 0)
        search = self._first_by_base_offset if self._line.finds_by_base_offset else self._first_by_last_offset
        found = search(offset, start)
        if found is not None:
            yield from file_batches(self.content, found)

    def _first_by_last_offset(self, offset: int, start: int) -> int | None:
        return next((at for at, header in file_batches(self.content, start) if header.last_offset >= offset), None)

    def _first_by_base_offset(self, offset: int, start: int) -> int | None:
        """As `_first_by_last_offset` if offsets increase. If they do not, it may miss the batch."""
        before: tuple[int, int] | None = None
        content = self.content
        for position, header in file_batches(content, start):
            is_old = header.magic in (0, 1)
            base_offset = unfold(content, position, header).base_offset if is_old else header.base_offset
            if base_offset == offset:
                return position
            if base_offset > offset:
                return before[0] if before is not None and before[1] >= offset else position
            before = position, header.last_offset
        return before[0] if before is not None and before[1] >= offset else None

    def read_next_offset(self) -> int:
        """The log's end as the start reads it: from the index's last entry on.

        Raises:
            CorruptRecordError: A batch cannot be read.
        """
        entries = len(self.index) // offset_index.ENTRY_SIZE
        last_indexed = self._entry(entries - 1)[0] if entries else self.base_offset
        end = self.base_offset
        for _, header in self.batches(last_indexed):
            end = header.next_offset
        return end

    def _entry(self, slot: int) -> tuple[int, int]:
        relative, position = _ENTRY.unpack_from(self.index, slot * offset_index.ENTRY_SIZE)
        return self.base_offset + relative, position

    def _lookup(self, offset: int) -> int:
        """A broker's search, step by step: in an invalid index the steps decide what is found."""
        entries = len(self.index) // offset_index.ENTRY_SIZE
        if entries == 0:
            return 0
        low, high = 0, max(0, entries - 1 - _WARM_ENTRIES)
        if self._entry(high)[0] < offset:
            low, high = high, entries - 1
        elif self._entry(0)[0] > offset:
            return 0
        while low < high:
            middle = (low + high + 1) // 2
            found, position = self._entry(middle)
            if found == offset:
                return position
            if found > offset:
                high = middle - 1
            else:
                low = middle
        return self._entry(low)[1]
