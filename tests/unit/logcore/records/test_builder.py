import pytest

from logcore.records.batch import TimestampType, crc_matches, read_header
from logcore.records.builder import build_batch
from logcore.records.compression import Codec
from logcore.records.record import Record, read_records
from tests import handmade

CREATE, APPEND = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME


def row(offset: int, timestamp: int, key: bytes | None = b"k", value: bytes | None = b"v", headers=()) -> Record:
    return Record(offset, timestamp, CREATE, key, value, tuple(headers))


def test_the_batch_of_kafkas_builder_comes_out_byte_by_byte() -> None:
    built = build_batch([row(0, 1000, b"k1", b"v1"), row(1, 1005, b"k2", None)])
    assert built.hex() == (
        "000000000000000000000045ffffffff02b0db168e00000000000100000000000003e800000000000003edffffffffffffffffffffffff"
        "ffff0000000214000000046b310476310010000a02046b320100"
    )


@pytest.mark.parametrize(("crc", "number"), [("2500e194", "0000"), ("d13e37dc", "0001")])
def test_the_markers_of_kafkas_builder_come_out_byte_by_byte(crc: str, number: str) -> None:
    marker = row(7, 1234, bytes.fromhex(f"0000{number}"), bytes.fromhex("000000000005"))
    built = build_batch(
        [marker], producer_id=99, producer_epoch=2, is_transactional=True, is_control=True, leader_epoch=3
    )
    assert built.hex() == (
        f"0000000000000007000000420000000302{crc}00300000000000000000000004d200000000000004d20000000000000063"
        f"0002ffffffff0000000120000000080000{number}0c00000000000500"
    )


def test_an_append_time_batch_rewritten_with_a_horizon_comes_out_byte_by_byte() -> None:
    built = build_batch(
        [row(1, 5, b"b", b"1"), row(2, 6, b"c", None)],
        base_offset=0,
        timestamp_type=APPEND,
        max_timestamp=1700000000000,
        delete_horizon_ms=1700000001010,
        leader_epoch=0,
    )
    assert built.hex() == (
        "00000000000000000000004400000000026448ca340048000000020000018bcfe56bf20000018bcfe56800ffffffffffffffffffffffff"
        "ffff000000021200e30f0202620231001000e30f0402630100"
    )


def test_every_field_is_where_the_hand_puts_it() -> None:
    headers = [(b"a", b"1"), (b"", None)]
    built = build_batch(
        [row(100, 50, None, b"", headers), row(103, 40, b"", None)],
        base_offset=99,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        is_transactional=True,
        leader_epoch=5,
        last_offset_delta=20,
    )
    assert built == handmade.batch(
        [
            handmade.record(1, None, b"", headers=headers),
            handmade.record(4, b"", None, timestamp_delta=-10),
        ],
        base_offset=99,
        leader_epoch=5,
        attributes=handmade.TRANSACTIONAL,
        last_offset_delta=20,
        base_timestamp=50,
        max_timestamp=50,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
    )


def test_a_batch_without_records_is_a_header_that_keeps_the_span() -> None:
    built = build_batch(
        [],
        base_offset=40,
        last_offset_delta=9,
        codec=Codec.ZSTD,
        producer_id=7,
        producer_epoch=0,
        base_sequence=2,
        max_timestamp=77,
        delete_horizon_ms=5,
        leader_epoch=1,
    )
    assert built == handmade.empty_batch(
        40, 9, leader_epoch=1, producer_id=7, producer_epoch=0, base_sequence=2, max_timestamp=77
    )


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_what_is_encoded_is_read_back(codec: Codec) -> None:
    rows = [row(5, 1, b"k", b"v" * 5000, [(b"h", b"x")]), row(9, -1, None, None), row(10, 1 << 50, b"", b"")]
    built = build_batch(rows, codec=codec)
    header = read_header(built)
    assert crc_matches(built, 0, header)
    assert (header.codec, header.size, header.max_timestamp) == (codec, len(built), 1 << 50)
    assert list(read_records(built, 0, header)) == rows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"records": [row(1, 0), row(1, 0)]}, "rise"),
        ({"records": [row(2, 0), row(1, 0)]}, "rise"),
        ({"records": [row(1, 0)], "base_offset": 2}, "rise"),
        ({"records": [row(1, -2)]}, "negative"),
        ({"records": [row(-1, 0)]}, "negative"),
        ({"records": [row(5, 0)], "base_offset": 1, "last_offset_delta": 3}, "lies after"),
        ({"records": [row(1 << 40, 0)], "base_offset": 0}, "int32"),
        ({"records": [row(0, 0)], "leader_epoch": 1 << 31}, "fit"),
        ({"records": [], "base_offset": 1, "last_offset_delta": -1}, "negative"),
        ({"records": [row(0, 0)], "codec": 5}, "reserved"),
        ({"records": [row(0, 0)], "producer_id": 1}, "epoch"),
        ({"records": [row(0, 0)], "producer_id": 1, "producer_epoch": 0}, "sequence"),
        ({"records": [row(0, 0)], "is_transactional": True}, "producer id"),
        ({"records": [row(0, 0)], "timestamp_type": TimestampType.NO_TIMESTAMP_TYPE}, "CreateTime"),
        ({"records": [], "base_offset": 1}, "last offset"),
        ({"records": [], "last_offset_delta": 1}, "base offset"),
    ],
)
def test_what_a_broker_would_refuse_cannot_be_built(arguments, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_batch(**arguments)
