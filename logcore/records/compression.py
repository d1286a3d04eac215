"""The five codecs of a batch's record bytes, each read as a stream under a hard cap on its output.

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

A stream ends where its records end: bytes behind it that are no further stream are damage, as is a stream that stops
early. Kafka's own readers go on silently in some of these cases: they look at nothing behind an lz4 frame, not even
another one, nor behind the last gzip member, nor where a second zstd frame is cut.

Sizes that the data declares (zstd content size, snappy block length, lz4 block length, gzip length) are never allocated
by alone: output is produced piece by piece until it passes the cap, and where it comes in one piece (a snappy block,
an ordinary gzip member) the declared length must fit the cap and be one that the compressed bytes could give at all.

Source: org.apache.kafka.common.compress.*, org.xerial.snappy.SnappyInputStream. Belongs here:
bytes to bytes. The codec modules are imported on first use, so that reading uncompressed logs needs none of them.
"""

import struct
import zlib
from collections.abc import Iterator
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
        return self.name.lower().replace("_", "-")

    @property
    def is_reserved(self) -> bool:
        """Whether the number names no codec."""
        return self > Codec.ZSTD


XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK = 32 * 1024
_SNAPPY_RATIO = (64, 3)
"""The densest snappy element is a 3-byte copy of 64 bytes."""

GZIP_HEADER = bytes.fromhex("1f8b08000000000000ff")
"""What java.util.zip writes: no name, no time, operating system unknown."""
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_GZIP_TRAILER = struct.Struct("<II")
_GZIP_RATIO = 1032
"""A match of 258 bytes takes two bits at least."""
_DEFLATE_TABLES = 640
"""No block's code tables are longer: 17 bits, 19 lengths of 3 bits, 320 lengths of at most 14 bits."""

ZSTD_MAX_WINDOW = 1 << 27
"""128 MiB, the bound that zstd itself puts on streams unless told otherwise, so the broker's too."""
_ZSTD_RATIO = 32 * 1024
"""A run of one byte: 4 compressed bytes give a block of at most 128 KiB."""
ZSTD_LEVEL = 3

_FIRST_PIECE = 64
_LARGEST_PIECE = 256 * 1024
_LARGEST_CHUNK = 4 * 1024 * 1024

_INT32 = struct.Struct(">i")


def decompress(codec: int, data: bytes | memoryview, limit: int, *, magic: int = 2) -> bytes:
    """Decode one batch's record bytes. At most `limit` bytes come out; a stream that would give more is refused.

    `magic`: the format version of the batch. In v0 the header checksum of an lz4 frame is not looked at: the first
    brokers and clients computed it wrongly (KAFKA-3160).

    Raises CorruptRecordError: CODEC for a reserved number, CODEC_STREAM for a malformed, truncated or overlong stream,
    OUTPUT_CAP beyond the limit. ValueError if `codec` is not 0 to 7 or `limit` is negative.
    """
    known = Codec(codec)
    if limit < 0:
        raise ValueError(f"limit must not be negative: {limit}")
    if known.is_reserved:
        raise CorruptRecordError(CorruptionReason.CODEC, f"codec {codec} is reserved; Kafka has written 0 to 4")
    chunks: list[bytes] = []
    total = 0
    with memoryview(data) as view:
        room = _Room(limit)
        stream = _lz4_of_v0 if known is Codec.LZ4 and magic == 0 else _STREAMS[known]
        for chunk in stream(view, room):
            total += len(chunk)
            if total > limit:
                raise _over_cap(known, limit)
            room.left = limit - total
            chunks.append(chunk)
    return b"".join(chunks)


def compress(codec: int, data: bytes, *, magic: int = 2) -> bytes:
    """Encode record bytes in the framing and at the default level of Kafka's own producer.

    All give a broker's bytes where both link the same library versions; snappy where `snappy_encoder` finds the JVM's
    library, else only its framing. `magic` is the format version of the batch, for lz4 is framed differently in v0.
    ValueError for a codec that is not 0 to 4.
    """
    match Codec(codec):
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            deflate = zlib.compressobj(-1, zlib.DEFLATED, -zlib.MAX_WBITS)
            body = deflate.compress(data) + deflate.flush()
            return GZIP_HEADER + body + struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFF_FFFF)
        case Codec.SNAPPY:
            out = [XERIAL_HEADER]
            for start in range(0, len(data), XERIAL_BLOCK):
                block = compressed_block(data[start : start + XERIAL_BLOCK])
                out += [_INT32.pack(len(block)), block]
            return b"".join(out)
        case Codec.LZ4:
            return build_frame(data, HEADER_OF_V0 if magic == 0 else HEADER)
        case Codec.ZSTD:
            import zstandard

            stream = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_content_size=False).compressobj()
            # Kafka's stream is flushed before it is closed, which leaves an empty last block.
            flushed = stream.compress(data) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            return flushed + stream.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH)
        case _:
            raise ValueError(f"codec {codec} is reserved")


