"""Readers of one version of a message as straight-line code, made from its schema on first use.

`logcore.messages.reader` asks the schema at every field. A made reader has the answers in its code, so it is several
times as fast. It reads only what Kafka itself writes. At every doubt it returns None: bytes that end early, an encoding
that is not exact, an unknown tagged field, text that is not UTF-8, a long message. Then the generic reader decides. It
is the specification.

Readers give values as the generic reader does, or JSON as `logcore.messages.kafka_json` does.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from uuid import UUID

from logcore.messages.kafka_json import number_json, uuid_text
from logcore.messages.message_schema import MessageSchema, ScalarType
from logcore.messages.reader import (
    NUMBERS,
    ArrayLayout,
    FieldLayout,
    ReadMessage,
    StructLayout,
    TypeLayout,
    message_layout,
)

LONGEST_BYTES = 1 << 16
"""Longer messages are left to the generic reader, which counts their elements."""
_MOST_DEPTH = 8
"""Arrays inside of each other. With `LONGEST_BYTES` no message has as many elements as the generic reader allows."""
_UUIDS = 1 << 14
"""UUIDs that are remembered: those of topics and directories repeat."""

Fields = dict[str, Any]
JsonReader = Callable[[bytes, int], Fields | None]
"""Reads a message that begins at a position and ends with the bytes. None: the generic reader has to decide."""
ValueReader = Callable[[bytes, int], tuple[Fields, int] | None]
"""Reads a message that begins at a position; returns the position after it too. None: as above."""


class _Doubt(Exception):
    """The generic reader has to decide."""


def read_straight(schema: MessageSchema, version: int, data: bytes, at: int = 0) -> ReadMessage | None:
    """Read a message that begins at a position.

    Returns:
        None: the generic reader has to decide.
    """
    reader = value_reader(schema, version)
    found = None if reader is None else reader(data, at)
    return None if found is None else ReadMessage(schema, version, found[0], data[found[1] :], True)


@lru_cache(maxsize=1024)
def json_reader(schema: MessageSchema, version: int) -> JsonReader | None:
    """Return a reader of a version that gives JSON; None if there is no such version, or no reader can be made."""
    made: JsonReader | None = _made(schema, version, True)
    return made


@lru_cache(maxsize=1024)
def value_reader(schema: MessageSchema, version: int) -> ValueReader | None:
    """Return a reader of a version; None if there is no such version, or no reader can be made."""
    made: ValueReader | None = _made(schema, version, False)
    return made


def _made(schema: MessageSchema, version: int, as_json: bool) -> Any:
    if version not in schema.versions:
        return None
    code = _Code(as_json)
    try:
        result = code.struct(message_layout(schema, version), 0)
    except _Doubt:
        return None
    returned = f"{result} if at == size else None" if as_json else f"({result}, at)"
    lines = [
        "def read(data, at):",
        "    size = len(data)",
        f"    if size > {LONGEST_BYTES}:",
        "        return None",
        "    try:",
        *code.lines,
        "    except (Doubt, IndexError, StructError, UnicodeDecodeError):",
        "        return None",
        f"    return {returned}",
    ]
    text = "\n".join(lines)
    exec(compile(text, f"<{schema.name} version {version}>", "exec"), code.names)  # noqa: S102 - our own schemas
    return code.names["read"]


class _Code:
    """The lines of a reader, and the names that they use."""

    def __init__(self, as_json: bool) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "Doubt": _Doubt,
            "StructError": struct.error,
            "long_uvarint": _long_uvarint,
            "unpack": struct.unpack_from,
            "uuid": _uuid_text if as_json else _uuid,
            "base64": _base64,
            "number": number_json,
        }
        self._as_json = as_json
        self._indent, self._numbered = 2, 0

    def struct(self, layout: StructLayout, depth: int) -> str:
        """Add lines that read a struct; returns the name of its value."""
        found: dict[str, str] = {}
        waiting: list[FieldLayout] = []
        for field in layout.fields:
            if _form(field.type):
                waiting.append(field)
                continue
            found |= self._fixed(waiting)
            waiting = []
            found[field.name] = self._field(field, depth, "255")
        found |= self._fixed(waiting)
        result = self._name()
        pairs = ", ".join(f"{name!r}: {found[name]}" for name in (field.name for field in layout.fields))
        self._add(f"{result} = {{{pairs}}}")
        if layout.is_flexible:
            self._tagged_section(layout, result, depth)
        return result

    def _fixed(self, fields: list[FieldLayout]) -> dict[str, str]:
        """Read fields of fixed sizes that follow each other, at once."""
        if not fields:
            return {}
        names = {field.name: self._name() for field in fields}
        packed = struct.Struct(">" + "".join(_form(field.type) for field in fields))
        reader = self._constant(packed.unpack_from)
        self._add(f"{', '.join(names.values())}, = {reader}(data, at)")
        self._add(f"at += {packed.size}")
        return {field.name: self._shown(field.type, names[field.name]) for field in fields}

    def _shown(self, kind: TypeLayout, name: str) -> str:
        if kind is ScalarType.BOOL:
            self._doubt(f"{name} > 1")
            return f"{name} == 1"
        if kind is ScalarType.FLOAT64 and self._as_json:
            return f"number({name})"
        return f"uuid({name})" if kind is ScalarType.UUID else name

    def _field(self, field: FieldLayout, depth: int, null_marker: str) -> str:
        """Read a field that is not of a fixed size.

        Args:
            field: The field.
            depth: Number of arrays around it.
            null_marker: The byte before a struct that says that it is null.
        """
        kind = field.type
        if not isinstance(kind, StructLayout) or not field.is_nullable:
            return self._value(kind, field.is_nullable, field.is_flexible, depth)
        result, marker = self._name(), self._name()
        self._add(f"{marker} = data[at]", "at += 1", f"{result} = None", f"if {marker} == 1:")
        with_value = self._nested(lambda: self.struct(kind, depth), result)
        self._add(f"elif {marker} != {null_marker}:", "    raise Doubt")
        return with_value

    def _value(self, kind: TypeLayout, is_nullable: bool, is_flexible: bool, depth: int) -> str:
        if _form(kind):
            (result,) = self._fixed([FieldLayout("value", kind, False, is_flexible, None)]).values()
            return result
        if isinstance(kind, StructLayout):
            return self.struct(kind, depth)
        length, result = self._length(kind is ScalarType.STRING, is_flexible), self._name()
        self._add(f"if {length} < 0:")
        self._add(f"    {result} = None" if is_nullable else "    raise Doubt")
        self._add("else:")
        if isinstance(kind, ArrayLayout):
            array = kind
            return self._nested(lambda: self._elements(array, length, is_flexible, depth + 1), result)
        end = self._name()
        self._indent += 1
        self._add(f"{end} = at + {length}")
        self._doubt(f"{end} > size")
        taken = f"data[at:{end}]"
        if kind is ScalarType.STRING:
            taken += ".decode()"
        elif self._as_json:
            taken = f"base64({taken})"
        self._add(f"{result} = {taken}", f"at = {end}")
        self._indent -= 1
        return result

    def _elements(self, layout: ArrayLayout, count: str, is_flexible: bool, depth: int) -> str:
        element, result = layout.element, self._name()
        if depth > _MOST_DEPTH or (isinstance(element, StructLayout) and not element.least_bytes):
            raise _Doubt
        self._doubt(f"{count} * {layout.least_bytes} > size - at")
        if isinstance(element, ScalarType) and element in NUMBERS and element is not ScalarType.BOOL:
            self._add(f'{result} = list(unpack(">%d{_form(element)}" % {count}, data, at)) if {count} else []')
            self._add(f"at += {NUMBERS[element].size} * {count}")
        elif element is ScalarType.UUID:
            at = self._name()
            self._add(f"{result} = [uuid(data[{at} : {at} + 16]) for {at} in range(at, at + 16 * {count}, 16)]")
            self._add(f"at += 16 * {count}")
        else:
            self._add(f"{result} = []", f"for _ in range({count}):")
            self._indent += 1
            self._add(f"{result}.append({self._value(element, False, is_flexible, depth)})")
            self._indent -= 1
        return result

    def _tagged_section(self, layout: StructLayout, result: str, depth: int) -> None:
        count, last, tag, size, end = (self._name() for _ in range(5))
        self._uvarint(count)
        self._add(f"{last} = -1", f"for _ in range({count}):")
        self._indent += 1
        self._uvarint(tag)
        self._uvarint(size)
        self._doubt(f"{tag} <= {last}")
        self._add(f"{last}, {end} = {tag}, at + {size}")
        self._doubt(f"{end} > size")
        word = "if"
        for number, field in layout.tagged.items():
            self._add(f"{word} {tag} == {number}:")
            word = "elif"
            self._indent += 1
            self._tagged_field(field, result, depth)
            self._indent -= 1
        if layout.tagged:
            self._add("else:", "    raise Doubt")
        else:
            self._add("raise Doubt")
        self._doubt(f"at != {end}")
        self._indent -= 1
        if self._as_json and list(layout.tagged) != sorted(layout.tagged):
            order = self._constant([field.name for field in (*layout.fields, *layout.tagged.values())])
            self._add(f"{result} = {{name: {result}[name] for name in {order} if name in {result}}}")

    def _tagged_field(self, field: FieldLayout, result: str, depth: int) -> None:
        if not self._as_json:
            value = self._field(field, depth, "0")
            self._add(f"{result}[{field.name!r}] = {value}")
            return
        if isinstance(field.type, StructLayout):
            self._add("raise Doubt")  # whether it equals its default is not seen in its JSON
            return
        value, held = self._field(field, depth, "0"), self._name()
        self._add(f"{held} = {value}", f"if {held} != {self._constant(_json_default(field))}:")
        self._add(f"    {result}[{field.name!r}] = {held}")

    def _length(self, is_string: bool, is_flexible: bool) -> str:
        """Read a length; -1: null. Any other negative length is a doubt."""
        name = self._name()
        if is_flexible:
            self._uvarint(name)
            self._add(f"{name} -= 1")
            return name
        packed = struct.Struct(">h" if is_string else ">i")
        self._add(f"{name}, = {self._constant(packed.unpack_from)}(data, at)", f"at += {packed.size}")
        self._doubt(f"{name} < -1")
        return name

    def _uvarint(self, name: str) -> None:
        self._add(f"{name} = data[at]", "at += 1", f"if {name} > 127:")
        self._add(f"    {name}, at = long_uvarint(data, at - 1)")

    def _nested(self, add: Callable[[], str], result: str) -> str:
        """Add lines inside of the last one, and give their value a name."""
        self._indent += 1
        self._add(f"{result} = {add()}")
        self._indent -= 1
        return result

    def _doubt(self, condition: str) -> None:
        self._add(f"if {condition}:", "    raise Doubt")

    def _add(self, *lines: str) -> None:
        self.lines += ["    " * self._indent + line for line in lines]

    def _name(self) -> str:
        self._numbered += 1
        return f"v{self._numbered}"

    def _constant(self, value: object) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name


def _form(kind: TypeLayout) -> str:
    """How a value of a fixed size is packed; empty for any other type."""
    if kind is ScalarType.UUID:
        return "16s"
    return NUMBERS[kind].format[1:] if isinstance(kind, ScalarType) and kind in NUMBERS else ""


def _json_default(field: FieldLayout) -> object:
    """The default of a field that is no struct, as JSON."""
    default = field.default
    if isinstance(default, UUID):
        return uuid_text(default)
    return base64.b64encode(default).decode() if isinstance(default, bytes) else default


def _long_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned int32 of more than one byte, and the position after it."""
    value = 0
    for index in range(5):
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if byte == 0 or value > 0xFFFF_FFFF:
                raise _Doubt
            return value, at + index + 1
    raise _Doubt


@lru_cache(maxsize=_UUIDS)
def _uuid(content: bytes) -> UUID:
    return UUID(bytes=content)


@lru_cache(maxsize=_UUIDS)
def _uuid_text(content: bytes) -> str:
    return uuid_text(UUID(bytes=content))


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
