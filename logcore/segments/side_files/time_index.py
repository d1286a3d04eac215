"""The time index of a segment: the offset from which to search for a timestamp.

    off len field
    0   8   timestamp          int64 ms: the greatest batch timestamp of the segment so far
    8   4   relative offset    int32, offset minus the segment's base offset: the LAST offset of the first batch that
                               reached this timestamp

Entries follow each other, 12 bytes each; timestamps strictly increase. As for the offset index: no checksum, derived,
preallocated with zeros, rebuilt and never trusted. Retention reads the last entry as the segment's greatest timestamp.
So an outdated entry makes it delete data or keep it for ever.

An entry is considered whenever the offset index gets one, and once more when the segment is closed. It is written only
if the greatest timestamp has increased.

Brokers from 0.11 to 2.8 wrote the offset of the exact record that reached the timestamp if its batch is not compressed;
`unexplained` accepts that too. Segments of format v0 have no timestamps, so their time index has zero bytes. Brokers
before 0.10.1 wrote no time index.

Sources: Kafka TimeIndex, AbstractIndex, LogSegment.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from logcore.errors import CorruptIndexError
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET, ScannedBatch
from logcore.segments.side_files.offset_index import written_entries

_ENTRY = struct.Struct(">qi")
ENTRY_SIZE = _ENTRY.size

NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True, order=True)
class TimeEntry:
    """The greatest timestamp (ms) up to an offset (absolute)."""

    timestamp: int
    offset: int


def parse(data: bytes, base_offset: int) -> tuple[TimeEntry, ...]:
    """Parse a time index, without a preallocated tail of zeros.

    Raises:
        CorruptIndexError: Timestamps do not increase, offsets decrease, or an offset is below the base.
    """
    entries: list[TimeEntry] = []
    for at, (timestamp, relative) in written_entries(data, _ENTRY):
        offset = base_offset + relative
        if relative < 0 or timestamp < 0:
            raise CorruptIndexError("an entry of the time index is negative", position=at)
        if entries and (timestamp <= entries[-1].timestamp or offset < entries[-1].offset):
            raise CorruptIndexError("an entry of the time index does not rise above the one before", position=at)
        entries.append(TimeEntry(timestamp, offset))
    return tuple(entries)


def encode(entries: Iterable[TimeEntry], base_offset: int) -> bytes:
    """Build the bytes of a time index.

    Raises:
        ValueError: An entry does not fit.
    """
    packed = bytearray()
    for entry in entries:
        relative = entry.offset - base_offset
        if not (0 <= relative <= MAX_RELATIVE_OFFSET and 0 <= entry.timestamp < 2**63):
            raise ValueError(f"{entry} does not fit the index of a segment based at {base_offset}")
        packed += _ENTRY.pack(entry.timestamp, relative)
    return bytes(packed)


def unexplained(entries: Sequence[TimeEntry], batches: Iterable[ScannedBatch]) -> tuple[TimeEntry, ...]:
    """The entries that no broker would have written for this segment.

    Their offset is in no batch that raised the segment's greatest timestamp to theirs, or equalled it.

    Args:
        entries: The index.
        batches: The batches in the order of the segment.
    """
    spans: dict[int, list[tuple[int, int]]] = {entry.timestamp: [] for entry in entries}
    greatest = NO_TIMESTAMP
    for batch in batches:
        header = batch.header
        if header.max_timestamp >= greatest:
            greatest = header.max_timestamp
            if greatest in spans:
                spans[greatest].append((header.base_offset, header.last_offset))
    return tuple(
        entry for entry in entries if not any(first <= entry.offset <= last for first, last in spans[entry.timestamp])
    )
