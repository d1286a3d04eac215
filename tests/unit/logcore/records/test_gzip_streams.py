"""Streams of gzip are what zlib says of them, whichever library reads them."""

import itertools
import random
import struct
import sys
import zlib
from collections.abc import Iterator

import pytest

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.compression import Codec, decompress
from tests import handmade
from tests.unit.logcore.records.compressed_streams import CAP, STREAMS, TEXT, refusal

pytestmark = pytest.mark.slow


def gzip_members() -> Iterator[bytes]:
    """Members of every kind of deflate block, one block and several, with a bare header."""
    texts = [b"", b"a", TEXT, TEXT * 40, bytes(5000), random.Random(5).randbytes(300)]
    texts.append(bytes(random.Random(6).choices(b"etaoin shrdlu{}:,0123456789", k=1500)))
    for text, level, strategy in itertools.product(texts, (0, 1, 6, 9), (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED)):
        deflate = zlib.compressobj(level, zlib.DEFLATED, 31, 8, strategy)
        yield deflate.compress(text) + deflate.flush()


def decoded_by_zlib(stream: bytes) -> bytes | None:
    """The content of all members of a stream; None if zlib refuses one, or the stream is cut or other bytes follow."""
    out = b""
    while stream:
        member = zlib.decompressobj(31)
        try:
            out += member.decompress(stream)
        except zlib.error:
            return None
        if not member.eof:
            return None
        stream = member.unused_data
    return out


def test_isal_has_no_opinion_of_its_own() -> None:
    """Of every cut, and of every flip in the small members and some in the large ones."""
    pytest.importorskip("isal", reason="isal has no wheel here: zlib is all there is")
    chosen = random.Random(7)
    flips = refused = 0
    for stream in gzip_members():
        injured = [stream[:length] for length in range(1, len(stream), 1 + len(stream) // 200)]
        bits = range(8 * len(stream)) if len(stream) < 100 else chosen.sample(range(8 * len(stream)), 800)
        injured += [handmade.flip(stream, bit // 8, bit % 8) for bit in bits]
        for data in [stream, *injured]:
            expected = decoded_by_zlib(data)
            try:
                assert decompress(Codec.GZIP, data, CAP) == expected
            except CorruptRecordError:
                assert expected is None
                refused += 1
            flips += 1
    assert refused > flips // 2


def test_what_isal_takes_and_zlib_does_not_is_refused() -> None:
    """A table of distances that is not complete: isal would decode it, and the checksums are right."""
    igzip_lib = pytest.importorskip("isal.igzip_lib", reason="isal has no wheel here: zlib is all there is")
    text = b"hello kafka topic partition hello kafka topic partition hell"
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15, 8, zlib.Z_HUFFMAN_ONLY)
    body = deflate.compress(text) + deflate.flush()
    found = 0
    for bit in range(8 * len(body)):
        injured = handmade.flip(body, bit // 8, bit % 8)
        stream = bytes.fromhex("1f8b08000000000000ff") + injured + struct.pack("<II", zlib.crc32(text), len(text))
        try:
            taken = igzip_lib.decompress(injured) == text
        except igzip_lib.error:
            continue
        if taken and decoded_by_zlib(stream) is None:
            found += 1
            assert refusal(Codec.GZIP, stream) is CorruptionReason.CODEC_STREAM
    assert found > 0


def test_without_isal_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)
    for stream in gzip_members():
        assert decompress(Codec.GZIP, stream, CAP) == decoded_by_zlib(stream)
        assert refusal(Codec.GZIP, stream[:-1]) is CorruptionReason.CODEC_STREAM


def test_a_gzip_length_that_lies_is_not_allocated() -> None:
    for length in (0, 1, len(TEXT) - 1, len(TEXT) + 1, 1 << 20, (1 << 32) - 1):
        stream = handmade.patch(STREAMS[Codec.GZIP], len(STREAMS[Codec.GZIP]) - 4, struct.pack("<I", length))
        assert refusal(Codec.GZIP, stream) in (CorruptionReason.CODEC_STREAM, CorruptionReason.OUTPUT_CAP)
