"""A round over a log whose active segment ends in bytes that cannot be trusted: which batch ends at the high watermark.

A start after a clean stop does not verify the checksums of a segment with an offset index: the log ends after the
damaged batch. Any other start cuts that batch off, and the high watermark falls to the new end.
"""

from __future__ import annotations

import pytest

from logcore.logs.compaction.cleaning_round import Uncleanable
from logcore.logs.compaction.compaction_plan import plan_compaction
from logcore.logs.compaction.selection import Refusal
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.topic_config import TopicConfig
from tests import handmade
from tests.handmade import batch, empty_batch, message_v0, record, simple_batch
from tests.unit.logcore.logs.compaction.test_plan import directory, done, planned

KEPT, REMOVED = simple_batch(0, [(b"a", b"1")]), simple_batch(1, [(None, b"-")], max_timestamp=2000)
ACTIVE = simple_batch(2, [(b"b", b"2"), (b"c", b"3")])
EMPTY = empty_batch(1, 0, max_timestamp=2000)
WRONG_CHECKSUM = handmade.flip(ACTIVE, len(ACTIVE) - 2)
INDEX = f"{2:020d}.index"


def log_with_end(
    active: bytes, *, is_clean: bool = True, high_watermark: int | None = 4, has_index: bool = True
) -> PartitionDirectory:
    beside = {INDEX: b""} if has_index else {}
    return directory({0: [KEPT, REMOVED], 2: [active]}, beside, is_clean=is_clean, high_watermark=high_watermark)


def cleaned_first_segment(where: PartitionDirectory) -> bytes:
    return done(planned(where))[1][f"{0:020d}.log"]


def test_after_a_clean_stop_the_log_ends_after_a_batch_with_a_wrong_checksum():
    plan = planned(log_with_end(WRONG_CHECKSUM))
    assert plan.log_end_offset == 2, "only what can be trusted is read"
    assert plan.round.high_watermark == 4
    assert done(plan)[1] == {
        f"{0:020d}.log": KEPT,
        f"{0:020d}.index": b"",
        f"{0:020d}.timeindex": (1000).to_bytes(8, "big") + bytes(4),
        f"{2:020d}.log": WRONG_CHECKSUM,
        INDEX: b"",
    }


def test_after_a_crash_the_log_ends_before_a_batch_with_a_wrong_checksum():
    assert cleaned_first_segment(log_with_end(WRONG_CHECKSUM, is_clean=False)) == KEPT + EMPTY


def test_an_active_segment_without_an_offset_index_is_recovered_after_a_clean_stop_too():
    assert cleaned_first_segment(log_with_end(WRONG_CHECKSUM, has_index=False)) == KEPT + EMPTY


def test_without_a_stated_high_watermark_the_end_after_the_damage_is_taken():
    assert cleaned_first_segment(log_with_end(WRONG_CHECKSUM, high_watermark=None)) == KEPT


def test_a_stated_high_watermark_before_the_damage_stays():
    assert cleaned_first_segment(log_with_end(WRONG_CHECKSUM, high_watermark=2)) == KEPT + EMPTY


@pytest.mark.parametrize(
    "active",
    [
        b"",
        handmade.cut(ACTIVE, len(ACTIVE) - 3),
        handmade.flip(ACTIVE, 10),  # a length field that reaches past the file
        handmade.patch(ACTIVE, 8, bytes(4)),  # one that no batch can have: a broker does not start
        bytes(100),
        handmade.patch(ACTIVE, 0, (2**63 - 1).to_bytes(8, "big")),  # the end would be no offset
        handmade.patch(ACTIVE, 0, (-9).to_bytes(8, "big", signed=True)),
    ],
    ids=["empty", "cut", "too long", "too short", "zeros", "after all offsets", "in front of all offsets"],
)
def test_bytes_that_no_broker_reads_as_a_batch_do_not_move_the_end(active: bytes):
    assert cleaned_first_segment(log_with_end(active)) == KEPT + EMPTY


def test_good_batches_before_the_damage_count_too():
    good = simple_batch(2, [(b"b", b"2")])
    broken = handmade.flip(simple_batch(3, [(b"c", b"3")]), 66)
    plan = planned(log_with_end(good + broken))
    assert (plan.log_end_offset, plan.round.high_watermark) == (3, 4)


def test_the_last_v0_message_of_the_range_goes_where_the_high_watermark_lies_after_the_damage():
    sealed = [message_v0(0, b"a", b"1"), message_v0(1, None, b"-")]
    active = handmade.flip(message_v0(2, b"b", b"2"), 20)
    segments = {0: sealed, 2: [active]}
    clean = directory(segments, {INDEX: b""}, is_clean=True, high_watermark=3)
    assert cleaned_first_segment(clean) == batch([record(0, b"a", b"1")], base_timestamp=-1, leader_epoch=-1)
    with pytest.raises(Uncleanable, match="no empty batches"):
        cleaned_first_segment(directory(segments, {INDEX: b""}, is_clean=False, high_watermark=3))


@pytest.mark.parametrize("line", [BrokerLine.V3_9, BrokerLine.V4_0])
def test_earlier_lines_keep_the_end_of_the_range_whatever_the_high_watermark(line: BrokerLine):
    where = log_with_end(WRONG_CHECKSUM)
    plan = plan_compaction(where, TopicConfig(), line=line, as_of_ms=1_700_000_000_000)
    assert not isinstance(plan, Refusal)
    assert done(plan)[1][f"{0:020d}.log"] == KEPT + EMPTY
