"""Compressed streams that are not made by the code under test."""

import gzip
import struct

import pytest

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.compression import Codec, decompress

CAP = 1 << 20

TEXT = bytes(range(256)) * 3 + b"loglake" * 40

XERIAL = bytes.fromhex("82534e41505059000000000100000001")


def snappy_block(data: bytes) -> bytes:
    """Raw snappy of literals alone: a length in base 128, then pieces of at most 60 bytes."""
    preamble, left = b"", len(data)
    while left > 127:
        preamble, left = preamble + bytes([left % 128 + 128]), left // 128
    out = preamble + bytes([left])
    for start in range(0, len(data), 60):
        piece = data[start : start + 60]
        out += bytes([(len(piece) - 1) << 2]) + piece
    return out


def xerial_block(data: bytes) -> bytes:
    block = snappy_block(data)
    return struct.pack(">i", len(block)) + block


def xerial(data: bytes, block: int = 100) -> bytes:
    return XERIAL + b"".join(xerial_block(data[start : start + block]) for start in range(0, len(data), block))


def lz4_frame(data: bytes, block: int = 200) -> bytes:
    """A frame of stored blocks; 82 is the header checksum that goes with flags 60 40."""
    blocks = [data[start : start + block] for start in range(0, len(data), block)]
    stored = b"".join(struct.pack("<I", len(part) | 1 << 31) + part for part in blocks)
    return bytes.fromhex("04224d18604082") + stored + bytes(4)


def zstd_frame(data: bytes, block: int = 200) -> bytes:
    """A frame of raw blocks, window 2 MiB, no content size, no checksum."""
    parts = [data[start : start + block] for start in range(0, len(data), block)] or [b""]
    out = bytes.fromhex("28b52ffd0058")
    for index, part in enumerate(parts):
        out += (len(part) << 3 | (index == len(parts) - 1)).to_bytes(3, "little") + part
    return out


# One stream of each codec, none of it made by the code under test.
STREAMS = {
    Codec.GZIP: gzip.compress(TEXT, mtime=0),
    Codec.SNAPPY: xerial(TEXT),
    Codec.LZ4: lz4_frame(TEXT),
    Codec.ZSTD: zstd_frame(TEXT),
}

CODECS = list(STREAMS)


def refusal(codec: int, data: bytes, limit: int = CAP) -> CorruptionReason:
    with pytest.raises(CorruptRecordError) as caught:
        decompress(codec, data, limit)
    return caught.value.reason
