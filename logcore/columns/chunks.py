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
from dataclasses import dataclass
from typing import Protocol, TypeVar

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


def plan_chunks(buf: Buffer, base_offset: int, nbytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """Chunks of about that many bytes that tile the segment."""
    kernels, size = library(), len(buf)
    held = np.frombuffer(buf, np.uint8) if size else np.zeros(1, np.uint8)
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


def in_order(chunks: Iterator[Chunk], work: Callable[[Chunk], Result], threads: int) -> Iterator[Result]:
    """The results of work on chunks, in their order, as if each had begun where the one before ended."""
    if threads < 2:
        yield from _one_by_one(chunks, work)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[tuple[Chunk, Future[Result]]] = deque()
        ended: tuple[int, int] | None = None
        try:
            while True:
                while len(waiting) < 2 * threads and (chunk := next(chunks, None)) is not None:
                    waiting.append((chunk, pool.submit(work, chunk)))
                if not waiting:
                    return
                chunk, future = waiting.popleft()
                if ended is None or ended == (chunk.start, chunk.next_offset):
                    result = future.result()
                elif ended[0] >= chunk.stop:
                    continue
                else:
                    result = work(Chunk(ended[0], ended[1], chunk.stop))
                ended = (result.position, result.next_offset)
                yield result
        finally:
            for _, future in waiting:
                future.cancel()


def _one_by_one(chunks: Iterator[Chunk], work: Callable[[Chunk], Result]) -> Iterator[Result]:
    ended: tuple[int, int] | None = None
    for chunk in chunks:
        if ended is not None and ended[0] >= chunk.stop:
            continue
        result = work(chunk if ended is None else Chunk(ended[0], ended[1], chunk.stop))
        ended = (result.position, result.next_offset)
        yield result


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
