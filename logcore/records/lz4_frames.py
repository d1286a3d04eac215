"""LZ4 frames by the rules of Kafka's own reader. In some points they differ from those of the reference library.

    4   magic             04 22 4d 18
    1   FLG               bits 7-6 version (01) · 5 blocks are independent (must be) · 4 block checksums · 3 content
                          size · 2 content checksum · 1-0 zero
    1   BD                bits 6-4 largest block: 4 64 KiB, 5 256 KiB, 6 1 MiB, 7 4 MiB · the rest zero
    8   content size      if FLG bit 3; skipped
    1   header checksum   second byte of XXH32(FLG … content size); any in v0 messages, see `header_checksum`
    per block:
    4   length            little-endian; the high bit means that the block is not compressed; length 0 ends the frame
    -   block
    4   block checksum    if FLG bit 4: XXH32 of the block as stored; must be right
    4   content checksum  after the end mark, if FLG bit 2; skipped

Kafka writes `60 40 82`, or `1a` as checksum in v0 messages. Source: org.apache.kafka.common.compress.
{Lz4BlockInputStream, Lz4BlockOutputStream}. Belongs here: the frames. The library decodes the blocks.
"""

import struct
from collections.abc import Generator

from logcore.errors import CorruptionReason, CorruptRecordError

MAGIC = b"\x04\x22\x4d\x18"
HEADER = MAGIC + b"\x60\x40\x82"
"""The header that Kafka writes: version 1, independent blocks, 64 KiB blocks, header checksum."""
HEADER_OF_V0 = MAGIC + b"\x60\x40\x1a"
"""The same in messages of format v0, with the checksum that the first brokers and clients computed (KAFKA-3160)."""
BLOCK = 64 * 1024

_STORED = 0x8000_0000
_VERSION, _INDEPENDENT, _BLOCK_SUMS, _CONTENT_SIZE, _CONTENT_SUM, _RESERVED = 0x40, 0x20, 0x10, 0x08, 0x04, 0x03
_BLOCK_SIZES = {code << 4: 1 << (8 + 2 * code) for code in range(4, 8)}
_RATIO = 255
"""One more byte of a match length means 255 more bytes of output."""

_UINT32_LE = struct.Struct("<I")
_UINT32 = 0xFFFF_FFFF
_XXH_1, _XXH_2, _XXH_3, _XXH_4, _XXH_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


def frame_blocks(view: memoryview, *, header_checked: bool = True) -> Generator[bytes, None, int]:
    """Decode the frame at the beginning of `view`, block by block. A block gives 4 MiB at most.

    Args:
        view: A frame, and perhaps more bytes.
        header_checked: Whether the header's checksum must be right. False for messages of format v0.

    Returns:
        Where the frame ends.

    Raises:
        CorruptRecordError: CODEC_STREAM for a frame that Kafka refuses.
    """
    import lz4.block

    flags, largest, position = _header(view, header_checked)
    while True:
        word, position = _word(view, position)
        length = word & ~_STORED
        if length == 0:
            break
        if length > largest:
            raise _broken(f"a block of {length} bytes in a frame of blocks of at most {largest}")
        if length > len(view) - position:
            raise _broken("the stream ends early")
        block = view[position : position + length]
        position += length
        if flags & _BLOCK_SUMS:
            checksum, position = _word(view, position)
            _check_block(word, block, checksum)
        if word & _STORED:
            yield bytes(block)
            continue
        try:
            yield lz4.block.decompress(block, uncompressed_size=min(largest, length * _RATIO))
        except lz4.block.LZ4BlockError as error:
            raise _broken("a block is malformed") from error
    if flags & _CONTENT_SUM:
        _, position = _word(view, position)
    return position


def _header(view: memoryview, checked: bool) -> tuple[int, int, int]:
    """Read the frame's flags, its largest block size, and where its first block begins."""
    if view[: len(MAGIC)] != MAGIC:
        raise _broken("the stream does not begin with an LZ4 frame")
    start = len(MAGIC)
    if len(view) < len(HEADER):
        raise _broken("the stream ends early")
    flags, sizes = view[start], view[start + 1]
    if flags & 0xC0 != _VERSION or flags & _RESERVED or sizes not in _BLOCK_SIZES:
        raise _broken(f"Kafka does not know the frame descriptor flags 0x{flags:02x}{sizes:02x}")
    if not flags & _INDEPENDENT:
        raise _broken("the frame's blocks depend on each other, which Kafka does not read")
    end = start + (10 if flags & _CONTENT_SIZE else 2)
    if end >= len(view):
        raise _broken("the stream ends early")
    if checked and view[end] != header_checksum(bytes(view[start:end])):
        raise _broken("the frame descriptor's checksum is wrong")
    return flags, _BLOCK_SIZES[sizes], end + 1


def _word(view: memoryview, position: int) -> tuple[int, int]:
    if len(view) - position < _UINT32_LE.size:
        raise _broken("the stream ends early")
    return _UINT32_LE.unpack_from(view, position)[0], position + _UINT32_LE.size


def _check_block(word: int, block: memoryview, checksum: int) -> None:
    """Verify the checksum of a block as it is stored. Kafka writes none. The library checks a frame of only this
    block.
    """
    import lz4.frame

    descriptor = bytes([_VERSION | _INDEPENDENT | _BLOCK_SUMS, max(_BLOCK_SIZES)])
    frame = MAGIC + descriptor + bytes([header_checksum(descriptor)])
    frame += _UINT32_LE.pack(word) + bytes(block) + _UINT32_LE.pack(checksum) + bytes(4)
    try:
        lz4.frame.LZ4FrameDecompressor().decompress(frame, max(_BLOCK_SIZES.values()))
    except RuntimeError as error:
        raise _broken("a block or its checksum is malformed") from error


def header_checksum(descriptor: bytes) -> int:
    """Compute a header's checksum: the second byte of the XXH32 of fewer than 16 bytes, from the flags to the checksum.

    Kafka up to 0.9, and in v0 messages always, hashed the four bytes of the magic too.
    """
    value = (_XXH_5 + len(descriptor)) & _UINT32
    words = len(descriptor) // 4 * 4
    for at in range(0, words, 4):
        value = _rotated(value + _UINT32_LE.unpack_from(descriptor, at)[0] * _XXH_3, 17) * _XXH_4 & _UINT32
    for byte in descriptor[words:]:
        value = _rotated(value + byte * _XXH_5, 11) * _XXH_1 & _UINT32
    value = (value ^ value >> 15) * _XXH_2 & _UINT32
    value = (value ^ value >> 13) * _XXH_3 & _UINT32
    return (value ^ value >> 16) >> 8 & 0xFF


def _rotated(value: int, bits: int) -> int:
    value &= _UINT32
    return value << bits & _UINT32 | value >> (32 - bits)


def build_frame(data: bytes, header: bytes = HEADER) -> bytes:
    """Build the frame that Kafka's producer writes for `data` at its default level."""
    from cramjam import (
        lz4,
    )  # the reference's fast blocks, as in Java; those of the package `lz4` differ at times

    out = [header]
    for start in range(0, len(data), BLOCK):
        plain = data[start : start + BLOCK]
        block = bytes(lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += [_UINT32_LE.pack(len(block)), block]
        else:
            out += [_UINT32_LE.pack(len(plain) | _STORED), plain]
    return b"".join(out) + bytes(4)


def _broken(problem: str) -> CorruptRecordError:
    return CorruptRecordError(CorruptionReason.CODEC_STREAM, f"lz4: {problem}")
