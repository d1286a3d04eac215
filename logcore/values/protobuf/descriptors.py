"""Compiled Protobuf schemas: a `FileDescriptorSet` or a `FileDescriptorProto`, as Google's library reads them.

Services and extensions are left out: no value here has one, and what they import may be missing.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from google.protobuf import struct_pb2, timestamp_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from logcore.values.invalid_schema import InvalidSchemaError, comment_of
from logcore.values.limits import LARGEST_SCHEMA

_ADVICE = "Compile the schema again, and name what it imports."
_UNREAD = ("dependency", "public_dependency", "weak_dependency", "service", "extension", "source_code_info")
_OWN = tuple(each.DESCRIPTOR for each in (struct_pb2, timestamp_pb2))
"""Files whose messages have columns of their own. They replace those that a schema brings."""
_OWN_NAMES = frozenset(name for file in _OWN for name in file.message_types_by_name)
_MAIN = ""


@dataclass(frozen=True, slots=True)
class Schema:
    """All types of a schema and of what it imports."""

    types: DescriptorPool
    layouts: DescriptorPool
    """The same with bytes for text, and with a list of entries for a map. The library refuses a whole value for one
    text, forgets the order of a map, and drops an entry that has an unknown field."""
    roots: tuple[str, ...]
    """Full names of the file's messages in their order."""
    comments: Mapping[str, str]
    """By the full names of messages and fields."""

    def at(self, indexes: tuple[int, ...]) -> Descriptor:
        """Return the message that indexes lead to: a message of the file, one nested in it, and so on.

        Raises:
            InvalidSchemaError: There is no such message.
        """
        try:
            found, *_ = (message for path, message in self._messages(len(indexes)) if path == indexes)
        except ValueError:
            raise InvalidSchemaError(
                f"The schema has no message at the indexes {list(indexes)}.", advice="Name the schema of the topic."
            ) from None
        return found

    def indexes_of(self, name: str) -> tuple[int, ...]:
        """Return the indexes that lead to a message of the file; the reverse of :meth:`at`.

        Args:
            name: As in the file, such as ``Order`` or ``Order.Item``, with or without the package.

        Raises:
            InvalidSchemaError: There is no such message.
        """
        for indexes, message in self._messages():
            if f".{message.full_name}".endswith(f".{name.lstrip('.')}"):
                return indexes
        raise InvalidSchemaError(f"The schema has no message {name}.", advice="Name a message of the schema.")

    def _messages(self, most: int | None = None) -> Iterator[tuple[tuple[int, ...], Descriptor]]:
        """All messages of the file down to a depth, with their indexes; outer ones come first."""
        found: list[tuple[tuple[int, ...], Descriptor]] = [
            ((at,), self.types.FindMessageTypeByName(root)) for at, root in enumerate(self.roots)
        ]
        for indexes, message in found:
            yield indexes, message
            if most is None or len(indexes) < most:
                found += [((*indexes, at), each) for at, each in enumerate(message.nested_types)]


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
    *imported, main = _files(text)
    files = _by_import(references) | {file.name: file for file in imported} | {_MAIN: main}
    if main.name not in main.dependency and main.name != _MAIN:
        files.pop(main.name, None)
    scope = f"{main.package}." if main.package else ""
    comments = dict(each for file in files.values() for each in _comments(file))
    try:
        imports = {name: files.keys() & set(file.dependency) for name, file in files.items()}
        in_order = [files[name] for name in TopologicalSorter(imports).static_order()]
        pools = [_pool(in_order, is_layout) for is_layout in (False, True)]
        roots = tuple(f"{scope}{message.name}" for message in main.message_type)
        for root in roots:
            pools[0].FindMessageTypeByName(root)
    except (CycleError, KeyError, TypeError) as error:
        said = str(error).partition("descriptor pool: ")[2] or "its files import each other"
        raise InvalidSchemaError(f"The schema can't be used: {said}.", advice=_ADVICE) from error
    return Schema(pools[0], pools[1], roots, comments)


