"""The manifest of a segment that Aiven's plugin stored, a JSON object.

    "version"               "1"
    "chunkIndex"            where the chunks of the segment are: see below
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

Unknown fields are ignored. Sizes are not trusted: `chunks.refuse_other_size` compares them with the stored object
before anything is read.

Source: io.aiven.kafka.tieredstorage.manifest SegmentManifestV1, SegmentIndexesV1, SegmentEncryptionMetadataV1.

A segment is cut into chunks of one size; the last one may be shorter. Each chunk is compressed and encrypted alone, and
the stored chunks follow each other without gaps. So a range of the segment needs only the chunks that it touches.

    "chunkIndex"
    "type"                       "fixed" or "variable"
    "originalChunkSize"          bytes of a chunk of the segment, 1 to 2^30-1
    "originalFileSize"           bytes of the segment
    fixed    "transformedChunkSize"        bytes of every stored chunk but the last
             "finalTransformedChunkSize"   bytes of the last stored chunk
    variable "transformedChunks"           base64 of zstd of the list of the sizes of all stored chunks:

    off     len         field
    0       4           count      int32; 0 ends the list here; with 1 the only size follows as int32
    4       4           base       int32, the smallest size, without the last one
    8       1           width      int8, bytes of each difference, 1 to 4
    9       width * n   differences to the base, unsigned, of all n sizes but the last
    9+w*n   4           last size  int32

All integers are big-endian. Nothing that a manifest declares is used before it was compared with the size of the stored
object (`refuse_other_size`), and no chunk may be larger than its contents can become.

Source: io.aiven.kafka.tieredstorage.manifest.index FixedSizeChunkIndex, VariableSizeChunkIndex, ChunkSizesBinaryCodec.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeGuard

from logcore.errors import CorruptIndexError, CorruptRecordError, UnsupportedFormatError
from logcore.records.compression import Codec, decompress
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


MOST_SEGMENT_BYTES = 2**31 - 1
"""Kafka stores positions within a segment in 32 bits."""
MOST_CHUNK_BYTES = 256 << 20
"""Larger chunks are refused, because a chunk is kept in memory. The plugin's own default is 4 MiB."""
MOST_CHUNKS = 1 << 22
ENCRYPTION_BYTES = 28
"""An encrypted chunk is so much longer: 12 bytes of IV, 16 of the tag."""

_INT = struct.Struct(">i")
_LIST_HEAD = struct.Struct(">iib")


