"""The offset index of a segment: where in the file to start reading for an offset.

    off len field
    0   4   relative offset    int32, offset minus the segment's base offset: the LAST offset of the batch it points to
    4   4   position           int32, byte of the segment where that batch starts

Entries follow each other, 8 bytes each, with increasing offsets. There is no checksum and no header. An index is
derived from its segment, and brokers never verify it. With a wrong index readers skip records silently. So it is
rebuilt and never trusted. A new index is preallocated with zeros and trimmed when its segment is closed; after an
unclean stop the zeros are still there. A partial entry at the end is ignored.

A broker adds an entry before it appends a batch, if more than `index.interval.bytes` were written since the last entry.
So the first batch never has one. The index of a live segment also depends on restarts of its broker. What a broker's
recovery writes (LogSegment.recover) is in `logcore.logs.recovery.segment_recovery`.

Older brokers wrote other offsets, at most one entry for all batches of an append call. Such indexes are still in use:
0.8 to 1.1 wrote the first offset of the call, 2.x up to KAFKA-806 its last offset, each with the position where the
call starts. A lookup works with all of them, and `unexplained` accepts them all.

Sources: Kafka OffsetIndex, AbstractIndex, LogSegment; KAFKA-806.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from logcore.errors import CorruptIndexError
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET, ScannedBatch

DEFAULT_INTERVAL_BYTES = 4096
"""Kafka's default of `index.interval.bytes`."""

_ENTRY = struct.Struct(">ii")
ENTRY_SIZE = _ENTRY.size


@dataclass(frozen=True, slots=True, order=True)
class OffsetEntry:
    """A batch's last offset (absolute) and the position where the batch starts."""

    offset: int
    position: int


def written_entries(data: bytes, entry: struct.Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield position and fields of the entries of an index, without a preallocated tail of zeros. A lone entry of zeros
    is one: in a time index that is the first millisecond of 1970.
    """
    whole = len(data) - len(data) % entry.size
    used = len(data[:whole].rstrip(b"\0"))
    if used or whole == entry.size:
        for at in range(0, max(used, 1), entry.size):
            yield at, entry.unpack_from(data, at)


def parse(data: bytes, base_offset: int) -> tuple[OffsetEntry, ...]:
    """Parse an offset index, without a preallocated tail of zeros.

    Raises:
        CorruptIndexError: Offsets do not increase, or a field is negative.
    """
    entries: list[OffsetEntry] = []
    for at, (relative, position) in written_entries(data, _ENTRY):
        if relative < 0 or position < 0:
            raise CorruptIndexError("an entry of the offset index is negative", position=at)
        if entries and base_offset + relative <= entries[-1].offset:
            raise CorruptIndexError("an entry of the offset index does not rise above the one before", position=at)
        entries.append(OffsetEntry(base_offset + relative, position))
    return tuple(entries)


def encode(entries: Iterable[OffsetEntry], base_offset: int) -> bytes:
    """Build the bytes of an offset index.

    Raises:
        ValueError: An entry does not fit.
    """
    packed = bytearray()
    for entry in entries:
        relative = entry.offset - base_offset
        if not (0 <= relative <= MAX_RELATIVE_OFFSET and 0 <= entry.position <= MAX_RELATIVE_OFFSET):
            raise ValueError(f"{entry} does not fit the index of a segment based at {base_offset}")
        packed += _ENTRY.pack(relative, entry.position)
    return bytes(packed)


def unexplained(entries: Sequence[OffsetEntry], batches: Iterable[ScannedBatch]) -> tuple[OffsetEntry, ...]:
    """The entries that no broker would have written for this segment.

    Either no batch starts at their position, or their offset is not in the batch there or in one of the same append
    call. The disk does not show how far an append call reached: at most to the batch of the next entry.

    Args:
        entries: The index.
        batches: The batches in the order of the segment.
    """
    at = {entry.position: number for number, entry in enumerate(entries)}
    bounds: dict[int, tuple[int, int]] = {}  # number of an entry: its batch's base offset, last offset of the call
    current: int | None = None
    for batch in batches:
        number = at.get(batch.position)
        if number is not None:
            current = number
            bounds[number] = (batch.header.base_offset, batch.header.last_offset)
        elif current is not None:
            bounds[current] = (bounds[current][0], batch.header.last_offset)
    return tuple(
        entry
        for number, entry in enumerate(entries)
        if number not in bounds or not bounds[number][0] <= entry.offset <= bounds[number][1]
    )


def lookup(entries: Sequence[OffsetEntry], offset: int, base_offset: int) -> OffsetEntry:
    """Find where to start reading for an offset: the last entry at or below it, or the segment's start."""
    at = bisect_right(entries, offset, key=lambda entry: entry.offset)
    return entries[at - 1] if at else OffsetEntry(base_offset, 0)
