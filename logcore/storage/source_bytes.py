"""A source's file in memory, piece by piece: what is read from it stays as it was read.

A mapped file is not safe where others write: touching a byte that was cut off kills the process, and bytes change
under a reader that has checked them. Here addresses are reserved for the whole file, and a piece becomes memory when
it is asked for, by an ordinary read that can fail. Holes of the file take no memory and no time.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

from logcore.records.batch import LOG_OVERHEAD
from logcore.storage.files import (
    MOST_SECTORS,
    SECTOR,
    SourceChanged,
    SourceUnreadable,
    data_ranges,
    joined,
    open_readonly,
    refuse_change,
    shown,
    unreadable,
)

PIECE = 2 << 20
"""Bytes that are read, and released, at a time: a huge page."""

_HEADER = 64
"""Bytes of the largest batch header, and a little more."""
_NO_RESERVE = 0x4000
"""Linux's MAP_NORESERVE, for which Python has a name from version 3.12 on only."""


class _Reading:
    """A read of pieces by one thread. done: it ended. failed: with an error, and the pieces are not there."""

    def __init__(self) -> None:
        self.done, self.failed = threading.Event(), False


class SourceBytes:
    """The bytes of one file. Several threads may fetch at once.

    content: as long as the file was when it was opened; what was not fetched reads as zeros.
    """

    def __init__(self, path: str, *, sealed: bool) -> None:
        """Open the file. sealed: nobody may write to it any more. Raises SourceUnreadable."""
        self._path, self._sealed = path, sealed
        self._stream = open_readonly(path)
        weakref.finalize(self, self._stream.close)
        self._seen = os.fstat(self._stream.fileno())
        self.size = self._seen.st_size
        self._has_holes = self._seen.st_blocks * 512 < self.size
        self._lock = threading.Lock()
        self._pieces: dict[int, _Reading] = {}
        self._gone: set[tuple[int, int]] = set()
        """Ranges of bytes that the disk failed to read; they read as zeros."""
        self._released = 0
        """No piece in front of this one is in memory."""
        self._zeros_from: int | None = None
        self._whole: tuple[tuple[int, int], ...] | None = None
        """What is no hole, once all of it is in memory for good."""
        self._memory = _reserved(path, self.size)
        self.content: memoryview = memoryview(self._memory) if self._memory is not None else memoryview(b"")

    def fetch(self, start: int, end: int) -> None:
        """Have bytes start..end in memory. Positions behind the end of the file are ignored.

        Raises SourceUnreadable, and SourceChanged if the file is shorter than it was.
        """
        end = min(end, self.size)
        if start >= end or self._whole is not None:
            return
        wanted = range(start // PIECE, (end - 1) // PIECE + 1)
        mine, others, done = [], [], _Reading()
        with self._lock:
            self._released = min(self._released, wanted.start)
            for piece in wanted:
                fetched = self._pieces.setdefault(piece, done)
                if fetched is done:
                    mine.append(piece)
                elif not fetched.done.is_set():
                    others.append(fetched)
        try:
            for piece in mine:
                self._read(piece * PIECE, min((piece + 1) * PIECE, self.size))
        except BaseException:
            with self._lock:
                for piece in mine:
                    self._pieces.pop(piece, None)
            done.failed = True
            raise
        finally:
            done.done.set()
        for fetched in others:
            fetched.done.wait()
        if any(fetched.failed for fetched in others):
            self.fetch(start, end)  # nobody else reads those pieces now: the error is raised here too

    def fetch_all(self) -> int:
        """Have everything in memory for good, and the file closed. How many bytes that are: holes take none. To be
        called before another thread knows of this object. Raises as `fetch`.
        """
        parts = tuple(self._data(0, self.size))
        for start, end in parts:
            for at in range(start, end, PIECE):
                with self.content[at : min(at + PIECE, end)] as target:
                    self._fill(target, at)
        self._whole = parts
        self._stream.close()
        return sum(end - start for start, end in parts)

    def read(self, start: int, end: int) -> bytes:
        """A copy of bytes start..end, which stays out of `content`. Raises as `fetch`."""
        if self._whole is not None:
            return bytes(self.content[start:end])
        end = max(min(end, self.size), start)
        parts = tuple(self._data(start, end))
        if not parts:
            return _zeros(end - start)
        content = bytearray(end - start)
        for low, high in parts:
            with memoryview(content)[low - start : high - start] as target:
                self._fill(target, low)
        return bytes(content)

    def unreadable(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """Of bytes start..end, as far as they were asked for, those that the disk failed to read: ascending ranges."""
        with self._lock:
            gone = sorted((max(start, low), min(end, high)) for low, high in self._gone if low < end and high > start)
        return joined(gone)

    def fetch_batch(self, position: int) -> int:
        """Have the batch at a position in memory, as far as its size field fits the file. The position behind it;
        `position` itself if the size field cannot be right. Raises as `fetch`."""
        self.fetch(position, position + _HEADER)
        if self.size - position < LOG_OVERHEAD:
            return position
        length = int.from_bytes(self.content[position + LOG_OVERHEAD - 4 : position + LOG_OVERHEAD], "big", signed=True)
        behind = position + LOG_OVERHEAD + length
        if length <= 0 or behind > self.size:
            return position
        self.fetch(position, behind)
        return behind

    def release(self, end: int) -> None:
        """Nobody looks at bytes in front of `end` any more; who does must fetch them again."""
        last = min(end, self.size) // PIECE
        if last <= self._released or self._memory is None or not hasattr(mmap, "MADV_DONTNEED"):
            return
        if self._whole is not None:
            return
        with self._lock:
            gone = [piece for piece in self._pieces if piece < last]
            for piece in gone:
                del self._pieces[piece]
                self._memory.madvise(mmap.MADV_DONTNEED, piece * PIECE, PIECE)
            self._released = last

    def is_zero_from(self, position: int) -> bool:
        """Whether all bytes from a position to the end of the file are zero. Raises as `fetch`."""
        return self.zeros_from() <= position and not self.unreadable(position, self.size)

    def next_data(self, position: int) -> int:
        """The position from which on bytes may be other than zero: `position`, or the end of the hole that it lies in;
        the file's size where nothing but a hole is left. Raises as `fetch`."""
        for start, _ in self._data(position, self.size):
            return start
        return self.size

    def zeros_from(self) -> int:
        """Where the zeros at the end of the file begin; its size if it does not end in any. They are read once. Raises
        as `fetch`."""
        if self._zeros_from is None:
            self._zeros_from = self._read_zeros()
        return self._zeros_from

    def _read_zeros(self) -> int:
        end = self.size
        for start, stop in reversed(list(self._data(0, self.size))):
            end = stop
            while end > start:
                at = max(start, end - PIECE)
                part = self.read(at, end)
                left = len(part.rstrip(b"\0"))
                if left:
                    return at + left
                end = at
        return 0

    def refuse_change(self) -> None:
        """Raise SourceChanged if the file is no longer what it was when it was opened. Whoever appends does no harm
        unless the file is sealed."""
        refuse_change(self._path, self._seen, sealed=self._sealed)

    def _read(self, start: int, end: int) -> None:
        """Fill the memory of a piece."""
        for data_start, data_end in self._data(start, end):
            with self.content[data_start:data_end] as target:
                self._fill(target, data_start)

    def _fill(self, target: memoryview, position: int) -> None:
        """Read into the target; sectors that the disk fails to read stay zero and are remembered."""
        done, size = 0, len(target)
        while done < size:
            try:
                with target[done:] as left:
                    given = os.preadv(self._stream.fileno(), [left], position + done)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise unreadable(self._path, error) from error
                self._fill_around(target, position, done, error)
                return
            if not given:
                raise self._shorter(position + done)
            done += given

    def _fill_around(self, target: memoryview, position: int, done: int, error: OSError) -> None:
        """The disk failed somewhere in what is left: halve it until the sectors are known."""
        start, end = position + done, position + len(target)
        if end - start <= SECTOR:
            with self._lock:
                self._gone.add((start, end))
                if len(self._gone) > MOST_SECTORS:
                    raise unreadable(self._path, error) from error
            return
        middle = max((start + end) // 2 // SECTOR, start // SECTOR + 1) * SECTOR
        for low, high in ((start, middle), (middle, end)):
            with target[low - position : high - position] as part:
                self._fill(part, low)

    def _shorter(self, position: int) -> SourceChanged:
        message = f"it was cut short while it was read: byte {position} of {self.size} is gone"
        return SourceChanged(message, file=shown(self._path), position=position)

    def _data(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """What of start..end is no hole."""
        if self._whole is not None:
            yield from ((max(low, start), min(high, end)) for low, high in self._whole if low < end and high > start)
            return
        if self._has_holes:
            yield from data_ranges(self._stream, self._path, start, end)
        elif start < end:
            yield start, end


@lru_cache(maxsize=2)
def _zeros(count: int) -> bytes:
    """Of a hole many are asked for, piece by piece."""
    return bytes(count)


def _reserved(path: str, size: int) -> mmap.mmap | None:
    """Addresses for so many bytes, which become memory when they are written to."""
    if not size:
        return None
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    except (OSError, OverflowError, ValueError) as error:
        message = f"no addresses are to be had for its {size} bytes: {error}."
        raise SourceUnreadable(message, file=shown(path), advice="Raise the limit on address space.") from error
    if size >= 4 * PIECE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # small pages do as well
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
