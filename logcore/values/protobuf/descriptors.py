"""Compiled Protobuf schemas: what a `FileDescriptorSet` or a `FileDescriptorProto` says, as frozen values.

Source: `google/protobuf/descriptor.proto`. Its messages are read with the wire format alone. Services, options other
than those named here, and extensions are not read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from logcore.values.invalid_schema import InvalidSchemaError, comment_of
from logcore.values.limits import DEEPEST_VALUE, LARGEST_SCHEMA
from logcore.values.protobuf.wire import FIXED32, FIXED64, LENGTH, VARINT, WireField, fields_in, varint_at
from logcore.values.undecodable import Undecodable

GROUP, MESSAGE, ENUM = 10, 11, 14
"""Types of fields that name another type; the other numbers are those of `FieldDescriptorProto.Type`."""
REQUIRED, REPEATED = 2, 3
_FIRST_ONLY = 1
_NAME = 1
"""Number of the field with the name of a file."""
_SYNTAX_3 = "proto3"
_EXPLICIT, _IMPLICIT, _LEGACY_REQUIRED = 1, 2, 3
_DELIMITED = 2
_ADVICE = "Compile the schema again."


@dataclass(frozen=True, slots=True)
class FieldType:
    """A field of a message."""

    name: str
    number: int
    type: int
    type_name: str
    """Full name of the message or enum, with a dot in front; empty for scalars."""
    is_repeated: bool
    is_required: bool
    has_presence: bool
    """Whether an absent field differs from one with the default value."""
    oneof: int | None
    comment: str


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message."""

    name: str
    """Full name, with a dot in front."""
    fields: tuple[FieldType, ...]
    is_map_entry: bool
    comment: str


@dataclass(frozen=True, slots=True)
class EnumType:
    """An enum. Of several names for one number the first counts."""

    name: str
    symbols: Mapping[int, str]
    is_closed: bool
    """Whether numbers without a name count as unknown fields, as in proto2."""


@dataclass(frozen=True, slots=True)
class Schema:
    """All types of a schema and of what it imports."""

    messages: Mapping[str, MessageType]
    enums: Mapping[str, EnumType]
    roots: tuple[tuple[str, tuple[str, ...]], ...]
    """Messages of the last file in their order, each with the full names of its nested messages."""

    def at(self, indexes: tuple[int, ...]) -> MessageType:
        """Return the message that indexes lead to: a message of the file, one nested in it, and so on.

        Raises:
            InvalidSchemaError: There is no such message.
        """
        names = tuple(name for name, _ in self.roots)
        nested = dict(self.roots)
        found = ""
        for index in indexes:
            if not 0 <= index < len(names):
                raise InvalidSchemaError(
                    f"The schema has no message at the indexes {list(indexes)}.", advice="Name the schema of the topic."
                )
            found = names[index]
            names = nested.get(found, ())
            nested |= {name: self._nested(name) for name in names}
        return self.messages[found]

    def indexes_of(self, name: str) -> tuple[int, ...]:
        """Return the indexes that lead to a message of the file; the reverse of :meth:`at`.

        Args:
            name: As in the file, such as ``Order`` or ``Order.Item``, with or without the package.

        Raises:
            InvalidSchemaError: There is no such message.
        """
        waiting: list[tuple[tuple[int, ...], str]] = [((at,), root) for at, (root, _) in enumerate(self.roots)]
        nested = dict(self.roots)
        for indexes, full in waiting:
            if full == f".{name.lstrip('.')}" or full.endswith(f".{name}"):
                return indexes
            waiting += [((*indexes, at), each) for at, each in enumerate(nested.get(full) or self._nested(full))]
        raise InvalidSchemaError(f"The schema has no message {name}.", advice="Name a message of the schema.")

    def _nested(self, name: str) -> tuple[str, ...]:
        return tuple(
            each for each in self.messages if each.startswith(f"{name}.") and "." not in each.removeprefix(f"{name}.")
        )


