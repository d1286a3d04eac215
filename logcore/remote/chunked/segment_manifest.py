"""The manifest of a segment that Aiven's plugin stored, a JSON object.

    "version"               "1"
    "chunkIndex"            where the chunks of the segment are: `chunk_index`
    "segmentIndexes"        {"offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction": each
                            {"position", "size"} in the object .indexes; "transaction" may be null or absent}
    "compression"           whether each chunk is a zstd frame
    "encryption"            absent or null without encryption:
        "dataKey"           <ID of an RSA key>:<base64 of the AES key, encrypted with RSA-OAEP (SHA3-512)>
        "aad"               base64 of 32 bytes that authenticate every chunk and index
    "remoteLogSegmentMetadata"
                            a copy of the segment's metadata from before the copy ended: "startOffset", "endOffset",
                            "segmentLeaderEpochs" {epoch: start offset}. It is used only where the metadata topic is
                            not given

Unknown fields are ignored. Sizes are not trusted: `refuse_other_sizes` compares them with the stored objects before
anything is read.

Source: io.aiven.kafka.tieredstorage.manifest SegmentManifestV1, SegmentIndexesV1, SegmentEncryptionMetadataV1.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any, TypeGuard

from logcore.errors import CorruptIndexError, CorruptRecordError, UnsupportedFormatError
from logcore.records.compression import Codec, decompress
from logcore.remote.chunked.chunk_index import (
    ENCRYPTION_BYTES,
    MOST_SEGMENT_BYTES,
    ChunkIndex,
    chunk_count,
    most_list_bytes,
    stored_sizes,
)
from logcore.remote.stored_part import SegmentPart
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.side_files.leader_epochs import EpochEntry

_MOST_NESTED = 1000
"""Objects and lists in a manifest. The plugin writes about ten; each takes far more memory than its bytes."""
MOST_MANIFEST_BYTES = 32 << 20
"""Larger manifests are not read. One with 500 chunks has some 3 KiB."""
MOST_INDEX_BYTES = 64 << 20
"""Larger indexes of a segment are not read: Kafka's default limit for an index is 10 MiB."""

_INDEXES: dict[str, SegmentPart] = {
    "offset": SegmentPart.OFFSET_INDEX,
    "timestamp": SegmentPart.TIME_INDEX,
    "producerSnapshot": SegmentPart.PRODUCER_SNAPSHOT,
    "leaderEpoch": SegmentPart.LEADER_EPOCHS,
    "transaction": SegmentPart.TRANSACTION_INDEX,
}


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """Where an index is in the object `.indexes`: position and size in bytes."""

    position: int
    size: int


@dataclass(frozen=True, slots=True, repr=False)
class SegmentEncryption:
    """How a segment is encrypted. It has no representation as text, because keys must not be in logs.

    Attributes:
        key_id: Which RSA key encrypts the AES key.
        wrapped_key: The AES key, encrypted.
        aad: Bytes that authenticate every chunk.
    """

    key_id: str
    wrapped_key: bytes
    aad: bytes


@dataclass(frozen=True, slots=True)
class DescribedOffsets:
    """What a manifest says of the offsets of its segment: first, last (inclusive), and the leader epochs."""

    start_offset: int
    end_offset: int
    leader_epochs: tuple[EpochEntry, ...]


@dataclass(frozen=True, slots=True)
class SegmentManifest:
    """A manifest.

    Attributes:
        chunks: The chunks of the segment.
        indexes: Where each index is. Absent ones have none.
        is_compressed: Whether each chunk is a zstd frame.
        encryption: None without encryption.
        described: The offsets of the segment; None if the manifest does not say them, or says what is not possible.
    """

    chunks: ChunkIndex
    indexes: dict[SegmentPart, StoredIndex]
    is_compressed: bool
    encryption: SegmentEncryption | None
    described: DescribedOffsets | None = None

    def refuse_other_sizes(self, log_bytes: int, indexes_bytes: int | None = None) -> None:
        """Compare the manifest with the sizes of the stored objects.

        Args:
            log_bytes: Size of the object `.log`.
            indexes_bytes: Size of the object `.indexes`; None: do not compare it.

        Raises:
            CorruptIndexError: The manifest describes other sizes.
        """
        self.chunks.refuse_other_size(log_bytes)
        if indexes_bytes is not None:
            end = max((index.position + index.size for index in self.indexes.values()), default=0)
            if end > indexes_bytes:
                raise CorruptIndexError(
                    f"the manifest describes {end} bytes of indexes, the object has {indexes_bytes}"
                )


