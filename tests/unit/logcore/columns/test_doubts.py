"""After a doubt the kernels do nothing twice: they continue in the table, or leave more to the slow lane."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from logcore.columns.checking import checked as checked_segments
from logcore.columns.checking import chunks
from logcore.columns.checking.checked import CheckedSegment
from logcore.columns.decoding import batch_table
from logcore.columns.decoding.arena import Arena
from logcore.columns.decoding.lanes import BackOff
from logcore.columns.engines import Engine, decode_segment
from logcore.columns.kernels.call_frames import CallFrame
from logcore.columns.kernels.decoding.decoding_frames import InflateFrame
from logcore.columns.kernels.library import Library
from logcore.columns.wanted import Place, Wanted
from logcore.logs.checks.validation import SegmentValidation
from tests import handmade
from tests.fuzz.engines_compared import disagreeing
from tests.unit.logcore.columns.test_checked import agreed

pytestmark = pytest.mark.slow

PLACE = Place("t", 0, "l", "s")
BATCHES = 300


def records(first: int, count: int, *, damaged: bool) -> list[bytes]:
    """Records of a batch; a damaged one states more headers in its last record than it has."""
    return [
        handmade.record(
            delta, b"k%d" % (first + delta), b"value", header_count=3 if damaged and delta == count - 1 else None
        )
        for delta in range(count)
    ]


def batch(first: int, count: int, *, damaged: bool = False, is_gzip: bool = True) -> bytes:
    """A batch with a right CRC."""
    inside = records(first, count, damaged=damaged)
    if not is_gzip:
        return handmade.batch(inside, base_offset=first)
    body = gzip.compress(b"".join(inside), mtime=0)
    return handmade.batch(inside, base_offset=first, attributes=handmade.GZIP, body=body)


def segment(count: int, is_damaged: Callable[[int], bool]) -> bytes:
    """Many gzip batches, some of which are damaged."""
    return b"".join(batch(number * count, count, damaged=is_damaged(number)) for number in range(BATCHES))


def decoded(data: bytes) -> None:
    for _ in decode_segment(data, place=PLACE, base_offset=0, sealed=True, engine=Engine.KERNELS):
        pass


def checked(data: bytes) -> None:
    for _ in CheckedSegment(data, base_offset=0, sealed=True, file="f.log"):
        pass


class Work:
    """What the kernels did: batches that they decompressed or whose streams they looked at, and their calls by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decompressed = self.validated = 0
        self.calls: Counter[str] = Counter()
        add, call = Arena.add, Library.call

        def counted_add(arena: Arena, *given: int) -> bool:
            self.decompressed += 1
            return add(arena, *given)

        def counted_call(library: Library, name: str, frame: CallFrame) -> None:
            self.calls[name] += 1
            if isinstance(frame, InflateFrame) and name == "validate_gzip":
                self.validated += frame.end - frame.first
            call(library, name, frame)

        monkeypatch.setattr(Arena, "add", counted_add)
        monkeypatch.setattr(Library, "call", counted_call)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


every_use = pytest.mark.parametrize("read", [decoded, checked])


@every_use
def test_a_doubt_decompresses_no_batch_again(work: Work, read: Callable[[bytes], None]) -> None:
    read(segment(10, lambda number: number % 2 == 0))
    assert work.decompressed == BATCHES
    assert work.calls["walk"] == 1
    assert work.validated == BATCHES


@every_use
def test_a_damaged_stream_looks_at_the_streams_after_it_once(work: Work, read: Callable[[bytes], None]) -> None:
    broken = handmade.batch(records(0, 10, damaged=False), attributes=handmade.GZIP, body=b"no stream" * 9)
    good = b"".join(batch(number * 10, 10) for number in range(1, BATCHES))
    read(broken + good)
    assert work.calls["walk"] == 1
    assert work.validated == work.decompressed == BATCHES


@every_use
def test_where_every_batch_is_doubtful_the_kernels_are_tried_rarely(work: Work, read: Callable[[bytes], None]) -> None:
    read(segment(2, lambda _: True))
    assert sum(work.calls.values()) <= BATCHES / 10


def test_after_single_doubts_the_kernels_take_over_at_once() -> None:
    walk = decode_segment(
        segment(10, lambda number: number % 20 == 5), place=PLACE, base_offset=0, sealed=True, engine=Engine.KERNELS
    )
    assert sum(1 for _ in walk) > 0
    assert walk.careful_steps == BATCHES / 20