@dataclass(frozen=True, slots=True)
class SegmentChunk:
    """A chunk: its place in the segment and in the stored object, in bytes."""

    number: int
    position: int
    size: int
    stored_position: int
    stored_size: int

    @property
    def stored_end(self) -> int:
        """The position after it in the stored object."""
        return self.stored_position + self.stored_size


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """The chunks of a segment.

    Attributes:
        chunk_size: Bytes of each chunk of the segment but the last.
        segment_size: Bytes of the segment.
        stored_chunk_size: Bytes of each stored chunk but the last, if they are of one size; else 0.
        last_stored_size: Bytes of the last stored chunk.
        stored_ends: Ends of the stored chunks, if they are of different sizes.
    """

    chunk_size: int
    segment_size: int
    stored_chunk_size: int
    last_stored_size: int
    stored_ends: tuple[int, ...] = ()

    @classmethod
    def fixed(cls, chunk_size: int, segment_size: int, stored_chunk_size: int, last_stored_size: int) -> ChunkIndex:
        """An index of chunks of one stored size.

        Raises:
            CorruptIndexError: The sizes cannot be those of a segment.
        """
        chunk_count(chunk_size, segment_size)
        for size in (stored_chunk_size, last_stored_size):
            _refuse_stored_size(size, chunk_size)
        return cls(chunk_size, segment_size, stored_chunk_size, last_stored_size)

    @classmethod
    def variable(cls, chunk_size: int, segment_size: int, stored_sizes: tuple[int, ...]) -> ChunkIndex:
        """An index of chunks of different stored sizes. Raises as `fixed`."""
        count = chunk_count(chunk_size, segment_size)
        if len(stored_sizes) != count:
            message = f"the chunk index has {len(stored_sizes)} chunks; a segment of {segment_size} bytes has {count}"
            raise CorruptIndexError(message)
        for size in stored_sizes:
            _refuse_stored_size(size, chunk_size)
        last = stored_sizes[-1] if stored_sizes else 0
        return cls(chunk_size, segment_size, 0, last, tuple(accumulate(stored_sizes)))

    @property
    def count(self) -> int:
        """Number of chunks."""
        return -(-self.segment_size // self.chunk_size)

    @property
    def stored_size(self) -> int:
        """Bytes of the stored object."""
        return self._stored_end(self.count - 1)

    def chunk(self, number: int) -> SegmentChunk:
        """A chunk by its number.

        Raises:
            IndexError: There is no such chunk.
        """
        if not 0 <= number < self.count:
            raise IndexError(f"there is no chunk {number} of {self.count}")
        position = number * self.chunk_size
        begin = self._stored_end(number - 1)
        size = min(self.chunk_size, self.segment_size - position)
        return SegmentChunk(number, position, size, begin, self._stored_end(number) - begin)

    def chunks_of(self, start: int, end: int) -> range:
        """Numbers of the chunks with bytes start..end of the segment. Bytes after its end are ignored."""
        start, end = max(start, 0), min(end, self.segment_size)
        return range(start // self.chunk_size, -(-end // self.chunk_size)) if start < end else range(0)

    def refuse_other_size(self, nbytes: int) -> None:
        """Compare the index with the size of the stored object.

        Raises:
            CorruptIndexError: The object has another size than all chunks together.
        """
        if nbytes != self.stored_size:
            raise CorruptIndexError(f"the manifest describes {self.stored_size} stored bytes, the object has {nbytes}")

    def _stored_end(self, number: int) -> int:
        if number < 0:
            return 0
        if self.stored_ends:
            return self.stored_ends[number]
        return number * self.stored_chunk_size + (
            self.last_stored_size if number == self.count - 1 else self.stored_chunk_size
        )


def chunk_count(chunk_size: int, segment_size: int) -> int:
    """Number of chunks of a segment.

    Raises:
        CorruptIndexError: The sizes cannot be those of a segment, or are above the limits.
    """
    if not 1 <= chunk_size < 2**30 or not 0 <= segment_size <= MOST_SEGMENT_BYTES:
        raise CorruptIndexError(f"a segment of {segment_size} bytes in chunks of {chunk_size} is not possible")
    if min(chunk_size, segment_size) > MOST_CHUNK_BYTES:
        raise CorruptIndexError(f"chunks of {chunk_size} bytes; at most {MOST_CHUNK_BYTES} are read")
    count = -(-segment_size // chunk_size)
    if count > MOST_CHUNKS:
        raise CorruptIndexError(f"a segment of {count} chunks; at most {MOST_CHUNKS} are read")
    return count


def stored_sizes(content: bytes) -> tuple[int, ...]:
    """Parse the list of sizes of stored chunks.

    Raises:
        CorruptIndexError: The bytes are not such a list, or a size is negative.
    """
    if len(content) < _INT.size:
        raise CorruptIndexError("the list of chunk sizes ends inside its count", position=0)
    (count,) = _INT.unpack_from(content)
    if count <= 1:
        expected = _INT.size * (1 + max(count, 0))
        if count < 0 or len(content) != expected:
            raise CorruptIndexError(f"a list of {count} chunk sizes has {len(content)} bytes")
        sizes = _INT.unpack_from(content, _INT.size) if count else ()
        return _not_negative(sizes)
    if len(content) < _LIST_HEAD.size:
        raise CorruptIndexError("the list of chunk sizes ends inside its head", position=len(content))
    _, base, width = _LIST_HEAD.unpack_from(content)
    if not 1 <= width <= 4 or len(content) != _LIST_HEAD.size + (count - 1) * width + _INT.size:
        raise CorruptIndexError(f"a list of {count} chunk sizes of {width} bytes has {len(content)} bytes")
    end = _LIST_HEAD.size + (count - 1) * width
    differences = (content[at : at + width] for at in range(_LIST_HEAD.size, end, width))
    (last,) = _INT.unpack_from(content, end)
    return _not_negative((*(base + int.from_bytes(each, "big") for each in differences), last))


def size_list(sizes: Sequence[int]) -> bytes:
    """The list of sizes of stored chunks, as `stored_sizes` reads it."""
    if len(sizes) <= 1:
        return struct.pack(f">i{len(sizes)}i", len(sizes), *sizes)
    base = min(sizes[:-1])
    width = max(1, -(-(max(sizes[:-1]) - base).bit_length() // 8))
    differences = b"".join((size - base).to_bytes(width, "big") for size in sizes[:-1])
    return _LIST_HEAD.pack(len(sizes), base, width) + differences + _INT.pack(sizes[-1])


def most_list_bytes(count: int) -> int:
    """Bytes of the longest list of so many sizes."""
    return _LIST_HEAD.size + 4 * count + _INT.size


def _not_negative(sizes: tuple[int, ...]) -> tuple[int, ...]:
    if any(not 0 <= size <= MOST_SEGMENT_BYTES for size in sizes):
        raise CorruptIndexError("a chunk size is negative, or larger than a segment")
    return sizes


def _refuse_stored_size(size: int, chunk_size: int) -> None:
    # zstd makes a chunk longer by less than a 128th and a header.
    most = chunk_size + chunk_size // 128 + 1024 + ENCRYPTION_BYTES
    if not 0 <= size <= most:
        raise CorruptIndexError(f"a stored chunk of {size} bytes cannot have the contents of {chunk_size}")
