"""`google.protobuf.Struct`, `Value` and `ListValue`: values of any shape, which become JSON text.

They contain each other without an end, so they have no columns of their own. Source: `google/protobuf/struct.proto`,
and Protobuf's JSON mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

import pyarrow as pa

from logcore.values.json.fragment import json_text
from logcore.values.limits import DEEPEST_VALUE
from logcore.values.protobuf.descriptors import ENUM, MESSAGE, FieldType
from logcore.values.protobuf.kinds import CONTENTS, NUMBERS, FieldShape, Kind, MessageKind, NumberKind
from logcore.values.protobuf.wire import LENGTH, VARINT, fields_in
from logcore.values.undecodable import Reason, Undecodable

_DOUBLE, _BOOL, _STRING = 1, 8, 9
_KIND_OF_VALUE = 0
"""Index of the oneof of a `Value`."""
_EXACT = 1 << 53
"""Below it each whole number is a double."""


def _shape(name: str, number: int, type: int, kind: Kind, *, oneof: int | None = None, repeated: bool = False,
           is_map: bool = False) -> FieldShape:  # fmt: skip
    has_presence = oneof is not None or type == MESSAGE
    field = FieldType(name, number, type, "", repeated, False, has_presence, oneof, "")
    return FieldShape(field, kind, kind.arrow_type, is_map)


_OF_VALUE: dict[int, FieldShape] = {}
_VALUE = MessageKind(pa.string(), LENGTH, _OF_VALUE)
_ENTRY = MessageKind(
    pa.string(), LENGTH, {1: _shape("key", 1, _STRING, CONTENTS[_STRING]), 2: _shape("value", 2, MESSAGE, _VALUE)}
)
_STRUCT = MessageKind(
    pa.string(), LENGTH, {1: _shape("fields", 1, MESSAGE, _ENTRY, repeated=True, is_map=True)}
)  # fmt: skip
_LIST = MessageKind(pa.string(), LENGTH, {1: _shape("values", 1, MESSAGE, _VALUE, repeated=True)})
_OF_VALUE.update(
    {
        shape.field.number: shape
        for shape in (
            _shape("null", 1, ENUM, NumberKind(VARINT, pa.int64(), lambda _: 0, 0), oneof=_KIND_OF_VALUE),
            _shape("number", 2, _DOUBLE, NUMBERS[_DOUBLE], oneof=_KIND_OF_VALUE),
            _shape("string", 3, _STRING, CONTENTS[_STRING], oneof=_KIND_OF_VALUE),
            _shape("bool", 4, _BOOL, NUMBERS[_BOOL], oneof=_KIND_OF_VALUE),
            _shape("struct", 5, MESSAGE, _STRUCT, oneof=_KIND_OF_VALUE),
            _shape("list", 6, MESSAGE, _LIST, oneof=_KIND_OF_VALUE),
        )
    }
)


def check_depth(kind: MessageKind, body: bytes, parts: Sequence[tuple[int, int]]) -> None:
    """Refuse messages in more levels than those of any other schema.

    Raises:
        Undecodable: TOO_DEEP, or what is wrong with the bytes.
    """
    waiting = [(kind, start, end, 0) for start, end in parts]
    while waiting:
        outer, start, end, depth = waiting.pop()
        for each in fields_in(body, start, end):
            shape = outer.fields.get(each.number)
            if shape is None or not isinstance(shape.kind, MessageKind) or each.wire_type != LENGTH:
                continue
            if depth == DEEPEST_VALUE:
                raise Undecodable(Reason.TOO_DEEP, f"byte {each.position}")
            waiting.append((shape.kind, each.start, each.end, depth + 1))


def _of_struct(fields: Mapping[str, object]) -> object:
    entries = fields["fields"]
    assert isinstance(entries, list)
    return {key: _of_value(content) for key, content in entries}


def _of_list(fields: Mapping[str, object]) -> object:
    values = fields["values"]
    assert isinstance(values, list)
    return [_of_value(content) for content in values]


def _of_value(fields: Mapping[str, object]) -> object:
    """A value without a kind is null."""
    match next(((name, content) for name, content in fields.items() if content is not None), None):
        case ("number", float(number)):
            return _number(number)
        case ("struct", dict(content)):
            return _of_struct(content)
        case ("list", dict(content)):
            return _of_list(content)
        case ("string" | "bool", content):
            return content
        case _:
            return None


def _number(number: float) -> int | float:
    """A number as JSON has it: whole ones without a fraction, if that is exact."""
    if not isfinite(number):
        raise Undecodable(Reason.OUT_OF_RANGE, "", "a number that JSON does not have")
    is_plain = number.is_integer() and abs(number) < _EXACT and str(number) != "-0.0"
    return int(number) if is_plain else number


JSON_KINDS: Mapping[str, MessageKind] = {
    f".google.protobuf.{name}": MessageKind(pa.string(), LENGTH, kind.fields, json_of=json_of)
    for name, kind, json_of in (
        ("Struct", _STRUCT, lambda fields: json_text(_of_struct(fields))),
        ("Value", _VALUE, lambda fields: json_text(_of_value(fields))),
        ("ListValue", _LIST, lambda fields: json_text(_of_list(fields))),
    )
}
"""By the full name of the message, with a dot in front."""
