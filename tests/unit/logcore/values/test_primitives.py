"""Keys and values of Kafka's own serializers, as bytes written by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from logcore.values.formats import decoder_of
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
