"""What may not take the place of a segment: what was not there, or lacks the last word on a key."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_jobs.cleaning_proof import Aborted, NewestByKey, not_a_part, not_newest, rows
from tests import handmade

Row = tuple[bytes | None, bytes | None]
BEFORE: list[Row] = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (None, b"4"), (b"c", None), (b"b", b"5")]


def batches(kept: dict[int, Row]) -> list[pa.RecordBatch]:
    """Each record in a batch of its own."""
    data = b"".join(handmade.simple_batch(offset, [row]) for offset, row in kept.items())
    return list(rows(data, 0)) if data else []


ALL = dict(enumerate(BEFORE))


def newest(kept: dict[int, Row], end: int = 6, aborted: Aborted | None = None) -> NewestByKey:
    told = NewestByKey(end, aborted or Aborted())
    for batch in batches(kept):
        told.add(batch)
    return told


def test_what_is_left_in_order_is_a_part_and_so_is_nothing():
    assert not_a_part(batches(ALL), batches({2: ALL[2], 5: ALL[5]})) is None
    assert not_a_part(batches(ALL), []) is None
    assert not_a_part([], []) is None


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ({2: (b"a", b"x")}, "the value of the record at offset 2"),
        ({2: (b"b", b"3")}, "the key of the record at offset 2"),
        ({2: (None, b"3")}, "the key of the record at offset 2"),
        ({4: (b"c", b"")}, "the value of the record at offset 4"),
        ({7: (b"a", b"3")}, "a record at offset 7 that was not there"),
    ],
)
def test_what_was_not_there_like_this_is_named(left, said):
    assert said in str(not_a_part(batches(ALL), batches(left)))


def test_a_record_between_those_that_were_there_is_named():
    assert "offset 2 that was not there" in str(not_a_part(batches({1: ALL[1], 3: ALL[3]}), batches({2: ALL[2]})))


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ({2: ALL[2], 4: ALL[4], 5: ALL[5]}, None),
        ({2: ALL[2], 5: ALL[5]}, None),  # a tombstone whose horizon passed
        (ALL, None),
        ({2: ALL[2], 4: ALL[4]}, "offset 5 is the newest of its key and is gone"),
        ({1: ALL[1], 2: ALL[2]}, "offset 5 is the newest of its key, and offset 1 is left"),
    ],
)
def test_the_newest_of_every_key_has_to_be_left(left, said):
    wrong = not_newest(newest(ALL), newest(left))
    assert wrong is None if said is None else said in str(wrong)


def test_a_value_that_shows_again_because_its_tombstone_left_is_named():
    before = {0: (b"a", b"1"), 1: (b"a", None)}
    assert "offset 0 is left" in str(not_newest(newest(before), newest({0: before[0]})))


def test_what_lies_behind_the_end_makes_nothing_obsolete():
    assert "offset 2 is the newest" in str(not_newest(newest(ALL, end=3), newest({1: ALL[1], 5: ALL[5]}, end=3)))


def test_aborted_records_are_no_last_word_and_may_not_be_left():
    aborted = Aborted.of([(5, 6), (2, 3)])
    assert not_newest(newest(ALL, aborted=aborted), newest({0: ALL[0], 1: ALL[1], 4: ALL[4]}, aborted=aborted)) is None
    said = not_newest(newest(ALL, aborted=aborted), newest({0: ALL[0], 1: ALL[1], 2: ALL[2]}, aborted=aborted))
    assert "offset 2 belongs to an aborted transaction" in str(said)


def test_records_of_v0_that_became_v2_are_the_same():
    data = handmade.message_v0(3, b"k", b"v")
    became = handmade.simple_batch(3, [(b"k", b"v")], base_timestamp=-1, max_timestamp=-1, leader_epoch=-1)
    assert not_a_part(list(rows(data, 0)), list(rows(became, 0))) is None
