"""Streams that would become very large stop at the cap, in bounded memory."""

import random
import struct
import subprocess
import sys
import zlib

import pytest

from logcore.errors import CorruptionReason
from logcore.records.compression import Codec, compress, decompress
from tests.daemons import WAIT_SECONDS
from tests.unit.logcore.records.compressed_streams import CODECS, TEXT, lz4_frame, refusal, xerial, zstd_frame

pytestmark = pytest.mark.slow

ORDINARY = random.Random(1).randbytes(800 * 1000)
"""What does not compress, for bombs that begin like ordinary data; below the cap of 1 MiB."""


def gzip_zeros(mebibytes: int, before: bytes = b"") -> bytes:
    """A member of so many MiB of zeros; a fully flushed piece of deflate can be repeated."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = deflate.compress(before) + deflate.flush(zlib.Z_FULL_FLUSH)
    first = deflate.compress(bytes(1 << 20)) + deflate.flush(zlib.Z_FULL_FLUSH)
    crc = zlib.crc32(before)
    for _ in range(mebibytes):
        crc = zlib.crc32(bytes(1 << 20), crc)
    end = struct.pack("<II", crc, len(before) + (mebibytes << 20))
    return bytes.fromhex("1f8b08000000000000ff") + start + first * mebibytes + b"\x03\x00" + end


def zstd_zeros(mebibytes: int, before: bytes = b"") -> bytes:
    """Runs of 128 KiB, 4 bytes each."""
    raw = b"".join(
        (len(part) << 3).to_bytes(3, "little") + part
        for part in (before[start : start + 100_000] for start in range(0, len(before), 100_000))
    )
    run = ((128 * 1024) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    return bytes.fromhex("28b52ffd0058") + raw + run * (8 * mebibytes) + bytes.fromhex("010000")


def lz4_zeros(mebibytes: int, before: bytes = b"") -> bytes:
    start = lz4_frame(before, 64 * 1024)[:-4]
    block = compress(Codec.LZ4, bytes(64 * 1024))[7:-4]
    return start + block * (16 * mebibytes) + bytes(4)


def snappy_zeros(mebibytes: int, before: bytes = b"") -> bytes:
    block = compress(Codec.SNAPPY, bytes(32 * 1024))[16:]
    return xerial(before, 32 * 1024) + block * (32 * mebibytes)


BOMBS = {Codec.GZIP: gzip_zeros, Codec.SNAPPY: snappy_zeros, Codec.LZ4: lz4_zeros, Codec.ZSTD: zstd_zeros}

MEASURE = """
import resource, sys
from logcore.errors import CorruptRecordError
from logcore.records.compression import compress, decompress
codec, data = int(sys.argv[1]), sys.stdin.buffer.read()
decompress(codec, compress(codec, b"warm"), 10)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, data, 1 << 20)
except CorruptRecordError as error:
    print(error.reason, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("codec", CODECS)
def test_the_bombs_are_streams_that_would_go_off(codec: Codec) -> None:
    assert decompress(codec, BOMBS[codec](2), 2 << 20) == bytes(2 << 20)
    assert decompress(codec, BOMBS[codec](2, ORDINARY), 3 << 20) == ORDINARY + bytes(2 << 20)


@pytest.mark.parametrize("before", [b"", ORDINARY], ids=["at once", "after ordinary data"])
@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_of_a_gibibyte_stops_at_the_cap_in_bounded_memory(codec: Codec, before: bytes) -> None:
    bomb = BOMBS[codec](1024, before)
    assert len(bomb) < 64 << 20
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(int(codec))],
        input=bomb,
        capture_output=True,
        check=True,
        timeout=WAIT_SECONDS,
    )
    reason, grown_kib = run.stdout.split()
    assert reason.decode() == CorruptionReason.OUTPUT_CAP
    assert int(grown_kib) < 16 * 1024


def test_a_zstd_frame_that_claims_a_tebibyte_is_not_believed() -> None:
    # content size 2^40 in the frame header, a window of 1 MiB, and endless zeros
    runs = zstd_zeros(1024)[6:]
    stream = bytes.fromhex("28b52ffdc050") + struct.pack("<Q", 1 << 40) + runs
    assert refusal(Codec.ZSTD, stream) is CorruptionReason.OUTPUT_CAP
    claimed = bytes.fromhex("28b52ffdc050") + struct.pack("<Q", 1 << 40) + zstd_frame(TEXT)[6:]
    assert refusal(Codec.ZSTD, claimed) is CorruptionReason.CODEC_STREAM
