"""A schema in one version: its fields in the order of their bytes, with nothing left to decide about versions.

    type                        not flexible                    flexible
    string                      int16 length, -1 null; UTF-8    uvarint length + 1, 0 null
    bytes, records, array       int32 length, -1 null           uvarint length + 1, 0 null
    struct that may be null     int8: -1 null, 1 present        the same; in a tagged section uvarint 0 or 1
    end of each struct          nothing                         tagged section

    tagged section = uvarint count, then (uvarint tag, uvarint size, bytes)* with ascending tags

Numbers are big-endian, and their sizes are fixed. A uuid has 16 bytes. A uvarint is in base 128 without zigzag.

Source: generated message classes, org.apache.kafka.common.protocol ByteBufferAccessor, KIP-482.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias
from uuid import UUID

from logcore.messages.schema import (
    ArrayType,
    FieldSchema,
    FieldType,
    MessageSchema,
    ScalarType,
    StructType,
    Unset,
)

Value: TypeAlias = "bool | int | float | str | bytes | UUID | list[Value] | dict[str, Value] | None"
"""A value of a field: an array is a list, a struct a dict by field name. Bytes of a string that are not UTF-8 are
surrogates, as in `os.fsdecode`."""

UNKNOWN_TAGS = "_unknownTaggedFields"
"""Name in a struct's dict for tagged fields that its schema does not have: a dict from tag, in decimal, to bytes."""

NUMBERS = {
    ScalarType.BOOL: struct.Struct(">B"),
    ScalarType.INT8: struct.Struct(">b"),
    ScalarType.INT16: struct.Struct(">h"),
    ScalarType.UINT16: struct.Struct(">H"),
    ScalarType.INT32: struct.Struct(">i"),
    ScalarType.UINT32: struct.Struct(">I"),
    ScalarType.INT64: struct.Struct(">q"),
    ScalarType.FLOAT64: struct.Struct(">d"),
}
"""How numbers of a fixed size are packed. A bool has one byte."""

ZERO_UUID = UUID(int=0)


@dataclass(frozen=True, slots=True)
class StructLayout:
    """A struct in one version.

    Attributes:
        fields: In the order of their bytes.
        tagged: Fields of the tagged section by tag.
        is_flexible: Whether a tagged section ends the struct.
        least_bytes: Fewest bytes that a value can have.
    """

    fields: tuple[FieldLayout, ...]
    tagged: Mapping[int, FieldLayout]
    is_flexible: bool
    least_bytes: int


@dataclass(frozen=True, slots=True)
class ArrayLayout:
    """An array in one version.

    Attributes:
        element: Its elements, which are never null.
        least_bytes: Fewest bytes of an element, at least 1.
    """

    element: TypeLayout
    least_bytes: int


TypeLayout = ScalarType | StructLayout | ArrayLayout


@dataclass(frozen=True, slots=True)
class FieldLayout:
    """A field in one version.

    Attributes:
        is_nullable: Whether it may be null.
        is_flexible: Whether its lengths are uvarints.
        default: Value if the field is absent.
    """

    name: str
    type: TypeLayout
    is_nullable: bool
    is_flexible: bool
    default: Value


@lru_cache(maxsize=1024)
def message_layout(schema: MessageSchema, version: int) -> StructLayout:
    """Return the layout of a version.

    Raises:
        ValueError: The schema has no such version.
    """
    if version not in schema.versions:
        raise ValueError(f"{schema.name} has no version {version}")
    return _struct(schema.fields, version, version in schema.flexible)


def _struct(fields: tuple[FieldSchema, ...], version: int, is_flexible: bool) -> StructLayout:
    plain, tagged = [], {}
    for field in fields:
        if version in field.tagged and field.tag is not None:
            tagged[field.tag] = _field(field, version, True)
        elif version in field.versions:
            plain.append(_field(field, version, is_flexible))
    least = sum(1 if _is_marked(field) else _least_bytes(field.type, field.is_flexible) for field in plain)
    return StructLayout(tuple(plain), tagged, is_flexible, least + (1 if is_flexible else 0))


def _field(field: FieldSchema, version: int, is_flexible: bool) -> FieldLayout:
    flexible = is_flexible if field.flexible is None else version in field.flexible
    is_nullable = version in field.nullable
    kind = _type(field.type, version, flexible)
    default = _default(kind, is_nullable) if field.default is Unset.UNSET else field.default
    return FieldLayout(field.name, kind, is_nullable, flexible, default)


def _type(kind: FieldType, version: int, is_flexible: bool) -> TypeLayout:
    if isinstance(kind, StructType):
        return _struct(kind.fields, version, is_flexible)
    if isinstance(kind, ArrayType):
        element = _type(kind.element, version, is_flexible)
        return ArrayLayout(element, max(1, _least_bytes(element, is_flexible)))
    return kind


def _is_marked(field: FieldLayout) -> bool:
    """Whether a byte says if the struct is present."""
    return field.is_nullable and isinstance(field.type, StructLayout)


def _least_bytes(kind: TypeLayout, is_flexible: bool) -> int:
    if isinstance(kind, StructLayout):
        return kind.least_bytes
    if isinstance(kind, ScalarType):
        if kind in NUMBERS:
            return NUMBERS[kind].size
        if kind is ScalarType.UUID:
            return 16
    if is_flexible:
        return 1
    return 2 if kind is ScalarType.STRING else 4


def _default(kind: TypeLayout, is_nullable: bool) -> Value:
    if isinstance(kind, ArrayLayout):
        return []
    if isinstance(kind, StructLayout):
        return {field.name: field.default for field in kind.fields}
    match kind:
        case ScalarType.STRING:
            return ""
        case ScalarType.BYTES | ScalarType.RECORDS:
            return None if kind is ScalarType.RECORDS and is_nullable else b""
        case ScalarType.UUID:
            return ZERO_UUID
        case ScalarType.BOOL:
            return False
        case ScalarType.FLOAT64:
            return 0.0
        case _:
            return 0
