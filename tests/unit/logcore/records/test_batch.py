import mmap
import struct
import zlib
from pathlib import Path

import pytest

from logcore.errors import CorruptionReason, CorruptRecordError, LogError
from logcore.records.batch import (
    HEADER_SIZE,
    TimestampType,
    check_header,
    computed_crc,
    crc_matches,
    read_header,
)
from logcore.records.compression import Codec
from logcore.records.record import read_records
from tests import handmade

# Bytes written by Kafka's own classes.
TWO_RECORDS = bytes.fromhex(
    "000000000000000000000045ffffffff02b0db168e00000000000100000000000003e800000000000003edffffffffffffffffffffffff"
    "ffff0000000214000000046b310476310010000a02046b320100"
)
ABORT_MARKER = bytes.fromhex(
    "00000000000000070000004200000003022500e19400300000000000000000000004d200000000000004d200000000000000630002ffff"
    "ffff000000012000000008000000000c00000000000500"
)
APPEND_TIME_WITH_HORIZON = bytes.fromhex(
    "00000000000000000000004400000000026448ca340048000000020000018bcfe56bf20000018bcfe56800ffffffffffffffffffffffff"
    "ffff000000021200e30f0202620231001000e30f0402630100"
)
V0_MESSAGE = bytes.fromhex("00000000000000050000001257e7496e0000000000026b31000000027631")
V1_MESSAGE = bytes.fromhex("00000000000000050000001ab1a6ec76010000000000000003e8000000026b31000000027631")

ROWS = [(b"k1", b"v1"), (None, b""), (b"", None)]


def reason_of(error: pytest.ExceptionInfo[CorruptRecordError]) -> CorruptionReason:
    return error.value.reason


def test_a_batch_of_kafka_reads_field_by_field() -> None:
    header = read_header(TWO_RECORDS)
    assert (header.base_offset, header.batch_length, header.partition_leader_epoch, header.magic) == (0, 69, -1, 2)
    assert (header.crc, header.attributes, header.last_offset_delta) == (0xB0DB168E, 0, 1)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1005)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (-1, -1, -1, 2)
    assert (header.size, header.last_offset, header.next_offset) == (81, 1, 2)
    assert (header.codec, header.timestamp_type) == (Codec.NONE, TimestampType.CREATE_TIME)
    assert (header.is_transactional, header.is_control, header.delete_horizon_ms) == (False, False, None)
    assert header.unknown_attribute_bits == 0


def test_a_marker_of_kafka_reads_as_one() -> None:
    header = read_header(ABORT_MARKER)
    assert (header.base_offset, header.partition_leader_epoch, header.producer_id, header.producer_epoch) == (
        7,
        3,
        99,
        2,
    )
    assert (header.is_control, header.is_transactional, header.base_sequence, header.size) == (True, True, -1, 78)


def test_with_a_horizon_the_base_timestamp_is_the_horizon() -> None:
    header = read_header(APPEND_TIME_WITH_HORIZON)
    assert header.delete_horizon_ms == 1700000001010
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == 1700000000000


@pytest.mark.parametrize("data", [TWO_RECORDS, ABORT_MARKER, APPEND_TIME_WITH_HORIZON])
def test_the_checksum_of_kafka_is_ours(data: bytes) -> None:
    assert crc_matches(data, 0, read_header(data))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_will_do_and_position_is_respected(kind) -> None:
    buf = kind(b"\x55" * 7 + TWO_RECORDS + b"\x55" * 9)
    header = read_header(buf, 7)
    assert header == read_header(TWO_RECORDS)
    assert crc_matches(buf, 7, header)
    assert [record.key for record in read_records(buf, 7, header)] == [b"k1", b"k2"]


def test_a_memory_map_will_do_and_can_be_closed_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(TWO_RECORDS)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        header = read_header(mapped)
        assert crc_matches(mapped, 0, header)
        assert len(list(read_records(mapped, 0, header))) == 2


def test_every_cut_of_a_batch_says_truncated() -> None:
    for length in range(len(TWO_RECORDS)):
        with pytest.raises(CorruptRecordError) as caught:
            read_header(handmade.cut(TWO_RECORDS, length))
        assert reason_of(caught) is CorruptionReason.TRUNCATED
        with pytest.raises(CorruptRecordError) as caught:
            read_header(TWO_RECORDS, 0, length)
        assert reason_of(caught) is CorruptionReason.TRUNCATED


def test_bytes_after_a_batch_are_ignored() -> None:
    assert read_header(TWO_RECORDS + b"garbage") == read_header(TWO_RECORDS)


def test_a_header_alone_can_be_read() -> None:
    only = handmade.cut(TWO_RECORDS, HEADER_SIZE)
    assert read_header(only, whole=False) == read_header(TWO_RECORDS)
    with pytest.raises(CorruptRecordError) as caught:
        read_header(handmade.cut(only, HEADER_SIZE - 1), whole=False)
    assert reason_of(caught) is CorruptionReason.TRUNCATED
    header = read_header(only, whole=False)
    with pytest.raises(CorruptRecordError) as caught:
        crc_matches(only, 0, header)
    assert reason_of(caught) is CorruptionReason.TRUNCATED
    with pytest.raises(CorruptRecordError) as caught:
        list(read_records(only, 0, header))
    assert reason_of(caught) is CorruptionReason.TRUNCATED


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 13, 14, 48])
def test_a_length_below_the_header_is_refused(length: int) -> None:
    data = handmade.batch([handmade.record()], length=length)
    with pytest.raises(CorruptRecordError) as caught:
        read_header(data)
    assert reason_of(caught) is CorruptionReason.LENGTH
    assert caught.value.position == 0
    assert str(length) in str(caught.value)


