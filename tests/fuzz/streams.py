"""Compressed streams in Kafka's framings, made without the library's own encoder, so that both can be wrong alone."""

import struct
import zlib
from collections.abc import Callable

import lz4.frame
import snappy
import zstandard

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_ZSTD = zstandard.ZstdCompressor(level=3, write_content_size=False)


def gzip_stream(plain: bytes, level: int = 6) -> bytes:
    """One member, as Java writes it: no name, no time, operating system unknown."""
    deflate = zlib.compressobj(level, zlib.DEFLATED, -15)
    body = deflate.compress(plain) + deflate.flush()
    return bytes.fromhex("1f8b08000000000000ff") + body + struct.pack("<II", zlib.crc32(plain), len(plain))


def snappy_stream(plain: bytes, block: int = 32 * 1024) -> bytes:
    """The xerial framing: a header, then blocks with their lengths."""
    out = [XERIAL]
    for start in range(0, len(plain), block):
        packed = snappy.compress(plain[start : start + block])
        out.append(struct.pack(">i", len(packed)) + packed)
    return b"".join(out)


def snappy_raw(plain: bytes) -> bytes:
    """One block without framing, as some clients other than Java's write it."""
    return bytes(snappy.compress(plain))


def lz4_stream(plain: bytes) -> bytes:
    """One frame of independent 64 KiB blocks, no content size, no checksums but that of its header."""
    return bytes(
        lz4.frame.compress(
            plain, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, content_checksum=False, store_size=False
        )
    )


def lz4_stream_of_v0(plain: bytes) -> bytes:
    """The same with the header checksum that Kafka's writers of message format v0 got wrong."""
    stream = lz4_stream(plain)
    assert stream[:7] == bytes.fromhex("04224d18604082")
    return stream[:6] + b"\x1a" + stream[7:]


def zstd_stream(plain: bytes) -> bytes:
    """One frame without content size or checksum."""
    return _ZSTD.compress(plain)


STREAMS: dict[int, Callable[[bytes], bytes]] = {
    NONE: bytes,
    GZIP: gzip_stream,
    SNAPPY: snappy_stream,
    LZ4: lz4_stream,
    ZSTD: zstd_stream,
}