def parse(text: str, references: Mapping[str, str]) -> Schema:
    """Read a compiled schema.

    Args:
        text: Base64 of a `FileDescriptorSet`, whose last file is the schema, or of one `FileDescriptorProto`.
        references: The same of what it imports, by the names of the imports.

    Raises:
        InvalidSchemaError: It is no compiled schema.
    """
    if len(text) > LARGEST_SCHEMA:
        raise InvalidSchemaError(f"The schema has more than {LARGEST_SCHEMA} bytes.", advice="Use a smaller schema.")
    with _named_errors():
        read = [_File.of(file) for file in _all_files(text, references)]
    if not read:
        raise InvalidSchemaError("The schema has no file.", advice=_ADVICE)
    messages = {message.name: message for file in read for message in file.messages}
    enums = {enum.name: enum for file in read for enum in file.enums}
    return Schema(messages, enums, read[-1].roots)


def missing_imports(text: str, references: Mapping[str, str]) -> frozenset[str]:
    """Return the imports of a compiled schema, and of what it refers to, that are none of these files.

    Args:
        text: As for :func:`parse`.
        references: As for :func:`parse`.

    Raises:
        InvalidSchemaError: It is no compiled schema.
    """
    names, imports = set(references), set[str]()
    with _named_errors():
        for file in _all_files(text, references):
            parts = _Fields.of(file)
            names.add(parts.text(_NAME))
            imports.update(parts.texts(3))
    return frozenset(imports - names)


def file_set(references: Mapping[str, str]) -> bytes:
    """Return a `FileDescriptorSet` of compiled schemas, each under its name here.

    Args:
        references: As for :func:`parse`.

    Raises:
        InvalidSchemaError: One is no compiled schema.
    """
    made: dict[str, bytes] = {}
    with _named_errors():
        for name, text in references.items():
            files = list(_files(base64.b64decode(text, validate=True)))
            if len(files) == 1:  # of a field that comes twice the last one counts
                made[name] = files[0] + _field_of(_NAME, name.encode())
                continue
            for file in files:
                made.setdefault(_Fields.of(file).text(_NAME), file)
    return b"".join(_field_of(_FIRST_ONLY, file) for file in made.values())


def _field_of(number: int, content: bytes) -> bytes:
    """A field of the wire type LENGTH, as bytes."""
    size, length = len(content), bytearray()
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | LENGTH, *length, size]) + content


def _all_files(text: str, references: Mapping[str, str]) -> Iterator[bytes]:
    for each in (*references.values(), text):
        yield from _files(base64.b64decode(each, validate=True))


@contextmanager
def _named_errors() -> Iterator[None]:
    try:
        yield
    except (binascii.Error, ValueError, UnicodeDecodeError) as error:
        raise InvalidSchemaError("The schema is not base64 of a descriptor.", advice=_ADVICE) from error
    except Undecodable as failure:
        raise InvalidSchemaError(f"The descriptor is damaged: {failure}.", advice=_ADVICE) from failure


def _files(content: bytes) -> Iterator[bytes]:
    """The files of a set, or the one file. Only a set has nothing but fields of number 1."""
    top = list(fields_in(content, 0, len(content)))
    if all(each.number == _FIRST_ONLY and each.wire_type == LENGTH for each in top):
        yield from (content[each.start : each.end] for each in top)
    else:
        yield content


@dataclass(slots=True)
class _Fields:
    """Fields of one message of `descriptor.proto`, by number."""

    content: bytes
    by_number: dict[int, list[WireField]] = field(default_factory=dict)

    @classmethod
    def of(cls, content: bytes) -> _Fields:
        made = cls(content)
        for each in fields_in(content, 0, len(content)):
            made.by_number.setdefault(each.number, []).append(each)
        return made

    def texts(self, number: int) -> list[str]:
        return [part.decode() for part in self.parts(number)]

    def text(self, number: int) -> str:
        return next(reversed(self.texts(number)), "")

    def parts(self, number: int) -> list[bytes]:
        found = (each for each in self.by_number.get(number, ()) if each.wire_type == LENGTH)
        return [self.content[each.start : each.end] for each in found]

    def number(self, number: int, default: int = 0) -> int:
        found = [each for each in self.by_number.get(number, ()) if each.wire_type in (VARINT, FIXED32, FIXED64)]
        return found[-1].value if found else default

    def has(self, number: int) -> bool:
        return number in self.by_number

    def numbers(self, number: int) -> Iterator[int]:
        for each in self.by_number.get(number, ()):
            if each.wire_type == VARINT:
                yield each.value
            elif each.wire_type == LENGTH:
                position = each.start
                while position < each.end:
                    value, position = varint_at(self.content, position, each.end)
                    yield value


