"""The fast check of a segment reports the same as the slow validation: every finding and every byte count."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from logcore.columns.checking import bulk_rules, chunks
from logcore.columns.checking.checked import CheckedSegment
from logcore.columns.decoding import batch_table
from logcore.columns.engines import Engine, check_segment
from logcore.logs.checks import batch_rules, validation
from logcore.logs.checks.validation import BatchVerdict, SegmentValidation, SegmentVerdict
from logcore.segments.scanning.scan import Stretch
from tests import handmade
from tests.conftest import Sample
from tests.unit.logcore.columns.checked_segments import Items, good, opened, sample_segments

pytestmark = pytest.mark.slow

RULES = {
    "unknown-attribute-bits",
    "control-batch-shape",
    "unknown-control-type",
    "leader-epoch-regression",
    "max-timestamp-differs",
    "negative-timestamp",
    "timestamp-out-of-range",
    "sequence-gap",
    "sequence-duplicate",
    "unusual-encoding",
    "header-name-not-utf8",
    "inner-crc-differs",
    "inner-magic-differs",
    "inner-bytes-left",
    "wrapper-offset-zero",
}
"""Of `logcore.logs.checks.batch_rules`: each is provoked below."""


def outcome_of(judgement: SegmentVerdict) -> tuple[object, ...]:
    """Everything that a check reports at its end."""
    return (
        judgement.findings,
        judgement.accounting,
        judgement.end,
        judgement.next_offset,
        judgement.counts,
        judgement.split_points,
        judgement.min_timestamp,
        judgement.max_timestamp,
    )


def agreed(
    data: bytes, base: int = 0, *, sealed: bool = True, next_base: int | None = None, **more: bool
) -> tuple[SegmentValidation, int]:
    """The slow validation, with which the bulk one agrees; and how many batches came in tables."""
    slow = SegmentValidation(data, base_offset=base, sealed=sealed, file="f.log", next_base_offset=next_base, **more)
    items = list(slow)
    fast = CheckedSegment(data, base_offset=base, sealed=sealed, file="f.log", next_base_offset=next_base, **more)
    found, tables = opened(fast)
    assert found == items
    assert outcome_of(fast) == outcome_of(slow)
    assert fast.rules.epoch == slow.rules.epoch
    # Not only the same producers: those that wrote last must be the last to be forgotten.
    assert list(fast.rules.producers.items()) == list(slow.rules.producers.items())
    return slow, sum(len(table) for table in tables)


@pytest.fixture(params=[16_384, 3, 1], ids=["one table", "small tables", "tables of one"])
def table_sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules remember from table to table, also where so few batches would be checked one by one."""
    monkeypatch.setattr(batch_table, "TABLE_BATCHES", request.param)
    monkeypatch.setattr(bulk_rules, "_WORTH_ARRAYS", 1)


PRODUCER = {"producer_id": 7, "producer_epoch": 1}

V1 = handmade.message

LONG_LENGTH = handmade.varint(len(handmade.record()) - 1, padding=1) + handmade.record()[1:]
"""A record whose length takes a byte more than needed."""

