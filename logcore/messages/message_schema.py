"""What a message schema is: fields with types and the versions that have them.

Kafka keeps a JSON file for each message and generates a Java class from it. These classes hold the same facts, without
the prose.

Source: org.apache.kafka.message MessageSpec, StructSpec, FieldSpec, FieldType, Versions; KIP-482 (flexible versions).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum


class ScalarType(StrEnum):
    """Types without parts. The values are Kafka's names for them."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    FLOAT64 = "float64"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"
    """Batches of records. Their bytes are kept as they are."""


class MessagePurpose(StrEnum):
    """What a message is for. The values are Kafka's."""

    KEY = "coordinator-key"
    """Key of a record that a coordinator writes."""
    VALUE = "coordinator-value"
    """Value of a record that a coordinator writes."""
    METADATA = "metadata"
    """Value of a record with a frame: uvarint frame version, uvarint type, uvarint version."""
    DATA = "data"
    """A message without a type number: part of other messages or of files."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends included. It is empty if `highest` is below `lowest`."""

    lowest: int
    highest: int

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest


EVER = 0x7FFF
"""Highest version that fits in an int16: `3+` is the range from 3 to this one."""
NO_VERSIONS = Versions(0, -1)


@dataclass(frozen=True, slots=True)
class StructType:
    """A type with fields of its own."""

    name: str
    fields: tuple[FieldSchema, ...]


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A sequence of values of one type."""

    element: ScalarType | StructType


FieldType = ScalarType | StructType | ArrayType

Default = bool | int | float | str | bytes | None


class Unset(Enum):
    """The default of a field whose schema names none: zero, an empty text, an empty array."""

    UNSET = "unset"


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """A field of a message or of a struct.

    Attributes:
        name: As in the JSON of Kafka's tools, such as `leaderEpoch`.
        versions: Versions of the message that have the field.
        nullable: Versions in which it may be null.
        tag: Its number in the tagged section; None if it is never there.
        tagged: Versions in which it is in the tagged section, and only if it differs from its default.
        flexible: Versions in which its own encoding is flexible; None: as the message.
        default: Value if the field is absent.
        is_ignorable: Whether a version without the field may drop a value that differs from the default.
    """

    name: str
    type: FieldType
    versions: Versions
    nullable: Versions = NO_VERSIONS
    tag: int | None = None
    tagged: Versions = NO_VERSIONS
    flexible: Versions | None = None
    default: Default | Unset = Unset.UNSET
    is_ignorable: bool = False


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """A message.

    Attributes:
        name: Of Kafka's generated class, such as `OffsetCommitValue`.
        type_number: What Kafka calls `apiKey`; None for `DATA`.
        versions: Versions that exist.
        flexible: Versions with compact lengths and tagged sections.
    """

    name: str
    kind: MessagePurpose
    type_number: int | None
    versions: Versions
    flexible: Versions
    fields: tuple[FieldSchema, ...]

    def __hash__(self) -> int:
        """Hash the name only: layouts are looked up by schema for each message, and fields nest deeply."""
        return hash((self.name, self.kind))
