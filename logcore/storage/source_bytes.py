"""A source's file in memory, loaded in pieces. Bytes that were read once do not change.

A mapped file is not safe while other processes write: access to a truncated byte kills the process, and bytes may
change after they were checked. So this module reserves addresses for the whole file, and fills a piece of memory on
request, with an ordinary read that can fail. Holes of the file need no memory and no time.
"""

from __future__ import annotations

import functools
import mmap
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import takewhile

from logcore.errors import LogError
from logcore.logs.model.sources import SegmentFile
from logcore.ranges import joined
from logcore.records.batch import LOG_OVERHEAD
from logcore.storage.files import MOST_SECTORS
from logcore.storage.machine import processors
from logcore.storage.objects.object_reads import ObjectVersion
from logcore.storage.opened_source import open_source
from logcore.storage.source_errors import SourceUnreadable, shown

PIECE = 2 << 20
"""Bytes that are read, and released, at once: a huge page."""

_AHEAD = 8
"""Most pieces of an object that are read before they are requested, while its pieces are requested in order."""
_REQUEST = 4
"""Pieces of an object that are read with one request."""

_HEADER = 64
"""Bytes of the largest batch header, and a little more."""
_NO_RESERVE = 0x4000
"""Linux's MAP_NORESERVE. Python has a name for it since version 3.12."""


class _Reading:
    """A read of pieces by one thread. `done`: it ended. `failed`: it ended with an error, without the pieces."""

    def __init__(self) -> None:
        self.done, self.failed = threading.Event(), False


