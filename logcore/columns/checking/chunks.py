"""A segment in chunks that several threads work on at once, with the results of one walk from end to end.

Where chunks begin is guessed by following length fields, unchecked. The guess for a chunk counts only if the work on
the one before ended exactly there; else, behind damage, the work is done again from where it really ended. Kernels
release the interpreter's lock, so threads are enough.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from logcore.columns.decoding.turns import Turn
from logcore.columns.kernels import slots
from logcore.columns.kernels.library import library
from logcore.errors import LogError
from logcore.records.varint import Buffer
from logcore.segments.scanning.fetched_bytes import FetchedBytes

CHUNK_BYTES = 8 << 20
"""Large enough that starting on a chunk costs nothing beside it, small enough to hold a few results in memory."""

_PART_BYTES = 2 * CHUNK_BYTES
"""Of bytes that are fetched, as many as one piece of work takes into memory; more if its first batch is larger."""
_BEYOND_BYTES = 1 << 20
"""Behind these: enough for most batches that begin in front of their end."""
_HEADER_BYTES = 64


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes [start, stop) of a segment, with the lowest offset that its first batch may have."""

    start: int
    next_offset: int
    stop: int


@dataclass(frozen=True, slots=True)
class Part:
    """What of a chunk is in memory.

    content: the segment's bytes up to where they were fetched. stop: where the work is to end; no further than the
    chunk. goes_on: the segment has more bytes behind `content`.
    """

    content: Buffer
    stop: int
    goes_on: bool

    def cuts(self, buf: Buffer, position: int) -> bool:
        """Whether the batch at a position may reach beyond `content` and ends in the segment."""
        if not self.goes_on or len(self.content) - position < _HEADER_BYTES:
            return self.goes_on
        behind = position + 12 + int.from_bytes(self.content[position + 8 : position + 12], "big", signed=True)
        return len(self.content) < behind <= len(buf)


def part_of(buf: Buffer, chunk: Chunk, fetched: FetchedBytes | None) -> Part:
    """Have the beginning of a chunk in memory; of bytes that are all there, the chunk. Raises as `fetched` does."""
    if fetched is None:
        return Part(buf, chunk.stop, False)
    stop = min(chunk.stop, max(chunk.start + _PART_BYTES, fetched.fetch_batch(chunk.start)))
    end = min(len(buf), stop + _BEYOND_BYTES)
    fetched.fetch(chunk.start, end)
    return Part(memoryview(buf)[:end], stop, end < len(buf))


class Walked(Protocol):
    """What work on a chunk gives: at least, where it ended."""

    @property
    def position(self) -> int: ...
    @property
    def next_offset(self) -> int: ...


Result = TypeVar("Result", bound=Walked)
Owner = TypeVar("Owner")


@dataclass(frozen=True, slots=True)
class Job(Generic[Owner, Result]):
    """Work on a chunk, and the owner of the chunk.

    is_first: the chunk begins its segment. fetched: releases the chunk's bytes when the work is done. turn: the place
    of the result in the order of output.
    """

    owner: Owner
    chunk: Chunk
    work: Callable[[Chunk], Result]
    is_first: bool
    fetched: FetchedBytes | None = None
    turn: Turn | None = None


def jobs(
    owner: Owner,
    buf: Buffer,
    base_offset: int,
    work: Callable[[Chunk], Result],
    fetched: FetchedBytes | None = None,
) -> Iterator[Job[Owner, Result]]:
    """The work on all chunks of a segment; at least one, even if the segment is empty."""
    for number, chunk in enumerate(plan_chunks(buf, base_offset, fetched=fetched)):
        yield Job(owner, chunk, work, number == 0, fetched)


def plan_chunks(
    buf: Buffer, base_offset: int, nbytes: int = CHUNK_BYTES, *, fetched: FetchedBytes | None = None
) -> Iterator[Chunk]:
    """Chunks of about that many bytes that tile the segment; of an empty one, one empty chunk. What cannot be fetched
    is in the last chunk, whose work meets it again."""
    kernels, size = library(), len(buf)
    if not size:
        yield Chunk(0, base_offset, 0)
        return
    held = np.frombuffer(buf, np.uint8)
    frame = np.zeros(slots.HOP_SLOTS, np.int64)
    frame[slots.HOP_SOURCE], frame[slots.HOP_SIZE] = held.ctypes.data, size
    start, next_offset = 0, base_offset
    while start < size:
        frame[slots.HOP_POSITION], frame[slots.HOP_NEXT_OFFSET] = start, next_offset
        frame[slots.HOP_TARGET] = start + nbytes
        if fetched is not None:
            try:
                fetched.fetch(start, start + nbytes + _HEADER_BYTES)
            except LogError:
                yield Chunk(start, next_offset, size)
                return
        kernels.call("hop", frame.ctypes.data)
        stop = int(frame[slots.HOP_POSITION])
        if stop < start + nbytes:
            stop = size  # the chain of length fields breaks here, or the file ends
        yield Chunk(start, next_offset, stop)
        start, next_offset = stop, int(frame[slots.HOP_NEXT_OFFSET])


def in_order(waiting_jobs: Iterator[Job[Owner, Result]], threads: int) -> Iterator[tuple[Job[Owner, Result], Result]]:
    """Jobs with their results, in their order, as if each had begun where the one before it in its segment ended. Of
    at least two threads, each does a job of its own meanwhile, of one segment or of several. Work that ends before its
    chunk does, but not where it began, is asked for the rest."""
    with ThreadPoolExecutor(threads) if threads > 1 else nullcontext() as pool:
        started: deque[tuple[Job[Owner, Result], Future[Result] | None]] = deque()
        ended = (0, 0)
        current: Job[Owner, Result] | None = None
        try:
            while True:
                while len(started) < max(1, 2 * threads - 1) and (job := next(waiting_jobs, None)) is not None:
                    started.append((job, None if pool is None else pool.submit(job.work, job.chunk)))
                if not started:
                    return
                job, future = started.popleft()
                chunk, current = job.chunk, job
                if job.is_first or ended == (chunk.start, chunk.next_offset):
                    _tell(job, is_wanted=True)
                    result = job.work(chunk) if future is None else future.result()
                elif ended[0] >= chunk.stop:
                    _tell(job, is_wanted=False)
                    if future is not None and not future.cancel():
                        future.result()  # it may look at bytes that are released next
                    continue
                else:
                    _tell(job, is_wanted=False)
                    result = job.work(Chunk(ended[0], ended[1], chunk.stop))
                yield job, result
                while result.position < chunk.stop:
                    # It stopped early, for the sake of memory. The rest is done here, where nothing runs ahead.
                    if job.fetched is not None:
                        job.fetched.release(result.position)
                    result = job.work(Chunk(result.position, result.next_offset, chunk.stop))
                    yield job, result
                ended = (result.position, result.next_offset)
                if job.fetched is not None:
                    job.fetched.release(chunk.stop)
        finally:
            if current is not None:
                _tell(current, is_wanted=False)
            for job, future in started:
                _tell(job, is_wanted=False)
                if future is not None:
                    future.cancel()


def _tell(job: Job[Owner, Result], *, is_wanted: bool) -> None:
    if job.turn is not None and is_wanted:
        job.turn.give()
    elif job.turn is not None:
        job.turn.drop()


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