def test_the_slow_lane_takes_more_each_time_that_nothing_was_accepted() -> None:
    back_off = BackOff()
    assert [back_off.steps(accepted) for accepted in (0, 0, 0, 100, 1, 0)] == [1, 2, 4, 1, 1, 2]
    assert [back_off.steps(0) for _ in range(9)][-1] == 128


def test_guessed_work_ends_soon_where_much_is_doubtful(monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads look closely under one lock, and after damage the guess is wrong: the work would be done twice."""
    data = segment(10, lambda _: True)
    seen: list[tuple[bool, int]] = []
    look = checked_segments._Work.__call__

    def counted(work: checked_segments._Work, chunk: chunks.Chunk) -> checked_segments.Seen:
        found = look(work, chunk)
        seen.append((chunk.is_guess, found.position - chunk.start))
        return found

    monkeypatch.setattr(checked_segments._Work, "__call__", counted)
    monkeypatch.setattr(checked_segments, "_GUESSED_BYTES", 1000)
    monkeypatch.setattr(chunks, "plan_chunks", partial(chunks.plan_chunks, nbytes=len(data) // 4))
    slow = SegmentValidation(data, base_offset=0, sealed=True, file="f.log")
    items = list(slow)
    for threads in (1, 3):
        seen.clear()
        fast = CheckedSegment(data, base_offset=0, sealed=True, file="f.log")
        found = [item for _, each in chunks.in_order(fast.jobs(fast), threads) for item in fast.take_seen(each)]
        fast.end_segment()
        assert found == items
        assert (fast.findings, fast.accounting) == (slow.findings, slow.accounting)
        assert sum(size for is_guess, size in seen if not is_guess) >= len(data) // 4
        assert all(size <= 1000 + 200 for is_guess, size in seen if is_guess)
        assert sum(size for _, size in seen) <= len(data) + 4 * 1200


class Mixture:
    """Segments of all kinds of batches, with damage that leaves the CRC right, gaps and wrong offsets."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.offset = self.draw.choice([0, 7])

    def segment(self) -> bytes:
        kinds = self.draw.choice([(self.v2,), (self.gzipped,), (self.message, self.wrapper), (self.wrapper,)])
        kinds = self.draw.choice([kinds, (self.v2, self.gzipped, self.message, self.wrapper)])
        parts = []
        for _ in range(self.draw.randrange(1, 40)):
            self.offset += self.draw.choice([0, 0, 0, 0, 1, 3, -1 if self.offset else 0])
            parts.append(self.draw.choice(kinds)(self.draw.random() < 0.3))
        return b"".join(parts)

    def v2(self, damaged: bool, is_gzip: bool = False) -> bytes:
        count = self.draw.randrange(1, 4)
        made = batch(self.offset, count, damaged=damaged, is_gzip=is_gzip)
        if damaged and self.draw.random() < 0.2:
            made = handmade.flip(made, len(made) - 1)
        self.offset += count
        return made

    def gzipped(self, damaged: bool) -> bytes:
        return self.v2(damaged, is_gzip=True)

    def message(self, damaged: bool) -> bytes:
        self.offset += 1
        return handmade.message(self.offset - 1, value_length=9 if damaged else None)

    def wrapper(self, damaged: bool) -> bytes:
        count = self.draw.randrange(1, 4)
        first = self.offset
        self.offset += count
        magic, codec = self.draw.choice([0, 1]), self.draw.choice([handmade.GZIP, handmade.SNAPPY, handmade.LZ4])
        start = 0 if magic else first
        inner = [handmade.message(start + each, magic=magic) for each in range(count)]
        if damaged:
            inner.append(self.draw.choice([handmade.message(start, magic=magic), b"rest", inner[-1][:-2]]))
        return handmade.wrapper(inner, offset=self.offset - 1, codec=codec, magic=magic)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200))
@pytest.mark.parametrize("sizes", ["large tables", "small tables"])
def test_a_doubt_changes_no_row_finding_or_stretch(seed: int, sizes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if sizes == "small tables":
        monkeypatch.setattr(batch_table, "TABLE_BATCHES", 5)
        monkeypatch.setattr(batch_table, "FIRST_BATCHES", 2)
        monkeypatch.setattr(batch_table, "DOUBTED_BATCHES", 1)
        monkeypatch.setattr(batch_table, "ARENA_BYTES", 50)
    data = Mixture(seed).segment()
    assert disagreeing(data, 0) == []
    assert disagreeing(data, 0, wanted=Wanted(visible=((3, 9), (20, 40)))) == []
    agreed(data)
