"""A batch whose bytes do not match its checksum at the declared length, and other places where it may end.

    proven    its checksum matches the bytes up to there
    framed    its records end there, by their own sizes

Belongs here: what the damaged bytes show. `scan` decides that a batch is damaged. `resynchronization` decides whether
another batch follows.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from logcore.errors import CorruptRecordError
from logcore.records.batch import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LAST_OFFSET_DELTA_AT,
    RECORD_COUNT_AT,
    SMALLEST_RECORD,
    extended_castagnoli,
    read_header,
)
from logcore.records.compression import decompress
from logcore.records.legacy import CRC_FROM, FIXED_BYTES, SMALLEST_SIZE_FIELD
from logcore.records.model import CODEC_MASK, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT, MAGIC_V2, BatchHeader, Limits
from logcore.records.varint import Buffer, read_varint
from logcore.segments.scanning.fetched_bytes import FetchedBytes

SUMMED_AT_ONCE = 16 << 20
"""Bytes."""
SMALLEST_LENGTH = min(SMALLEST_SIZE_FIELD.values())
_GREATEST_LENGTH = 2**31 - 1
"""The greatest value of a length field."""
_READ_AHEAD = 64 << 10
_FRAMES = 1 << 13
"""The most records that are followed: each damaged batch may declare very many."""
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class DamagedBatch:
    """The damaged batch at a position. Its first 61 bytes must be in memory, as far as the file has them."""

    def __init__(self, buf: Buffer, position: int, fetched: FetchedBytes | None) -> None:
        self._buf, self._position, self._fetched = buf, position, fetched
        self._left = len(buf) - position
        self._magic = buf[position + MAGIC_AT] if self._left > MAGIC_AT else -1
        crc_at = position + (MAGIC_AT + 1 if self._magic == MAGIC_V2 else LOG_OVERHEAD)
        self._stated = bytes(buf[crc_at : crc_at + 4])
        self._from = position + (ATTRIBUTES_AT if self._magic == MAGIC_V2 else CRC_FROM)
        self._least = position + (HEADER_SIZE if self._magic == MAGIC_V2 else SMALLEST_LENGTH + LOG_OVERHEAD)
        self._most = position + LOG_OVERHEAD + _GREATEST_LENGTH
        self._summed: tuple[int, int] = self._from, 0
        self._ahead: tuple[int, bytes] = 0, b""
        has_attributes = self._left > MAGIC_AT + 1
        self.is_wrapper = has_attributes and self._magic in (0, 1) and buf[position + MAGIC_AT + 1] & CODEC_MASK != 0

    def declared_end(self) -> int | None:
        """Where it ends by its length field; None if the field is impossible or missing."""
        if self._left < LOG_OVERHEAD:
            return None
        length = self._int32(LENGTH_AT)
        return self._position + LOG_OVERHEAD + length if length >= SMALLEST_LENGTH else None

    def claimed_next_offset(self) -> int | None:
        """The offset after it, by its own header; None if the header does not show it."""
        if self._magic not in FIXED_BYTES and (self._magic != MAGIC_V2 or self._left < HEADER_SIZE):
            return None
        (base,) = _INT64.unpack_from(self._buf, self._position)
        delta = self._int32(LAST_OFFSET_DELTA_AT) if self._magic == MAGIC_V2 else 0
        return int(base) + delta + 1 if base >= 0 and delta >= 0 else None

    def ends_by_one_bit(self) -> list[int]:
        """Where it would end if one bit of its length field were different, ascending."""
        if self._magic not in (0, 1, MAGIC_V2):
            return []
        stated = self._int32(LENGTH_AT) & 0xFFFFFFFF
        ends = (self._position + LOG_OVERHEAD + (stated ^ 1 << bit) for bit in range(32))
        return sorted(end for end in ends if self._least <= end <= len(self._buf))

    def framed_end(self) -> int | None:
        """Where its records end by their own sizes, if they are not compressed; None if that is unknown.

        A value lies inside a record. So its content is never taken for what follows the batch.
        """
        if self._magic == MAGIC_V2 and self._left >= HEADER_SIZE:
            count = self._int32(RECORD_COUNT_AT)
            if self._codec or not 1 <= count <= _FRAMES:
                return None
            ends = list(self._ends_of_records())
            return ends[-1] if len(ends) == count else None
        return None if self.is_wrapper else self._sized_end()

    def _sized_end(self) -> int | None:
        """Where a v0 or v1 message ends by the sizes of its key and its value; None if they are not all there."""
        fixed = FIXED_BYTES.get(self._magic, self._left)
        if self._left <= fixed:
            return None
        at = self._position + fixed
        for _ in ("key", "value"):
            self._fetch(at, at + 4)
            if at + 4 > len(self._buf):
                return None
            (size,) = _INT32.unpack_from(self._buf, at)
            at += 4 + max(size, 0)
        return at

    def may_contain(self, position: int, limits: Limits) -> bool:
        """Whether the bytes at a position after the header may be a part of one of its records.

        So it is if a record reaches across the position, or if the compressed records do not end there. A compressed v0
        or v1 message has none if its sizes contradict its length field: then it is no such message.
        """
        if self._magic != MAGIC_V2:
            sized = self._sized_end()
            return sized == self.declared_end() if self.is_wrapper else sized is not None and sized > position
        if position < self._position + HEADER_SIZE:
            return True
        if not self._codec:
            return next((end for end in self._ends_of_records() if end >= position), position) > position
        self._fetch(self._position, position)
        try:
            whole = repaired_bytes(self._buf, self._position, position)
            decompress(self._codec, whole[HEADER_SIZE:], limits.decoded_batch_bytes)
        except CorruptRecordError:
            return True
        return False

    def _ends_of_records(self) -> Iterator[int]:
        """Where each of its records ends, as long as their sizes are valid."""
        at, end = self._position + HEADER_SIZE, len(self._buf)
        for _ in range(self._int32(RECORD_COUNT_AT)):
            self._fetch(at, at + SMALLEST_RECORD)
            try:
                size, at = read_varint(self._buf, at, end)
            except CorruptRecordError:
                return
            if size < SMALLEST_RECORD - 1:
                return
            at += size
            yield at

    @property
    def _codec(self) -> int:
        """The codec of a v2 batch."""
        return self._buf[self._position + ATTRIBUTES_AT + 1] & CODEC_MASK

    def matches_up_to(self, end: int) -> bool:
        """Whether the checksum matches the bytes up to `end`. Call it with rising positions: then each byte is summed
        only once.
        """
        if self._magic not in (0, 1, MAGIC_V2) or not self._least <= end <= self._most:
            return False
        start, crc = self._summed if self._summed[0] <= end else (self._from, 0)
        while start < end:
            more = self._more(start, end)
            crc = extended_castagnoli(more, crc) if self._magic == MAGIC_V2 else zlib.crc32(more, crc)
            start += len(more)
        self._summed = end, crc
        return crc.to_bytes(4, "big") == self._stated

    def _more(self, start: int, end: int) -> memoryview:
        """Some bytes from `start` on, all before `end`."""
        if self._fetched is None:
            return memoryview(self._buf)[start : min(end, start + SUMMED_AT_ONCE)]
        at, held = self._ahead
        if not at <= start < at + len(held):
            wanted = min(max(end - start, _READ_AHEAD), SUMMED_AT_ONCE)
            at, held = self._ahead = start, self._fetched.read(start, min(start + wanted, len(self._buf)))
        return memoryview(held)[start - at : end - at]

    def _int32(self, at: int) -> int:
        return int(_INT32.unpack_from(self._buf, self._position + at)[0])

    def _fetch(self, start: int, end: int) -> None:
        if self._fetched is not None:
            self._fetched.fetch(start, end)


def repaired_bytes(buf: Buffer, position: int, end: int) -> bytes:
    """The batch at a position, with its length field changed so that it ends at `end`."""
    length = _INT32.pack(end - position - LOG_OVERHEAD)
    view = memoryview(buf)
    return b"".join((view[position : position + LENGTH_AT], length, view[position + LOG_OVERHEAD : end]))


def repaired_header(buf: Buffer, position: int, end: int) -> BatchHeader:
    """The header of `repaired_bytes`."""
    return read_header(repaired_bytes(buf, position, end))