class SourceBytes:
    """The bytes of one file or object. Several threads may fetch at once.

    Of an object that is read in order, the next pieces are read while the caller works on those that it has.
    `content` is as long as the file was when it was opened. Bytes that were not fetched read as zeros.
    """

    def __init__(self, path: str, *, sealed: bool, seen: SegmentFile | ObjectVersion | None = None) -> None:
        """Open the file.

        Args:
            path: The file.
            sealed: No process may write to it any more.
            seen: The file when its directory was listed, or a known version of an object. An object must be that one.

        Raises:
            SourceUnreadable: The file cannot be opened, or there are not enough addresses for it.
        """
        self._path, self._sealed = path, sealed
        self._file = open_source(path, seen)
        weakref.finalize(self, self._file.close)
        self.size = self._file.size
        self._lock = threading.Lock()
        self._pieces: dict[int, _Reading] = {}
        self._gone: set[tuple[int, int]] = set()
        """Ranges of bytes that the disk failed to read; they read as zeros."""
        self._released = 0
        """No piece before this one is in memory."""
        self._zeros_from: int | None = None
        self._whole: tuple[tuple[int, int], ...] | None = None
        """The ranges outside of holes, once all of them are in memory permanently."""
        unit = self._file.unit_bytes
        self._unit = unit // PIECE if unit % PIECE == 0 else 1
        """Pieces that are read together: those of a chunk, which is decrypted as a whole."""
        self._decodes_ahead = unit == 1 or processors.available() > 1
        """Whether other threads read ahead. With one processor they only request: decoding there would take the
        processor from the reader, and the decoded bytes would have left its caches when the reader needs them."""
        self._requested: set[int] = set()
        """Pieces that were requested, and not yet read."""
        self._memory = _reserved(path, self.size)
        self.content: memoryview = memoryview(self._memory) if self._memory is not None else memoryview(b"")

    def fetch(self, start: int, end: int) -> None:
        """Load bytes start..end into memory. Positions after the end of the file are ignored.

        Raises:
            SourceUnreadable: The file cannot be read.
            SourceChanged: The file is shorter than it was.
        """
        end = min(end, self.size)
        if start >= end or self._whole is not None:
            return
        wanted = self._whole_units(range(start // PIECE, (end - 1) // PIECE + 1))
        if self._file.is_remote:
            self._read_ahead(wanted)
        self._fetch(wanted)

    def _whole_units(self, wanted: range) -> range:
        """Pieces with those that are read together with them."""
        if self._unit == 1:
            return wanted
        with self._lock:  # the pieces before one that is in memory may have been released
            begun = wanted.start if wanted.start in self._pieces else wanted.start - wanted.start % self._unit
        return range(begun, min(-(-wanted.stop // self._unit) * self._unit, (self.size - 1) // PIECE + 1))

    def _fetch(self, wanted: range) -> None:
        mine, others, done = [], [], _Reading()
        with self._lock:
            self._released = min(self._released, wanted.start)
            for piece in wanted:
                fetched = self._pieces.setdefault(piece, done)
                if fetched is done:
                    mine.append(piece)
                    self._requested.discard(piece)
                elif not fetched.done.is_set():
                    others.append(fetched)
        try:
            for pieces in _runs(mine, max(_REQUEST, self._unit) if self._file.is_remote else self._unit):
                self._read(pieces.start * PIECE, min(pieces.stop * PIECE, self.size))
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
            self._fetch(wanted)  # no other thread reads those pieces now: the error is raised here too

    def _read_ahead(self, wanted: range) -> None:
        """Begin to read the pieces after the wanted ones, if those before them were wanted too."""
        with self._lock:
            before = range(max(wanted.start - _AHEAD, 0), wanted.start)
            known = len(list(takewhile(self._was_read, reversed(before))))
            following = -(-min(2 * known, _AHEAD) // self._unit) * self._unit
            last = min(wanted.stop + following, (self.size - 1) // PIECE + 1)
            ahead = [
                piece
                for piece in range(wanted.stop, last)
                if piece not in self._pieces and piece not in self._requested
            ]
            if not self._decodes_ahead:
                self._requested.update(ahead)
        for pieces in _runs(ahead, max(_REQUEST, self._unit)):
            if self._decodes_ahead:
                _threads_ahead().submit(self._fetch_quietly, pieces)
            else:
                self._file.request(pieces.start * PIECE, pieces.stop * PIECE)

    def _was_read(self, piece: int) -> bool:
        return piece < self._released or piece in self._pieces

    def _fetch_quietly(self, pieces: range) -> None:
        with suppress(LogError):  # the reader that needs these pieces meets the error again
            self._fetch(pieces)

    def fetch_all(self) -> int:
        """Load the whole file permanently, and close it. Call it before other threads use this object.

        Returns:
            The number of bytes in memory. Holes need none.

        Raises as `fetch`.
        """
        parts = tuple(self._data(0, self.size))
        step = PIECE * (4 * _REQUEST if self._file.is_remote else 1)
        for start, end in parts:
            for at in range(start, end, step):
                with self.content[at : min(at + step, end)] as target:
                    self._fill(target, at)
        self._whole = parts
        self._file.close()
        return sum(end - start for start, end in parts)

    def read(self, start: int, end: int) -> bytes:
        """Return a copy of bytes start..end and do not add it to `content`. Raises as `fetch`."""
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
        """The ranges of start..end that the disk failed to read, ascending, as far as they were requested."""
        with self._lock:
            gone = sorted((max(start, low), min(end, high)) for low, high in self._gone if low < end and high > start)
        return joined(gone)

    def fetch_batch(self, position: int) -> int:
        """Load the batch at a position into memory, as far as its size field fits the file. Raises as `fetch`.

        Returns:
            The position after the batch, or `position` itself if the size field is invalid.
        """
        self.fetch(position, position + _HEADER)
        if self.size - position < LOG_OVERHEAD:
            return position
        length = int.from_bytes(self.content[position + LOG_OVERHEAD - 4 : position + LOG_OVERHEAD], "big", signed=True)
        after = position + LOG_OVERHEAD + length
        if length <= 0 or after > self.size:
            return position
        self.fetch(position, after)
        return after

    def release(self, end: int) -> None:
        """Release the bytes before `end`. A later reader of them must fetch them again."""
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

    def next_data(self, position: int) -> int:
        """The first position at or after `position` that is not in a hole; the file's size if only a hole is left.

        Raises as `fetch`.
        """
        for start, _ in self._data(position, self.size):
            return start
        return self.size

    def zeros_from(self) -> int:
        """Where the zeros at the end of the file begin; the file's size if it does not end in zeros.

        The zeros are read only once. Raises as `fetch`.
        """
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
        """Raise SourceChanged if the file changed since it was opened. Appended bytes are a change only if the file is
        sealed.
        """
        self._file.refuse_change(sealed=self._sealed)

    def _read(self, start: int, end: int) -> None:
        """Fill the memory of a piece."""
        for data_start, data_end in self._data(start, end):
            with self.content[data_start:data_end] as target:
                self._fill(target, data_start)

    def _fill(self, target: memoryview, position: int) -> None:
        """Read into the target. Sectors that the disk fails to read stay zero and are recorded."""
        self._file.fill(target, position, self._note_gone)

    def _note_gone(self, start: int, end: int) -> bool:
        with self._lock:
            self._gone.add((start, end))
            return len(self._gone) <= MOST_SECTORS

    def _data(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of start..end that are not holes."""
        if self._whole is not None:
            yield from ((max(low, start), min(high, end)) for low, high in self._whole if low < end and high > start)
            return
        yield from self._file.data_ranges(start, end)


def _runs(pieces: list[int], most: int) -> Iterator[range]:
    """Yield the runs of ascending pieces, each of at most so many."""
    begun = 0
    for at in range(1, len(pieces) + 1):
        if at == len(pieces) or pieces[at] != pieces[at - 1] + 1 or at - begun == most:
            yield range(pieces[begun], pieces[at - 1] + 1)
            begun = at


@functools.cache
def _threads_ahead() -> ThreadPoolExecutor:
    """The threads of this process that read ahead; they wait for an object store most of the time."""
    return ThreadPoolExecutor(4, "object-ahead")


@functools.lru_cache(maxsize=2)
def _zeros(count: int) -> bytes:
    """Zeros of a hole; cached, since readers request many pieces of the same size."""
    return bytes(count)


def _reserved(path: str, size: int) -> mmap.mmap | None:
    """Reserve addresses for `size` bytes. They become memory when they are written."""
    if not size:
        return None
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    except (OSError, OverflowError, ValueError) as error:
        message = f"there are not enough addresses for its {size} bytes: {error}."
        raise SourceUnreadable(message, file=shown(path), advice="Raise the limit on address space.") from error
    if size >= 4 * PIECE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # small pages work too
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
