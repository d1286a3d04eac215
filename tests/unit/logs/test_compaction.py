"""Inputs and expectations are packed by hand; the library's own encoder builds neither."""

import gzip
import struct
from dataclasses import replace

import pytest

from logcore.logs.compaction.key_cleaning import (
    CleanedSegment,
    NewestOffsets,
    clean_segment,
    difference,
    newest_offset_by_key,
)
from logcore.logs.compaction.selection import (
    Refusal,
    RefusalReason,
    cleanable_range,
    dirty_ratio,
    why_not_now,
)
from logcore.logs.retention import SegmentFacts
from tests import handmade

PRODUCER = {"producer_id": 9, "producer_epoch": 2, "base_sequence": 40, "leader_epoch": 6}


def newest(keys: dict[bytes, int], end: int = 100) -> NewestOffsets:
    return NewestOffsets(keys, end, len(keys))


def cleaned(data: bytes, keys: dict[bytes, int], *, base_offset: int = 0, last_of_range: bool = False, end: int = 100):
    done = clean_segment(data, newest(keys, end), base_offset=base_offset, last_of_range=last_of_range)
    assert isinstance(done, CleanedSegment)
    return done


# the map


def test_of_each_key_the_newest_offset_counts_across_segments_and_tombstones_count() -> None:
    first = handmade.simple_batch(0, [(b"a", b"1"), (b"b", b"1"), (b"", b"1")])
    second = handmade.simple_batch(10, [(b"a", None), (b"c", b"")])
    found = newest_offset_by_key([(first, 0), (second, 10)], end_offset=20)
    assert found == NewestOffsets({b"a": 10, b"b": 1, b"": 2, b"c": 11}, 20, 5)


def test_what_is_not_published_makes_nothing_obsolete() -> None:
    data = handmade.simple_batch(0, [(b"a", b"1"), (b"a", b"2"), (b"a", b"3")])
    data += handmade.simple_batch(3, [(b"a", b"4")])
    found = newest_offset_by_key([(data, 0)], end_offset=2)
    assert found == NewestOffsets({b"a": 1}, 2, 2)


def test_damage_behind_the_published_offsets_is_not_looked_at() -> None:
    data = handmade.simple_batch(0, [(b"a", b"1")]) + handmade.simple_batch(1, [(b"a", b"2")]) + b"junk" * 30
    assert isinstance(newest_offset_by_key([(data, 0)], end_offset=1), NewestOffsets)


def test_records_without_a_key_are_refused_and_counted() -> None:
    data = handmade.simple_batch(0, [(b"a", b"1"), (None, b"1"), (None, None)])
    found = newest_offset_by_key([(data, 0)], end_offset=9)
    assert isinstance(found, Refusal)
    assert found.reason is RefusalReason.NO_KEY
    assert "2 of 3" in found.message


