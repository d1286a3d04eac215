import gzip
import struct

import pytest

from logcore.records.batch import crc_matches, read_header
from logcore.records.builder import build_message_set
from logcore.records.compression import Codec
from logcore.records.record import Record, TimestampType, read_records
from tests import handmade

CREATE, APPEND = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME


def row(offset: int, timestamp: int = 1000, key: bytes | None = b"k", value: bytes | None = b"v", headers=()) -> Record:
    return Record(offset, timestamp, CREATE, key, value, tuple(headers))


@pytest.mark.parametrize(
    ("magic", "expected"),
    [
        (0, "00000000000000050000001257e7496e0000000000026b31000000027631"),
        (1, "00000000000000050000001ab1a6ec76010000000000000003e8000000026b31000000027631"),
    ],
)
def test_kafkas_own_messages_come_out_byte_by_byte(magic: int, expected: str) -> None:
    assert build_message_set([row(5, 1000, b"k1", b"v1")], magic=magic).hex() == expected


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_come_out_as_by_hand(magic: int) -> None:
    rows = [row(3, -1, None, b""), row(9, 7, b"", None)]
    by_hand = [handmade.message(r.offset, r.key, r.value, magic=magic, timestamp=r.timestamp) for r in rows]
    assert build_message_set(rows, magic=magic) == b"".join(by_hand)
    assert build_message_set([], magic=magic, codec=Codec.GZIP) == b""


def test_an_append_time_takes_every_timestamps_place() -> None:
    made = build_message_set([row(3, 5), row(4, 9)], magic=1, timestamp_type=APPEND, append_time=88)
    attributes = handmade.LOG_APPEND_TIME
    assert made == b"".join(handmade.message(offset, timestamp=88, attributes=attributes) for offset in (3, 4))


def test_a_wrapper_comes_out_as_by_hand() -> None:
    rows = [row(40, 9), row(43, 7)]
    for magic, inside in ((0, [40, 43]), (1, [0, 3])):
        made = build_message_set(rows, magic=magic, codec=Codec.GZIP)
        header = read_header(made)
        assert crc_matches(made, 0, header)
        assert (header.base_offset, header.attributes) == (43, 1)
        assert header.max_timestamp == (9 if magic else -1)
        fixed = 26 if magic else 18
        assert made[fixed : fixed + 4] == struct.pack(">i", -1)  # no key
        plain = gzip.decompress(made[fixed + 8 :])
        times = [9, 7]
        assert plain == b"".join(
            handmade.message(offset, magic=magic, timestamp=time) for offset, time in zip(inside, times, strict=True)
        )


def test_a_wrapper_with_append_time_is_made_as_brokers_convert_one() -> None:
    made = build_message_set([row(40, 9), row(41, 7)], magic=1, codec=Codec.GZIP, timestamp_type=APPEND, append_time=88)
    header = read_header(made)
    assert (header.attributes, header.max_timestamp) == (9, 88)
    inside = [handmade.message(relative, timestamp=88, attributes=8) for relative in (0, 1)]
    assert gzip.decompress(made[34:]) == b"".join(inside)


def test_lz4_is_framed_with_the_broken_checksum_in_v0_and_the_right_one_in_v1() -> None:
    for magic, fixed, checksum in ((0, 18, 0x1A), (1, 26, 0x82)):
        made = build_message_set([row(0)], magic=magic, codec=Codec.LZ4)
        assert made[fixed + 8 : fixed + 15] == bytes.fromhex("04224d186040") + bytes([checksum])


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_what_is_built_is_read_again(magic: int, codec: Codec) -> None:
    rows = [row(40, 9, None, b"x" * 100_000), row(43, 7, b"k", None)]
    made = build_message_set(rows, magic=magic, codec=codec)
    found, position = [], 0
    while position < len(made):
        header = read_header(made, position)
        assert crc_matches(made, position, header)
        found += read_records(made, position, header)
        position += header.size
    times = [9, 7] if magic else [-1, -1]
    kind = CREATE if magic else TimestampType.NO_TIMESTAMP_TYPE
    assert found == [Record(r.offset, t, kind, r.key, r.value) for r, t in zip(rows, times, strict=True)]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([row(0)], {"magic": 2}, "magic"),
        ([row(0)], {"magic": 1, "codec": Codec.ZSTD}, "zstd"),
        ([row(0)], {"magic": 1, "codec": 5}, "reserved"),
        ([row(0)], {"magic": 0, "timestamp_type": APPEND}, "LogAppendTime"),
        ([row(0, headers=[(b"a", b"")])], {"magic": 1}, "headers"),
        ([row(1), row(1)], {"magic": 1}, "rise"),
        ([row(-1)], {"magic": 1}, "rise"),
        ([row(0, -2)], {"magic": 1}, "negative"),
        ([row(1 << 63)], {"magic": 0}, "fit"),
        ([row(0, 1 << 63)], {"magic": 1}, "fit"),
    ],
)
def test_what_the_format_cannot_say_is_the_callers_mistake(rows, options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_message_set(rows, **options)
