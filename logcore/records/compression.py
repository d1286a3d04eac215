"""The five codecs of a batch's record bytes. Each is read as a stream with a hard limit on its output.

`CODECS` is the one table of them. A new codec is a member of `Codec`, a row of the table with its two functions, and
a branch in each kernel that shall read or write it without Python (`columns/kernels`).

    codec     what Kafka writes                                          what is read
    0 none    the records                                                the same
    1 gzip    one RFC 1952 member                                        one or several members
    2 snappy  xerial stream: 8 bytes `82 53 4e 41 50 50 59 00`, int32    the same with blocks of any size and repeated
              version, int32 oldest compatible version; then blocks:     headers; without the magic: one raw block
              int32 length, raw snappy of up to 32 KiB
    3 lz4     one LZ4 frame of independent blocks, no checksums but the  one such frame; checksums of header and blocks
              header's, which in v0 messages is a wrong one              verified (in v0 not the header's), content size
                                                                         and checksum skipped
    4 zstd    one frame, no content size, no checksum                    one or several frames, skippable ones too
    5-7       reserved                                                   never

A stream ends where its records end. Kafka's readers ignore bytes after it that are no further stream: after an lz4
frame (even another frame), after the last gzip member, and up to three bytes after the last block of a xerial stream.
So these are read too, and reported. A stream that ends early is damage, and so are other bytes after it. Only zstd-jni
gives what a frame that is cut has given so far.

A size that the data declares (zstd content size, snappy block length, lz4 block length, gzip length) is never enough to
allocate memory. Output is produced in pieces until it passes the limit. Some output comes in one piece (a snappy block,
an ordinary gzip member): its declared length must be within the limit, and possible for so many compressed bytes.

Source: org.apache.kafka.common.compress.*, org.xerial.snappy.SnappyInputStream. Belongs here:
bytes to bytes. The codec modules are imported on first use, because uncompressed logs need none of them.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.lz4_frames import HEADER, HEADER_OF_V0, build_frame, frame_blocks
from logcore.records.snappy_encoder import compressed_block


class Codec(IntEnum):
    """Bits 0 to 2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4
    RESERVED_5 = 5
    RESERVED_6 = 6
    RESERVED_7 = 7

    @property
    def kafka_name(self) -> str:
        """The name as in Kafka's `compression.type`; `reserved-5` and so on for numbers without a codec."""
        return f"reserved-{int(self)}" if self.is_reserved else CODECS[self].name

    @property
    def is_reserved(self) -> bool:
        """Whether the number names no codec."""
        return self not in CODECS

    def is_allowed(self, magic: int) -> bool:
        """Whether batches of format version `magic` may have it."""
        return not self.is_reserved and CODECS[self].first_magic <= magic


XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK = 32 * 1024
_SNAPPY_RATIO = (64, 3)
"""The densest snappy element is a 3-byte copy of 64 bytes."""

GZIP_HEADER = bytes.fromhex("1f8b08000000000000ff")
"""The header that java.util.zip writes: no name, no time, operating system unknown."""
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_GZIP_TRAILER = struct.Struct("<II")
_GZIP_LEAST = 19
_GZIP_RATIO = 1032
"""A match of 258 bytes takes at least two bits."""
_DEFLATE_TABLES = 640
"""No block has longer code tables: 17 bits, 19 lengths of 3 bits, 320 lengths of at most 14 bits."""

ZSTD_MAX_WINDOW = 1 << 27
"""128 MiB, the default limit of zstd for streams, which the broker uses too."""
ZSTD_RATIO = 32 * 1024
"""Most bytes that a byte of a frame gives. A run of one byte: 4 compressed bytes give a block of at most 128 KiB."""
ZSTD_LEVEL = 3

_FIRST_PIECE = 64
_LARGEST_PIECE = 256 * 1024
_LARGEST_CHUNK = 4 * 1024 * 1024

_INT32 = struct.Struct(">i")


