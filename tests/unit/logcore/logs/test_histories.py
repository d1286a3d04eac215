"""Copies of a log in pairs, against a model of replication that shares no code with them."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from dataclasses import replace

import pytest

from logcore.logs.growth.contents import RecordContent, compare_contents
from logcore.logs.growth.histories import (
    CopyHistory,
    CopyVerdict,
    HeldBatches,
    Range,
    compare_histories,
    held_batches,
)
from logcore.segments.side_files.leader_epochs import EpochEntry
from tests.model import replication
from tests.model.replication import Replica, same_to

SAMPLE = 2_000
PART = 10_000


def held(*batches: tuple[int, int, int, bytes] | tuple[int, int, int, bytes, int]) -> HeldBatches:
    """Batches of base offset, last offset, leader epoch, content and, if it is not full, the number of records."""
    made = HeldBatches()
    for base, last, epoch, content, *count in batches:
        made.add(base, last, epoch, zlib.crc32(content), count[0] if count else last - base + 1)
    return made


def history(
    batches: HeldBatches,
    epochs: Sequence[tuple[int, int]] = ((0, 0),),
    *,
    start: int = 0,
    end: int | None = None,
    damaged: tuple[Range, ...] = (),
    lost: tuple[Range, ...] = (),
    high_watermark: int | None = None,
) -> CopyHistory:
    last = batches.lasts[-1] + 1 if len(batches) else start
    entries = tuple(EpochEntry(*each) for each in epochs)
    return CopyHistory(start, last if end is None else end, high_watermark, entries, batches, damaged, lost)


def rows(*spans: tuple[int, int], epoch: int = 0, word: bytes = b"a") -> list[tuple[int, int, int, bytes]]:
    return [(base, last, epoch, b"%d-%d-%s" % (base, epoch, word)) for base, last in spans]


TENS = [(at, at + 9) for at in range(0, 100, 10)]


@pytest.mark.parametrize(
    ("count", "first"),
    [(SAMPLE, 0), *(pytest.param(PART, 10**6 * part, marks=pytest.mark.long) for part in range(1, 11))],
    ids=["sample", *(f"part {part}" for part in range(1, 11))],
)
def test_copies_of_random_histories_part_and_truncate_where_the_model_does(count: int, first: int) -> None:
    parted = cut = 0
    for seed in range(first, first + count):
        partition = replication.history(seed, unclean=seed % 2 == 1)
        made = [single(each) for each in partition.replicas]
        for left, right in itertools.combinations(range(len(made)), 2):
            ours, theirs = partition.replicas[left].log, partition.replicas[right].log
            found, same = compare_histories(made[left], made[right]), same_to(ours, theirs)
            is_fork = same < min(len(ours), len(theirs))
            assert found.parts_at == (same if is_fork else None), seed
            # A follower cuts its log back to the longest prefix that is also its leader's.
            assert found.left_truncates_to == (same if same < len(ours) else None), seed
            assert found.right_truncates_to == (same if same < len(theirs) else None), seed
            assert found.only_left == (((same, len(ours)),) if same < len(ours) else ()), seed
            assert found.only_right == (((same, len(theirs)),) if same < len(theirs) else ()), seed
            right_verdict = CopyVerdict.EQUAL if len(ours) == len(theirs) == same else CopyVerdict.BEHIND
            assert found.verdict(0) is (CopyVerdict.DIVERGED if is_fork else right_verdict), seed
            assert not found.is_open, seed
            parted += is_fork
            cut += found.left_truncates_to is not None
    print(f"{parted} pairs part, {cut} copies are cut")
    assert parted > count // 100
    assert cut > count // 10


def single(replica: Replica, *, has_epochs: bool = True) -> CopyHistory:
    batches = held(*((at, at, epoch, value) for at, (epoch, value) in enumerate(replica.log)))
    return history(
        batches,
        replica.epochs if has_epochs else (),
        end=len(replica.log),
        high_watermark=replica.high_watermark,
    )


def test_without_files_of_epochs_the_batches_say_the_same() -> None:
    for seed in range(200):
        partition = replication.history(seed, unclean=True)
        made = [single(each, has_epochs=False) for each in partition.replicas]
        for left, right in itertools.combinations(range(len(made)), 2):
            ours, theirs = partition.replicas[left].log, partition.replicas[right].log
            found, same = compare_histories(made[left], made[right]), same_to(ours, theirs)
            assert found.parts_at == (same if same < min(len(ours), len(theirs)) else None), seed
            if ours and theirs:
                assert found.left_truncates_to == (same if same < len(ours) else None), seed


def test_an_epoch_without_records_and_a_lagging_high_watermark_are_no_difference() -> None:
    one = history(held(*rows(*TENS)), [(0, 0), (3, 100)], high_watermark=100)
    other = history(held(*rows(*TENS)), [(0, 0)], high_watermark=10)
    found = compare_histories(one, other)
    assert (found.verdict(0), found.left_truncates_to, found.right_truncates_to) == (CopyVerdict.EQUAL, None, None)


def test_equal_offsets_and_epochs_with_other_bytes_part_and_no_broker_cuts_them() -> None:
    """Two unclean elections in one epoch, or bytes that somebody changed with their checksum."""
    one = history(held(*rows(*TENS)))
    other = history(held(*rows(*TENS[:4]), *rows(TENS[4], word=b"b"), *rows(*TENS[5:])))
    found = compare_histories(one, other)
    assert (found.verdict(0), found.parts_at) == (CopyVerdict.DIVERGED, 40)
    assert (found.left_truncates_to, found.right_truncates_to) == (None, None)


def test_a_batch_with_another_leader_epoch_is_another_one_although_its_checksum_is_equal() -> None:
    base, last, _, content = rows(TENS[1])[0]
    one, other = (held(*rows(TENS[0]), (base, last, epoch, content)) for epoch in (0, 1))
    found = compare_histories(history(one), history(other, [(0, 0), (1, 10)]))
    assert (found.parts_at, found.left_truncates_to, found.right_truncates_to) == (10, 10, 10)


def test_a_follower_of_an_older_history_is_cut_twice_as_kip_279_says() -> None:
    """Leaders of epochs 1 and 2 alternated; epoch 2's log never saw epoch 1's records, and the reverse."""
    one = history(held(*rows((0, 9)), *rows((10, 19), epoch=1)), [(0, 0), (1, 10)])
    two = history(held(*rows((0, 9)), *rows((10, 14), epoch=2)), [(0, 0), (2, 10)])
    found = compare_histories(one, two)
    assert (found.parts_at, found.left_truncates_to, found.right_truncates_to) == (10, 10, 10)


def test_a_follower_without_epochs_is_cut_at_its_high_watermark() -> None:
    """Batches of before 0.11 have no leader epoch."""
    old = held(*rows(*TENS, epoch=-1))
    follower, leader = history(old, (), high_watermark=70), history(old, (), high_watermark=100)
    found = compare_histories(follower, leader)
    assert (found.verdict(0), found.left_truncates_to, found.right_truncates_to) == (CopyVerdict.EQUAL, 70, None)


def test_all_of_a_copy_goes_if_the_leader_begins_after_its_end() -> None:
    old = history(held(*rows(*TENS[:3])))
    new = history(held(*rows(*TENS[5:])), [(0, 50)], start=50)
    found = compare_histories(old, new)
    assert (found.left_truncates_to, found.right_truncates_to, found.parts_at) == (0, 30, None)
    assert (found.only_left, found.only_right) == (((0, 30),), ((50, 100),))


def test_the_start_of_the_kept_copy_decides_whether_offsets_are_lacking() -> None:
    whole = history(held(*rows(*TENS)))
    trimmed = history(held(*rows(*TENS[3:])), [(0, 30)], start=30)
    found = compare_histories(whole, trimmed)
    assert found.only_left == ((0, 30),)
    assert (found.verdict(0), found.verdict(30)) == (CopyVerdict.BEHIND, CopyVerdict.EQUAL)
    assert (found.left_truncates_to, found.right_truncates_to) == (None, None)


def test_a_hole_in_a_copy_is_lacking_there_and_nothing_is_cut() -> None:
    whole = history(held(*rows(*TENS)))
    holed = history(held(*rows(*TENS[:3]), *rows(*TENS[5:])), lost=((30, 50),))
    found = compare_histories(whole, holed)
    assert (found.verdict(0), found.only_left, found.only_right) == (CopyVerdict.BEHIND, ((30, 50),), ())
    assert (found.parts_at, found.left_truncates_to, found.is_open) == (None, None, False)


def test_a_damaged_batch_is_named_with_the_copies_that_hold_it() -> None:
    whole = history(held(*rows(*TENS)))
    one = history(held(*rows(*TENS[:3]), *rows(*TENS[4:])), damaged=((30, 40),))
    two = history(held(*rows(*TENS[:7])), end=90, damaged=((70, 80), (80, 90)))
    found = compare_histories(whole, one)
    assert (found.verdict(0), found.parts_at, found.only_left) == (CopyVerdict.DAMAGED, None, ())
    assert list(held_batches([whole, one, two])) == [(30, (0, 2)), (70, (0, 1)), (80, (0, 1))]
    assert list(held_batches([two, two])) == [(70, ()), (80, ())]


@pytest.mark.parametrize("count", [0, 3, 9])
def test_batches_with_less_records_than_offsets_are_left_to_the_records(count: int) -> None:
    whole = history(held(*rows(*TENS)))
    cleaned = history(held((0, 9, 0, b"rest", count), *rows(*TENS[1:])))
    found = compare_histories(whole, cleaned)
    assert (found.is_open, found.parts_at) == (True, None)
    decided = found.decided(None, (), ())
    assert (decided.verdict(0), decided.is_open) == (CopyVerdict.CLEANED, False)
    assert found.decided(None, ((3, 5),), ()).verdict(0) is CopyVerdict.BEHIND
    assert found.decided(3, (), ()).verdict(0) is CopyVerdict.DIVERGED


def record(offset: int, key: bytes | None, value: bytes | None) -> RecordContent:
    return RecordContent(offset, key, b"%d %r %r" % (offset, key, value), value is None)


WHOLE = [
    record(0, b"a", b"1"),
    record(1, b"b", b"1"),
    record(2, b"a", b"2"),
    record(3, b"c", b"1"),
    record(4, b"c", None),
    record(5, b"b", b"2"),
]


@pytest.mark.parametrize(
    ("kept", "lost"),
    [
        ((2, 4, 5), ()),
        ((2, 5), ()),
        ((0, 1, 2, 3, 4, 5), ()),
        ((0, 1, 3, 4, 5), ((2, 3),)),
        ((0, 1, 2, 3, 4), ((5, 6),)),
        ((2, 3, 5), ((4, 5),)),
    ],
    ids=["cleaned", "and the tombstone", "equal", "a newest value", "the last one", "a tombstone before its value"],
)
def test_a_cleaned_copy_has_the_newest_value_of_each_key(kept: Sequence[int], lost: tuple[Range, ...]) -> None:
    cleaned = [WHOLE[at] for at in kept]
    found = compare_contents(WHOLE, cleaned, cleaned=(False, True))
    assert (found.parts_at, found.only_left, found.only_right) == (None, lost, ())
    reverse = compare_contents(cleaned, WHOLE, cleaned=(True, False))
    assert (reverse.only_left, reverse.only_right) == ((), lost)


def test_a_record_without_a_key_is_never_cleaned() -> None:
    records = [record(0, None, b"1"), record(1, None, b"1")]
    assert compare_contents(records, records[1:], cleaned=(False, False)).only_left == ((0, 1),)


def test_other_content_at_one_offset_parts_the_copies() -> None:
    other = [*WHOLE[:2], record(2, b"a", b"3"), *WHOLE[3:]]
    assert compare_contents(WHOLE, other, cleaned=(True, True)).parts_at == 2


def test_copies_that_lack_records_of_each_other_were_both_cleaned_or_lost_them() -> None:
    one, other = [WHOLE[at] for at in (1, 2, 4, 5)], [WHOLE[at] for at in (0, 2, 4, 5)]
    found = compare_contents(one, other, cleaned=(True, True))
    assert (found.only_left, found.only_right) == ((), ())
    found = compare_contents(one, other, cleaned=(False, False))
    assert (found.only_left, found.only_right) == (((1, 2),), ((0, 1),))


def test_a_copy_that_shows_no_cleaning_lost_what_it_lacks() -> None:
    kept = [WHOLE[at] for at in (2, 4, 5)]
    assert compare_contents(WHOLE, kept, cleaned=(True, False)).only_left == ((0, 2), (3, 4))
    assert compare_contents(kept, WHOLE, cleaned=(False, True)).only_right == ((0, 2), (3, 4))
    whole, other = history(held(*rows(*TENS))), history(held(*rows(*TENS[:3]), *rows(*TENS[4:])))
    found = compare_histories(whole, other)
    assert (found.verdict(0), found.only_left, found.is_open) == (CopyVerdict.BEHIND, ((30, 40),), False)
    found = compare_histories(whole, replace(other, is_cleaned=True))
    assert (found.only_left, found.is_open) == ((), True)
