"""Keys and values of Kafka's own serializers, as bytes written by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from logcore.values import formats, limits
from logcore.values.column import decode_column, decode_column_plainly
from logcore.values.formats import PRIMITIVES, decoder_of
from logcore.values.invalid_schema import InvalidSchemaError
from logcore.values.undecodable import Reason, Undecodable


@pytest.mark.parametrize(
    ("name", "body", "value"),
    [
        ("string", "ä".encode(), "ä"),
        ("string", b"", ""),
        ("short", b"\xff\xfe", -2),
        ("integer", b"\x00\x00\x01\x00", 256),
        ("long", b"\x80" + bytes(7), -(1 << 63)),
        ("float", b"\x3f\x80\x00\x00", 1.0),
        ("double", b"\xc0\x00" + bytes(6), -2.0),
        ("boolean", b"\x01", True),
        ("boolean", b"\x00", False),
        ("uuid", b"123E4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
        ("bytes", b"\x00\xff", b"\x00\xff"),
    ],
)
def test_bytes_of_a_serializer_are_its_value(name, body, value):
    decoder = decoder_of(name, None)
    assert pa.array([decoder.decode(body)], type=decoder.arrow_type).to_pylist() == [value]


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("string", b"\xed\xa0\x80", Reason.INVALID_UTF8),
        ("short", b"\x00", Reason.WRONG_SIZE),
        ("integer", bytes(5), Reason.WRONG_SIZE),
        ("long", b"", Reason.WRONG_SIZE),
        ("float", bytes(8), Reason.WRONG_SIZE),
        ("double", bytes(4), Reason.WRONG_SIZE),
        ("boolean", b"\x02", Reason.OUT_OF_RANGE),
        ("boolean", b"", Reason.WRONG_SIZE),
        ("uuid", b"123e4567e89b12d3a456426614174000", Reason.WRONG_TYPE),
        ("uuid", b"\xff", Reason.INVALID_UTF8),
        ("bytes", bytes((32 << 20) + 1), Reason.TOO_LARGE),
    ],
)
def test_other_bytes_have_a_reason(name, body, reason):
    with pytest.raises(Undecodable) as caught:
        decoder_of(name, None).decode(body)
    assert caught.value.reason == reason


@pytest.mark.parametrize(("name", "schema"), [("long", "{}"), ("xml", None), ("json", None)])
def test_a_format_without_its_schema_or_with_one_too_many_is_refused(name, schema):
    with pytest.raises(InvalidSchemaError):
        decoder_of(name, schema)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_blocks_of_text_are_decoded_as_row_by_row(kind: pa.DataType) -> None:
    decoder = PRIMITIVES["string"]
    pool = [b"", b"plain", "zwölf".encode(), "\U0001f600".encode(), None, b"a\x00b"]
    bad = [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", "\U0001f600".encode()[:3], b"\xf4\x90\x80\x80"]
    for rows in (pool, [*pool, bad[0], *pool], bad, [None, None], []):
        bodies = pa.array(rows, kind)
        for some in (bodies, bodies.slice(1)):
            fast, plain = decode_column(decoder, some), decode_column_plainly(decoder, some)
            assert fast.values.equals(plain.values)
            assert [(each.row, str(each.failure)) for each in fast.failed] == [
                (each.row, str(each.failure)) for each in plain.failed
            ]


def test_a_text_that_is_too_large_is_refused_in_a_block_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (limits, formats):
        monkeypatch.setattr(module, "LARGEST_VALUE", 4)
    found = decode_column(PRIMITIVES["string"], pa.array([b"four", b"fiver"], pa.binary()))
    assert found.values.to_pylist() == ["four", None]
    assert [str(each.failure.reason) for each in found.failed] == ["TOO_LARGE"]
