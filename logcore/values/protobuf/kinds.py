"""The kinds of a Protobuf field: its column, and what becomes of the value that Google's library reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor

from logcore.values.json.fragment import json_text
from logcore.values.undecodable import Reason, Undecodable

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The first of year 1 and the last of year 9999: what `timestamp.proto` allows."""
_NANOS = 1_000_000_000
_EXACT = 1 << 53
"""Below it each whole number is a double."""


@dataclass(frozen=True, slots=True)
class ScalarKind:
    """A number, text, bytes or an enum."""

    arrow_type: pa.DataType
    of: Callable[[Any], object]
    symbols: Mapping[int, str] = field(default_factory=dict)
    """Of an enum."""
    is_closed: bool = False
    """Of an enum whose other numbers are unknown fields."""


@dataclass(frozen=True, slots=True)
class MessageKind:
    """A message or group."""

    arrow_type: pa.DataType
    fields: Mapping[int, FieldShape] = field(default_factory=dict)
    is_json: bool = False
    """Whether the fields become JSON text."""
    of: Callable[[Any], object] | None = None
    """For a message whose meaning is known: makes the value of the library's message."""


Kind = ScalarKind | MessageKind


@dataclass(frozen=True, slots=True)
class FieldShape:
    """A field of a message."""

    field: FieldDescriptor
    kind: Kind
    arrow_type: pa.DataType
    is_map: bool


def text_of(content: bytes) -> str:
    """Return the text of a field.

    Raises:
        Undecodable: INVALID_UTF8.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(Reason.INVALID_UTF8, f"byte {error.start}") from None


def _same(value: object) -> object:
    return value


SCALARS: Mapping[int, ScalarKind] = {
    FieldDescriptor.TYPE_DOUBLE: ScalarKind(pa.float64(), _same),
    FieldDescriptor.TYPE_FLOAT: ScalarKind(pa.float32(), _same),
    FieldDescriptor.TYPE_INT64: ScalarKind(pa.int64(), _same),
    FieldDescriptor.TYPE_UINT64: ScalarKind(pa.decimal128(20, 0), Decimal),
    FieldDescriptor.TYPE_INT32: ScalarKind(pa.int32(), _same),
    FieldDescriptor.TYPE_FIXED64: ScalarKind(pa.decimal128(20, 0), Decimal),
    FieldDescriptor.TYPE_FIXED32: ScalarKind(pa.int64(), _same),
    FieldDescriptor.TYPE_BOOL: ScalarKind(pa.bool_(), _same),
    FieldDescriptor.TYPE_STRING: ScalarKind(pa.string(), text_of),
    FieldDescriptor.TYPE_BYTES: ScalarKind(pa.binary(), _same),
    FieldDescriptor.TYPE_UINT32: ScalarKind(pa.int64(), _same),
    FieldDescriptor.TYPE_SFIXED32: ScalarKind(pa.int32(), _same),
    FieldDescriptor.TYPE_SFIXED64: ScalarKind(pa.int64(), _same),
    FieldDescriptor.TYPE_SINT32: ScalarKind(pa.int32(), _same),
    FieldDescriptor.TYPE_SINT64: ScalarKind(pa.int64(), _same),
}
"""By the type of the field."""


def _micros_of(time: Any) -> int:
    """Microseconds since the epoch."""
    if not _FIRST_SECOND <= time.seconds <= _LAST_SECOND or not 0 <= time.nanos < _NANOS:
        raise Undecodable(Reason.OUT_OF_RANGE, "", "no time between the years 1 and 9999")
    return int(time.seconds) * 1_000_000 + int(time.nanos) // 1_000


def _of_struct(struct: Any) -> object:
    return {text_of(entry.key): _of_value(entry.value) for entry in struct.fields}


def _of_list(listed: Any) -> object:
    return [_of_value(each) for each in listed.values]


def _of_value(value: Any) -> object:
    """A value without a kind is null."""
    match value.WhichOneof("kind"):
        case "number_value":
            return _number(value.number_value)
        case "string_value":
            return text_of(value.string_value)
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return _of_struct(value.struct_value)
        case "list_value":
            return _of_list(value.list_value)
    return None


def _number(number: float) -> int | float:
    """A number as JSON has it: whole ones without a fraction, if that is exact."""
    if not isfinite(number):
        raise Undecodable(Reason.OUT_OF_RANGE, "", "a number that JSON does not have")
    is_plain = number.is_integer() and abs(number) < _EXACT and str(number) != "-0.0"
    return int(number) if is_plain else number


TIMESTAMP_KIND = MessageKind(pa.timestamp("us", tz="UTC"), of=_micros_of)
KNOWN: Mapping[str, MessageKind] = {
    "google.protobuf.Timestamp": TIMESTAMP_KIND,
    "google.protobuf.Struct": MessageKind(pa.string(), is_json=True, of=lambda value: json_text(_of_struct(value))),
    "google.protobuf.Value": MessageKind(pa.string(), is_json=True, of=lambda value: json_text(_of_value(value))),
    "google.protobuf.ListValue": MessageKind(pa.string(), is_json=True, of=lambda value: json_text(_of_list(value))),
}
"""Messages whose meaning is known, by full name."""
