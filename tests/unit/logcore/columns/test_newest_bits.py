"""No key is hashed twice. Where one bit per offset cannot decide which records stay, the cleaner looks in the map."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest

from logcore.columns.cleaning import newest_bits
from logcore.columns.cleaning.cleaning import CompiledCleaner
from logcore.columns.cleaning.keyed_batches import hashes_of
from logcore.columns.cleaning.newest_bits import NewestBits
from logcore.columns.cleaning.offset_map import HashKey, OffsetMap
from logcore.errors import LogError
from logcore.logs.compaction.cleaner import Cleaner, PlainCleaner
from logcore.logs.compaction.cleaning_round import CleanedSegment, CleaningRound, SourceSegment
from tests import handmade
from tests.unit.logcore.logs.compaction.one_round import NOW, a_round, segment

Rows = list[tuple[bytes | None, bytes | None]]
KEY = HashKey.of(bytes(range(16)))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows the map is asked for, each time."""
    counts: list[int] = []
    find = OffsetMap.find

    def counted(self: OffsetMap, high: np.ndarray, *more: object) -> object:
        counts.append(len(high))
        return find(self, high, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(OffsetMap, "find", counted)
    return counts


def some_rows(seed: int, count: int) -> Rows:
    chance = random.Random(seed)
    keys: list[bytes | None] = [b"k%d" % number for number in range(9)]
    values: list[bytes | None] = [b"v", bytes(90)]
    return [(chance.choice([*keys, *keys, None]), chance.choice([*values, *values, None])) for _ in range(count)]


def batches(first: int, count: int, *, each: int = 7) -> bytes:
    return b"".join(
        handmade.simple_batch(offset, some_rows(offset, each)) for offset in range(first, first + count * each, each)
    )


def a_log() -> list[SourceSegment]:
    return [
        segment(0, batches(0, 5), next_base=35),
        segment(35, batches(35, 5), next_base=70),
        segment(70, batches(70, 5), next_base=105),
    ]


def cleaned(
    cleaner: Cleaner,
    segments: Sequence[SourceSegment],
    round: CleaningRound,
    mapped: Sequence[SourceSegment] | None = None,
) -> tuple[int, bytes, CleanedSegment]:
    sink = BytesIO()
    end = cleaner.build_map(segments if mapped is None else mapped, round)
    result = cleaner.clean(segments, sink)
    return end, sink.getvalue(), result


def test_of_a_plain_log_no_key_is_looked_up_again(asked: list[int]) -> None:
    found = cleaned(CompiledCleaner(), a_log(), a_round(105))
    assert asked == []
    assert found == cleaned(PlainCleaner(), a_log(), a_round(105))
    assert found[2].removed > 60


def test_what_was_cleaned_before_is_looked_up(asked: list[int]) -> None:
    for dirty in (1, 35, 40, 70, 104, 105):
        asked.clear()
        round = a_round(105, first_dirty_offset=dirty)
        dirty_part = [each for each in a_log() if each.next_base_offset > dirty]
        found = cleaned(CompiledCleaner(), a_log(), round, dirty_part)
        assert sum(asked) >= dirty // 35 * 35
        assert found == cleaned(PlainCleaner(), a_log(), round, dirty_part)


@pytest.mark.parametrize("most", [0, 1, 4, 8])
def test_after_a_full_map_everything_stays(most: int) -> None:
    round = a_round(105, max_keys=most)
    found = cleaned(CompiledCleaner(), a_log(), round)
    assert found[0] < 105
    assert found == cleaned(PlainCleaner(), a_log(), round)


def test_offsets_that_repeat_after_a_full_map_are_decided_by_the_map() -> None:
    read = handmade.simple_batch(0, [(key, b"v") for key in (b"a", b"a", b"a", b"b", b"c", b"c")])
    last = handmade.simple_batch(6, [(b"d", b"v")])
    again = [handmade.simple_batch(0, [(b"x", b"v")]), handmade.simple_batch(1, [(b"y", b"v"), (b"z", b"v")])]
    log = [segment(0, read, last, *again, next_base=20)]
    found = cleaned(CompiledCleaner(), log, a_round(20, max_keys=3))
    assert found[0] == 5
    assert found == cleaned(PlainCleaner(), log, a_round(20, max_keys=3))


@pytest.mark.parametrize("frozen", [0, 20, 60, 200])
def test_what_is_frozen_stays_until_something_newer_is_read(frozen: int) -> None:
    round = a_round(105, frozen_from=frozen)
    assert cleaned(CompiledCleaner(), a_log(), round) == cleaned(PlainCleaner(), a_log(), round)


def test_offsets_that_fall_from_one_segment_to_the_next_are_decided_by_the_map(asked: list[int]) -> None:
    again = handmade.simple_batch(10, [(b"k%d" % number, b"again") for number in range(9)])
    log = [segment(0, batches(0, 5), next_base=35), segment(0, again, next_base=36)]
    found = cleaned(CompiledCleaner(), log, a_round(36))
    assert asked
    assert found == cleaned(PlainCleaner(), log, a_round(36))


def test_a_record_before_the_first_read_offset_stays_if_no_newer_one_was_read() -> None:
    only = handmade.simple_batch(0, [(b"only here", b"v"), (b"k1", b"v")])
    content = only + batches(2, 4)
    log = [segment(0, content, next_base=30, dirty_position=len(only))]
    end, log_bytes, result = cleaned(CompiledCleaner(), log, a_round(30))
    assert b"only here" in log_bytes
    assert (end, log_bytes, result) == cleaned(PlainCleaner(), log, a_round(30))


def test_a_segment_that_was_not_read_for_the_map_keeps_what_is_not_in_it() -> None:
    log = a_log()
    more = handmade.simple_batch(70, [(b"only here", b"v")])
    log[1] = replace(log[1], held=bytes(log[1].content) + more, next_base_offset=71)
    log[2] = segment(71, batches(71, 5), next_base=106)
    mapped = [log[0], log[2]]
    found = cleaned(CompiledCleaner(), log, a_round(106), mapped)
    assert b"only here" in found[1]
    assert found == cleaned(PlainCleaner(), log, a_round(106), mapped)


def test_offsets_too_far_apart_for_bits_are_decided_by_the_map(asked: list[int]) -> None:
    far = 1 << 40
    log = [segment(0, batches(0, 5), next_base=far), segment(far, batches(far, 5), next_base=far + 35)]
    cleaners = CompiledCleaner(), PlainCleaner()
    made = []
    for cleaner in cleaners:
        end, sink = cleaner.build_map(log, a_round(far + 35)), BytesIO()
        made.append((end, cleaner.clean(log[:1], sink), cleaner.clean(log[1:], sink), sink.getvalue()))
    assert made[0] == made[1]
    assert sum(asked) == 70


def test_tombstones_stay_and_go_by_their_horizon(asked: list[int]) -> None:
    def stamped(offset: int, horizon: int) -> bytes:
        rows = handmade.record(0, b"gone%d" % offset, None) + handmade.record(1, b"k%d" % offset, b"v")
        return handmade.batch(
            body=rows, base_offset=offset, count=2, last_offset_delta=1, base_timestamp=horizon, attributes=0x40
        )

    log = [segment(0, stamped(0, NOW - 1), stamped(2, NOW), stamped(4, NOW + 1), next_base=6)]
    _, log_bytes, result = found = cleaned(CompiledCleaner(), log, a_round(6))
    assert asked == []
    assert [b"gone%d" % offset in log_bytes for offset in (0, 2, 4)] == [False, False, True]
    assert result.records == 4
    assert found == cleaned(PlainCleaner(), log, a_round(6))


def test_a_record_that_ends_after_its_batch_is_not_read() -> None:
    """The bytes change between the two readings. Whatever they declare now, no byte outside the batch is read."""
    rows = [handmade.record(delta, b"k%d" % delta, b"v" * 20) for delta in range(3)]
    whole = handmade.batch(body=b"".join(rows), base_offset=0, count=3, last_offset_delta=2)
    content = bytearray(whole)
    cleaner, round = CompiledCleaner(), a_round(3)
    log = [SourceSegment(0, 3, content, 7, 0, 0)]
    cleaner.build_map(log, round)
    for place in (61, 61 + len(rows[0]), 61 + len(rows[0]) + len(rows[1])):
        damaged = handmade.fix_crc(handmade.patch(whole, place, b"\x7e"))
        content[:] = damaged
        assert _raised(cleaner, log) == _raised(_mapped_by(PlainCleaner(), whole, round), log)


def _mapped_by(cleaner: Cleaner, content: bytes, round: CleaningRound) -> Cleaner:
    cleaner.build_map([SourceSegment(0, 3, content, 7, 0, 0)], round)
    return cleaner


def _raised(cleaner: Cleaner, log: Sequence[SourceSegment]) -> str:
    with pytest.raises(LogError) as caught:
        cleaner.clean(log, BytesIO())
    return f"{caught.type.__name__}: {caught.value}"


def test_bits_are_those_of_the_offsets_that_a_map_holds() -> None:
    offsets = np.array([5, 6, 13, 14, 40, 41], np.int64)
    found = OffsetMap()
    found.put(*hashes_of([b"k%d" % number for number in range(6)], KEY), offsets)
    bits = np.unpackbits(NewestBits(found, 6, 41).bits, bitorder="little")
    assert np.flatnonzero(bits).tolist() == [0, 7, 8, 34]


def test_bits_take_no_more_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest_bits, "MOST_BYTES", 10)
    found = OffsetMap()
    most = 8 * (found.nbytes // 16)
    assert NewestBits.of(found, 5, 5 + most) is not None
    assert NewestBits.of(found, 5, 6 + most) is None
