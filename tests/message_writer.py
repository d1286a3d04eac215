"""Values to the bytes of a message, as `logcore.messages.reader` gives them: what was read loses nothing.

A field that is not in the values has its default. A tagged field is written if the values have it, so that a message
that was read gives its bytes again; leave the field out if it has its default, as Kafka does.

Source: generated message classes, org.apache.kafka.common.protocol ByteBufferAccessor, KIP-482.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TypeVar
from uuid import UUID

from logcore.messages.framing import FRAME_VERSION
from logcore.messages.message_schema import MessagePurpose, MessageSchema, ScalarType
from logcore.messages.reader import (
    NUMBERS,
    UNKNOWN_TAGS,
    ArrayLayout,
    FieldLayout,
    ReadMessage,
    StructLayout,
    TypeLayout,
    Value,
    message_layout,
)

T = TypeVar("T")


def write_message(schema: MessageSchema, version: int, fields: Mapping[str, Value]) -> bytes:
    """Write a message of a version.

    Raises:
        ValueError: The schema has no such version, a name is no field of it, or a value does not fit its field.
    """
    out = bytearray()
    try:
        _struct(out, message_layout(schema, version), fields)
    except _Unfit as unfit:
        raise ValueError(f"{schema.name} version {version}: {unfit}") from None
    return bytes(out)


def write_framed(message: ReadMessage) -> bytes:
    """Write a message with its frame, as `logcore.messages.framing` reads it.

    Raises:
        ValueError: As `write_message`, or the message has no type number.
    """
    schema = message.schema
    if schema.type_number is None:
        raise ValueError(f"{schema.name} has no frame")
    if schema.kind is MessagePurpose.METADATA:
        frame = write_uvarint(FRAME_VERSION) + write_uvarint(schema.type_number) + write_uvarint(message.version)
    else:
        frame = struct.pack(">h", schema.type_number if schema.kind is MessagePurpose.KEY else message.version)
    return frame + write_message(schema, message.version, message.fields) + message.left


def write_uvarint(value: int) -> bytes:
    """Write an unsigned int32 in base 128, with as few bytes as possible.

    Raises:
        ValueError: `value` is not an unsigned int32.
    """
    if not 0 <= value <= 0xFFFF_FFFF:
        raise ValueError(f"{value} is not an unsigned int32")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Unfit(Exception):
    """A value that does not fit its field. The text has no value in it."""


def _struct(out: bytearray, layout: StructLayout, values: Mapping[str, Value]) -> None:
    names = {field.name for field in (*layout.fields, *layout.tagged.values())} | {UNKNOWN_TAGS}
    for name in values:
        if name not in names:
            raise _Unfit(f"there is no field {name}")
    for field in layout.fields:
        _field(out, field, values.get(field.name, field.default), is_tagged=False)
    if layout.is_flexible:
        _tagged_section(out, layout, values)
    elif values.get(UNKNOWN_TAGS):
        raise _Unfit("tagged fields need a flexible version")


def _tagged_section(out: bytearray, layout: StructLayout, values: Mapping[str, Value]) -> None:
    parts: dict[int, bytes] = {}
    unknown = values.get(UNKNOWN_TAGS)
    if isinstance(unknown, dict):
        for text, part in unknown.items():
            if not isinstance(part, bytes) or int(text) in layout.tagged:
                raise _Unfit(f"unknown tagged field {text} is not bytes, or is known")
            parts[int(text)] = part
    for tag, field in layout.tagged.items():
        if field.name in values:
            part_out = bytearray()
            _field(part_out, field, values[field.name], is_tagged=True)
            parts[tag] = bytes(part_out)
    out += write_uvarint(len(parts))
    for tag, part in sorted(parts.items()):
        out += write_uvarint(tag) + write_uvarint(len(part)) + part


def _field(out: bytearray, field: FieldLayout, value: Value, *, is_tagged: bool) -> None:
    if value is None and not field.is_nullable:
        raise _Unfit(f"{field.name} is never null")
    kind = field.type
    if isinstance(kind, StructLayout) and field.is_nullable:
        if is_tagged:
            out += b"\0" if value is None else b"\1"
        else:
            out += b"\xff" if value is None else b"\1"
        if value is None:
            return
    try:
        _value(out, kind, value, field.is_flexible)
    except (struct.error, TypeError, UnicodeEncodeError) as error:
        raise _Unfit(f"the value of {field.name} does not fit ({type(error).__name__})") from None


def _value(out: bytearray, kind: TypeLayout, value: Value, is_flexible: bool) -> None:
    if isinstance(kind, ArrayLayout):
        _length(out, None if value is None else len(_of(list, value)), False, is_flexible)
        for element in _of(list, value) if value is not None else ():
            _value(out, kind.element, element, is_flexible)
    elif isinstance(kind, StructLayout):
        _struct(out, kind, _of(dict, value))
    elif kind in NUMBERS:
        out += NUMBERS[kind].pack(value)
    elif kind is ScalarType.UUID:
        out += _of(UUID, value).bytes
    else:
        is_string = kind is ScalarType.STRING
        content = None if value is None else _content(value, is_string)
        _length(out, None if content is None else len(content), is_string, is_flexible)
        out += content or b""


def _content(value: Value, is_string: bool) -> bytes:
    return _of(str, value).encode() if is_string else _of(bytes, value)


def _length(out: bytearray, length: int | None, is_string: bool, is_flexible: bool) -> None:
    if is_flexible:
        out += write_uvarint(0 if length is None else length + 1)
    else:
        out += NUMBERS[ScalarType.INT16 if is_string else ScalarType.INT32].pack(-1 if length is None else length)


def _of(kind: type[T], value: object) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{kind.__name__} is needed")
    return value