PROVOKED: dict[str, list[bytes]] = {
    "unknown-attribute-bits": [
        good(10, attributes=0x80),
        good(10, attributes=0x8000),
        V1(10, attributes=0x10),
        V1(10, magic=0, attributes=0x08),
    ],
    "control-batch-shape": [
        handmade.marker(10, handmade.COMMIT, producer_id=-1),
        handmade.control_batch(10, struct.pack(">hh", 0, 1), b"\0" * 6, producer_id=5),
        handmade.control_batch(10, struct.pack(">hh", 1, 1), b"\0" * 6, producer_id=5),
        handmade.batch(
            [handmade.record(at, struct.pack(">hh", 0, 1), b"\0" * 6) for at in range(2)],
            base_offset=10,
            attributes=handmade.CONTROL | handmade.TRANSACTIONAL,
            producer_id=5,
        ),
    ],
    "unknown-control-type": [handmade.control_batch(10, struct.pack(">hh", 0, 99), b"")],
    "leader-epoch-regression": [good(10, leader_epoch=5) + good(12, leader_epoch=4) + good(14, leader_epoch=5)],
    "max-timestamp-differs": [
        good(10, max_timestamp=999),
        good(10, max_timestamp=-1),
        good(10, max_timestamp=-1, attributes=handmade.LOG_APPEND_TIME),
        handmade.wrapper_v1([10, 11], timestamp=7),
    ],
    "negative-timestamp": [
        good(10, base_timestamp=-2),
        V1(10, timestamp=-2),
        handmade.wrapper_v1([10], timestamps=[-9]),
    ],
    "timestamp-out-of-range": [
        good(10, base_timestamp=253_402_300_800_000),
        good(10, base_timestamp=(1 << 63) - 1),
        V1(10, timestamp=253_402_300_800_000),
    ],
    "sequence-gap": [good(10, base_sequence=0, **PRODUCER) + good(12, base_sequence=3, **PRODUCER)],
    "sequence-duplicate": [
        good(10, base_sequence=4, **PRODUCER) + good(12, base_sequence=4, **PRODUCER),
        good(10, base_sequence=0, **PRODUCER) + good(12, base_sequence=(1 << 31) - 1, **PRODUCER),
    ],
    "unusual-encoding": [handmade.batch([LONG_LENGTH], base_offset=10)],
    "header-name-not-utf8": [handmade.batch([handmade.record(0, headers=[(b"\xff", b"")])], base_offset=10)],
    "inner-crc-differs": [handmade.wrapper([V1(0), V1(1, crc=1)], offset=11)],
    "inner-magic-differs": [handmade.wrapper([V1(0), V1(1, magic=0)], offset=11)],
    "inner-bytes-left": [handmade.wrapper([V1(0), V1(1), V1(2)[:-1]], offset=11)],
    "wrapper-offset-zero": [
        handmade.wrapper_v0([10, 11], offset=0),
        handmade.wrapper_v0([10], offset=0, codec=handmade.SNAPPY),
    ],
}


def rules_of(slow: SegmentValidation) -> set[str]:
    return {finding.rule for finding in slow.findings}


def test_every_rule_on_batches_is_provoked() -> None:
    assert set(PROVOKED) == RULES
    # The page of the rules names no other.
    assert {line.split()[0] for line in (batch_rules.__doc__ or "").splitlines() if line.startswith("    ")} >= RULES


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_batch_that_breaks_a_rule_is_reported_alone_and_among_others(rule: str, table_sizes: None) -> None:
    for provoking in PROVOKED[rule]:
        assert rule in rules_of(agreed(provoking, 10)[0])
        around = b"".join(good(at) for at in range(0, 10, 2)), b"".join(good(at) for at in range(30, 40, 2))
        assert rule in rules_of(agreed(around[0] + provoking + around[1])[0])
        assert rule in rules_of(
            agreed(around[0] + provoking + handmade.flip(good(50), 30) + around[1], sealed=False)[0]
        )


def producers(draw: random.Random, count: int, fault: float) -> bytes:
    """Batches of several producers, whose sequences sometimes do not follow, with some gaps between."""
    data, offset, sequences = b"", 0, dict.fromkeys(range(5), 0)
    for _ in range(count):
        producer = draw.randrange(5)
        size = draw.randrange(1, 4)
        if draw.random() < fault:
            sequences[producer] += draw.choice((-1, 1, 1 << 30))
        sequence = sequences[producer] % (1 << 31)
        data += handmade.simple_batch(
            offset,
            [(b"k", b"v")] * size,
            producer_id=producer,
            producer_epoch=draw.random() < fault,
            base_sequence=sequence,
            leader_epoch=draw.choice((-1, 3, 3, 3)),
        )
        sequences[producer] = sequence + size
        offset += size + (draw.random() < fault / 3)
    return data


def test_sequences_of_several_producers(table_sizes: None) -> None:
    draw, rules = random.Random(1), set()
    for fault in (0.0, 0.01, 0.1):
        for _ in range(10):
            slow, in_tables = agreed(producers(draw, 60, fault))
            rules |= rules_of(slow)
            assert in_tables == slow.counts.batches == 60
            assert fault or not rules
    assert rules == {"sequence-gap", "sequence-duplicate"}