@dataclass(frozen=True, slots=True)
class _Features:
    """Features of editions that change how bytes are read; each inherits those of what it is in."""

    presence: int = _EXPLICIT
    closed_enums: bool = False
    delimited: bool = False

    def of(self, options: Iterable[bytes], number: int) -> _Features:
        """Features with what the options of a part say; `number` is that of `features` in them."""
        found = self
        for content in options:
            for features in _Fields.of(content).parts(number):
                said = _Fields.of(features)
                found = _Features(
                    said.number(1, found.presence),
                    said.number(2) == 2 if said.has(2) else found.closed_enums,
                    said.number(5) == _DELIMITED if said.has(5) else found.delimited,
                )
        return found


@dataclass(slots=True)
class _File:
    """One file, while it is read."""

    comments: Mapping[tuple[int, ...], str]
    syntax: str
    messages: list[MessageType] = field(default_factory=list)
    enums: list[EnumType] = field(default_factory=list)
    roots: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, content: bytes) -> _File:
        parts = _Fields.of(content)
        made = cls(_comments(parts), parts.text(12) or "proto2")
        package = parts.text(2)
        scope = f".{package}" if package else ""
        features = _Features(_EXPLICIT, made.syntax == "proto2", False).of(parts.parts(8), 50)
        roots = []
        for index, message in enumerate(parts.parts(4)):
            name, nested = made._message(message, scope, (4, index), features)
            roots.append((name, nested))
        for enum in parts.parts(5):
            made._enum(enum, scope, features)
        made.roots = tuple(roots)
        return made

    def _message(
        self, content: bytes, scope: str, path: tuple[int, ...], outer: _Features
    ) -> tuple[str, tuple[str, ...]]:
        if len(path) > 2 * DEEPEST_VALUE:
            raise InvalidSchemaError(f"Messages are nested in more than {DEEPEST_VALUE} levels.")
        parts = _Fields.of(content)
        name = f"{scope}.{parts.text(1)}"
        options = parts.parts(7)
        features = outer.of(options, 12)
        is_map = any(_Fields.of(each).number(7) == 1 for each in options)
        fields = tuple(self._field(each, (*path, 2, index), features) for index, each in enumerate(parts.parts(2)))
        self.messages.append(MessageType(name, fields, is_map, self.comments.get(path, "")))
        nested = tuple(
            self._message(each, name, (*path, 3, index), features)[0] for index, each in enumerate(parts.parts(3))
        )
        for enum in parts.parts(4):
            self._enum(enum, name, features)
        return name, nested

    def _field(self, content: bytes, path: tuple[int, ...], outer: _Features) -> FieldType:
        parts = _Fields.of(content)
        features = outer.of(parts.parts(8), 21)
        label, kind = parts.number(4), parts.number(5)
        is_message = kind in (GROUP, MESSAGE)
        if kind == MESSAGE and features.delimited:
            kind = GROUP
        in_oneof = parts.has(9)
        if self.syntax == _SYNTAX_3:
            has_presence = is_message or in_oneof
        else:
            has_presence = is_message or in_oneof or features.presence != _IMPLICIT
        is_required = label == REQUIRED or (self.syntax == "editions" and features.presence == _LEGACY_REQUIRED)
        return FieldType(
            parts.text(1),
            parts.number(3),
            kind,
            parts.text(6),
            label == REPEATED,
            is_required,
            has_presence,
            parts.number(9) if in_oneof else None,
            self.comments.get(path, ""),
        )

    def _enum(self, content: bytes, scope: str, outer: _Features) -> None:
        parts = _Fields.of(content)
        features = outer.of(parts.parts(3), 7)
        symbols: dict[int, str] = {}
        for each in parts.parts(2):
            value = _Fields.of(each)
            symbols.setdefault(signed(value.number(2), 32), value.text(1))
        self.enums.append(EnumType(f"{scope}.{parts.text(1)}", symbols, features.closed_enums))


def signed(value: int, bits: int) -> int:
    """Return the lowest bits of a varint as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _comments(file: _Fields) -> Mapping[tuple[int, ...], str]:
    """What is written before or after a part of the file, by the path of the part."""
    found = {}
    for info in file.parts(9):
        for location in _Fields.of(info).parts(1):
            parts = _Fields.of(location)
            said = [*parts.texts(3), *parts.texts(4)]
            text = comment_of(" ".join(" ".join(said).split()))
            if text:
                found[tuple(parts.numbers(1))] = text
    return found
