"""The schemas that are known, by family, type number and name. Texts are parsed on first use.

The text of schemas:

    OffsetCommitValue coordinator-value 1 versions 0-4 flexible 4+      a message: name, kind, type number
      offset int64 0+                                                   a field: name, type, versions
      leaderEpoch int32 3+ default -1 ignorable
      topicId uuid 4+ tag 0 4+
      topics []Topic 0+ null 1+                                         an array of structs
        name string 0+                                                  a field of the struct
      struct Partition                                                  a struct that several fields share
        index int32 0+

Two spaces for each level. After its versions a field may have, in this order:

    null VERSIONS       where it may be null
    tag N VERSIONS      where it is in the tagged section
    flexible VERSIONS   where its encoding is flexible, if that differs from the message
    default VALUE       `null`, or a number, `true`, `false`, a text
    ignorable

Versions are `3`, `0-4`, `3+` or `none`. A message without a type number has `-`. A line with `#` is a comment.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache

from logcore.messages.message_schema import (
    EVER,
    NO_VERSIONS,
    ArrayType,
    Default,
    FieldSchema,
    FieldType,
    MessagePurpose,
    MessageSchema,
    ScalarType,
    StructType,
    Unset,
    Versions,
)

_SCALARS = {kind.value: kind for kind in ScalarType}


@dataclass(slots=True)
class _Line:
    words: list[str]
    below: list[_Line] = field(default_factory=list)


def parse_schemas(text: str) -> tuple[MessageSchema, ...]:
    """Parse the messages of a text, in their order.

    Raises:
        ValueError: The text has another form.
    """
    return tuple(map(_message, _lines(text)))


def parse_versions(text: str) -> Versions:
    """Parse a range of versions: `3`, `0-4`, `3+` or `none`.

    Raises:
        ValueError: Something else.
    """
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), EVER)
    lowest, dash, highest = text.partition("-")
    return Versions(int(lowest), int(highest if dash else lowest))


def _lines(text: str) -> list[_Line]:
    top = _Line([])
    open_lines = [top]
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        level = (len(line) - len(line.lstrip(" "))) // 2
        if level >= len(open_lines):
            raise ValueError(f"the line is indented too far: {line!r}")
        del open_lines[level + 1 :]
        open_lines.append(_Line(line.split()))
        open_lines[level].below.append(open_lines[-1])
    return top.below


def _message(line: _Line) -> MessageSchema:
    name, kind, number, _, versions, _, flexible = line.words
    shared = {below.words[1]: below.below for below in line.below if below.words[0] == "struct"}
    return MessageSchema(
        name,
        MessagePurpose(kind),
        None if number == "-" else int(number),
        parse_versions(versions),
        parse_versions(flexible),
        _fields([below for below in line.below if below.words[0] != "struct"], shared),
    )


def _fields(lines: list[_Line], shared: dict[str, list[_Line]]) -> tuple[FieldSchema, ...]:
    return tuple(_field(line, shared) for line in lines)


def _field(line: _Line, shared: dict[str, list[_Line]]) -> FieldSchema:
    name, type_name, versions, *rest = line.words
    words = iter(rest)
    nullable, tag, tagged, flexible, is_ignorable = NO_VERSIONS, None, NO_VERSIONS, None, False
    default: Default | Unset = Unset.UNSET
    kind = _type(type_name, line.below, shared)
    for word in words:
        match word:
            case "null":
                nullable = parse_versions(next(words))
            case "tag":
                tag, tagged = int(next(words)), parse_versions(next(words))
            case "flexible":
                flexible = parse_versions(next(words))
            case "default":
                default = _default(kind, words)
            case "ignorable":
                is_ignorable = True
            case _:
                raise ValueError(f"field {name} has an unknown word: {word!r}")
    return FieldSchema(name, kind, parse_versions(versions), nullable, tag, tagged, flexible, default, is_ignorable)


def _type(name: str, below: list[_Line], shared: dict[str, list[_Line]]) -> FieldType:
    is_array = name.startswith("[]")
    bare = name.removeprefix("[]")
    kind: ScalarType | StructType
    if bare in _SCALARS:
        kind = _SCALARS[bare]
    else:
        kind = StructType(bare, _fields(below or shared[bare], shared))
    return ArrayType(kind) if is_array else kind


def _default(kind: FieldType, words: Iterator[str]) -> Default:
    text = next(words)
    if text == "null":
        return None
    if kind is ScalarType.STRING:
        return text
    if kind is ScalarType.BOOL:
        return text == "true"
    if kind is ScalarType.FLOAT64:
        return float(text)
    if isinstance(kind, ScalarType) and kind not in (ScalarType.BYTES, ScalarType.RECORDS, ScalarType.UUID):
        return int(text, 0)
    raise ValueError(f"a default of this type is not known: {text!r}")


class MessageFamily(StrEnum):
    """A set of messages whose type numbers differ. The folder `schemas` has a text for each."""

    CONSUMER_OFFSETS = "consumer_offsets"
    TRANSACTION_STATE = "transaction_state"
    SHARE_GROUP_STATE = "share_group_state"
    CLUSTER_METADATA = "cluster_metadata"
    STORAGE_FILES = "storage_files"
    QUORUM_FILES = "quorum_files"
    SHARED_PARTS = "shared_parts"


@cache
def messages_of(family: MessageFamily) -> tuple[MessageSchema, ...]:
    """Return all messages of a family, ordered by kind, type number and name."""
    return parse_schemas((pkgutil.get_data("logcore.messages", f"schemas/{family}.txt") or b"").decode())


def message_of_type(family: MessageFamily, kind: MessagePurpose, type_number: int) -> MessageSchema | None:
    """Return the message of a kind with this type number; None if there is none."""
    return _by_type(family).get((kind, type_number))


def message_named(family: MessageFamily, name: str) -> MessageSchema:
    """Return the message with the name of Kafka's class.

    Raises:
        KeyError: There is none.
    """
    return _by_name(family)[name]


@cache
def _by_type(family: MessageFamily) -> dict[tuple[MessagePurpose, int], MessageSchema]:
    numbered = [schema for schema in messages_of(family) if schema.type_number is not None]
    return {(schema.kind, schema.type_number or 0): schema for schema in numbered}


@cache
def _by_name(family: MessageFamily) -> dict[str, MessageSchema]:
    return {schema.name: schema for schema in messages_of(family)}
