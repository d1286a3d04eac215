"""The kinds of a Protobuf field: how its content is in the bytes, and which value it becomes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa

from logcore.values.protobuf.descriptors import FieldType, signed
from logcore.values.protobuf.wire import FIXED32, FIXED64, LENGTH, VARINT
from logcore.values.undecodable import Reason, Undecodable

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
    json_of: Callable[[Mapping[str, object]], str] | None = None
    """For a message that becomes JSON text: makes it of the values of the fields."""


Kind = NumberKind | ContentKind | MessageKind


@dataclass(frozen=True, slots=True)
class FieldShape:
    """A field of a message."""

    field: FieldType
    kind: Kind
    arrow_type: pa.DataType
    is_map: bool


def _fixed(form: str) -> Number:
    layout, wire = struct.Struct(f"<{form}"), struct.Struct("<I" if form == "f" else "<Q")
    return lambda value: layout.unpack(wire.pack(value))[0]


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


NUMBERS: Mapping[int, NumberKind] = {
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
CONTENTS: Mapping[int, ContentKind] = {
    _STRING: ContentKind(pa.string(), True),
    _BYTES: ContentKind(pa.binary(), False),
}


def _time_field(name: str, number: int, kind: int) -> FieldShape:
    field = FieldType(name, number, kind, "", False, False, False, None, "")
    return FieldShape(field, NUMBERS[kind], NUMBERS[kind].arrow_type, False)


TIMESTAMP_KIND = MessageKind(
    pa.timestamp("us", tz="UTC"),
    LENGTH,
    {1: _time_field("seconds", 1, 3), 2: _time_field("nanos", 2, 5)},
    is_timestamp=True,
)