class _Room:
    """How many more bytes a stream may give. One more is always asked for, to see that it would be too many."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


def _none(view: memoryview, room: _Room) -> Iterator[bytes]:
    if len(view) > room.left:
        raise _over_cap(Codec.NONE, room.left)
    yield bytes(view)


def _gzip(view: memoryview, room: _Room) -> Iterator[bytes]:
    ordinary = _ordinary_gzip(view, room.left)
    if ordinary is not None:
        yield ordinary
        return
    position = 0
    while True:
        member = zlib.decompressobj(_GZIP_FORMAT)
        # Small pieces first: a finished member hands back a copy of its piece's rest, and there may be many members.
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
    """The content of a stream as Kafka's producers write it, decoded by isal: one member with a bare header and a
    single deflate block. None for all others, and whatever is wrong: zlib has the only say on those.

    isal takes code tables that zlib does not (an incomplete set of distances). They stand at the beginning of a block,
    so with a single block zlib's opinion on them costs the first bytes only.
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
    except (isal_zlib.error, zlib.error):  # type: ignore[misc]  # a class, whatever its stub says
        return None
    whole = member.eof and len(plain) == length and len(member.unused_data) == _GZIP_TRAILER.size
    return bytes(plain) if whole and isal_zlib.crc32(plain) == checksum else None


def _gzip_problem(position: int) -> str:
    return "the stream is malformed" if position == 0 else "the stream is malformed, or bytes follow it"


def _snappy(view: memoryview, room: _Room) -> Iterator[bytes]:
    # Shorter than the header counts as raw even if it begins with the magic: so does the reader the broker uses.
    if len(view) < len(XERIAL_HEADER) or view[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        yield _snappy_block(view, room.left)
        return
    position = _xerial_header(view, 0)
    while position < len(view):
        if len(view) - position < _INT32.size:
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
    # The two versions behind the magic are not looked at: the reader the broker uses takes any.
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
    """The block's declared uncompressed length (plain base-128, at most 32 bits) and where its elements begin."""
    value = 0
    for index in range(min(len(block), 5)):
        value |= (block[index] & 0x7F) << (7 * index)
        if block[index] < 0x80:
            if value > 0xFFFF_FFFF:
                break
            return value, index + 1
    raise _broken(Codec.SNAPPY, "a block does not declare its length")


def _lz4(view: memoryview, _: _Room) -> Iterator[bytes]:
    return frame_blocks(view)


def _lz4_of_v0(view: memoryview, _: _Room) -> Iterator[bytes]:
    return frame_blocks(view, header_checked=False)


def _zstd(view: memoryview, room: _Room) -> Iterator[bytes]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_MAX_WINDOW)
    position = 0
    while True:
        frame = decompressor.decompressobj()
        piece = _FIRST_PIECE
        while not frame.eof:
            if position == len(view):
                raise _broken(Codec.ZSTD, "the stream ends early")
            # This reader has no cap of its own: a piece is kept so small that it cannot give much more than the room.
            bound = max(_FIRST_PIECE, room.left // _ZSTD_RATIO)
            fed = view[position : position + min(piece, bound, _LARGEST_PIECE)]
            try:
                chunk = frame.decompress(fed)
            except zstandard.ZstdError as error:
                problem = "the stream is malformed, asks for too large a window, or bytes follow it"
                raise _broken(Codec.ZSTD, problem) from error
            position += len(fed) - len(frame.unused_data)
            piece *= 2
            yield chunk
        if position == len(view):
            return


_STREAMS = {Codec.NONE: _none, Codec.GZIP: _gzip, Codec.SNAPPY: _snappy, Codec.LZ4: _lz4, Codec.ZSTD: _zstd}


def _broken(codec: Codec, problem: str) -> CorruptRecordError:
    return CorruptRecordError(CorruptionReason.CODEC_STREAM, f"{codec.kafka_name}: {problem}")


def _over_cap(codec: Codec, limit: int) -> CorruptRecordError:
    return CorruptRecordError(
        CorruptionReason.OUTPUT_CAP,
        f"{codec.kafka_name}: the stream gives more than the {limit} bytes allowed",
    )
