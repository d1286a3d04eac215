"""What a Protobuf message becomes: its columns, and how each field's content becomes a value.

| Protobuf | column |
|---|---|
| `int32`, `sint32`, `sfixed32` | int32 |
| `int64`, `sint64`, `sfixed64`, `uint32`, `fixed32` | int64 |
| `uint64`, `fixed64` | decimal(20, 0) |
| `float`, `double`, `bool`, `string`, `bytes` | the same |
| enum | its name as text; a number without a name as decimal text |
| message, group | struct; without fields: a bool that says whether it is there |
| `google.protobuf.Timestamp` | timestamp in microseconds, UTC; nanoseconds below that are cut |
| `repeated`, `map` | list, map |
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa

from logcore.values.invalid_schema import InvalidSchemaError, check_name
from logcore.values.limits import DEEPEST_VALUE, MOST_COLUMNS
from logcore.values.protobuf.descriptors import ENUM, GROUP, MESSAGE, EnumType, FieldType, MessageType, Schema, signed
from logcore.values.protobuf.wire import FIXED32, FIXED64, LENGTH, START_GROUP, VARINT
from logcore.values.undecodable import Reason, Undecodable

TIMESTAMP = ".google.protobuf.Timestamp"
_STRING, _BYTES = 9, 12

Number = Callable[[int], object]
"""From the unsigned integer of the wire to the value; None: the number is no value of a closed enum."""


@dataclass(frozen=True, slots=True)
class NumberKind:
    """A number of one varint or of a fixed width."""

    wire_type: int
    arrow_type: pa.DataType
    read: Number
    default: object
    symbols: Mapping[int, str] = field(default_factory=dict)
    """Of an enum."""
    is_closed: bool = False
    """Of an enum whose other numbers are unknown fields."""


@dataclass(frozen=True, slots=True)
class ContentKind:
    """Text or bytes."""

    arrow_type: pa.DataType
    is_text: bool

    @property
    def default(self) -> object:
        """The value of a field that is absent and has no presence."""
        return "" if self.is_text else b""

    def read(self, content: bytes) -> object:
        """Return the value.

        Raises:
            Undecodable: INVALID_UTF8.
        """
        if not self.is_text:
            return content
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise Undecodable(Reason.INVALID_UTF8, f"byte {error.start}") from None


@dataclass(frozen=True, slots=True)
class MessageKind:
    """A message or group."""

    arrow_type: pa.DataType
    wire_type: int
    fields: Mapping[int, FieldShape]
    is_timestamp: bool = False
    default: object = None


Kind = NumberKind | ContentKind | MessageKind


@dataclass(frozen=True, slots=True)
class FieldShape:
    """A field of a message."""

    field: FieldType
    kind: Kind
    arrow_type: pa.DataType
    is_map: bool


@dataclass(frozen=True, slots=True)
class MessageShape:
    """A message, and what the schema says about its fields by their path."""

    root: MessageKind
    comments: Mapping[str, str]


def _fixed(form: str) -> Number:
    layout, wire = struct.Struct(f"<{form}"), struct.Struct("<I" if form == "f" else "<Q")
    return lambda value: layout.unpack(wire.pack(value))[0]


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


_NUMBERS: Mapping[int, NumberKind] = {
    1: NumberKind(FIXED64, pa.float64(), _fixed("d"), 0.0),
    2: NumberKind(FIXED32, pa.float32(), _fixed("f"), 0.0),
    3: NumberKind(VARINT, pa.int64(), lambda value: signed(value, 64), 0),
    4: NumberKind(VARINT, pa.decimal128(20, 0), Decimal, Decimal(0)),
    5: NumberKind(VARINT, pa.int32(), lambda value: signed(value, 32), 0),
    6: NumberKind(FIXED64, pa.decimal128(20, 0), Decimal, Decimal(0)),
    7: NumberKind(FIXED32, pa.int64(), int, 0),
    8: NumberKind(VARINT, pa.bool_(), bool, False),
    13: NumberKind(VARINT, pa.int64(), lambda value: value & 0xFFFFFFFF, 0),
    15: NumberKind(FIXED32, pa.int32(), lambda value: signed(value, 32), 0),
    16: NumberKind(FIXED64, pa.int64(), lambda value: signed(value, 64), 0),
    17: NumberKind(VARINT, pa.int32(), lambda value: _zigzag(value & 0xFFFFFFFF), 0),
    18: NumberKind(VARINT, pa.int64(), _zigzag, 0),
}
"""By `FieldDescriptorProto.Type`."""
_CONTENTS: Mapping[int, ContentKind] = {
    _STRING: ContentKind(pa.string(), True),
    _BYTES: ContentKind(pa.binary(), False),
}


def shape_of(schema: Schema, message: MessageType) -> MessageShape:
    """Return the shape of a message.

    Raises:
        InvalidSchemaError: It contains itself, has too many fields, or a type of it is missing.
    """
    builder = _Builder(schema, {}, {})
    root = builder.message(message, MESSAGE, "", ())
    if message.comment:
        builder.comments[""] = message.comment
    return MessageShape(root, builder.comments)


@dataclass(slots=True)
class _Builder:
    schema: Schema
    comments: dict[str, str]
    enums: dict[str, NumberKind]
    left: int = MOST_COLUMNS

    def message(self, message: MessageType, kind: int, path: str, outer: tuple[str, ...]) -> MessageKind:
        wire_type = START_GROUP if kind == GROUP else LENGTH
        if message.name in outer:
            raise InvalidSchemaError(
                f"The message {message.name[1:]} contains itself; such values have no columns.", place=path
            )
        if len(outer) >= DEEPEST_VALUE:
            raise InvalidSchemaError(f"The schema has more than {DEEPEST_VALUE} levels.", place=path[:200])
        self.left -= max(1, len(message.fields))
        if self.left < 0:
            raise InvalidSchemaError(f"The schema has more than {MOST_COLUMNS} fields.")
        shapes = {
            field.number: self._field(field, f"{path}.{field.name}".lstrip("."), (*outer, message.name))
            for field in message.fields
        }
        if not shapes:
            return MessageKind(pa.bool_(), wire_type, {})
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
        known = _NUMBERS.get(field.type) or _CONTENTS.get(field.type)
        if known is not None:
            return known
        if field.type == ENUM:
            return self._enum(field, path)
        if field.type not in (MESSAGE, GROUP):
            raise InvalidSchemaError(f"The type {field.type} of a field is unknown.", place=path)
        if field.type_name == TIMESTAMP:
            return _TIMESTAMP_KIND
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


def _symbols(enum: EnumType) -> Number:
    def read(value: int) -> object:
        number = signed(value, 32)
        symbol = enum.symbols.get(number)
        if symbol is None and not enum.is_closed:
            return str(number)
        return symbol

    return read


def _time_field(name: str, number: int, kind: int) -> FieldShape:
    field = FieldType(name, number, kind, "", False, False, False, None, "")
    return FieldShape(field, _NUMBERS[kind], _NUMBERS[kind].arrow_type, False)


_TIMESTAMP_KIND = MessageKind(
    pa.timestamp("us", tz="UTC"),
    LENGTH,
    {1: _time_field("seconds", 1, 3), 2: _time_field("nanos", 2, 5)},
    is_timestamp=True,
)
