"""Facts of a segment's batches: all of them for the plan, fewer for the state of transactions."""

from __future__ import annotations

from logcore.segments.scanning.scan import Stretch
from spark_jobs.compaction.spread_plan import facts_of
from tests import handmade

TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}


def batch(offset: int, count: int = 2, **fields: int) -> bytes:
    rows = [(b"key-%d" % n, b"value") for n in range(count)]
    return handmade.simple_batch(offset, rows, base_timestamp=1_000, leader_epoch=0, **fields)


def test_the_plan_sees_every_batch_and_stretch_as_it_lies():
    broken = bytearray(batch(4))
    broken[-1] ^= 1
    first = batch(0) + batch(2, **TRANSACTIONAL, base_sequence=0)
    content = first + broken + handmade.marker(6, handmade.ABORT, producer_id=7, leader_epoch=0)
    facts = facts_of(content, 0, 7)
    assert facts.records == 5
    seen = list(facts.read())
    assert [item.position for item in seen] == [0, len(batch(0)), len(first), len(first) + len(broken)]
    assert isinstance(seen[2], Stretch)
    data, marker = seen[1], seen[3]
    assert not isinstance(data, Stretch)
    assert not isinstance(marker, Stretch)
    assert (data.base_offset, data.last_offset, data.record_count, data.producer_id) == (2, 3, 2, 7)
    assert (data.max_timestamp, data.is_transactional, data.is_control) == (1_000, True, False)
    assert (marker.last_offset, marker.is_control, marker.control_type) == (6, True, "ABORT")


def test_of_transactions_only_their_own_batches_are_seen_and_where_the_segment_ends():
    marker = handmade.marker(6, handmade.COMMIT, producer_id=7, leader_epoch=0)
    content = batch(0) + batch(2) + batch(4, **TRANSACTIONAL, base_sequence=0) + marker + batch(7) + batch(9)
    seen = list(facts_of(content, 0, 11).transactions())
    assert [each.base_offset for each in seen] == [4, 6, 9]
    assert [each.is_transactional for each in seen] == [True, True, False]


def test_a_last_batch_of_a_transaction_is_seen_once():
    content = batch(0) + batch(2, **TRANSACTIONAL, base_sequence=0)
    assert [each.base_offset for each in facts_of(content, 0, 4).transactions()] == [2]


def test_a_segment_without_batches_has_none():
    facts = facts_of(b"", 0, 0)
    assert list(facts.read()) == list(facts.transactions()) == []