def test_sequences_begin_again_at_zero(table_sizes: None) -> None:
    first = good(0, base_sequence=(1 << 31) - 2, **PRODUCER)
    assert agreed(first + good(2, base_sequence=0, **PRODUCER))[0].findings == ()
    first = good(0, base_sequence=(1 << 31) - 1, **PRODUCER)
    assert agreed(first + good(2, base_sequence=1, **PRODUCER))[0].findings == ()
    assert rules_of(agreed(first + good(2, base_sequence=0, **PRODUCER))[0]) == {"sequence-duplicate"}


def test_sequences_of_a_coordinators_topic_are_not_checked(table_sizes: None) -> None:
    draw = random.Random(2)
    for _ in range(10):
        slow, in_tables = agreed(producers(draw, 60, 0.1), checks_sequences=False)
        assert not rules_of(slow)
        assert in_tables == 60


def test_after_a_gap_no_sequence_is_expected(table_sizes: None) -> None:
    parts = good(0, base_sequence=0, **PRODUCER) + good(9, base_sequence=50, **PRODUCER)
    assert agreed(parts)[0].findings == ()
    assert rules_of(agreed(parts + good(11, base_sequence=0, **PRODUCER))[0]) == {"sequence-duplicate"}


def test_only_so_many_producers_are_remembered(monkeypatch: pytest.MonkeyPatch, table_sizes: None) -> None:
    monkeypatch.setattr(batch_rules, "PRODUCERS", 3)
    draw = random.Random(2)
    for _ in range(30):
        slow, _ = agreed(producers(draw, 40, 0.05))
        assert len(slow.rules.producers) == 3


def test_findings_beyond_a_hundred_are_counted() -> None:
    data = b"".join(good(at, max_timestamp=5) for at in range(0, 300, 2))
    slow, in_tables = agreed(data)
    assert in_tables == 150
    assert len(slow.findings) == 101
    assert "50 more" in slow.findings[-1].message


def test_split_points(monkeypatch: pytest.MonkeyPatch, table_sizes: None) -> None:
    data = b"".join(handmade.simple_batch(at, [(b"k", bytes(at * 7 % 300))]) for at in range(100))
    for nbytes in (1, 100, 1000, 5000, len(data)):
        monkeypatch.setattr(validation, "SPLIT_BYTES", nbytes)
        monkeypatch.setattr(bulk_rules, "SPLIT_BYTES", nbytes)
        slow, in_tables = agreed(data)
        assert in_tables == 100
        assert slow.split_points[0] == (0, 0)
        at = [position for position, _ in slow.split_points]
        assert all(later - earlier >= nbytes for earlier, later in pairwise(at))


def test_timestamps_and_counts_of_all_kinds(table_sizes: None) -> None:
    data = (
        good(0, base_timestamp=-1)
        + handmade.batch([handmade.record(0, timestamp_delta=-900)], base_offset=2)
        + handmade.marker(3, handmade.ABORT, producer_id=1, base_timestamp=5)
        + handmade.empty_batch(4, 5, max_timestamp=9999)
        + handmade.message_v0(10, b"k", b"v")
        + handmade.wrapper_v1([11, 14], codec=handmade.LZ4)
        + handmade.wrapper_append_time([15, 16], 123)
        + handmade.control_batch(17, None, None)[:0]
        + good(17, attributes=handmade.DELETE_HORIZON, base_timestamp=50)
    )
    slow, in_tables = agreed(data)
    assert in_tables == 8
    assert slow.counts.records == 10
    assert slow.counts.control_records == 1
    assert (slow.min_timestamp, slow.max_timestamp) == (50, 9999)
    assert slow.counts.codecs == {"none": 6, "lz4": 1, "gzip": 1}


@pytest.mark.parametrize("sealed", [True, False])
def test_ends_of_all_kinds(sealed: bool) -> None:
    for tail in (b"", bytes(1), bytes(500), good(2)[:-1], good(2)[:30], good(2)[:30] + bytes(99), b"\x01", good(0)):
        agreed(good(0) + tail, sealed=sealed)
        agreed(tail, sealed=sealed)


