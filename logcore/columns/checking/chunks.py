"""A segment in chunks for several threads, with the results of one walk from end to end.

The start of each chunk is a guess: it follows length fields without checks. The guess counts only if the work on the
chunk before ended exactly there. Otherwise (after damage) the work is repeated from the real end. Kernels release the
interpreter's lock, so threads are enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np

from logcore.columns.decoding.turns import Turn
from logcore.columns.kernels.call_frames import address_of
from logcore.columns.kernels.decoding.decoding_frames import HopFrame
from logcore.columns.kernels.library import library
from logcore.errors import LogError
from logcore.records.varint import Buffer
from logcore.segments.scanning.fetched_bytes import FetchedBytes

CHUNK_BYTES = 8 << 20
"""Large enough that the start of a chunk costs nothing in comparison, small enough to keep a few results in memory."""

_PART_BYTES = 2 * CHUNK_BYTES
"""Bytes that one job fetches at once; more if its first batch is larger."""
_BEYOND_BYTES = 1 << 20
"""Most bytes fetched after these, and after a short chunk as many as it has: enough for most batches that begin before
their end."""
_HEADER_BYTES = 64


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes [start, stop) of a segment, with the lowest offset that its first batch may have.

    `is_guess`: the work before it may end elsewhere, and then the work on it is repeated.
    """

    start: int
    next_offset: int
    stop: int
    is_guess: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a chunk that is in memory.

    `content`: the segment's bytes up to the last fetched one. `stop`: where the work must end, at most the end of the
    chunk. `goes_on`: the segment has more bytes after `content`.
    """

    content: Buffer
    stop: int
    goes_on: bool

    def cuts(self, buf: Buffer, position: int) -> bool:
        """Whether the batch at a position may extend beyond `content` and ends in the segment."""
        if not self.goes_on or len(self.content) - position < _HEADER_BYTES:
            return self.goes_on
        after = position + 12 + int.from_bytes(self.content[position + 8 : position + 12], "big", signed=True)
        return len(self.content) < after <= len(buf)


def part_of(buf: Buffer, chunk: Chunk, fetched: FetchedBytes | None) -> Part:
    """Load the beginning of a chunk into memory; without `fetched`, the chunk. Raises as `fetched` does."""
    if fetched is None:
        return Part(buf, chunk.stop, False)
    stop = min(chunk.stop, max(chunk.start + _PART_BYTES, fetched.fetch_batch(chunk.start)))
    end = min(len(buf), stop + min(_BEYOND_BYTES, stop - chunk.start))
    fetched.fetch(chunk.start, end)
    return Part(memoryview(buf)[:end], stop, end < len(buf))


class Walked(Protocol):
    """The result of work on a chunk: at least, where the work ended."""

    @property
    def position(self) -> int:
        """Where the work ended."""

    @property
    def next_offset(self) -> int:
        """The lowest offset that may follow."""


Result = TypeVar("Result", bound=Walked)
Owner = TypeVar("Owner")


@dataclass(frozen=True, slots=True)
class Job(Generic[Owner, Result]):
    """Work on a chunk, and the owner of the chunk.

    `is_first`: the chunk is the first of its segment. `fetched`: releases the chunk's bytes after the work. `turn`: the
    place of the result in the order of output.
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
    start: int = 0,
) -> Iterator[Job[Owner, Result]]:
    """Yield the work on all chunks of a segment from a position on; at least one, even if the segment is empty.

    `base_offset` is the lowest offset that may be at that position.
    """
    for number, chunk in enumerate(plan_chunks(buf, base_offset, fetched=fetched, start=start)):
        yield Job(owner, chunk, work, number == 0, fetched)


def plan_chunks(
    buf: Buffer,
    base_offset: int,
    nbytes: int = CHUNK_BYTES,
    *,
    fetched: FetchedBytes | None = None,
    start: int = 0,
) -> Iterator[Chunk]:
    """Yield chunks of about `nbytes` bytes that cover the segment from `start` on; one empty chunk if it is empty.

    Bytes that cannot be fetched are in the last chunk, whose work meets the error again.
    """
    kernels, size = library(), len(buf)
    if not size:
        yield Chunk(0, base_offset, 0)
        return
    held = np.frombuffer(buf, np.uint8)
    frame = HopFrame()
    frame.source, frame.size = address_of(held), size
    begun, next_offset = start, base_offset
    while start < size:
        frame.position, frame.next_offset = start, next_offset
        frame.target = start + nbytes
        if fetched is not None:
            try:
                fetched.fetch(start, start + nbytes + _HEADER_BYTES)
            except LogError:
                yield Chunk(start, next_offset, size, start > begun)
                return
        kernels.call("hop", frame)
        stop = frame.position
        if stop < start + nbytes:
            stop = size  # the chain of length fields breaks here, or the file ends
        yield Chunk(start, next_offset, stop, start > begun)
        start, next_offset = stop, frame.next_offset


def in_order(waiting_jobs: Iterator[Job[Owner, Result]], threads: int) -> Iterator[tuple[Job[Owner, Result], Result]]:
    """Yield jobs with their results, in their order, as if each had begun where the one before it ended.

    With at least two threads, each thread meanwhile does another job, of the same or another segment. If work ends
    early, but not where it began, the rest of its chunk follows.
    """
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
                    _pass_turn(job, is_wanted=True)
                    result = job.work(chunk) if future is None else future.result()
                elif ended[0] >= chunk.stop:
                    _pass_turn(job, is_wanted=False)
                    if future is not None and not future.cancel():
                        future.result()  # it may read bytes that are released next
                    continue
                else:
                    _pass_turn(job, is_wanted=False)
                    result = job.work(Chunk(ended[0], ended[1], chunk.stop))
                yield job, result
                while result.position < chunk.stop:
                    # It stopped early to save memory or work. The rest is done here, where no other job runs ahead.
                    if job.fetched is not None:
                        job.fetched.release(result.position)
                    result = job.work(Chunk(result.position, result.next_offset, chunk.stop))
                    yield job, result
                ended = (result.position, result.next_offset)
                if job.fetched is not None:
                    job.fetched.release(chunk.stop)
        finally:
            if current is not None:
                _pass_turn(current, is_wanted=False)
            for job, future in started:
                _pass_turn(job, is_wanted=False)
                if future is not None:
                    future.cancel()


def _pass_turn(job: Job[Owner, Result], *, is_wanted: bool) -> None:
    if job.turn is not None and is_wanted:
        job.turn.give()
    elif job.turn is not None:
        job.turn.drop()