def decompress(
    codec: int, data: bytes | memoryview, limit: int, *, magic: int = 2, ignored: list[int] | None = None
) -> bytes:
    """Decode one batch's record bytes.

    Args:
        codec: The codec's number, 0 to 7.
        data: The compressed bytes.
        limit: The most bytes that may come out. A stream with more output is refused.
        magic: The format version of the batch. In v0 the header checksum of an lz4 frame is not checked: the first
            brokers and clients computed it wrongly (KAFKA-3160).
        ignored: Gets the number of bytes after the stream that Kafka's readers ignore, if there are any. None: a stream
            with such bytes is refused.

    Raises:
        CorruptRecordError: CODEC for a reserved number, CODEC_STREAM for a stream that is malformed, truncated or too
            long, OUTPUT_CAP beyond the limit.
        ValueError: `codec` is not 0 to 7, or `limit` is negative.
    """
    known = Codec(codec)
    if limit < 0:
        raise ValueError(f"limit must not be negative: {limit}")
    if known.is_reserved:
        raise CorruptRecordError(CorruptionReason.CODEC, reserved_codec(codec))
    chunks: list[bytes] = []
    total = 0
    with memoryview(data) as view:
        room = _Room(limit, ignored)
        for chunk in CODECS[known].decode(view, room, magic):
            total += len(chunk)
            if total > limit:
                raise _over_cap(known, limit)
            room.left = limit - total
            chunks.append(chunk)
    return b"".join(chunks)


def compress(codec: int, data: bytes, *, magic: int = 2) -> bytes:
    """Encode record bytes in the framing and at the default level of Kafka's own producer.

    All give a broker's bytes where both link the same library versions; snappy where `snappy_encoder` has
    snappy-java's library, else only its framing. `magic` is the format version of the batch: lz4 has another frame in
    v0.
    ValueError for a reserved codec.
    """
    known = Codec(codec)
    if known.is_reserved:
        raise ValueError(f"codec {codec} is reserved")
    return CODECS[known].encode(data, magic)


def reserved_codec(codec: int) -> str:
    """The problem with a batch whose codec is reserved, as errors state it."""
    return f"codec {codec} is reserved; Kafka has written {min(CODECS)} to {max(CODECS)}"


class _Room:
    """How many more bytes a stream may give. Readers request one more, to see that the output is too long."""

    __slots__ = ("ignored", "left")

    def __init__(self, left: int, ignored: list[int] | None) -> None:
        self.left = left
        self.ignored = ignored

    def ignores(self, rest: memoryview) -> bool:
        """Whether bytes after the stream may be ignored. Then they are counted."""
        if self.ignored is not None:
            self.ignored.append(len(rest))
        return self.ignored is not None


def _none_encoded(data: bytes, _magic: int) -> bytes:
    return bytes(data)


def _none_decoded(view: memoryview, room: _Room, _magic: int) -> Iterator[bytes]:
    if len(view) > room.left:
        raise _over_cap(Codec.NONE, room.left)
    yield bytes(view)