def test_offsets_of_the_next_segment_are_refused() -> None:
    slow, _ = agreed(good(0) + good(2) + good(4), next_base=4)
    assert [finding.rule for finding in slow.findings] == ["corrupt-bytes"]


@pytest.mark.parametrize(
    "name", ["codecs-v2-4.3.1", "timestamps-v2-4.4.0", "transactions-4.4.0", "internal-topics-4.4.0", "damaged"]
)
def test_segments_of_brokers(sample: Callable[[str], Sample], name: str, table_sizes: None) -> None:
    batches = in_tables = 0
    for base, data in sample_segments(sample(name), 1 << 30):
        slow, count = agreed(data, base)
        batches, in_tables = batches + slow.counts.batches, in_tables + count
    assert batches > 10
    assert in_tables == batches or name == "damaged"


@pytest.mark.parametrize("name", ["codecs-v2-4.3.1", "timestamps-v2-4.4.0", "transactions-4.4.0"])
def test_segments_of_brokers_with_random_injuries(sample: Callable[[str], Sample], name: str) -> None:
    draw = random.Random(name)
    segments = sample_segments(sample(name), 20_000)
    damaged = 0
    for _ in range(120):
        base, data = draw.choice(segments)
        for _ in range(draw.choice((1, 1, 3))):
            data = handmade.flip(data, draw.randrange(len(data)), draw.randrange(8))
        if draw.random() < 0.3:
            data = data[: draw.randrange(len(data))]
        slow, _ = agreed(data, base, sealed=draw.random() < 0.5)
        damaged += bool(slow.findings)
    assert damaged > 60


def test_handmade_segments_with_every_bit_of_a_batch_header_flipped() -> None:
    """With the checksum made to fit: what the rules have to say, and not only the checksum."""
    before, behind = good(0, leader_epoch=3), good(1 << 20, leader_epoch=3)
    batch = good(2, base_sequence=0, leader_epoch=3, **PRODUCER)
    rules: set[str] = set()
    for bit in range(61 * 8):
        if not 8 * 8 <= bit < 12 * 8:
            injured = handmade.fix_crc(handmade.flip(batch, bit // 8, bit % 8))
            rules |= rules_of(agreed(before + injured + behind)[0])
    assert rules >= {"corrupt-bytes", "leader-epoch-regression", "max-timestamp-differs", "unknown-attribute-bits"}


# In threads, a chunk here and a chunk there.


@pytest.mark.parametrize("threads", [1, 3])
def test_results_of_many_chunks_come_to_the_same(
    monkeypatch: pytest.MonkeyPatch, sample: Callable[[str], Sample], threads: int
) -> None:
    monkeypatch.setattr(chunks, "plan_chunks", partial(chunks.plan_chunks, nbytes=300))
    draw = random.Random(threads)
    segments = sample_segments(sample("transactions-4.4.0"), 20_000)
    segments += [(0, producers(draw, 60, 0.05)), (0, producers(draw, 60, 0.0) + bytes(500))]
    for _ in range(40):
        base, data = draw.choice(segments)
        if draw.random() < 0.7:
            data = handmade.flip(data, draw.randrange(len(data)), draw.randrange(8))
        slow = SegmentValidation(data, base_offset=base, sealed=False, file="f")
        items = list(slow)
        fast = CheckedSegment(data, base_offset=base, sealed=False, file="f")
        found: Items = []
        for job, seen in chunks.in_order(fast.jobs("mine"), threads):
            assert job.owner == "mine"
            for item in fast.take_seen(seen):
                given = isinstance(item, BatchVerdict | Stretch)
                found += [item] if given else [bulk_rules.verdict_of(row) for row in item.tolist()]
        fast.end_segment()
        assert found == items
        assert outcome_of(fast) == outcome_of(slow)


def test_the_best_engine_checks_unless_the_reference_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = []
    for name in Engine:
        monkeypatch.setenv("LOGLAKE_ENGINE", name)
        judged = check_segment(good(0), base_offset=0, sealed=True, file="f")
        list(judged)
        assert judged.counts.records == 2
        kinds.append(type(judged))
    assert kinds == [SegmentValidation, CheckedSegment]
