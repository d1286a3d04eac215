"""The sound batches of a segment's file, found without a walk: anything of the right shape whose checksum holds.

Where damage follows damage the same bytes are asked about again and again. What was found is remembered, so that the
work grows with the file: a search behind one damaged batch goes on where the one before it ended. What is remembered
never changes an answer; only the work does. One thread at a time.

What looks like a batch costs a checksum. More than 16 MiB of wrong ones between two sound batches exist only where
someone wants it to take long; then the search ends.

Belongs here: which batches are in the bytes. Which of them count is decided in
`logcore.segments.scanning.resynchronization`.
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
"""Bytes behind the first batch found in which more are looked for."""
_SUMMED = 16 << 20
_SHAPE_BYTES = MAGIC_AT + 1
_INT32 = struct.Struct(">i")
_NOT_ZERO = re.compile(rb"[^\0]")
_ZERO_STEP = 1 << 20
_FIRST_SEARCHED = 4 << 10
_SEARCHED = 16 << 20
"""Bytes that are searched at a time: few at first, each time twice as many, and so many at most."""
_REMEMBERED = 1 << 13
"""Batches."""
_FOR_EVER = 1 << 64


class TooManyLookalikes(Exception):
    """The search ends: too much looks like a batch and is none."""


@dataclass(frozen=True, slots=True)
class SoundBatch:
    """A batch whose checksum holds and whose offsets fit. followed_by: the base offset of a sound batch that is
    right behind it, above every offset if zeros up to the end or the end of the file do, -1 if nothing does."""

    position: int
    header: BatchHeader
    followed_by: int

    @property
    def end(self) -> int:
        """Position behind it."""
        return self.position + self.header.size


class SoundBatches:
    """Of one file. ceiling: last offset that a batch of it may hold. fetched: whoever brings the bytes of `buf` into
    memory; None if they are all there."""

    def __init__(self, buf: Buffer, ceiling: int, limits: Limits, fetched: FetchedBytes | None) -> None:
        self._buf, self._size, self._ceiling = buf, len(buf), ceiling
        self._limits, self._fetched = limits, fetched
        self._verdicts: dict[int, tuple[BatchHeader, BatchHeader | None, bool]] = {}
        """By position: the header, the header unfolded if the batch is sound, whether its checksum is wrong."""
        self._found: list[SoundBatch] = []
        """Neighbours: nothing between two of them, nor from `_begin` to the first, is a sound batch that begins at
        `_expected` or above."""
        self._begin = self._expected = 0
        self._rest: tuple[int, int] | None = None

    def at(self, position: int, expected: int, budget: list[int] | None = None) -> BatchHeader | None:
        """The header of a sound batch at a position, of offsets from `expected` on; None if there is none. budget:
        the size of one whose checksum is wrong is taken from it."""
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
            verdict = self._judged(position, header)
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

    def _judged(self, position: int, header: BatchHeader) -> tuple[BatchHeader, BatchHeader | None, bool]:
        try:
            if not crc_matches(self._buf, position, header):
                return header, None, True
            return header, unfold(self._buf, position, header, self._limits), False
        except CorruptRecordError:
            return header, None, False

    def following(self, start: int, expected: int) -> Iterator[SoundBatch]:
        """Those from a position on, of offsets from `expected` on, none inside of another one, and none further behind
        the first than 64 KiB. Raises TooManyLookalikes."""
        self._forget(start, expected)
        index = 0
        limit: int | None = None
        while True:
            if index < len(self._found) and self._found[index].header.base_offset < expected:
                del self._found[index:]  # what it hides may fit
            if index == len(self._found):
                behind = self._found[-1].end if index else start
                found = self._next(behind, expected, limit)
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
        """Forget what is before a search, or is not valid for it."""
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

    def behind_wrapper(self, start: int, expected: int) -> Iterator[SoundBatch]:
        """The same behind a compressed message, without limit: messages are found inside of each other, and hide
        nothing."""
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
        """Positions where offset, length and magic of a batch could be."""
        low, high = expected >> 32, self._ceiling >> 32
        tops = {(top & 0xFFFFFFFF).to_bytes(4, "big") for top in (low, high)}
        # A message that wraps others may say 0 in place of its last offset.
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
        """The bytes from a position on, in parts, each with its position and without the zeros that it begins with: no
        length field is zero, so a run of zeros holds no batch but in its last bytes. Parts overlap by less than a
        shape."""
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
        # Almost every batch is told apart by its first bytes: the size field of a batch is never zero.
        if any(self._buf[position : position + LOG_OVERHEAD]):
            return False
        return position >= self._zeros()[1]

    def zeros_from(self) -> int:
        """Where the zeros at the end of the file begin; bytes that the disk failed to read are taken for such."""
        return self._zeros()[0]

    def _zeros(self) -> tuple[int, int]:
        """Where the zeros at the end begin, and where those that were read as such do. Looked for once."""
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
        """Have bytes start..end in memory."""
        if self._fetched is not None:
            self._fetched.fetch(start, end)

    def fetch_batch(self, position: int) -> None:
        """Have the batch at a position in memory."""
        if self._fetched is not None:
            self._fetched.fetch_batch(position)
