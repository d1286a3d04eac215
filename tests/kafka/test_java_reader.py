"""The reader and the opponent that run Kafka's own classes: they say what they saw, and they stay alive."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import handmade
from tests.kafka.java_bench import JavaBench
from tests.kafka.java_reader import JavaReader, JavaRecord, Reading, Refused, TooLarge

pytestmark = pytest.mark.kafka

CORRUPT = "org.apache.kafka.common.errors.CorruptRecordException"
INVALID = "org.apache.kafka.common.InvalidRecordException"
ROWS = [(b"k", b"v"), (None, b""), (b"", None)]


@pytest.fixture(scope="module")
def reader(kafka: None) -> Iterator[JavaReader]:
    with JavaReader(answer_bytes=1 << 20) as running:
        yield running


def good(base_offset: int = 5) -> bytes:
    return handmade.simple_batch(base_offset, ROWS, base_timestamp=1000, leader_epoch=3)


def test_batches_and_records_come_back_as_they_were_written(reader: JavaReader) -> None:
    record = handmade.record(0, b"k", b"v", headers=[(b"a", None), (b"\xff", b""), (b"a", b"x")], timestamp_delta=7)
    blob = good() + handmade.batch([record], base_offset=8, base_timestamp=1000, producer_id=9, base_sequence=4)
    reading = reader.read(blob)
    assert type(reading) is Reading
    assert reading.size_read == len(blob)
    first, second = reading.batches
    assert (first.position, first.base_offset, first.last_offset, first.leader_epoch) == (0, 5, 7, 3)
    assert first.records == (
        JavaRecord(5, 1000, -1, b"k", b"v", ()),
        JavaRecord(6, 1000, -1, None, b"", ()),
        JavaRecord(7, 1000, -1, b"", None, ()),
    )
    assert (second.position, second.producer_id, second.base_sequence) == (len(good()), 9, 4)
    assert second.records == (JavaRecord(8, 1007, 4, b"k", b"v", (("a", None), ("\ufffd", b""), ("a", b"x"))),)


def test_a_transaction_marker_is_a_record_of_a_control_batch(reader: JavaReader) -> None:
    (batch,) = reader.read(handmade.marker(3, handmade.ABORT, producer_id=8, coordinator_epoch=2)).batches
    assert (batch.is_control, batch.is_transactional, batch.producer_id) == (True, True, 8)
    assert [(record.key, record.value) for record in batch.records] == [(bytes(4), bytes([0, 0, 0, 0, 0, 2]))]


def test_messages_inside_of_messages_are_unfolded(reader: JavaReader) -> None:
    blob = handmade.wrapper_v1([4, 6, 9]) + handmade.wrapper_v0([10, 11]) + handmade.message_v1(12, 5, None, b"z")
    assert [record.offset for record in reader.read(blob).records] == [4, 6, 9, 10, 11, 12]


def test_damage_is_refused_and_the_batches_before_it_are_read(reader: JavaReader) -> None:
    blob = good(5) + handmade.flip(good(8), 70)
    reading = reader.read(blob)
    assert isinstance(reading, Refused)
    assert (reading.exception, reading.size_read) == (CORRUPT, len(good()))
    assert [record.offset for record in reading.records] == [5, 6, 7]


def test_a_crc_that_was_made_to_fit_leaves_the_damage_to_the_records(reader: JavaReader) -> None:
    lying = handmade.fix_crc(handmade.patch(good(), 61, b"\x7e"))
    reading = reader.read(lying)
    assert isinstance(reading, Refused)
    assert reading.exception == INVALID


def test_without_the_check_of_checksums_a_wrong_one_is_passed_over(kafka: None) -> None:
    wrong = handmade.flip(good(), 17)
    with JavaReader(check_crc=False) as lenient:
        assert len(lenient.read(wrong).records) == 3


def test_inner_checksums_are_checked_on_request(kafka: None) -> None:
    wrong = handmade.message_v1(0, 5, None, b"z")
    inner = handmade.patch(wrong, 12, b"\0\0\0\0")
    blob = handmade.wrapper([inner], offset=0)
    with JavaReader() as plain, JavaReader(check_inner_crc=True) as strict:
        assert len(plain.read(blob).records) == 1
        assert isinstance(strict.read(blob), Refused)


def test_too_few_bytes_for_a_batch_are_ignored_without_a_report(reader: JavaReader) -> None:
    reading = reader.read(good() + good(8)[:-1])
    assert type(reading) is Reading
    assert reading.size_read == len(good())


def test_a_bomb_ends_in_no_verdict_and_the_reader_goes_on(reader: JavaReader) -> None:
    packed = gzip.compress(handmade.record(0, None, bytes(8 << 20)))
    bomb = handmade.batch((), body=packed, count=1, attributes=handmade.GZIP)
    assert isinstance(reader.read(bomb), TooLarge)
    assert len(reader.read(good()).records) == 3


def test_thousands_of_blobs_a_second(reader: JavaReader) -> None:
    blobs = [handmade.flip(good(), 8 + bit // 8, bit % 8) for bit in range(400)] * 50
    began = time.monotonic()
    readings = list(reader.read_all(blobs))
    seconds = time.monotonic() - began
    assert len(readings) == len(blobs)
    assert readings[:400] == readings[-400:]
    assert len(blobs) / seconds > 5000


def test_the_opponent_sees_every_record_in_every_round(kafka: None, tmp_path: Path) -> None:
    record = handmade.record(0, b"key", b"value", headers=[(b"name", b"content"), (b"n", None)])
    path = tmp_path / "00000000000000000000.log"
    batches = [handmade.batch([record], base_offset=offset, base_timestamp=1000) for offset in range(100)]
    path.write_bytes(b"".join(batches))
    with JavaBench(path, heap="128m") as java:
        rounds = [java.round() for _ in range(3)]
    assert all(each.ns > 0 for each in rounds)
    assert {each._replace(ns=0) for each in rounds} == {
        rounds[0]._replace(
            ns=0,
            bytes=path.stat().st_size,
            batches=100,
            records=100,
            offset_sum=sum(range(100)),
            timestamp_sum=100_000,
            key_bytes=300,
            value_bytes=500,
            headers=200,
            header_bytes=1200,
        )
    }
