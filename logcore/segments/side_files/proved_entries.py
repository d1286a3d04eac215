"""Where to begin to read a segment for an offset: an entry of its offset index that its bytes prove.

An index has no checksum, and a wrong one would hide records. So an entry is used only if the batch at its position has
a right checksum, and begins after the offset of the entry before and at or below the entry's own. The checksum does not
cover the base offset; here the index confirms it.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass

from logcore.errors import LogError
from logcore.records.batch import LOG_OVERHEAD, check_header, crc_matches, read_header
from logcore.records.legacy import unfold
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.side_files.offset_index import ENTRY_SIZE

MAX_BATCH_BYTES = 64 << 20
"""A larger batch is no proof: a damaged size field may name most of the file."""
TRIES = 4
"""Entries that are tried, each before the last, until the whole segment is read."""

_ENTRY = struct.Struct(">ii")


@dataclass(frozen=True, slots=True)
class ReadingStart:
    """Where the reading of a segment begins: a position in bytes, and the lowest offset that may be there."""

    position: int
    next_offset: int


class ProvedEntries:
    """The entries of an index, and the segment that proves them. The index may be damaged."""

    def __init__(self, index: bytes, base_offset: int, fetched: FetchedBytes) -> None:
        self._index, self._base, self._fetched = index, base_offset, fetched
        used = len(index.rstrip(b"\0"))  # an index is preallocated with zeros
        self._numbers = range(min(-(-used // ENTRY_SIZE), len(index) // ENTRY_SIZE))

    def start_for(self, offset: int) -> ReadingStart:
        """Find where to begin to read for an offset; the beginning of the segment if no entry is proved."""
        after = bisect_right(self._numbers, offset, key=self._offset) if offset > self._base else 0
        return self._last_proved(after)

    def start_of_end(self, nbytes: int) -> ReadingStart:
        """Find where to begin to read the last `nbytes` bytes; the beginning of the segment if no entry is proved."""
        position = len(self._fetched.content) - nbytes
        return self._last_proved(bisect_right(self._numbers, position, key=self._position) if position > 0 else 0)

    def _last_proved(self, after: int) -> ReadingStart:
        """Find the last proved entry before entry number `after`."""
        for number in range(after - 1, max(-1, after - 1 - TRIES), -1):
            before = self._offset(number - 1) if number else self._base - 1
            if self._is_proved(self._position(number), before, self._offset(number)):
                return ReadingStart(self._position(number), before + 1)
        return ReadingStart(0, self._base)

    def _offset(self, number: int) -> int:
        return self._base + int(_ENTRY.unpack_from(self._index, number * ENTRY_SIZE)[0])

    def _position(self, number: int) -> int:
        return int(_ENTRY.unpack_from(self._index, number * ENTRY_SIZE)[1])

    def _is_proved(self, position: int, before: int, at_most: int) -> bool:
        """Whether a batch with a right checksum is at a position, and begins in (before, at_most]."""
        content = self._fetched.content
        if not 0 <= position <= len(content) - LOG_OVERHEAD:
            return False
        try:
            self._fetched.fetch(position, position + LOG_OVERHEAD)
            end = position + LOG_OVERHEAD
            length = int.from_bytes(content[end - 4 : end], "big")
            end += length
            if length > MAX_BATCH_BYTES or end > len(content):
                return False
            self._fetched.fetch(position, end)
            header = read_header(content, position, end)
            check_header(header, position)
            if not crc_matches(content, position, header) or self._fetched.unreadable(position, end):
                return False
            header = unfold(content, position, header)
        except LogError:  # the reading reports what is wrong there
            return False
        return before < header.base_offset <= at_most
