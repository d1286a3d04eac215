import itertools

import pytest

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.varint import read_varint, read_varlong, write_varint, write_varlong

# Values and bytes as in Kafka's ByteUtilsTest.
INT_VECTORS = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    8191: "fe7f",
    -8192: "ff7f",
    8192: "808001",
    -8193: "818001",
    1048575: "feff7f",
    -1048576: "ffff7f",
    1048576: "80808001",
    -1048577: "81808001",
    134217727: "feffff7f",
    -134217728: "ffffff7f",
    134217728: "8080808001",
    -134217729: "8180808001",
    2147483647: "feffffff0f",
    -2147483648: "ffffffff0f",
}
LONG_VECTORS = {
    17179869183: "feffffff7f",
    -17179869184: "ffffffff7f",
    17179869184: "808080808001",
    -17179869185: "818080808001",
    2199023255551: "feffffffff7f",
    2199023255552: "80808080808001",
    281474976710655: "feffffffffff7f",
    281474976710656: "8080808080808001",
    36028797018963967: "feffffffffffff7f",
    36028797018963968: "808080808080808001",
    4611686018427387903: "feffffffffffffff7f",
    4611686018427387904: "80808080808080808001",
    9223372036854775807: "feffffffffffffffff01",
    -9223372036854775808: "ffffffffffffffffff01",
}


@pytest.mark.parametrize(("value", "encoded"), INT_VECTORS.items())
def test_ints_have_the_bytes_kafka_gives_them(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert write_varint(value) == data
    assert read_varint(data, 0, len(data)) == (value, len(data))


@pytest.mark.parametrize(("value", "encoded"), (INT_VECTORS | LONG_VECTORS).items())
def test_longs_have_the_bytes_kafka_gives_them(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert write_varlong(value) == data
    assert read_varlong(data, 0, len(data)) == (value, len(data))


@pytest.mark.parametrize("encoded", LONG_VECTORS.values())
@pytest.mark.parametrize("reader", [read_varint, read_varlong])
def test_every_cut_says_truncated(reader, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    for length in range(min(len(data), 5)):
        with pytest.raises(CorruptRecordError) as caught:
            reader(data, 0, length)
        assert caught.value.reason is CorruptionReason.TRUNCATED


def test_all_strings_of_one_and_two_bytes_read_as_arithmetic_says() -> None:
    for first, second in itertools.product(range(256), repeat=2):
        data = bytes([first, second])
        if first < 128:
            raw, used = first, 1
        elif second < 128:
            raw, used = first - 128 + 128 * second, 2
        else:
            with pytest.raises(CorruptRecordError):
                read_varint(data, 0, 2)
            continue
        expected = raw // 2 if raw % 2 == 0 else -(raw + 1) // 2
        assert read_varint(data, 0, 2) == (expected, used) == read_varlong(data, 0, 2)


def test_strings_of_three_bytes_read_as_arithmetic_says() -> None:
    for first, second, third in itertools.product(range(128, 256, 3), range(128, 256, 5), range(128)):
        raw = first - 128 + 128 * (second - 128) + 16384 * third
        expected = raw // 2 if raw % 2 == 0 else -(raw + 1) // 2
        assert read_varint(bytes([first, second, third]), 0, 3) == (expected, 3)


@pytest.mark.parametrize(
    ("reader", "encoded", "value"),
    [
        (read_varint, "8000", 0),
        (read_varint, "82808080 00", 1),
        (read_varlong, "8080808080808080 8000", 0),
        # bits beyond the type's width are dropped, as Java's shifts drop them
        (read_varint, "ffffffff7f", -2147483648),
        (read_varint, "8080808070", 0),
        (read_varlong, "ffffffffffffffffff7f", -9223372036854775808),
    ],
)
def test_encodings_that_no_writer_makes_read_as_in_java(reader, encoded: str, value: int) -> None:
    data = bytes.fromhex(encoded)
    assert reader(data, 0, len(data)) == (value, len(data))


@pytest.mark.parametrize(("reader", "longest"), [(read_varint, 5), (read_varlong, 10)])
def test_one_byte_too_many_is_an_error(reader, longest: int) -> None:
    data = b"\x80" * longest + b"\x00"
    with pytest.raises(CorruptRecordError) as caught:
        reader(data, 0, len(data))
    assert caught.value.reason is CorruptionReason.VARINT
    assert reader(b"\x80" * (longest - 1) + b"\x00", 0, longest) == (0, longest)


def test_bytes_before_and_after_are_not_read() -> None:
    assert read_varint(b"\xff\x80\x01\xff", 1, 4) == (64, 3)


@pytest.mark.parametrize("value", [1 << 31, -(1 << 31) - 1])
def test_an_int_that_does_not_fit_is_the_callers_mistake(value: int) -> None:
    with pytest.raises(ValueError, match="int32"):
        write_varint(value)


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1])
def test_a_long_that_does_not_fit_is_the_callers_mistake(value: int) -> None:
    with pytest.raises(ValueError, match="int64"):
        write_varlong(value)
