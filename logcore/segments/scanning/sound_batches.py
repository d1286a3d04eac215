"""The sound batches of a segment's file, found by search: all bytes of the right form with a right checksum.

Where damage follows damage, the same bytes are needed again and again. Results are remembered, so that the work grows
only with the file: a search after one damaged batch continues where the one before it ended. The memory changes only
the work, never a result. For one thread.

Everything that looks like a batch costs a checksum. More than 16 MiB of wrong ones between two sound batches exist only
if someone made the file to slow the search. Then the search ends.

Belongs here: which batches are in the bytes. `logcore.segments.scanning.resynchronization` decides which of them count.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from logcore.errors import CorruptRecordError
from logcore.records.batch import crc_matches, read_header
from logcore.records.legacy import unfold
from logcore.records.model import LENGTH_AT, LOG_OVERHEAD, MAGIC_AT, MAGIC_V2, BatchHeader, Limits
from logcore.records.varint import Buffer
from logcore.segments.scanning.damaged_batch import SMALLEST_LENGTH
from logcore.segments.scanning.fetched_bytes import FetchedBytes

LOOKED_AHEAD = 64 << 10
"""More batches are searched in so many bytes after the first batch found."""
_SUMMED = 16 << 20
_SHAPE_BYTES = MAGIC_AT + 1
_INT32 = struct.Struct(">i")
_NOT_ZERO = re.compile(rb"[^\0]")
_ZERO_STEP = 1 << 20
_FIRST_SEARCHED = 4 << 10
_SEARCHED = 16 << 20
"""Bytes that are searched at a time: few at first, then twice as many each time, at most so many."""
_REMEMBERED = 1 << 13
"""Batches."""
_FOR_EVER = 1 << 64


class TooManyLookalikes(Exception):
    """The search ends, because too many bytes look like a batch and are none."""


@dataclass(frozen=True, slots=True)
class SoundBatch:
    """A batch with a right checksum and valid offsets.

    Attributes:
        position: Where it begins in the file.
        header: Its header, unfolded.
        followed_by: The base offset of a sound batch directly after it. Above every offset if zeros up to the end or
            the end of the file follow; -1 if anything else follows.
    """

    position: int
    header: BatchHeader
    followed_by: int

    @property
    def end(self) -> int:
        """Position after it."""
        return self.position + self.header.size


class SoundBatches:
    """Finds the sound batches of one file.

    Args:
        buf: The file's bytes.
        ceiling: The last offset that a batch of the file may have.
        limits: The most that is kept in memory.
        fetched: Loads the bytes of `buf` into memory; None if they are all there.
    """

    def __init__(self, buf: Buffer, ceiling: int, limits: Limits, fetched: FetchedBytes | None) -> None:
        self._buf, self._size, self._ceiling = buf, len(buf), ceiling
        self._limits, self._fetched = limits, fetched
        self._verdicts: dict[int, tuple[BatchHeader, BatchHeader | None, bool]] = {}
        """By position: the header, the header unfolded if the batch is sound, whether its checksum is wrong."""
        self._found: list[SoundBatch] = []
        """Neighbours: between two of them, and from `_begin` to the first, there is no sound batch that begins at or
        above `_expected`."""
        self._begin = self._expected = 0
        self._rest: tuple[int, int] | None = None

    def at(self, position: int, expected: int, budget: list[int] | None = None) -> BatchHeader | None:
        """The header of a sound batch at a position; None if there is none.

        Args:
            position: Where the batch begins.
            expected: The lowest offset that it may have.
            budget: The size of a batch with a wrong checksum is subtracted from it.
        """
        verdict = self._verdicts.get(position)
        try:
            if verdict is None:
                self.fetch_batch(position)
                header = read_header(self._buf, position)
            else:
                header = verdict[0]
            if not expected <= header.base_offset <= self._ceiling and not header.is_wrapper:
                return None
        except CorruptRecordError:
            return None
        if verdict is None:
            verdict = self._checked(position, header)
            if len(self._verdicts) >= _REMEMBERED:
                self._verdicts.clear()
            self._verdicts[position] = verdict
        _, sound, is_wrong = verdict
        if is_wrong and budget is not None:
            budget[0] -= header.size
        if sound is None:
            return None
        fits = sound.base_offset >= expected and sound.last_offset <= self._ceiling
        return sound if fits and sound.last_offset_delta >= 0 else None

    def _checked(self, position: int, header: BatchHeader) -> tuple[BatchHeader, BatchHeader | None, bool]:
        try:
            if not crc_matches(self._buf, position, header):
                return header, None, True
            return header, unfold(self._buf, position, header, self._limits), False
        except CorruptRecordError:
            return header, None, False

    def following(self, start: int, expected: int) -> Iterator[SoundBatch]:
        """Yield the sound batches from a position on, none inside another one.

        The last is at most 64 KiB after the first.

        Args:
            start: Where the search begins.
            expected: The lowest offset that a batch may have.

        Raises:
            TooManyLookalikes: The search takes too much work.
        """
        self._forget(start, expected)
        index = 0
        limit: int | None = None
        while True:
            if index < len(self._found) and self._found[index].header.base_offset < expected:
                del self._found[index:]  # a batch that it hides may fit
            if index == len(self._found):
                end = self._found[-1].end if index else start
                found = self._next(end, expected, limit)
                if found is None:
                    return
                self._found.append(found)
            found = self._found[index]
            if limit is None:
                limit = found.position + LOOKED_AHEAD
            elif found.position > limit:
                return
            yield found
            index += 1

    def _forget(self, start: int, expected: int) -> None:
        """Forget what lies before a search, or is not valid for it."""
        index = bisect_left(self._found, start, key=lambda found: found.position)
        is_inside = index > 0 and self._found[index - 1].end > start
        if expected < self._expected or start < self._begin or is_inside:
            index = len(self._found)
        del self._found[:index]
        self._begin, self._expected = start, expected

    def _next(self, start: int, expected: int, limit: int | None) -> SoundBatch | None:
        budget = [_SUMMED]
        for at in self.candidates(start, expected):
            if limit is not None and at > limit:
                return None
            header = self.at(at, expected, budget)
            if budget[0] < 0:
                raise TooManyLookalikes
            if header is not None:
                return SoundBatch(at, header, self._follower(at + header.size, expected))
        return None

    def _follower(self, end: int, expected: int) -> int:
        if end == self._size or self.is_zero_rest(end):
            return _FOR_EVER
        header = self.at(end, expected)
        return -1 if header is None else header.base_offset

    def after_wrapper(self, start: int, expected: int) -> Iterator[SoundBatch]:
        """Yield the sound batches after a compressed message, without limit: messages lie inside each other, and hide
        no others.
        """
        first = taken = None
        budget = [_SUMMED]
        for at in self.candidates(start, expected):
            if first is not None and taken is not None:
                if at > first + LOOKED_AHEAD:
                    return
                if at < taken:
                    continue
            header = self.at(at, expected, budget)
            if budget[0] < 0:
                raise TooManyLookalikes
            if header is None:
                continue
            yield SoundBatch(at, header, self._follower(at + header.size, expected))
            if header.magic == MAGIC_V2:
                first, taken = at if first is None else first, at + header.size

    def candidates(self, start: int, expected: int) -> Iterator[int]:
        """Yield positions where offset, length and magic of a batch are possible."""
        low, high = expected >> 32, self._ceiling >> 32
        tops = {(top & 0xFFFFFFFF).to_bytes(4, "big") for top in (low, high)}
        # A compressed message may have 0 in place of its last offset.
        tops.add(bytes(4))
        either = b"|".join(re.escape(top) for top in sorted(tops))
        shape = re.compile(b"(?s)(?=(?:" + either + rb").{4}(?!\0\0\0\0)[\0-\x7f].{7}[\0-\2])")
        for begin, part in self._parts(start):
            for match in shape.finditer(part):
                at = begin + match.start()
                (length,) = _INT32.unpack_from(part, match.start() + LENGTH_AT)
                if SMALLEST_LENGTH <= length <= self._size - at - LOG_OVERHEAD:
                    yield at

    def _parts(self, start: int) -> Iterator[tuple[int, Buffer]]:
        """Yield the bytes from a position on in parts, each with its position and without zeros at its beginning.

        No length field is zero, so a batch can begin only in the last bytes of a run of zeros. Parts overlap by less
        than the form of a batch.
        """
        step = min(_FIRST_SEARCHED, _SEARCHED)
        while start < self._size:
            if self._fetched is not None:
                start = max(start, self._fetched.next_data(start) - LOG_OVERHEAD + 1)
            end = min(start + step, self._size)
            part = self._read(start, min(end + _SHAPE_BYTES - 1, self._size))
            first = _NOT_ZERO.search(part)
            if first is not None:
                skipped = max(0, first.start() - LOG_OVERHEAD + 1)
                yield start + skipped, memoryview(part)[skipped:]
            start, step = end, min(2 * step, _SEARCHED)

    def is_zero_rest(self, position: int) -> bool:
        """Whether there are only zeros from a position to the end."""
        self.fetch(position, position + LOG_OVERHEAD)
        # The first bytes decide for almost every batch: the size field of a batch is never zero.
        if any(self._buf[position : position + LOG_OVERHEAD]):
            return False
        return position >= self._zeros()[1]

    def zeros_from(self) -> int:
        """Where the zeros at the end of the file begin. Bytes that the disk failed to read count as zeros."""
        return self._zeros()[0]

    def _zeros(self) -> tuple[int, int]:
        """Where the zeros at the end begin, and where those begin that were really read. Searched once."""
        if self._rest is None:
            if self._fetched is None:
                start = readable = self._zeros_in_memory()
            else:
                start = self._fetched.zeros_from()
                gone = self._fetched.unreadable(start, self._size)
                readable = gone[-1][1] if gone else start
            self._rest = start, readable
        return self._rest

    def _zeros_in_memory(self) -> int:
        end, zeros = self._size, bytes(_ZERO_STEP)
        while end:
            start = max(0, end - _ZERO_STEP)
            part = self._buf[start:end]
            if part != zeros[: len(part)]:
                return start + len(bytes(part).rstrip(b"\0"))
            end = start
        return 0

    def _read(self, start: int, end: int) -> Buffer:
        return memoryview(self._buf)[start:end] if self._fetched is None else self._fetched.read(start, end)

    def fetch(self, start: int, end: int) -> None:
        """Load bytes start..end into memory."""
        if self._fetched is not None:
            self._fetched.fetch(start, end)

    def fetch_batch(self, position: int) -> None:
        """Load the batch at a position into memory."""
        if self._fetched is not None:
            self._fetched.fetch_batch(position)