@pytest.mark.parametrize("length", [49 + 8, (1 << 31) - 1])
def test_a_length_past_the_end_is_truncated_never_the_end_of_the_log(length: int) -> None:
    data = handmade.batch([handmade.record(0, b"", b"")], length=length)
    assert length + 12 > len(data)
    with pytest.raises(CorruptRecordError) as caught:
        read_header(data)
    assert reason_of(caught) is CorruptionReason.TRUNCATED


def test_the_smallest_batch_is_a_header() -> None:
    data = handmade.empty_batch(40, 9)
    header = read_header(data)
    assert (header.size, header.last_offset, header.record_count) == (61, 49, 0)
    assert list(read_records(data, 0, header)) == []


def test_of_all_magic_bytes_three_are_read_and_only_the_right_one_passes_the_checksum() -> None:
    for magic in range(256):
        data = handmade.patch(TWO_RECORDS, 16, bytes([magic]))
        if magic == 2:
            assert read_header(data) == read_header(TWO_RECORDS)
        elif magic in (0, 1):
            assert not crc_matches(data, 0, read_header(data))
        else:
            with pytest.raises(CorruptRecordError) as caught:
                read_header(data)
            assert reason_of(caught) is CorruptionReason.MAGIC


def test_no_payload_gets_into_a_message() -> None:
    data = handmade.patch(handmade.simple_batch(0, [(b"secret-key", b"secret-value")]), 16, b"\x07")
    with pytest.raises(CorruptRecordError) as caught:
        read_header(data)
    assert b"secret" not in (caught.value.nearby or b"")
    assert b"secret".hex() not in str(caught.value)


def test_of_all_single_bit_flips_only_base_offset_and_leader_epoch_go_unseen() -> None:
    data = handmade.simple_batch(3, ROWS)
    unseen = set()
    for position in range(len(data)):
        for bit in range(8):
            injured = handmade.flip(data, position, bit)
            try:
                header = read_header(injured)
                if crc_matches(injured, 0, header):
                    unseen.add((position, bit))
            except LogError:
                continue
    assert unseen == {(position, bit) for position in [*range(8), *range(12, 16)] for bit in range(8)}


def test_another_polynomial_does_not_pass() -> None:
    data = handmade.simple_batch(0, ROWS)
    injured = handmade.patch(data, 17, struct.pack(">I", zlib.crc32(data[21:])))
    assert not crc_matches(injured, 0, read_header(injured))
    assert computed_crc(injured, 0, read_header(injured)) == handmade.crc32c(data[21:])


def test_all_attribute_words_are_read_bit_by_bit() -> None:
    data = handmade.simple_batch(0, ROWS, base_timestamp=500, max_timestamp=700)
    for word in range(1 << 16):
        buf = handmade.patch(data, 21, struct.pack(">H", word))
        header = read_header(buf)
        assert header.codec == word % 8
        assert header.timestamp_type == word // 8 % 2
        assert header.is_transactional == bool(word // 16 % 2)
        assert header.is_control == bool(word // 32 % 2)
        assert header.delete_horizon_ms == (500 if word // 64 % 2 else None)
        assert header.unknown_attribute_bits == word // 128 * 128
        if word % 8 == 0:
            assert {record.timestamp for record in read_records(buf, 0, header)} == {700 if word // 8 % 2 else 500}
        elif word % 8 >= 5:
            with pytest.raises(CorruptRecordError) as caught:
                list(read_records(buf, 0, header))
            assert caught.value.reason is CorruptionReason.CODEC


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"last_offset_delta": -1}, CorruptionReason.COUNT),
        ({"last_offset_delta": -(1 << 31)}, CorruptionReason.COUNT),
        ({"last_offset_delta": 1}, CorruptionReason.COUNT),  # three records cannot span two offsets
        ({"count": -1}, CorruptionReason.COUNT),
        ({"count": -(1 << 31)}, CorruptionReason.COUNT),
        ({"count": 100, "last_offset_delta": 1000}, CorruptionReason.COUNT),
        ({"base_offset": (1 << 63) - 2}, CorruptionReason.COUNT),
        ({"attributes": 5}, CorruptionReason.CODEC),
        ({"attributes": 7}, CorruptionReason.CODEC),
    ],
)
def test_impossible_counts_and_codecs_are_refused_before_anything_is_decoded(lie, reason) -> None:
    records = [handmade.record(delta, key, value) for delta, (key, value) in enumerate(ROWS)]
    header = read_header(handmade.batch(records, **lie))
    with pytest.raises(CorruptRecordError) as caught:
        check_header(header, 77)
    assert reason_of(caught) is reason
    assert (caught.value.position, caught.value.offset) == (77, header.base_offset)


def test_fewer_records_than_offsets_are_legal() -> None:
    check_header(read_header(handmade.batch([handmade.record(2)], last_offset_delta=500)))
    check_header(read_header(handmade.empty_batch((1 << 63) - 2, 1)))


@pytest.mark.parametrize(
    ("kind", "name"),
    [(-1, "NoTimestampType"), (0, "CreateTime"), (1, "LogAppendTime")],
)
def test_timestamp_types_have_the_names_kafka_prints(kind: int, name: str) -> None:
    assert TimestampType(kind).kafka_name == name