def _gzip_encoded(data: bytes, _magic: int) -> bytes:
    deflate = zlib.compressobj(-1, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(data) + deflate.flush()
    return GZIP_HEADER + body + _GZIP_TRAILER.pack(zlib.crc32(data), len(data) & 0xFFFF_FFFF)


def _gzip_decoded(view: memoryview, room: _Room, _magic: int) -> Iterator[bytes]:
    ordinary = _ordinary_gzip(view, room.left)
    if ordinary is not None:
        yield ordinary
        return
    position = 0
    while True:
        rest = view[position:]
        # As in java.util.zip: what does not begin like a member is none, and so is what is too short for one.
        is_member = len(rest) >= _GZIP_LEAST and rest[:3] == GZIP_HEADER[:3]
        if position and not is_member and room.ignores(rest):
            return
        member = zlib.decompressobj(_GZIP_FORMAT)
        # Small pieces first: a finished member returns a copy of the rest of its piece, and there may be many members.
        piece = _FIRST_PIECE
        while not member.eof:
            if position == len(view):
                raise _broken(Codec.GZIP, "the stream ends early")
            fed = view[position : position + piece]
            try:
                chunk = member.decompress(fed, min(room.left + 1, _LARGEST_CHUNK))
            except zlib.error as error:
                raise _broken(Codec.GZIP, _gzip_problem(position)) from error
            position += len(fed) - len(member.unconsumed_tail) - len(member.unused_data)
            piece = min(piece * 2, _LARGEST_PIECE)
            yield chunk
        if position == len(view):
            return


def _ordinary_gzip(view: memoryview, room: int) -> bytes | None:
    """Decode with isal what Kafka's producers write: one member with a bare header and a single deflate block.

    isal accepts code tables that zlib refuses (an incomplete set of distances). They are at the beginning of a block.
    So with a single block it is enough to check the first bytes with zlib.

    Returns:
        The content, or None for any other or damaged stream. Only zlib decides on those.
    """
    deflate = len(GZIP_HEADER)
    size = len(view)
    if size < deflate + _GZIP_TRAILER.size + 2 or view[:4] != GZIP_HEADER[:4] or not view[deflate] & 1:
        return None
    checksum, length = _GZIP_TRAILER.unpack_from(view, size - _GZIP_TRAILER.size)
    if length > min(room, size * _GZIP_RATIO):
        return None
    try:
        from isal import igzip_lib, isal_zlib
    except ImportError:
        return None
    member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)
    try:
        plain = member.decompress(view[deflate:], length + 1)
        zlib.decompressobj(-zlib.MAX_WBITS).decompress(view[deflate : deflate + _DEFLATE_TABLES], 1)
    except (isal_zlib.error, zlib.error):  # type: ignore[misc]  # a class, although its stub has none
        return None
    whole = member.eof and len(plain) == length and len(member.unused_data) == _GZIP_TRAILER.size
    return bytes(plain) if whole and isal_zlib.crc32(plain) == checksum else None


def _gzip_problem(position: int) -> str:
    return "the stream is malformed" if position == 0 else "the stream is malformed, or bytes follow it"


def _snappy_encoded(data: bytes, _magic: int) -> bytes:
    out = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK):
        block = compressed_block(data[start : start + XERIAL_BLOCK])
        out += [_INT32.pack(len(block)), block]
    return b"".join(out)


def _snappy_decoded(view: memoryview, room: _Room, _magic: int) -> Iterator[bytes]:
    # Shorter than the header counts as raw even if it begins with the magic: so does the reader the broker uses.
    if len(view) < len(XERIAL_HEADER) or view[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        yield _snappy_block(view, room.left)
        return
    position = _xerial_header(view, 0)
    while position < len(view):
        if len(view) - position < _INT32.size:
            if room.ignores(view[position:]):
                return
            raise _broken(Codec.SNAPPY, "the stream ends inside a block length")
        # A concatenated stream repeats the header; its first four bytes read as a (negative) block length.
        if view[position : position + _INT32.size] == XERIAL_MAGIC[: _INT32.size]:
            position = _xerial_header(view, position)
            continue
        (length,) = _INT32.unpack_from(view, position)
        position += _INT32.size
        if not 0 <= length <= len(view) - position:
            raise _broken(Codec.SNAPPY, f"a block of {length} bytes where {len(view) - position} are left")
        yield _snappy_block(view[position : position + length], room.left)
        position += length


def _xerial_header(view: memoryview, position: int) -> int:
    header = bytes(view[position : position + len(XERIAL_HEADER)])
    if len(header) < len(XERIAL_HEADER) or not header.startswith(XERIAL_MAGIC):
        raise _broken(Codec.SNAPPY, "a second stream header is damaged")
    # The two versions after the magic are not checked: the broker's reader accepts any.
    return position + len(XERIAL_HEADER)


def _snappy_block(block: memoryview, room: int) -> bytes:
    import snappy

    declared, preamble = _snappy_length(block)
    numerator, denominator = _SNAPPY_RATIO
    if declared > room:
        raise _over_cap(Codec.SNAPPY, room)
    if declared * denominator > (len(block) - preamble) * numerator:
        raise _broken(Codec.SNAPPY, f"a block of {len(block)} bytes declares {declared}, more than it can give")
    try:
        plain = snappy.uncompress(bytes(block))
    except snappy.UncompressError as error:
        raise _broken(Codec.SNAPPY, "a block is malformed") from error
    if len(plain) != declared:
        raise _broken(Codec.SNAPPY, f"a block declares {declared} bytes and gives {len(plain)}")
    return bytes(plain)


def _snappy_length(block: memoryview) -> tuple[int, int]:
    """Read a block's declared uncompressed length (plain base-128, at most 32 bits), and where its elements begin."""
    value = 0
    for index in range(min(len(block), 5)):
        value |= (block[index] & 0x7F) << (7 * index)
        if block[index] < 0x80:
            if value > 0xFFFF_FFFF:
                break
            return value, index + 1
    raise _broken(Codec.SNAPPY, "a block does not declare its length")


def _lz4_encoded(data: bytes, magic: int) -> bytes:
    return build_frame(data, HEADER_OF_V0 if magic == 0 else HEADER)


def _lz4_decoded(view: memoryview, room: _Room, magic: int) -> Iterator[bytes]:
    end = yield from frame_blocks(view, header_checked=magic != 0)
    if end < len(view) and not room.ignores(view[end:]):
        raise _broken(Codec.LZ4, "bytes follow the stream")


def _zstd_encoded(data: bytes, _magic: int) -> bytes:
    import zstandard

    stream = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_content_size=False).compressobj()
    # Kafka's stream is flushed before it is closed, which leaves an empty last block.
    flushed = stream.compress(data) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return flushed + stream.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH)