def missing_imports(text: str, references: Mapping[str, str]) -> frozenset[str]:
    """Return the imports of a compiled schema, and of what it refers to, that are none of these files.

    Args:
        text: As for :func:`parse`.
        references: As for :func:`parse`.

    Raises:
        InvalidSchemaError: It is no compiled schema.
    """
    files = [file for each in (*references.values(), text) for file in _files(each)]
    imports = {name for file in files for name in file.dependency}
    return frozenset(imports - set(references) - {file.name for file in files})


def file_set(references: Mapping[str, str]) -> bytes:
    """Return a `FileDescriptorSet` of compiled schemas, each under its name here.

    Args:
        references: As for :func:`parse`.

    Raises:
        InvalidSchemaError: One is no compiled schema.
    """
    made: bytes = FileDescriptorSet(file=_by_import(references).values()).SerializeToString()
    return made


def _by_import(references: Mapping[str, str]) -> dict[str, FileDescriptorProto]:
    """Files by the names of the imports. A file that is alone has the name of the reference."""
    found: dict[str, FileDescriptorProto] = {}
    for name, text in references.items():
        files = _files(text)
        if len(files) == 1:
            files[0].name = name
        found = {file.name: file for file in files} | found
    return found


def _files(text: str) -> list[FileDescriptorProto]:
    """The files of a set, or the one file."""
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InvalidSchemaError("The schema is not base64 of a descriptor.", advice=_ADVICE) from error
    try:
        made = FileDescriptorSet.FromString(content)
        files = [FileDescriptorProto.FromString(content)] if len(UnknownFieldSet(made)) else list(made.file)
    except DecodeError:
        try:
            files = [FileDescriptorProto.FromString(content)]
        except DecodeError as error:
            raise InvalidSchemaError("The descriptor is damaged.", advice=_ADVICE) from error
    if not files:
        raise InvalidSchemaError("The schema has no file.", advice=_ADVICE)
    return files


def _pool(files: list[FileDescriptorProto], is_layout: bool) -> DescriptorPool:
    pool = DescriptorPool()
    for file in _OWN:
        _add(pool, file.name, FileDescriptorProto.FromString(file.serialized_pb), is_layout)
    for number, file in enumerate(files):
        if file.package != "google.protobuf" or not _OWN_NAMES & {each.name for each in file.message_type}:
            # Names are found without imports, and two files may have one name.
            _add(pool, str(number), FileDescriptorProto.FromString(file.SerializeToString()), is_layout)
    return pool


def _add(pool: DescriptorPool, name: str, file: FileDescriptorProto, is_layout: bool) -> None:
    file.name = name
    for part in _UNREAD:
        file.ClearField(part)
    waiting: list[DescriptorProto] = list(file.message_type)
    for message in waiting:
        message.ClearField("extension")
        waiting += message.nested_type
        if is_layout:
            message.options.ClearField("map_entry")
            for field in message.field:
                field.ClearField("default_value")
                if field.type == FieldDescriptor.TYPE_STRING:
                    field.type = FieldDescriptor.TYPE_BYTES
    pool.Add(file)


def _comments(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    """What is written before or after a message or field, by its full name."""
    said = {
        tuple(each.path): comment_of(" ".join(f"{each.leading_comments} {each.trailing_comments}".split()))
        for each in file.source_code_info.location
    }
    waiting: list[tuple[tuple[int, ...], str, DescriptorProto]] = [
        ((4, at), f"{file.package}.{each.name}".lstrip("."), each) for at, each in enumerate(file.message_type)
    ]
    for path, name, message in waiting:
        yield name, said.get(path, "")
        for at, field in enumerate(message.field):
            yield f"{name}.{field.name}", said.get((*path, 2, at), "")
        waiting += [((*path, 3, at), f"{name}.{each.name}", each) for at, each in enumerate(message.nested_type)]
