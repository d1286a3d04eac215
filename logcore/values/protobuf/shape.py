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
from dataclasses import dataclass, field

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from logcore.values.form import EMPTY, ITEMS, JSON, NAMES, Form
from logcore.values.invalid_schema import InvalidSchemaError
from logcore.values.limits import DEEPEST_VALUE, MOST_COLUMNS
from logcore.values.protobuf.kinds import KNOWN, SCALARS, FieldShape, Kind, MessageKind, ScalarKind


@dataclass(frozen=True, slots=True)
class MessageShape:
    """A message, and what the schema says about its fields by their path."""

    root: MessageKind
    comments: Mapping[str, str]


def shape_of(message: Descriptor, said: Mapping[str, str]) -> MessageShape:
    """Return the shape of a message.

    Args:
        message: The message.
        said: Comments by the full names of messages and fields.

    Raises:
        InvalidSchemaError: It has too many fields or levels.
    """
    builder = _Builder(said)
    known = KNOWN.get(message.full_name)
    root = known if known is not None and known.is_json else builder.message(message, "", ())
    if said.get(message.full_name):
        builder.comments[""] = said[message.full_name]
    return MessageShape(root, builder.comments)


@dataclass(slots=True)
class _Builder:
    said: Mapping[str, str]
    comments: dict[str, str] = field(default_factory=dict)
    open: dict[str, dict[int, FieldShape]] = field(default_factory=dict)
    """Fields of the messages that are being read, by name."""
    left: int = MOST_COLUMNS

    def message(self, message: Descriptor, path: str, outer: tuple[str, ...]) -> MessageKind:
        name = message.full_name
        if name in outer:
            return MessageKind(pa.string(), self.open[name], is_json=True)
        if len(outer) >= DEEPEST_VALUE:
            raise InvalidSchemaError(f"The schema has more than {DEEPEST_VALUE} levels.", place=path[:200])
        self.left -= max(1, len(message.fields))
        if self.left < 0:
            raise InvalidSchemaError(f"The schema has more than {MOST_COLUMNS} fields.")
        shapes = self.open[name] = {}
        for each in message.fields:
            shapes[each.number] = self._field(each, f"{path}.{each.name}".lstrip("."), (*outer, name))
        if not shapes:
            return MessageKind(pa.string(), is_json=True)
        return MessageKind(pa.struct([pa.field(each.field.name, each.arrow_type) for each in shapes.values()]), shapes)

    def _field(self, field: FieldDescriptor, path: str, outer: tuple[str, ...]) -> FieldShape:
        if self.said.get(field.full_name):
            self.comments[path] = self.said[field.full_name]
        kind = self._kind(field, path, outer)
        if not field.is_repeated:
            return FieldShape(field, kind, kind.arrow_type, False)
        if field.message_type is None or not field.message_type.GetOptions().map_entry:
            return FieldShape(field, kind, pa.list_(kind.arrow_type), False)
        parts = kind.fields if isinstance(kind, MessageKind) else {}
        if parts.keys() != {1, 2} or any(each.field.is_repeated for each in parts.values()):
            raise InvalidSchemaError("The entries of a map need a key and a value.", place=path)
        return FieldShape(field, kind, pa.map_(parts[1].arrow_type, parts[2].arrow_type), True)

    def _kind(self, field: FieldDescriptor, path: str, outer: tuple[str, ...]) -> Kind:
        if field.enum_type is not None:
            return _enum(field.enum_type)
        if field.message_type is None:
            return SCALARS[field.type]
        return KNOWN.get(field.message_type.full_name) or self.message(field.message_type, path, outer)


def _enum(enum: EnumDescriptor) -> ScalarKind:
    """Of several names for one number the first counts."""
    symbols = {each.number: each.name for each in reversed(enum.values)}
    return ScalarKind(pa.string(), lambda number: symbols.get(number, str(number)), symbols, enum.is_closed)


def protobuf_form(kind: Kind) -> Form:
    """Return the form of the column that a kind becomes."""
    if isinstance(kind, MessageKind):
        if kind.is_json:
            return Form(JSON if kind.fields or kind.of else EMPTY)
        return Form(parts={each.field.name: _field_form(each) for each in kind.fields.values()})
    return Form(NAMES if kind.symbols else "")


def _field_form(shape: FieldShape) -> Form:
    kind = shape.kind.fields[2].kind if shape.is_map and isinstance(shape.kind, MessageKind) else shape.kind
    form = protobuf_form(kind)
    return Form(parts={ITEMS: form}) if shape.field.is_repeated else form
