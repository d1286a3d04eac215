"""Where the chunks of a segment are in its stored object (Aiven's plugin).

A segment is cut into chunks of one size; the last one may be shorter. Each chunk is compressed and encrypted alone, and
the stored chunks follow each other without gaps. So a range of the segment needs only the chunks that it touches.

    "chunkIndex" of a manifest
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

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from logcore.errors import CorruptIndexError

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