def _zstd_decoded(view: memoryview, room: _Room, _magic: int) -> Iterator[bytes]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_MAX_WINDOW)
    position = 0
    while True:
        frame = decompressor.decompressobj()
        piece = _FIRST_PIECE
        while not frame.eof:
            if position == len(view):
                raise _broken(Codec.ZSTD, "the stream ends early")
            # This reader has no limit of its own, so each piece is too small to give much more than the room.
            bound = max(_FIRST_PIECE, room.left // ZSTD_RATIO)
            fed = view[position : position + min(piece, bound, _LARGEST_PIECE)]
            try:
                chunk = frame.decompress(fed)
            except zstandard.ZstdError as error:
                problem = "the stream is malformed, needs too large a window, or bytes follow it"
                raise _broken(Codec.ZSTD, problem) from error
            position += len(fed) - len(frame.unused_data)
            piece *= 2
            yield chunk
        if position == len(view):
            return


def _broken(codec: Codec, problem: str) -> CorruptRecordError:
    return CorruptRecordError(CorruptionReason.CODEC_STREAM, f"{codec.kafka_name}: {problem}")


def _over_cap(codec: Codec, limit: int) -> CorruptRecordError:
    return CorruptRecordError(
        CorruptionReason.OUTPUT_CAP,
        f"{codec.kafka_name}: the stream gives more than the {limit} bytes allowed",
    )


@dataclass(frozen=True, slots=True)
class CodecSpec:
    """One of Kafka's codecs: org.apache.kafka.common.record.CompressionType."""

    codec: Codec
    """Its number, which is also its slot among those that a kernel's frame has for codecs."""
    name: str
    """As in Kafka's `compression.type`."""
    first_magic: int
    """The first format version whose batches may have it."""
    encode: Callable[[bytes, int], bytes]
    """From record bytes and the batch's magic to what is stored."""
    decode: Callable[[memoryview, _Room, int], Iterator[bytes]]
    """From what is stored, the room for output and the batch's magic to record bytes, in pieces."""


CODECS: Mapping[Codec, CodecSpec] = {
    spec.codec: spec
    for spec in (
        CodecSpec(Codec.NONE, "none", 0, _none_encoded, _none_decoded),
        CodecSpec(Codec.GZIP, "gzip", 0, _gzip_encoded, _gzip_decoded),
        CodecSpec(Codec.SNAPPY, "snappy", 0, _snappy_encoded, _snappy_decoded),
        CodecSpec(Codec.LZ4, "lz4", 0, _lz4_encoded, _lz4_decoded),
        CodecSpec(Codec.ZSTD, "zstd", 2, _zstd_encoded, _zstd_decoded),
    )
}
"""Every codec of Kafka. Numbers that are missing here are reserved."""
