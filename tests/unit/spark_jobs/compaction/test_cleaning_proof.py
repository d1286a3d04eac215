"""What may not take the place of a segment: what was not there, or lacks the last word on a key."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from logcore.columns.cleaning.offset_map import HashKey
from spark_jobs.compaction.cleaning_proof import not_a_part, not_newest, rows
from spark_jobs.compaction.newest_by_key import Aborted, ExactNewest, HashedNewestByKey, NewestByKey
from tests import handmade

Row = tuple[bytes | None, bytes | None]
BEFORE: list[Row] = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (None, b"4"), (b"c", None), (b"b", b"5")]


def batches(kept: dict[int, Row]) -> list[pa.RecordBatch]:
    """Each record in a batch of its own."""
    data = b"".join(handmade.simple_batch(offset, [row]) for offset, row in kept.items())
    return list(rows(data, 0)) if data else []


ALL = dict(enumerate(BEFORE))


MakeNewest = Callable[..., NewestByKey]


@pytest.fixture(params=["exact", "hashed"])
def newest(request) -> MakeNewest:
    """Return the latest row of each key, in either way."""
    secret = HashKey.random()

    def newest_of(kept: dict[int, Row], end: int = 6, aborted: Aborted | None = None) -> NewestByKey:
        is_hashed = request.param == "hashed"
        seen = (
            HashedNewestByKey(end, aborted or Aborted(), hash_key=secret)
            if is_hashed
            else ExactNewest(end, aborted or Aborted())
        )
        for batch in batches(kept):
            seen.add(batch)
        return seen

    return newest_of


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
def test_the_newest_of_every_key_has_to_be_left(newest: MakeNewest, left, said):
    wrong = not_newest(newest(ALL), newest(left))
    assert wrong is None if said is None else said in str(wrong)


def test_a_value_that_shows_again_because_its_tombstone_left_is_named(newest: MakeNewest):
    before = {0: (b"a", b"1"), 1: (b"a", None)}
    assert "offset 0 is left" in str(not_newest(newest(before), newest({0: before[0]})))


def test_records_after_the_end_make_nothing_obsolete(newest: MakeNewest):
    assert "offset 2 is the newest" in str(not_newest(newest(ALL, end=3), newest({1: ALL[1], 5: ALL[5]}, end=3)))


def test_aborted_records_are_no_last_word_and_may_not_be_left(newest: MakeNewest):
    aborted = Aborted.of([(5, 6), (2, 3)])
    assert not_newest(newest(ALL, aborted=aborted), newest({0: ALL[0], 1: ALL[1], 4: ALL[4]}, aborted=aborted)) is None
    said = not_newest(newest(ALL, aborted=aborted), newest({0: ALL[0], 1: ALL[1], 2: ALL[2]}, aborted=aborted))
    assert "offset 2 belongs to an aborted transaction" in str(said)


def test_records_of_v0_that_became_v2_are_the_same():
    data = handmade.message_v0(3, b"k", b"v")
    became = handmade.simple_batch(3, [(b"k", b"v")], base_timestamp=-1, max_timestamp=-1, leader_epoch=-1)
    assert not_a_part(list(rows(data, 0)), list(rows(became, 0))) is None


@pytest.mark.parametrize("seed", range(20))
def test_hashes_say_what_the_keys_themselves_say(seed):
    chance = random.Random(seed)
    keys = [chance.randbytes(chance.choice([0, 1, 3, 8, 9, 16, 40])) for _ in range(chance.choice([1, 5, 300]))]
    before = {
        offset: (chance.choice([*keys, None]), None if chance.random() < 0.2 else chance.randbytes(3))
        for offset in range(1000)
    }
    after = {offset: row for offset, row in before.items() if chance.random() < 0.7}
    aborted = Aborted.of([(start, start + 5) for start in chance.sample(range(0, 1000, 7), 9)])
    secret = HashKey.random()
    exact, hashed = [], []
    for kept in (before, after):
        batch = pa.record_batch(
            {
                "offset": list(kept),
                "key": pa.array([key for key, _ in kept.values()], pa.binary()),
                "value": pa.array([value for _, value in kept.values()], pa.binary()),
            }
        )
        exact.append(ExactNewest(900, aborted))
        hashed.append(HashedNewestByKey(900, aborted, hash_key=secret))
        for start in range(0, batch.num_rows, 128):
            for each in (exact[-1], hashed[-1]):
                each.add(batch.slice(start, 128))
    assert [each.aborted for each in exact] == [each.aborted for each in hashed]
    sides = [
        sorted(zip(*(words.tolist() for words in told[0].beside(told[1])), strict=True)) for told in (exact, hashed)
    ]
    assert sides[0] == sides[1]
    assert len({key for key, _ in before.values()} - {None}) >= len(sides[0]) > 0


def test_sides_that_hash_with_other_secrets_are_not_compared():
    one, other = (HashedNewestByKey(6, Aborted(), hash_key=HashKey.of(bytes([n] * 16))) for n in (1, 2))
    with pytest.raises(ValueError, match="one secret"):
        one.beside(other)
