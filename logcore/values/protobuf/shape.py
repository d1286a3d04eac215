"""What a Protobuf message becomes: its columns, and how each field's content becomes a value.

| Protobuf | column |
|---|---|
| `int32`, `sint32`, `sfixed32` | int32 |
| `int64`, `sint64`, `sfixed64`, `uint32`, `fixed32` | int64 |
| `uint64`, `fixed64` | decimal(20, 0) |
| `float`, `double`, `bool`, `string`, `bytes` | the same |
| enum | its name as text; a number without a name as decimal text |
| message, group | struct; without fields, or inside of itself: JSON text |
| `google.protobuf.Struct`, `Value`, `ListValue` | JSON text |
| `google.protobuf.Timestamp` | timestamp in microseconds, UTC; nanoseconds below that are cut |
| `repeated`, `map` | list, map |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from logcore.values.form import EMPTY, ITEMS, JSON, NAMES, Form
from logcore.values.invalid_schema import InvalidSchemaError, check_name
from logcore.values.json.fragment import json_text
from logcore.values.limits import DEEPEST_VALUE, MOST_COLUMNS
from logcore.values.protobuf.descriptors import ENUM, GROUP, MESSAGE, EnumType, FieldType, MessageType, Schema, signed
from logcore.values.protobuf.json_values import JSON_KINDS
from logcore.values.protobuf.kinds import (
    CONTENTS,
    NUMBERS,
    TIMESTAMP_KIND,
    FieldShape,
    Kind,
    MessageKind,
    Number,
    NumberKind,
)
from logcore.values.protobuf.wire import LENGTH, START_GROUP, VARINT

TIMESTAMP = ".google.protobuf.Timestamp"


@dataclass(frozen=True, slots=True)
class MessageShape:
    """A message, and what the schema says about its fields by their path."""

    root: MessageKind
    comments: Mapping[str, str]


def shape_of(schema: Schema, message: MessageType) -> MessageShape:
    """Return the shape of a message.

    Raises:
        InvalidSchemaError: It has too many fields, or a type of it is missing.
    """
    builder = _Builder(schema, {}, {}, {})
    root = JSON_KINDS.get(message.name) or builder.message(message, MESSAGE, "", ())
    if message.comment:
        builder.comments[""] = message.comment
    return MessageShape(root, builder.comments)


@dataclass(slots=True)
class _Builder:
    schema: Schema
    comments: dict[str, str]
    enums: dict[str, NumberKind]
    open: dict[str, dict[int, FieldShape]]
    """Fields of the messages that are being read, by name."""
    left: int = MOST_COLUMNS

    def message(self, message: MessageType, kind: int, path: str, outer: tuple[str, ...]) -> MessageKind:
        wire_type = START_GROUP if kind == GROUP else LENGTH
        if message.name in outer:
            return MessageKind(pa.string(), wire_type, self.open[message.name], json_of=json_text)
        if len(outer) >= DEEPEST_VALUE:
            raise InvalidSchemaError(f"The schema has more than {DEEPEST_VALUE} levels.", place=path[:200])
        self.left -= max(1, len(message.fields))
        if self.left < 0:
            raise InvalidSchemaError(f"The schema has more than {MOST_COLUMNS} fields.")
        shapes = self.open[message.name] = {}
        for field in message.fields:
            at = f"{path}.{field.name}".lstrip(".")
            shapes[field.number] = self._field(field, at, (*outer, message.name))
        if not shapes:
            return MessageKind(pa.string(), wire_type, {}, json_of=json_text)
        arrow_type = pa.struct([pa.field(shape.field.name, shape.arrow_type) for shape in shapes.values()])
        return MessageKind(arrow_type, wire_type, shapes)

    def _field(self, field: FieldType, path: str, outer: tuple[str, ...]) -> FieldShape:
        check_name(field.name, path)
        if field.comment:
            self.comments[path] = field.comment
        kind = self._kind(field, path, outer)
        is_map = field.is_repeated and self._is_map(field)
        if is_map:
            assert isinstance(kind, MessageKind)
            key, value = (self._entry_part(kind, number, path) for number in (1, 2))
            return FieldShape(field, kind, pa.map_(key.arrow_type, value.arrow_type), True)
        return FieldShape(field, kind, pa.list_(kind.arrow_type) if field.is_repeated else kind.arrow_type, False)

    def _is_map(self, field: FieldType) -> bool:
        message = self.schema.messages.get(field.type_name)
        return field.type == MESSAGE and message is not None and message.is_map_entry

    def _entry_part(self, entry: MessageKind, number: int, path: str) -> FieldShape:
        if number not in entry.fields:
            raise InvalidSchemaError("The entries of a map need a key and a value.", place=path)
        return entry.fields[number]

    def _kind(self, field: FieldType, path: str, outer: tuple[str, ...]) -> Kind:
        known = NUMBERS.get(field.type) or CONTENTS.get(field.type)
        if known is not None:
            return known
        if field.type == ENUM:
            return self._enum(field, path)
        if field.type not in (MESSAGE, GROUP):
            raise InvalidSchemaError(f"The type {field.type} of a field is unknown.", place=path)
        if field.type_name == TIMESTAMP:
            return TIMESTAMP_KIND
        if field.type_name in JSON_KINDS and field.type == MESSAGE:
            return JSON_KINDS[field.type_name]
        message = self.schema.messages.get(field.type_name)
        if message is None:
            raise InvalidSchemaError(
                f"The message {field.type_name[1:]} is not in the schema.", place=path, advice="Name what it imports."
            )
        return self.message(message, field.type, path, outer)

    def _enum(self, field: FieldType, path: str) -> NumberKind:
        enum = self.schema.enums.get(field.type_name)
        if enum is None:
            raise InvalidSchemaError(
                f"The enum {field.type_name[1:]} is not in the schema.", place=path, advice="Name what it imports."
            )
        if field.type_name not in self.enums:
            self.enums[field.type_name] = NumberKind(
                VARINT, pa.string(), _symbols(enum), enum.symbols.get(0, "0"), enum.symbols, enum.is_closed
            )
        return self.enums[field.type_name]


def protobuf_form(kind: Kind) -> Form:
    """Return the form of the column that a kind becomes."""
    if isinstance(kind, MessageKind):
        if kind.json_of is not None:
            return Form(JSON if kind.fields else EMPTY)
        return Form(parts={each.field.name: _field_form(each) for each in kind.fields.values()})
    return Form(NAMES if isinstance(kind, NumberKind) and kind.symbols else "")


def _field_form(shape: FieldShape) -> Form:
    kind = shape.kind.fields[2].kind if shape.is_map and isinstance(shape.kind, MessageKind) else shape.kind
    form = protobuf_form(kind)
    return Form(parts={ITEMS: form}) if shape.field.is_repeated else form


def _symbols(enum: EnumType) -> Number:
    def read(value: int) -> object:
        number = signed(value, 32)
        symbol = enum.symbols.get(number)
        if symbol is None and not enum.is_closed:
            return str(number)
        return symbol

    return read
