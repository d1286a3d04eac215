"""Segments read by the model: a walk over v2 batches with `struct`, and the content of side files.

It knows what the model writes and what cleaning may make of it: v2, no codec or gzip. A batch whose checksum is wrong
is there, but has nothing in it; where a size makes no sense the walk ends. Nothing here is shared with logcore.
"""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass
from functools import lru_cache

from tests.handmade import CONTROL, CRC_FROM, DELETE_HORIZON, HEADER, TRANSACTIONAL, crc32c

_ABORTED = struct.Struct(">hqqqq")


@dataclass(frozen=True, slots=True)
class Read:
    """A record as bytes say it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as bytes say it. is_sound: its checksum is right; of one that is not, only the place counts."""

    raw: bytes
    position: int
    base_offset: int
    last_offset: int
    is_sound: bool
    attributes: int = 0
    base_timestamp: int = -1
    max_timestamp: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int = 0
    records: tuple[Read, ...] = ()

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def horizon(self) -> int | None:
        """When its tombstones, or its marker, may go."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def marks_commit(self) -> bool | None:
        """Of a marker: whether it commits. None if it is none, or an empty one."""
        if not (self.is_control and self.records):
            return None
        return self.records[0].key == b"\x00\x00\x00\x01"


@dataclass(frozen=True, slots=True)
class AbortedEntry:
    """An entry of a transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@lru_cache(maxsize=50_000)
def batches(content: bytes) -> tuple[Batch, ...]:
    """Every batch of a segment, up to where sizes end to make sense."""
    found, position = [], 0
    while position + 61 <= len(content):
        (length,) = struct.unpack_from(">i", content, position + 8)
        if length < 49 or position + 12 + length > len(content):
            break
        found.append(_batch(content[position : position + 12 + length], position))
        position += 12 + length
    return tuple(found)


def unread_bytes(content: bytes) -> int:
    """Bytes after the last batch that the walk reached."""
    return len(content) - sum(len(batch.raw) for batch in batches(content))


def aborted_entries(content: bytes) -> tuple[AbortedEntry, ...]:
    """Of a transaction index."""
    assert len(content) % _ABORTED.size == 0
    entries = [_ABORTED.unpack_from(content, at) for at in range(0, len(content), _ABORTED.size)]
    assert all(version == 0 for version, *_ in entries)
    return tuple(AbortedEntry(*rest) for _, *rest in entries)


def transaction_index(entries: tuple[AbortedEntry, ...]) -> bytes:
    """The file that these entries make."""
    return b"".join(
        _ABORTED.pack(0, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)
        for entry in entries
    )


def indexes(content: bytes, base_offset: int, interval: int) -> tuple[bytes, bytes]:
    """Offset and time index of a segment as a rebuild makes them (LogSegment.recover)."""
    offsets, times = b"", b""
    greatest, at_offset, written, since = -1, base_offset, -1, 0
    for batch in batches(content):
        if batch.max_timestamp > greatest:
            greatest, at_offset = batch.max_timestamp, batch.last_offset
        if since > interval:
            offsets += struct.pack(">ii", batch.last_offset - base_offset, batch.position)
            if greatest > written:
                times += struct.pack(">qi", greatest, at_offset - base_offset)
                written = greatest
            since = 0
        since += len(batch.raw)
    if greatest > written:
        times += struct.pack(">qi", greatest, at_offset - base_offset)
    return offsets, times


def _batch(raw: bytes, position: int) -> Batch:
    base, _, _, magic, crc, attributes, delta, base_time, max_time, pid, epoch, sequence, count = HEADER.unpack_from(
        raw
    )
    attributes &= 0xFF
    if magic != 2 or crc != crc32c(raw[CRC_FROM:]):
        return Batch(raw, position, base, base + delta, is_sound=False)
    body = gzip.decompress(raw[61:]) if attributes & 7 == 1 and count else raw[61:]
    assert attributes & 7 in (0, 1)
    records, at = [], 0
    for _ in range(count):
        size, at = _varint(body, at)
        end = at + size
        time_delta, at = _varint(body, at + 1)
        offset_delta, at = _varint(body, at)
        key, at = _bytes(body, at)
        value, at = _bytes(body, at)
        headers, at = _varint(body, at)
        assert headers == 0
        assert at == end
        records.append(Read(base + offset_delta, base_time + time_delta, key, value))
    assert at == len(body)
    return Batch(
        *(raw, position, base, base + delta, True, attributes, base_time, max_time),
        *(pid, epoch, sequence, count, tuple(records)),
    )


def _varint(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[at]
        raw |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return raw >> 1 ^ -(raw & 1), at


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(data, at)
    return (None, at) if length < 0 else (data[at : at + length], at + length)