def parse_manifest(content: bytes) -> SegmentManifest:
    """Parse a manifest.

    Raises:
        CorruptIndexError: It contradicts itself, or a field is missing or impossible.
        UnsupportedFormatError: Another version or format.
    """
    if len(content) > MOST_MANIFEST_BYTES:
        raise CorruptIndexError(f"the manifest has {len(content)} bytes; at most {MOST_MANIFEST_BYTES} are read")
    nested = content.count(b"{") + content.count(b"[")
    if nested > _MOST_NESTED:
        raise CorruptIndexError(f"the manifest has {nested} objects and lists; at most {_MOST_NESTED} are read")
    try:
        given = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CorruptIndexError("the manifest is not JSON") from error
    fields = _object(given, "the manifest")
    if _of_iceberg(fields):
        raise UnsupportedFormatError(
            "the segment is stored with segment.format: iceberg, as rows of an Iceberg table and not as Kafka's bytes",
            advice="Read the Iceberg table with an engine that supports it.",
        )
    if fields.get("version") != "1":
        raise UnsupportedFormatError("the manifest has another version than 1, the only one that is known")
    is_compressed = fields.get("compression")
    if not isinstance(is_compressed, bool):
        raise CorruptIndexError("the manifest does not say in compression whether chunks are compressed")
    encryption = None if fields.get("encryption") is None else _encryption(_object(fields["encryption"], "encryption"))
    chunks = _chunk_index(_object(fields.get("chunkIndex"), "chunkIndex"))
    if not is_compressed:
        refuse_changed_sizes(chunks, is_encrypted=encryption is not None)
    given_indexes = _object(fields.get("segmentIndexes"), "segmentIndexes")
    indexes = {
        part: _stored_index(_object(given_indexes[name], name))
        for name, part in _INDEXES.items()
        if given_indexes.get(name) is not None
    }
    described = _described(fields.get("remoteLogSegmentMetadata"))
    return SegmentManifest(chunks, indexes, is_compressed, encryption, described)


def _described(fields: object) -> DescribedOffsets | None:
    if not isinstance(fields, dict) or not isinstance(fields.get("segmentLeaderEpochs"), dict):
        return None
    start, end = fields.get("startOffset"), fields.get("endOffset")
    epochs: dict[str, object] = fields["segmentLeaderEpochs"]
    if not (_is_offset(start) and _is_offset(end) and start <= end and all(map(_is_offset, epochs.values()))):
        return None
    if not all(epoch.isascii() and epoch.isdecimal() and len(epoch) <= 10 for epoch in epochs):
        return None
    return DescribedOffsets(
        start, end, tuple(sorted(EpochEntry(int(e), o) for e, o in epochs.items() if _is_offset(o)))
    )


def _is_offset(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= MAX_OFFSET


def _of_iceberg(fields: dict[str, Any]) -> bool:
    names = (fields.get("segmentFormat"), fields.get("segment.format"))
    return any(isinstance(name, str) and name.lower() == "iceberg" for name in names)


def _chunk_index(fields: dict[str, Any]) -> ChunkIndex:
    chunk_size, segment_size = _size(fields, "originalChunkSize"), _size(fields, "originalFileSize")
    kind = fields.get("type")
    if kind == "fixed":
        stored, last = _size(fields, "transformedChunkSize"), _size(fields, "finalTransformedChunkSize")
        return ChunkIndex.fixed(chunk_size, segment_size, stored, last)
    if kind == "variable":
        count = chunk_count(chunk_size, segment_size)
        packed = _base64(fields.get("transformedChunks"), "transformedChunks")
        try:
            listed = decompress(Codec.ZSTD, packed, most_list_bytes(count))
        except CorruptRecordError as error:
            raise CorruptIndexError(f"the list of chunk sizes cannot be decompressed: {error.message}") from error
        return ChunkIndex.variable(chunk_size, segment_size, stored_sizes(listed))
    raise UnsupportedFormatError("the chunk index is neither of type fixed nor variable")


def refuse_changed_sizes(chunks: ChunkIndex, *, is_encrypted: bool) -> None:
    """Compare the sizes of chunks that are not compressed: that of a stored chunk follows from that of its contents.

    Raises:
        CorruptIndexError: A stored chunk has another size.
    """
    added = ENCRYPTION_BYTES if is_encrypted else 0
    for number in {0, chunks.count - 1} if not chunks.stored_ends else range(chunks.count):
        chunk = chunks.chunk(number) if chunks.count else None
        if chunk is not None and chunk.stored_size != chunk.size + added:
            message = f"chunk {number} has {chunk.stored_size} stored bytes, and {chunk.size} bytes without compression"
            raise CorruptIndexError(message)


def _stored_index(fields: dict[str, Any]) -> StoredIndex:
    position, size = _size(fields, "position"), _size(fields, "size")
    if size > MOST_INDEX_BYTES:
        raise CorruptIndexError(f"an index of {size} bytes; at most {MOST_INDEX_BYTES} are read")
    return StoredIndex(position, size)


def _encryption(fields: dict[str, Any]) -> SegmentEncryption:
    key = fields.get("dataKey")
    key_id, colon, wrapped = key.rpartition(":") if isinstance(key, str) else ("", "", "")
    if not colon or not key_id:
        raise CorruptIndexError("dataKey of the manifest is not <key ID>:<base64>")
    return SegmentEncryption(key_id, _base64(wrapped, "dataKey"), _base64(fields.get("aad"), "aad"))


def _base64(text: object, name: str) -> bytes:
    if not isinstance(text, str):
        raise CorruptIndexError(f"{name} of the manifest is missing, or not a text")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CorruptIndexError(f"{name} of the manifest is not base64") from error


def _size(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if type(value) is not int or not 0 <= value <= MOST_SEGMENT_BYTES:
        raise CorruptIndexError(f"{name} of the manifest is not a size from 0 to {MOST_SEGMENT_BYTES}")
    return value


def _object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CorruptIndexError(f"{name} is missing, or not a JSON object")
    return value