REFUSED = {
    "a transactional batch": (
        handmade.simple_batch(0, [(b"a", b"1")], attributes=handmade.TRANSACTIONAL, **PRODUCER),
        RefusalReason.TRANSACTIONAL,
    ),
    "a marker": (handmade.marker(0, handmade.COMMIT, producer_id=1), RefusalReason.TRANSACTIONAL),
    "a control batch": (handmade.control_batch(0, struct.pack(">hh", 0, 2), b""), RefusalReason.CONTROL),
    "a flipped bit": (handmade.flip(handmade.simple_batch(0, [(b"a", b"1")]), 64), RefusalReason.CORRUPT),
    "a torn batch": (handmade.simple_batch(0, [(b"a", b"1")])[:-1], RefusalReason.CORRUPT),
    "a zero tail": (handmade.zero_tail(handmade.simple_batch(0, [(b"a", b"1")]), 40), RefusalReason.CORRUPT),
    "a legacy batch": (handmade.message_v0(0, b"k", b"v"), RefusalReason.UNSUPPORTED_FORMAT),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_cleaned_yet_is_refused_with_its_reason(case: str) -> None:
    data, reason = REFUSED[case]
    for found in (
        newest_offset_by_key([(data, 0)], end_offset=9),
        clean_segment(data, newest({b"a": 0}), base_offset=0, last_of_range=True),
    ):
        assert isinstance(found, Refusal)
        assert found.reason is reason


# one segment


def test_a_batch_of_which_all_records_stay_keeps_its_very_bytes() -> None:
    odd = handmade.batch(
        [handmade.record(0, b"a", b"1", attributes=3), handmade.record(4, b"b", None)],
        attributes=0x80,
        last_offset_delta=7,
        max_timestamp=99,
    )
    done = cleaned(odd, {b"a": 0, b"b": 4})
    assert done == CleanedSegment(odd, records=2, removed=0, rewritten=0, max_timestamp=99)


def test_a_rebuilt_batch_keeps_offsets_sequence_and_producer_and_takes_the_times_of_what_stays() -> None:
    records = [
        handmade.record(0, b"a", b"1", timestamp_delta=500),
        handmade.record(1, b"b", None, timestamp_delta=20, headers=[(b"h", None), (b"\xff", b"x")]),
        handmade.record(2, b"a", b"2", timestamp_delta=10),
        handmade.record(3, b"c", b"1", timestamp_delta=900),
    ]
    data = handmade.batch(records, base_offset=50, base_timestamp=1000, max_timestamp=1900, **PRODUCER)
    expected = handmade.batch(
        [
            handmade.record(1, b"b", None, timestamp_delta=0, headers=[(b"h", None), (b"\xff", b"x")]),
            handmade.record(2, b"a", b"2", timestamp_delta=-10),
        ],
        base_offset=50,
        last_offset_delta=3,
        base_timestamp=1020,
        max_timestamp=1020,
        **PRODUCER,
    )
    done = cleaned(data, {b"a": 52, b"b": 51, b"c": 77}, base_offset=50)
    assert done == CleanedSegment(expected, records=2, removed=2, rewritten=1, max_timestamp=1020)


def test_a_rebuilt_batch_keeps_its_append_time() -> None:
    records = [handmade.record(0, b"a"), handmade.record(1, b"b", timestamp_delta=5)]
    append = {"attributes": handmade.LOG_APPEND_TIME, "base_timestamp": 1000, "max_timestamp": 7000}
    kept = handmade.batch([handmade.record(1, b"b")], last_offset_delta=1, **(append | {"base_timestamp": 7000}))
    assert cleaned(handmade.batch(records, **append), {b"a": 9, b"b": 1}) == CleanedSegment(kept, 1, 1, 1, 7000)


def test_a_rebuilt_batch_keeps_its_delete_horizon() -> None:
    records = [handmade.record(0, b"a", timestamp_delta=-50), handmade.record(1, b"b", None, timestamp_delta=-40)]
    horizon = {"attributes": handmade.DELETE_HORIZON, "base_timestamp": 1000, "max_timestamp": 960}
    kept = handmade.batch([records[1]], last_offset_delta=1, **horizon)
    assert cleaned(handmade.batch(records, **horizon), {b"a": 9, b"b": 1}).data == kept


def test_a_rebuilt_batch_keeps_its_codec() -> None:
    body = gzip.compress(handmade.record(0, b"a") + handmade.record(1, b"b"))
    data = handmade.batch((), attributes=1, body=body, count=2, last_offset_delta=1)
    done = cleaned(data, {b"a": 9, b"b": 1}).data
    assert struct.unpack_from(">h", done, 21) == (1,)
    assert gzip.decompress(done[61:]) == handmade.record(1, b"b")
    assert handmade.fix_crc(done) == done


def test_an_emptied_batch_goes_and_the_last_one_of_the_range_stays_as_61_bytes() -> None:
    first = handmade.simple_batch(0, [(b"a", b"1")], **PRODUCER)
    last = handmade.simple_batch(1, [(b"a", b"2"), (b"b", b"1")], max_timestamp=1000, **PRODUCER)
    obsolete = {b"a": 50, b"b": 51}
    assert cleaned(first + last, obsolete) == CleanedSegment(b"", 0, 3, 2, None)
    empty = handmade.empty_batch(1, 1, max_timestamp=1000, **PRODUCER)
    assert len(empty) == 61
    assert cleaned(first + last, obsolete, last_of_range=True) == CleanedSegment(empty, 0, 3, 2, 1000)


def test_an_empty_batch_of_an_earlier_cleaning_goes_unless_it_is_the_last() -> None:
    empty = handmade.empty_batch(0, 4, max_timestamp=5)
    kept = handmade.simple_batch(5, [(b"a", b"1")])
    assert cleaned(empty + kept, {b"a": 5}).data == kept
    assert cleaned(kept + handmade.empty_batch(6, 4), {b"a": 5}, last_of_range=True).data == (
        kept + handmade.empty_batch(6, 4)
    )


def test_records_above_the_map_stay_whatever_their_key() -> None:
    data = handmade.simple_batch(0, [(b"a", b"1"), (b"a", b"2")])
    assert cleaned(data, {b"a": 1}, end=0).data == data


def test_an_empty_segment_stays_empty() -> None:
    assert cleaned(b"", {}, last_of_range=True) == CleanedSegment(b"", 0, 0, 0, None)


def test_a_record_without_a_key_is_refused_when_it_is_met() -> None:
    found = clean_segment(handmade.simple_batch(0, [(None, b"1")]), newest({}), base_offset=0, last_of_range=False)
    assert isinstance(found, Refusal)
    assert found.reason is RefusalReason.NO_KEY


def test_a_batch_that_no_encoder_may_write_is_refused_rather_than_changed() -> None:
    data = handmade.simple_batch(0, [(b"a", b"1"), (b"b", b"1")], base_timestamp=-77)
    found = clean_segment(data, newest({b"a": 50, b"b": 1}), base_offset=0, last_of_range=False)
    assert isinstance(found, Refusal)
    assert found.reason is RefusalReason.NOT_REBUILDABLE
    assert cleaned(data, {b"a": 0, b"b": 1}).data == data


# the proof

BEFORE = handmade.simple_batch(0, [(b"a", b"1"), (b"b", b"1"), (b"a", b"2")], **PRODUCER)
AFTER_FIELDS = {"base_offset": 0, "last_offset_delta": 2} | PRODUCER
MAP = newest({b"a": 2, b"b": 1})


def survivors(second: bytes = b"2", **fields: int) -> bytes:
    records = [handmade.record(1, b"b", b"1"), handmade.record(2, b"a", second)]
    return handmade.batch(records, **(AFTER_FIELDS | fields))


def test_a_right_cleaning_is_proven() -> None:
    assert difference([(BEFORE, survivors(), 0)], MAP) is None
    assert difference([], MAP) is None
    assert difference([(b"", b"", 0)], MAP) is None


WRONG = {
    "a lost survivor": (handmade.batch([handmade.record(1, b"b", b"1")], **AFTER_FIELDS), "offset 2 is gone"),
    "a lost batch": (b"", "offset 1 is gone"),
    "an obsolete record": (BEFORE, "offset 0 that should not be there"),
    "another value": (survivors(b"3"), "record of offset 2"),
    "another timestamp": (survivors(base_timestamp=1001), "record of offset 1"),
    "another leader epoch": (survivors(leader_epoch=7), "batch of offset 1"),
    "another sequence": (survivors(base_sequence=41), "batch of offset 1"),
    "another last offset": (survivors(last_offset_delta=3), "batch of offset 1"),
    "another timestamp type": (survivors(attributes=8), "record of offset 1"),
    "a wrong crc": (handmade.flip(survivors(), 70), "cannot be trusted"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_cleaning_is_told_with_its_offset(case: str) -> None:
    after, complaint = WRONG[case]
    found = difference([(BEFORE, after, 0)], MAP)
    assert found is not None
    assert complaint in found


def test_damage_in_the_input_is_never_proven() -> None:
    found = difference([(handmade.flip(BEFORE, 70), survivors(), 0)], MAP)
    assert found is not None
    assert "cannot be trusted" in found


def test_a_map_that_loses_a_key_is_found_out() -> None:
    first, second = handmade.simple_batch(0, [(b"a", b"1")]), handmade.simple_batch(1, [(b"b", b"1")])
    found = difference([(first, b"", 0), (second, second, 1)], newest({b"a": 1, b"b": 1}))
    assert found is not None
    assert "offset 0 was taken for obsolete because of offset 1" in found


def test_a_key_with_a_newer_record_behind_the_cleaned_segments_may_go() -> None:
    first, second = handmade.simple_batch(0, [(b"a", b"1")]), handmade.simple_batch(1, [(b"b", b"1")])
    assert difference([(first, b"", 0), (second, second, 1)], newest({b"a": 2, b"b": 1})) is None


def test_a_range_that_no_longer_tells_its_next_offset_is_found_out() -> None:
    first, second = handmade.simple_batch(0, [(b"a", b"1")]), handmade.simple_batch(1, [(b"b", b"1")])
    obsolete = newest({b"a": 0, b"b": 50})
    found = difference([(first, first, 0), (second, b"", 1)], obsolete)
    assert found is not None
    assert "ended at offset 2 and now end at 1" in found
    assert difference([(first, first, 0), (second, handmade.empty_batch(1, 0), 1)], obsolete) is None


def test_what_the_cleaning_says_of_itself_is_proven() -> None:
    data = BEFORE + handmade.simple_batch(3, [(b"b", b"2"), (b"c", None)])
    found = newest_offset_by_key([(data, 0)], end_offset=5)
    assert isinstance(found, NewestOffsets)
    done = clean_segment(data, found, base_offset=0, last_of_range=True)
    assert isinstance(done, CleanedSegment)
    assert (done.records, done.removed) == (3, 2)
    assert difference([(data, done.data, 0)], found) is None


# what to clean


def facts(*bases: int, size: int = 100, timestamp: int = 0) -> list[SegmentFacts]:
    return [SegmentFacts(f"s{base}", base, size, timestamp, 0) for base in bases]


def chosen(segments: list[SegmentFacts], **given):
    arguments = {
        "first_dirty": None,
        "limit_offset": 1000,
        "log_start_offset": 0,
        "log_end_offset": 1000,
        "as_of_ms": 10_000,
    } | given
    found = cleanable_range(segments, **arguments)
    return [s.base_offset for s in found.segments], found.end_offset, found.clean_bytes, found.cleanable_bytes


def test_all_but_the_last_segment_may_be_cleaned() -> None:
    assert chosen(facts(0, 10, 20)) == ([0, 10], 20, 0, 200)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(20, ([0, 10], 20, 0, 200)), (19, ([0], 10, 0, 100)), (10, ([0], 10, 0, 100)), (9, ([], 0, 0, 0))],
)
def test_only_segments_wholly_below_the_frontier_may_be_cleaned(limit, expected) -> None:
    assert chosen(facts(0, 10, 20, 30), limit_offset=limit) == expected


@pytest.mark.parametrize(
    ("first_dirty", "expected"),
    [
        (10, ([0, 10, 20], 30, 100, 200)),
        (15, ([0, 10, 20], 30, 200, 200)),
        (30, ([0, 10, 20], 30, 300, 0)),
        (2000, ([0, 10, 20], 30, 0, 300)),
    ],
)
def test_a_segment_with_the_first_dirty_offset_inside_counts_as_clean_and_as_dirty(first_dirty, expected) -> None:
    assert chosen(facts(0, 10, 20, 30), first_dirty=first_dirty) == expected


def test_a_first_dirty_offset_below_the_log_start_counts_as_none() -> None:
    assert chosen(facts(10, 20, 30), first_dirty=4, log_start_offset=10) == ([10, 20], 30, 0, 200)


def test_a_dirty_segment_younger_than_the_lag_keeps_itself_and_all_behind_it() -> None:
    segments = facts(0, 10, 20, 30)
    segments[1] = replace(segments[1], max_timestamp=9_001)
    assert chosen(segments, min_compaction_lag_ms=1_000) == ([0], 10, 0, 100)
    segments[1] = replace(segments[1], max_timestamp=9_000)
    assert chosen(segments, min_compaction_lag_ms=1_000) == ([0, 10, 20], 30, 0, 300)


def test_a_log_of_one_segment_or_none_has_nothing_to_clean() -> None:
    assert chosen(facts(0)) == ([], 0, 0, 0)
    assert chosen([]) == ([], 0, 0, 0)


def test_the_dirty_ratio_is_the_dirty_share_and_must_be_above_the_limit() -> None:
    assert (dirty_ratio(300, 100), dirty_ratio(0, 0), dirty_ratio(0, 5)) == (0.25, 0.0, 1.0)
    found = cleanable_range(
        facts(0, 10, 20, 30), first_dirty=10, limit_offset=30, log_start_offset=0, log_end_offset=40, as_of_ms=0
    )
    assert found.dirty_ratio == pytest.approx(2 / 3)
    assert why_not_now(found, min_cleanable_dirty_ratio=0.6) is None
    refusal = why_not_now(replace(found, cleanable_bytes=100), min_cleanable_dirty_ratio=0.5)
    assert refusal is not None
    assert refusal.reason is RefusalReason.NOTHING_CLEANABLE
    assert why_not_now(replace(found, cleanable_bytes=0), min_cleanable_dirty_ratio=0.0) is not None
