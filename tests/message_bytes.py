"""Random messages, packed with `struct` straight from a schema: bytes, and the JSON that Kafka prints for them.

This is not the product's writer: it decides about versions field by field, and it draws lengths that the writer
would take from values.
"""

from __future__ import annotations

import base64
import math
import random
import struct
from typing import Any

from logcore.messages.message_schema import (
    ArrayType,
    FieldSchema,
    FieldType,
    MessageSchema,
    ScalarType,
    StructType,
    Unset,
    Versions,
)

_NO_JSON_NUMBERS = {math.nan: "NaN", math.inf: "Infinity", -math.inf: "-Infinity"}
"""How Kafka's JSON writes them."""
_FORMATS = {
    ScalarType.INT8: (">b", 8, True),
    ScalarType.INT16: (">h", 16, True),
    ScalarType.UINT16: (">H", 16, False),
    ScalarType.INT32: (">i", 32, True),
    ScalarType.UINT32: (">I", 32, False),
    ScalarType.INT64: (">q", 64, True),
}


def packed_uvarint(value: int) -> bytes:
    parts = []
    while True:
        parts.append(value % 128)
        value //= 128
        if value == 0:
            return bytes([part | 0x80 for part in parts[:-1]] + parts[-1:])


class PackedMessage:
    """One random message of a version.

    content: its bytes. shown: its JSON by Kafka's rules.
    """

    def __init__(
        self, schema: MessageSchema, version: int, chance: random.Random, unknown_tags: bool = False, most: int = 3
    ) -> None:
        self._version, self._chance, self._unknown_tags, self._most = version, chance, unknown_tags, most
        self._last_is_default = False  # whether the last struct that was packed has its default in every field
        self.content, self.shown = self._struct(schema.fields, version in schema.flexible)

    def _has(self, versions: Versions) -> bool:
        return versions.lowest <= self._version <= versions.highest

    def _struct(self, fields: tuple[FieldSchema, ...], flexible: bool) -> tuple[bytes, dict[str, Any]]:
        out, shown, tagged, is_default = b"", {}, {}, True
        for field in fields:
            if not self._has(field.versions):
                continue
            if field.tag is not None and self._has(field.tagged):
                if self._chance.random() < 0.5:
                    part, value = self._field(field, True, True)
                    if not self._is_default(field, value):
                        tagged[field.tag], shown[field.name], is_default = part, value, False
                continue
            part, shown[field.name] = self._field(field, flexible, False)
            out += part
            is_default &= self._is_default(field, shown[field.name])
        if flexible:
            if self._unknown_tags and self._chance.random() < 0.5:
                tagged[self._chance.choice((60, 127, 128, 100_000))] = self._chance.randbytes(
                    self._chance.choice((0, 5))
                )
                is_default = False
            out += packed_uvarint(len(tagged))
            for tag, part in sorted(tagged.items()):
                out += packed_uvarint(tag) + packed_uvarint(len(part)) + part
        self._last_is_default = is_default
        return out, shown

    def _field(self, field: FieldSchema, flexible: bool, in_tag: bool) -> tuple[bytes, Any]:
        if field.flexible is not None:
            flexible = self._has(field.flexible)
        is_null = self._has(field.nullable) and self._chance.random() < 0.4
        if isinstance(field.type, StructType) and self._has(field.nullable):
            if is_null:
                return (b"\0" if in_tag else b"\xff"), None
            part, shown = self._struct(field.type.fields, flexible)
            return b"\1" + part, shown
        if is_null:
            if flexible:
                return b"\0", None
            return (b"\xff\xff" if field.type is ScalarType.STRING else b"\xff\xff\xff\xff"), None
        return self._value(field.type, flexible)

    def _value(self, kind: FieldType, flexible: bool) -> tuple[bytes, Any]:
        chance = self._chance
        if isinstance(kind, StructType):
            return self._struct(kind.fields, flexible)
        if isinstance(kind, ArrayType):
            parts = [self._value(kind.element, flexible) for _ in range(chance.randint(0, self._most))]
            size = packed_uvarint(len(parts) + 1) if flexible else struct.pack(">i", len(parts))
            return size + b"".join(part for part, _ in parts), [shown for _, shown in parts]
        if kind in _FORMATS:
            form, bits, signed = _FORMATS[kind]
            value = chance.choice((0, 1, 2, chance.getrandbits(bits)))
            if signed and value >= 1 << (bits - 1):
                value -= 1 << bits
            return struct.pack(form, value), value
        if kind is ScalarType.BOOL:
            flag = chance.random() < 0.5
            return struct.pack(">?", flag), flag
        if kind is ScalarType.FLOAT64:
            number = chance.choice((0.0, 1.5, chance.uniform(-1e9, 1e9), *_NO_JSON_NUMBERS))
            return struct.pack(">d", number), _NO_JSON_NUMBERS.get(number, number)
        if kind is ScalarType.UUID:
            content = chance.choice((bytes(16), chance.randbytes(16)))
            return content, base64.urlsafe_b64encode(content).decode().rstrip("=")
        if kind is ScalarType.STRING:
            text = chance.choice(("", "a", "größe", "x" * 127, "y" * 128, "日本"))
            content = text.encode()
            size = packed_uvarint(len(content) + 1) if flexible else struct.pack(">h", len(content))
            return size + content, text
        content = chance.randbytes(chance.choice((0, 1, 3, 200)))
        size = packed_uvarint(len(content) + 1) if flexible else struct.pack(">i", len(content))
        return size + content, base64.b64encode(content).decode()

    def _is_default(self, field: FieldSchema, shown: Any) -> bool:
        """Whether the field that was packed last has its default."""
        if field.default is not Unset.UNSET:
            return shown == field.default
        if isinstance(shown, dict):
            return self._last_is_default
        zero_uuid = "A" * 22
        return shown is not None and shown in (0, "", [], False, zero_uuid)
