"""The layout of Aiven's plugin "Tiered Storage for Apache Kafka": three objects for each segment.

    <prefix><topic>-<topic UUID>/<partition>/<start offset, 20 digits>-<segment UUID>
        .log            the segment in chunks, each compressed and encrypted alone      `segment_manifest`, `chunks`
        .indexes        five files of the segment one after the other, each encrypted   `segment_manifest`
                        alone and never compressed: offset index, time index,
                        producer snapshot, leader epochs, transaction index
        .rsm-manifest   JSON: where chunks and indexes are, how they were changed       `segment_manifest`

    old releases    .index .timeindex .snapshot .txnindex .leader-epoch-checkpoint instead of .indexes; not read

The prefix is joined to the topic as it is, with or without a slash. Metadata of a segment may name another prefix or
key than the plugin's own, as bytes that only the plugin reads (`custom_metadata`):

    custom metadata     uvarint number of fields, then for each: uvarint tag, uvarint size, value; tags ascend
    tag 0               size of all objects in bytes: zigzag varlong
    tag 1               prefix: uvarint length + 1, then UTF-8
    tag 2               key without prefix and suffix: likewise

With `segment.format: iceberg` the plugin writes Parquet files of an Iceberg table instead, and for each segment a file
`metadata/<segment UUID>.puffin`. These are not Kafka's bytes. They are refused by name.

Source: io.aiven.kafka.tieredstorage ObjectKeyFactory, SegmentCustomMetadataField; Kafka TaggedFields.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from logcore.errors import CorruptIndexError, CorruptRecordError
from logcore.records.varint import read_varlong
from logcore.remote.remote_segment import UUID
from logcore.remote.stored_part import RemoteLayout, SegmentPart, StoredPart, stored_part

SUFFIXES: dict[SegmentPart, str] = {
    SegmentPart.LOG: ".log",
    SegmentPart.INDEXES: ".indexes",
    SegmentPart.MANIFEST: ".rsm-manifest",
}
REQUIRED = frozenset(SUFFIXES)
"""Parts without which a copy is not complete."""

INDEXES = (
    SegmentPart.OFFSET_INDEX,
    SegmentPart.TIME_INDEX,
    SegmentPart.PRODUCER_SNAPSHOT,
    SegmentPart.LEADER_EPOCHS,
    SegmentPart.TRANSACTION_INDEX,
)
"""What the object `.indexes` has. The registered maps of chunks number the indexes in this order."""
_OLD_SUFFIXES = (".index", ".timeindex", ".snapshot", ".txnindex", ".leader-epoch-checkpoint")
_PARTS = {suffix: part for part, suffix in SUFFIXES.items()}
_NAME = re.compile(
    rf"((?:.*/)?([^/]+)-({UUID})/(0|[1-9][0-9]{{0,9}})/([0-9]{{20}})-({UUID}))(\.[a-z-]+)", re.ASCII | re.DOTALL
)
_ICEBERG = re.compile(rf"(?:.*/)?metadata/({UUID})\.puffin", re.ASCII | re.DOTALL)

_SIZE_TAG, _PREFIX_TAG, _KEY_TAG = 0, 1, 2
_MOST_FIELDS = 64


@dataclass(frozen=True, slots=True)
class AivenMetadata:
    """What the plugin stores in a segment's metadata. None where it did not.

    Attributes:
        remote_size: Bytes of all objects of the segment.
        prefix: Of the segment's keys.
        key: Of the segment's objects, without prefix and suffix.
    """

    remote_size: int | None = None
    prefix: str | None = None
    key: str | None = None


def part_of(path: str) -> StoredPart | None:
    """What the name of an object says; None if this layout has no such names. It needs the two directories above it."""
    match = _NAME.fullmatch(path)
    part = None if match is None else _PARTS.get(match[7])
    if match is None or part is None:
        return None
    return stored_part(RemoteLayout.AIVEN, match[2], match[3], match[4], match[5], match[6], part)


def is_of_old_release(path: str) -> bool:
    """Whether an object is an index in an object of its own, as releases before `.indexes` wrote them."""
    match = _NAME.fullmatch(path)
    return match is not None and match[7] in _OLD_SUFFIXES


def iceberg_segment(path: str) -> str | None:
    """UUID of the segment that a file of an Iceberg table describes; None for any other name."""
    match = _ICEBERG.fullmatch(path)
    return None if match is None else match[1]


def beside(path: str, part: SegmentPart) -> str:
    """The name of another part of the segment that an object belongs to.

    Raises:
        ValueError: The object is not of this layout.
    """
    match = _NAME.fullmatch(path)
    if match is None:
        raise ValueError(f"{path} is not an object of this layout")
    return match[1] + SUFFIXES[part]


def index_path(path: str, part: SegmentPart) -> str:
    """The name of an index inside of the object `.indexes`, as if that object were a folder: `….indexes/offset-index`.

    Args:
        path: Of any object of the segment.
        part: Which index.
    """
    return f"{beside(path, SegmentPart.INDEXES)}/{part}"


def named_index(path: str) -> tuple[str, SegmentPart] | None:
    """The object and the index that `index_path` named; None for any other name."""
    name, slash, part = path.rpartition("/")
    match = _NAME.fullmatch(name) if slash and part in INDEXES else None
    return None if match is None or match[7] != SUFFIXES[SegmentPart.INDEXES] else (name, SegmentPart(part))


def custom_metadata(content: bytes) -> AivenMetadata:
    """Parse the custom metadata of a segment. Unknown tags are skipped.

    Raises:
        CorruptIndexError: The bytes are not such fields.
    """
    if not content:
        return AivenMetadata()
    fields: dict[int, bytes] = {}
    try:
        count, at = _unsigned(content, 0)
        if count > _MOST_FIELDS:
            raise CorruptIndexError(f"custom metadata with {count} fields; at most {_MOST_FIELDS} are read")
        before = -1
        for _ in range(count):
            tag, at = _unsigned(content, at)
            size, at = _unsigned(content, at)
            if tag <= before or size > len(content) - at:
                raise CorruptIndexError("custom metadata has tags out of order, or ends inside a field", position=at)
            fields[tag], at, before = content[at : at + size], at + size, tag
        if at != len(content):
            raise CorruptIndexError(f"custom metadata is followed by {len(content) - at} bytes", position=at)
        remote_size = None
        if _SIZE_TAG in fields:
            remote_size, end = read_varlong(fields[_SIZE_TAG], 0, len(fields[_SIZE_TAG]))
            if end != len(fields[_SIZE_TAG]):
                raise CorruptIndexError("the size in custom metadata is followed by more bytes")
        return AivenMetadata(remote_size, _text(fields.get(_PREFIX_TAG)), _text(fields.get(_KEY_TAG)))
    except CorruptRecordError as error:
        raise CorruptIndexError(f"custom metadata cannot be read: {error.message}") from error


def _text(field: bytes | None) -> str | None:
    """A compact string that fills its field."""
    if field is None:
        return None
    length, at = _unsigned(field, 0)
    if length != len(field) - at + 1:
        raise CorruptIndexError("a text in custom metadata has another length than its field")
    try:
        return field[at:].decode()
    except UnicodeDecodeError as error:
        raise CorruptIndexError("a text in custom metadata is not UTF-8") from error


def _unsigned(content: bytes, at: int) -> tuple[int, int]:
    """An unsigned variable-length int and the position after it."""
    value = 0
    for index in range(5):
        if at + index >= len(content):
            break
        byte = content[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise CorruptIndexError("an integer of custom metadata does not end", position=at)
