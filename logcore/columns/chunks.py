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

from logcore.columns.kernels import slots
from logcore.columns.kernels.library import library
from logcore.records.varint import Buffer

CHUNK_BYTES = 8 << 20
"""Large enough that starting on a chunk costs nothing beside it, small enough to hold a few results in memory."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes [start, stop) of a segment, with the lowest offset that its first batch may have."""

    start: int
    next_offset: int
    stop: int


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
    """Work to be done on a chunk, and whose chunk it is. is_first: it begins its segment."""

    owner: Owner
    chunk: Chunk
    work: Callable[[Chunk], Result]
    is_first: bool


def jobs(owner: Owner, buf: Buffer, base_offset: int, work: Callable[[Chunk], Result]) -> Iterator[Job[Owner, Result]]:
    """The work on all chunks of a segment; at least one, even if the segment is empty."""
    for number, chunk in enumerate(plan_chunks(buf, base_offset)):
        yield Job(owner, chunk, work, number == 0)


def plan_chunks(buf: Buffer, base_offset: int, nbytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """Chunks of about that many bytes that tile the segment; of an empty one, one empty chunk."""
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
        try:
            while True:
                while len(started) < max(1, 2 * threads - 1) and (job := next(waiting_jobs, None)) is not None:
                    started.append((job, None if pool is None else pool.submit(job.work, job.chunk)))
                if not started:
                    return
                job, future = started.popleft()
                chunk = job.chunk
                if job.is_first or ended == (chunk.start, chunk.next_offset):
                    result = job.work(chunk) if future is None else future.result()
                elif ended[0] >= chunk.stop:
                    continue
                else:
                    result = job.work(Chunk(ended[0], ended[1], chunk.stop))
                yield job, result
                while result.position < chunk.stop:
                    # It stopped early, for the sake of memory. The rest is done here, where nothing runs ahead.
                    result = job.work(Chunk(result.position, result.next_offset, chunk.stop))
                    yield job, result
                ended = (result.position, result.next_offset)
        finally:
            for _, future in started:
                if future is not None:
                    future.cancel()


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
