"""Chunks: however a segment is cut and by however many threads it is worked on, the results are those of one walk."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from logcore.columns.checking.chunks import Chunk, Job, in_order, jobs, plan_chunks
from logcore.columns.engines import Engine, decode_segment
from logcore.columns.wanted import Place, Wanted
from logcore.segments.scanning.scan import Stretch
from tests import handmade
from tests.conftest import Sample

pytestmark = pytest.mark.slow

WANTED = Wanted(columns=("offset", "value", "position"))
PLACE = Place("t", 0, "l", "s")
THREADS = pytest.mark.parametrize("threads", [1, 2, 3])

Item = tuple[int, bytes | None, int] | Stretch


@dataclass
class Walked:
    position: int
    next_offset: int
    items: list[Item] = field(default_factory=list)
    padding: int = 0


def walked(data: bytes, base: int, chunk: Chunk, sealed: bool, engine: Engine = Engine.KERNELS) -> Walked:
    walk = decode_segment(
        data,
        place=PLACE,
        base_offset=base,
        sealed=sealed,
        wanted=WANTED,
        engine=engine,
        start=chunk.start,
        next_offset=chunk.next_offset,
        stop=chunk.stop,
    )
    items: list[Item] = []
    for item in walk:
        if isinstance(item, pa.RecordBatch):
            items += zip(*(column.to_pylist() for column in item.columns), strict=True)
        else:
            items.append(item)
    return Walked(walk.position, walk.next_offset, items, walk.padding)


def planned(data: bytes, base: int, sealed: bool, nbytes: int) -> Iterator[Job[bytes, Walked]]:
    for number, chunk in enumerate(plan_chunks(data, base, nbytes)):
        yield Job(data, chunk, lambda each: walked(data, base, each, sealed), number == 0)


def assert_as_one_walk(data: bytes, base: int, threads: int, *, sealed: bool = True) -> int:
    """How often the plan was wrong."""
    whole = walked(data, base, Chunk(0, base, len(data)), sealed, Engine.REFERENCE)
    wrong = 0
    for nbytes in (1, 90, 300, 1000, len(data) + 1):
        items: list[Item] = []
        padding, result, chunks = 0, Walked(0, base), len(list(plan_chunks(data, base, nbytes)))
        for _, result in in_order(planned(data, base, sealed, nbytes), threads):
            items += result.items
            padding += result.padding
            chunks -= 1
        assert items == whole.items
        assert (result.position, result.next_offset, padding) == (whole.position, whole.next_offset, whole.padding)
        wrong += chunks
    return wrong


def segment(count: int = 30, base: int = 0) -> bytes:
    """Batches of all formats, of 70 to some hundred bytes, with gaps."""
    data, offset = b"", base
    for number in range(count):
        kind = number % 5
        if kind == 0:
            batch, behind = handmade.simple_batch(offset, [(b"k", b"%d" % number)] * 3), offset + 3
        elif kind == 1:
            batch, behind = handmade.message_v1(offset, 1, b"k", b"m%d" % number), offset + 1
        elif kind == 2:
            batch, behind = handmade.wrapper_v1([offset, offset + 4]), offset + 5
        elif kind == 3:
            batch, behind = handmade.empty_batch(offset, 6), offset + 7
        else:
            # A value that looks like a batch, at any distance from where chunks begin.
            value = bytes(number) + handmade.simple_batch(offset + 1, [(b"false", b"false")])
            batch, behind = handmade.simple_batch(offset, [(b"k", value)]), offset + 1
        data += batch
        offset = behind + number % 2
    return data


def starts_of(data: bytes) -> list[int]:
    starts, at = [], 0
    while at < len(data):
        starts.append(at)
        at += handmade.size_of(data, at)
    return starts


# The plan.


@pytest.mark.parametrize("nbytes", [1, 100, 500, 100_000])
def test_chunks_tile_a_good_segment_at_its_batches_with_the_offsets_that_follow(nbytes: int) -> None:
    batches = [handmade.simple_batch(at, [(b"k", bytes(at % 50))] * 2) for at in range(10, 110, 2)]
    data = b"".join(batches)
    starts = starts_of(data)
    chunks = list(plan_chunks(data, 10, nbytes))
    assert [chunk.start for chunk in chunks] == [0, *(chunk.stop for chunk in chunks[:-1])]
    assert chunks[-1].stop == len(data)
    for chunk in chunks:
        assert chunk.next_offset == 10 + 2 * starts.index(chunk.start)
    sizes = [chunk.stop - chunk.start for chunk in chunks[:-1]]
    assert all(nbytes <= size < nbytes + max(map(len, batches)) for size in sizes)


def test_of_an_empty_segment_there_is_one_empty_chunk() -> None:
    assert list(plan_chunks(b"", 7)) == [Chunk(0, 7, 0)]
    (job,) = jobs("owner", b"", 7, lambda chunk: Walked(chunk.stop, 7))
    assert (job.owner, job.chunk, job.is_first) == ("owner", Chunk(0, 7, 0), True)


@pytest.mark.parametrize("length", [-1, 0, 13, 1 << 30, (1 << 31) - 1, -(1 << 31)])
def test_the_plan_ends_where_lengths_make_no_sense(length: int) -> None:
    data = segment(10)
    at = starts_of(data)[4]
    broken = handmade.patch(data, at + 8, length.to_bytes(4, "big", signed=True))
    chunks = list(plan_chunks(broken, 0, 1))
    assert [chunk.start for chunk in chunks] == starts_of(data)[:5]
    assert chunks[-1].stop == len(data)


# The results.


@THREADS
def test_of_a_good_segment_no_chunk_is_worked_on_twice(threads: int) -> None:
    data, done = segment(), 0
    single = [handmade.simple_batch(at, [(b"k", b"v")]) for at in range(40)]

    def work(chunk: Chunk) -> Walked:
        nonlocal done
        done += 1
        return walked(b"".join(single), 0, chunk, True)

    chunks = list(plan_chunks(b"".join(single), 0, 100))
    assert len(chunks) == 20
    given = (Job("", chunk, work, number == 0) for number, chunk in enumerate(chunks))
    assert [job.chunk for job, _ in in_order(given, threads)] == chunks
    assert done == 20
    assert assert_as_one_walk(data, 0, threads) == 0


@pytest.mark.long
@THREADS
def test_truncated_segments(threads: int) -> None:
    data = segment(8, base=1000)
    for length in range(0, len(data) + 1, 13):
        for sealed in (True, False):
            assert_as_one_walk(data[:length], 1000, threads, sealed=sealed)
            assert_as_one_walk(data[:length] + bytes(40), 1000, threads, sealed=sealed)


@pytest.mark.long
@THREADS
def test_flipped_lengths_mislead_the_plan_and_not_the_results(threads: int) -> None:
    data, wrong = segment(12), 0
    for start in starts_of(data):
        for bit in range(0, 32, 3):
            injured = handmade.flip(data, start + 8 + bit // 8, bit % 8)
            wrong += assert_as_one_walk(injured, 0, threads)
    assert wrong > 0  # most are set right at the next batch, as the walk does


@THREADS
def test_a_length_that_leads_into_a_value_that_looks_like_batches(threads: int) -> None:
    false = b"".join(handmade.simple_batch(at, [(b"false", b"false")]) for at in range(100, 140))
    real = handmade.simple_batch(1, [(b"k", false)])
    data = handmade.simple_batch(0, [(b"k", b"v")]) + real + handmade.simple_batch(500, [(b"k", b"v")])
    into = real.index(false) - 12
    injured = handmade.patch(data, handmade.size_of(data) + 8, into.to_bytes(4, "big"))
    assert len(list(plan_chunks(injured, 0, 1))) > 40
    assert_as_one_walk(injured, 0, threads)
    # With its checksum right the false batches are what is there.
    assert_as_one_walk(
        handmade.fix_crc(injured, handmade.size_of(data), handmade.size_of(data) + into + 12), 0, threads
    )


@pytest.mark.long
@THREADS
def test_random_injuries(threads: int, sample: Callable[[str], Sample]) -> None:
    draw = random.Random(threads)
    paths = [path for path in sorted(sample("transactions-4.4.0").logdir.glob("*/*.log")) if path.stat().st_size]
    segments = [(int(path.stem), path.read_bytes()[:6000]) for path in paths] + [(0, segment(15))]
    for _ in range(60):
        base, data = draw.choice(segments)
        for _ in range(draw.choice((1, 2, 5))):
            data = handmade.flip(data, draw.randrange(len(data)), draw.randrange(8))
        assert_as_one_walk(data, base, threads, sealed=draw.random() < 0.5)


@THREADS
def test_several_segments_come_in_their_order(threads: int) -> None:
    segments = [segment(7), b"", handmade.flip(segment(9), 200), b"", bytes(50), segment(3)]
    work = (job for data in segments for job in planned(data, 0, True, 100))
    found: list[tuple[bytes, list[Item]]] = []
    for job, result in in_order(work, threads):
        if job.is_first:
            found.append((job.owner, []))
        found[-1][1].extend(result.items)
    expected = [(data, walked(data, 0, Chunk(0, 0, len(data)), True).items) for data in segments]
    assert found == expected


# Threads.


def test_the_first_job_of_a_later_segment_runs_ahead() -> None:
    reached = threading.Event()

    def waiting(chunk: Chunk) -> Walked:
        assert reached.wait(20), "nothing ran ahead"
        return Walked(chunk.stop, 0)

    def reaching(chunk: Chunk) -> Walked:
        reached.set()
        return Walked(chunk.stop, 0)

    given = iter([Job("first", Chunk(0, 0, 5), waiting, True), Job("second", Chunk(0, 0, 5), reaching, True)])
    assert [job.owner for job, _ in in_order(given, 2)] == ["first", "second"]


def test_no_more_is_begun_than_threads_have_to_do() -> None:
    asked = 0

    def endless() -> Iterator[Job[str, Walked]]:
        nonlocal asked
        while True:
            asked += 1
            yield Job("", Chunk(0, 0, 1), lambda chunk: Walked(1, 0), True)

    results = in_order(endless(), 3)
    for taken in range(1, 20):
        next(results)
        assert asked <= taken + 2 * 3
    results.close()


@THREADS
@pytest.mark.parametrize("failing", [0, 1, 7])
def test_an_exception_in_the_work_reaches_the_caller_and_no_thread_is_left(threads: int, failing: int) -> None:
    before = threading.active_count()

    def work(chunk: Chunk) -> Walked:
        if chunk.start == failing:
            raise OSError("gone")
        return Walked(chunk.stop, 0)

    given = (Job("", Chunk(at, 0, at + 1), work, at == 0) for at in range(20))
    done = []
    with pytest.raises(OSError, match="gone"):
        done.extend(in_order(given, threads))
    assert threading.active_count() == before


@THREADS
def test_an_exception_among_the_jobs_reaches_the_caller_and_no_thread_is_left(threads: int) -> None:
    before = threading.active_count()

    def given() -> Iterator[Job[str, Walked]]:
        yield Job("", Chunk(0, 0, 1), lambda chunk: Walked(1, 0), True)
        raise OSError("cannot be opened")

    with pytest.raises(OSError, match="cannot be opened"):
        list(in_order(given(), threads))
    assert threading.active_count() == before


@THREADS
def test_a_caller_that_stops_early_leaves_no_thread(threads: int) -> None:
    before = threading.active_count()
    results = in_order(
        (Job("", Chunk(at, 0, at + 1), lambda c: Walked(c.stop, 0), at == 0) for at in range(50)), threads
    )
    assert next(results)[1].position == 1
    results.close()
    assert threading.active_count() == before


@dataclass
class Released:
    """Takes down up to where bytes are released, and has all of them."""

    content: bytes
    ends: list[int] = field(default_factory=list)

    def fetch(self, start: int, end: int) -> None:
        """All bytes are there."""

    def fetch_batch(self, position: int) -> int:
        return position

    def release(self, end: int) -> None:
        self.ends.append(end)


@pytest.mark.parametrize("threads", [1, 3])
def test_bytes_are_released_as_soon_as_their_result_was_used(threads: int) -> None:
    fetched = Released(bytes(100))

    def half(chunk: Chunk) -> Walked:
        """Stops early, for the sake of memory."""
        return Walked(min(chunk.stop, chunk.start + 10), chunk.next_offset)

    planned = [Job(None, Chunk(at, 0, at + 50), half, at == 0, fetched) for at in (0, 50)]
    seen = []
    for _, result in in_order(iter(planned), threads):
        seen.append((result.position, fetched.ends[-1] if fetched.ends else 0))
    assert seen == [(at, at - 10) for at in range(10, 101, 10)]
