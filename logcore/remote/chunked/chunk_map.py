"""The chunk map of a segment: what readers need of its manifest, in few bytes.

A lake that refers to an object of remote storage registers this map together with the object's ETag. Readers of the
lake then open no manifest.

    off  len   field
    0    1     form            1
    1    1     flags           1: each chunk is a zstd frame; 2: chunks and indexes are encrypted;
                               4: the sizes of all chunks are listed; 8: the offsets are described
    2    text  manifest        which manifest it was: its ETag, or its size and time
    -    4     chunk size      int32, bytes of a chunk of the segment
    -    4     segment size    int32, bytes of the segment
    -    4     stored size     int32, bytes of each stored chunk but the last; 0 if they are listed
    -    4     last size       int32, bytes of the last stored chunk
    -    bytes sizes           flag 4: the list of the sizes of all stored chunks, as in `segment_manifest`
    -    1     indexes         a bit for each that is there: 1 offset index, 2 time index, 4 producer snapshot,
                               8 leader epochs, 16 transaction index
    -    8*n   places          position and size of each index in the object .indexes, two int32
    -    text  key ID          flag 2: which RSA key encrypts the AES key
    -    bytes wrapped key     flag 2: the AES key, encrypted
    -    bytes aad             flag 2: bytes that authenticate every chunk
    -    16    offsets         flag 8: first and last offset, two int64
    -    4     epochs          flag 8: number of leader epochs, int32; for each its epoch and start offset, two int64

Integers are big-endian. Bytes begin with their number, an int32; a text is bytes in UTF-8. The AES key is never in the
map as plain bytes: a reader needs the private key, as with the manifest.

A map is trusted no more than a manifest: the same limits hold, and its sizes are compared with the stored object.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from logcore.errors import CorruptIndexError
from logcore.remote.aiven_layout import INDEXES
from logcore.remote.chunked.segment_manifest import (
    MOST_INDEX_BYTES,
    ChunkIndex,
    DescribedOffsets,
    SegmentEncryption,
    SegmentManifest,
    StoredIndex,
    refuse_changed_sizes,
    size_list,
    stored_sizes,
)
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.side_files.leader_epochs import EpochEntry

MOST_MAP_BYTES = 1 << 20
"""Larger maps are neither made nor read. One of a segment of 1 GiB in chunks of 4 MiB has about 1.5 KiB."""

_FORM = 1
_COMPRESSED, _ENCRYPTED, _LISTED, _DESCRIBED = 1, 2, 4, 8
_FLAGS = _COMPRESSED | _ENCRYPTED | _LISTED | _DESCRIBED
_HEAD, _INT, _SIZES = struct.Struct(">BB"), struct.Struct(">i"), struct.Struct(">4i")
_PLACE, _OFFSETS = struct.Struct(">2i"), struct.Struct(">2q")


@dataclass(frozen=True, slots=True)
class RegisteredObject:
    """An object as a lake registered it.

    Attributes:
        etag: Names its content; empty if its store states none.
        chunk_map: Packed, of a segment in chunks. It describes the object with this ETag and no other. None: the
            manifest has to be read.
    """

    etag: str
    chunk_map: bytes | None = field(default=None, repr=False)


NONE_REGISTERED: Mapping[str, RegisteredObject] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ChunkMap:
    """A chunk map.

    Attributes:
        manifest: What the manifest says.
        manifest_version: Which manifest it was.
    """

    manifest: SegmentManifest
    manifest_version: str


def packed(chunk_map: ChunkMap) -> bytes | None:
    """Pack a map; None if it would be larger than `MOST_MAP_BYTES`."""
    manifest = chunk_map.manifest
    chunks, keys, offsets = manifest.chunks, manifest.encryption, manifest.described
    flags = (
        _COMPRESSED * manifest.is_compressed
        | _ENCRYPTED * (keys is not None)
        | _LISTED * bool(chunks.stored_ends)
        | _DESCRIBED * (offsets is not None)
    )
    sizes = (chunks.chunk_size, chunks.segment_size, chunks.stored_chunk_size, chunks.last_stored_size)
    parts = [_HEAD.pack(_FORM, flags), _text(chunk_map.manifest_version), _SIZES.pack(*sizes)]
    if chunks.stored_ends:
        starts = (0, *chunks.stored_ends)
        parts.append(_bytes(size_list([end - start for start, end in zip(starts, chunks.stored_ends, strict=False)])))
    there = [part for part in INDEXES if part in manifest.indexes]
    parts.append(bytes([sum(1 << INDEXES.index(part) for part in there)]))
    parts += (_PLACE.pack(manifest.indexes[part].position, manifest.indexes[part].size) for part in there)
    if keys is not None:
        parts += [_text(keys.key_id), _bytes(keys.wrapped_key), _bytes(keys.aad)]
    if offsets is not None:
        parts += [_OFFSETS.pack(offsets.start_offset, offsets.end_offset), _INT.pack(len(offsets.leader_epochs))]
        parts += (_OFFSETS.pack(entry.epoch, entry.start_offset) for entry in offsets.leader_epochs)
    content = b"".join(parts)
    return content if len(content) <= MOST_MAP_BYTES else None


def unpacked(content: bytes) -> ChunkMap:
    """Unpack a map.

    Raises:
        CorruptIndexError: The bytes are not such a map, or its sizes cannot be those of a segment.
    """
    if len(content) > MOST_MAP_BYTES:
        raise CorruptIndexError(f"the chunk map has {len(content)} bytes; at most {MOST_MAP_BYTES} are read")
    rest = _Rest(content)
    form, flags = rest.take(_HEAD)
    if form != _FORM or flags & ~_FLAGS:
        raise CorruptIndexError(f"the chunk map has form {form} and flags {flags}, which are not known")
    version = rest.text()
    chunk_size, segment_size, stored, last = rest.take(_SIZES)
    if flags & _LISTED:
        chunks = ChunkIndex.variable(chunk_size, segment_size, stored_sizes(rest.sized()))
        if (stored, last) != (0, chunks.last_stored_size):
            raise CorruptIndexError("the chunk map has two sizes of the last stored chunk")
    else:
        chunks = ChunkIndex.fixed(chunk_size, segment_size, stored, last)
    is_compressed, is_encrypted = bool(flags & _COMPRESSED), bool(flags & _ENCRYPTED)
    if not is_compressed:
        refuse_changed_sizes(chunks, is_encrypted=is_encrypted)
    (bits,) = rest.raw(1)
    if bits >> len(INDEXES):
        raise CorruptIndexError(f"the chunk map has the indexes {bits}, which are not known")
    indexes = {part: _stored_index(*rest.take(_PLACE)) for bit, part in enumerate(INDEXES) if bits >> bit & 1}
    encryption = SegmentEncryption(rest.text(), rest.sized(), rest.sized()) if is_encrypted else None
    described = _described(rest) if flags & _DESCRIBED else None
    if rest.left:
        raise CorruptIndexError(f"the chunk map is followed by {rest.left} bytes")
    return ChunkMap(SegmentManifest(chunks, indexes, is_compressed, encryption, described), version)


class _Rest:
    """What is left to read of a map."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    @property
    def left(self) -> int:
        return len(self._content) - self._at

    def raw(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise CorruptIndexError("the chunk map ends inside a field", position=self._at)
        self._at += size
        return self._content[self._at - size : self._at]

    def take(self, fields: struct.Struct) -> tuple[int, ...]:
        return fields.unpack(self.raw(fields.size))

    def sized(self) -> bytes:
        (size,) = self.take(_INT)
        return self.raw(size)

    def text(self) -> str:
        try:
            return self.sized().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise CorruptIndexError("a text in the chunk map is not UTF-8", position=self._at) from error


def _bytes(content: bytes) -> bytes:
    return _INT.pack(len(content)) + content


def _text(text: str) -> bytes:
    return _bytes(text.encode("utf-8", "surrogatepass"))


def _stored_index(position: int, size: int) -> StoredIndex:
    if position < 0 or not 0 <= size <= MOST_INDEX_BYTES:
        raise CorruptIndexError(f"the chunk map has an index of {size} bytes at byte {position}")
    return StoredIndex(position, size)


def _described(rest: _Rest) -> DescribedOffsets:
    start, end = rest.take(_OFFSETS)
    (count,) = rest.take(_INT)
    if not 0 <= count <= rest.left // _OFFSETS.size:
        raise CorruptIndexError(f"the chunk map has {count} leader epochs in {rest.left} bytes")
    epochs = tuple(EpochEntry(*rest.take(_OFFSETS)) for _ in range(count))
    if not 0 <= start <= end <= MAX_OFFSET or any(each.epoch < 0 or each.start_offset < 0 for each in epochs):
        raise CorruptIndexError("the chunk map describes offsets that are not possible")
    return DescribedOffsets(start, end, epochs)
