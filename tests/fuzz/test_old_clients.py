"""What Kafka's reader reads of old clients' batches is read: at its offsets, with a warning, each record once."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from logcore.columns.engines import Engine, available, check_segment, decode_segment
from logcore.columns.wanted import Place, Wanted
from logcore.logs.checks.validation import SegmentValidation
from logcore.logs.ledger.ledger_builder import ledger_ranges
from logcore.logs.model.batch_facts import fact_of, fold
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.offset_ledger import OffsetState
from logcore.logs.model.transactions import TransactionWalk
from logcore.segments.scanning.scan import SegmentScan, Stretch
from tests import handmade
from tests.fuzz import streams
from tests.fuzz.old_clients import KINDS, OldLog, Packed, old_log
from tests.kafka.distribution import Unavailable
from tests.kafka.java_reader import JavaReader, Reading

SEED = 20261128
LOGS = int(os.environ.get("LOGLAKE_OLD_CLIENTS", "60"))
"""`make test-long` compares 3,000: a thousand of each kind."""
RULES = {"short": "last-offset-delta-short", "overlap": "messages-below-log-end", "junk": "ignored-bytes"}
ENGINES = list(available())
_PLACE = Place("t", 0, "log", "segment")


@pytest.fixture(scope="module")
def logs() -> list[OldLog]:
    return [old_log(SEED, number) for number in range(LOGS)]


@pytest.fixture(scope="module")
def reader() -> Iterator[JavaReader]:
    try:
        started = JavaReader()
    except Unavailable as missing:
        pytest.skip(f"Kafka's classes cannot be run here: {missing}")
    with started:
        yield started


def rows(data: bytes, engine: Engine, *, as_counted: bool) -> list[tuple[int, bytes, bytes]]:
    """Offset, key and value of every row; there is no damage."""
    found: list[tuple[int, bytes, bytes]] = []
    wanted = Wanted(columns=("offset", "key", "value"), as_counted=as_counted)
    for item in decode_segment(data, place=_PLACE, base_offset=0, sealed=True, wanted=wanted, engine=engine):
        assert not isinstance(item, Stretch), item
        found += zip(*(column.to_pylist() for column in item.columns), strict=True)
    return found


def consumed(reading: Reading) -> list[tuple[int, bytes | None, bytes | None]]:
    """What a consumer returns that gets each batch in a fetch of its own: records below its position are skipped, and
    after a batch its position is the batch's next offset (`CompletedFetch.nextFetchedRecord`).
    """
    position, found = 0, []
    for batch in reading.batches:
        found += [(each.offset, each.key, each.value) for each in batch.records if each.offset >= position]
        position = batch.last_offset + 1
    return found


def as_read(log: OldLog) -> list[tuple[int, bytes, bytes]]:
    return [(each.read, each.key, each.value) for each in log.records]


def test_kafka_reads_what_was_packed(logs: list[OldLog], reader: JavaReader) -> None:
    for log, reading in zip(logs, reader.read_all([each.data for each in logs]), strict=True):
        assert type(reading) is Reading
        assert reading.size_read == len(log.data)
        assert consumed(reading) == as_read(log)
        assert reading.batches[-1].last_offset + 1 == log.end


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_what_kafkas_reader_gives(logs: list[OldLog], engine: Engine) -> None:
    for log in logs:
        assert rows(log.data, engine, as_counted=False) == as_read(log)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_log_counts_each_offset_once(logs: list[OldLog], engine: Engine) -> None:
    for log in logs:
        counted = [(each.counted, each.key, each.value) for each in log.records]
        assert rows(log.data, engine, as_counted=True) == counted
        assert [each.counted for each in log.records] == list(range(log.end))


def test_a_batch_is_warned_and_the_log_is_accepted(logs: list[OldLog], monkeypatch: pytest.MonkeyPatch) -> None:
    for log in logs:
        checked = check_segment(log.data, base_offset=0, sealed=True, file="f")
        plain = SegmentValidation(log.data, base_offset=0, sealed=True, file="f")
        assert not any(isinstance(item, Stretch) for each in (checked, plain) for item in each)
        for verdict in (checked, plain):
            assert [finding.rule for finding in verdict.findings] == [RULES[log.kind]] * log.warned
            assert {finding.severity for finding in verdict.findings} <= {"warning"}
            assert verdict.counts.records == len(log.records)
            assert verdict.next_offset == log.end


def test_the_ledger_covers_each_offset_once(logs: list[OldLog]) -> None:
    for log in logs:
        rules = GapRules()
        walk = TransactionWalk(high_watermark=log.end, rules=rules)
        facts = [fact_of(item, "s") for item in SegmentScan(log.data, base_offset=0, sealed=True, decode=False)]
        folded = tuple(fold(walk.over(facts)))
        (only,) = ledger_ranges(
            folded,
            walk.view(),
            start_offset=0,
            log_start_offset=0,
            high_watermark=log.end,
            log_end_offset=log.end,
            rules=rules,
            records_from=lambda *_: 0,
        )
        assert (only.start_offset, only.end_offset, only.state) == (0, log.end, OffsetState.PRESENT)
        assert (only.records, only.gaps) == (log.end, 0)


def test_every_kind_is_among_them(logs: list[OldLog]) -> None:
    assert {log.kind for log in logs if log.warned} == set(KINDS)
    # Two records of one offset for Kafka's readers: what a table cannot hold.
    assert any(len({each.read for each in log.records}) < len(log.records) for log in logs)


def test_a_producers_batch_of_five_records_whose_last_offset_delta_is_0() -> None:
    records = [handmade.record(delta, b"k", b"%d" % delta) for delta in range(5)]
    data = handmade.batch(records, base_offset=4, last_offset_delta=0)
    for engine in ENGINES:
        assert [row[0] for row in rows(data, engine, as_counted=False)] == [4, 5, 6, 7, 8]
        assert [row[0] for row in rows(data, engine, as_counted=True)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("codec", [streams.NONE, streams.GZIP])
def test_a_count_that_needs_offsets_of_the_batch_before_is_damage(codec: int) -> None:
    plain = b"".join(handmade.record(delta) for delta in range(3))
    fields = {"body": streams.STREAMS[codec](plain), "attributes": codec, "last_offset_delta": 0, "count": 3}
    before = handmade.simple_batch(0, [(b"k", b"v")] * 4)
    items = list(SegmentScan(before + handmade.batch(base_offset=5, **fields), base_offset=0, sealed=True))
    assert [item.reason for item in items if isinstance(item, Stretch)] == ["COUNT"]
    items = list(SegmentScan(before + handmade.batch(base_offset=6, **fields), base_offset=0, sealed=True))
    assert not any(isinstance(item, Stretch) for item in items)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_set_wholly_below_the_one_before_is_damage(magic: int) -> None:
    wrapper = handmade.wrapper_v1 if magic else handmade.wrapper_v0
    items = list(SegmentScan(wrapper([4, 5, 6]) + wrapper([2, 3, 4, 5]), base_offset=0, sealed=True))
    assert [item.reason for item in items if isinstance(item, Stretch)] == ["OFFSET_ORDER"]


def test_a_set_that_begins_too_low_and_leaves_as_large_a_gap_has_a_flipped_offset() -> None:
    sets = [handmade.wrapper_v1([0, 1, 2, 3]), handmade.wrapper_v1([4, 5, 6, 7]), handmade.wrapper_v1([8, 9])]
    flipped = handmade.flip(sets[1], 7, 1)  # its last offset is 5 now
    items = list(SegmentScan(sets[0] + flipped + sets[2], base_offset=0, sealed=True))
    assert [item.reason for item in items if isinstance(item, Stretch)] == ["OFFSET_ORDER"]


def test_a_log_is_a_function_of_seed_and_number() -> None:
    assert old_log(1, 7) == old_log(1, 7)
    assert old_log(1, 7) != old_log(2, 7)
    assert isinstance(old_log(1, 7).records[0], Packed)
