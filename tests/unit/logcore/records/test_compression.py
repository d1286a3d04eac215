import gzip
import itertools
import random
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator

import pytest

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.compression import Codec, compress, decompress
from logcore.records.lz4_frames import header_checksum
from tests import handmade

pytestmark = pytest.mark.slow

CAP = 1 << 20
TEXT = bytes(range(256)) * 3 + b"loglake" * 40
OTHER = b"another stream"

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


@pytest.mark.parametrize("codec", CODECS)
def test_a_stream_gives_what_was_put_in(codec: Codec) -> None:
    assert decompress(codec, STREAMS[codec], CAP) == TEXT
    assert decompress(codec, memoryview(STREAMS[codec]), CAP) == TEXT


@pytest.mark.parametrize("codec", CODECS)
def test_the_cap_is_exact(codec: Codec) -> None:
    assert decompress(codec, STREAMS[codec], len(TEXT)) == TEXT
    assert decompress(codec, STREAMS[codec], len(TEXT) + 1) == TEXT
    assert refusal(codec, STREAMS[codec], len(TEXT) - 1) is CorruptionReason.OUTPUT_CAP
    assert refusal(codec, STREAMS[codec], 0) is CorruptionReason.OUTPUT_CAP


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 4 * 1024 * 1024 + 1])
def test_the_cap_is_exact_for_larger_outputs_too(codec: Codec, size: int) -> None:
    plain = b"0123456789abcdef" * (size // 16) + b"x" * (size % 16)
    stream = compress(codec, plain)
    assert decompress(codec, stream, size) == plain
    assert refusal(codec, stream, size - 1) is CorruptionReason.OUTPUT_CAP


def test_uncompressed_bytes_are_under_the_cap_too() -> None:
    assert decompress(Codec.NONE, TEXT, len(TEXT)) == TEXT
    assert refusal(Codec.NONE, TEXT, len(TEXT) - 1) is CorruptionReason.OUTPUT_CAP


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_stream_cut_at_any_byte_is_an_error(codec: Codec) -> None:
    stream = STREAMS[codec]
    for length in range(len(stream)):
        assert refusal(codec, stream[:length]) is CorruptionReason.CODEC_STREAM


def test_a_snappy_stream_cut_anywhere_but_between_blocks_is_an_error() -> None:
    # xerial has no end mark: between blocks a cut cannot be seen here, only in the count of records.
    stream = XERIAL + xerial_block(b"a" * 50) + xerial_block(b"b" * 70)
    whole = {len(XERIAL): b"", len(XERIAL) + len(xerial_block(b"a" * 50)): b"a" * 50}
    for length in range(len(stream)):
        if length in whole:
            assert decompress(Codec.SNAPPY, stream[:length], CAP) == whole[length]
        else:
            assert refusal(Codec.SNAPPY, stream[:length]) is CorruptionReason.CODEC_STREAM


def test_a_raw_snappy_block_cut_at_any_byte_is_an_error() -> None:
    block = snappy_block(TEXT)
    assert decompress(Codec.SNAPPY, block, CAP) == TEXT
    for length in range(len(block)):
        assert refusal(Codec.SNAPPY, block[:length]) is CorruptionReason.CODEC_STREAM


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "junk", [b"\0", b"\0" * 4, b"\0" * 64, b"junk", b"\xff" * 9, b"\x28\xb5", b"\x1f\x8b", b"x" * 5000]
)
def test_bytes_after_a_stream_are_damage(codec: Codec, junk: bytes) -> None:
    assert refusal(codec, STREAMS[codec] + junk) is CorruptionReason.CODEC_STREAM


@pytest.mark.parametrize("raw", [True, False])
def test_bytes_after_a_snappy_block_are_damage(raw: bool) -> None:
    block = snappy_block(TEXT) + b"\x00z"
    stream = block if raw else XERIAL + struct.pack(">i", len(block)) + block
    assert refusal(Codec.SNAPPY, stream) is CorruptionReason.CODEC_STREAM


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD, Codec.SNAPPY])
def test_consecutive_streams_are_all_read(codec: Codec) -> None:
    second = {Codec.GZIP: gzip.compress(OTHER), Codec.ZSTD: zstd_frame(OTHER), Codec.SNAPPY: xerial(OTHER)}[codec]
    both = STREAMS[codec] + second
    assert decompress(codec, both, CAP) == TEXT + OTHER
    assert refusal(codec, both, len(TEXT) + len(OTHER) - 1) is CorruptionReason.OUTPUT_CAP
    assert refusal(codec, both[:-1]) is CorruptionReason.CODEC_STREAM
    assert refusal(codec, both + b"junk") is CorruptionReason.CODEC_STREAM


def test_a_second_lz4_frame_is_damage_for_kafka_stops_at_the_first() -> None:
    assert refusal(Codec.LZ4, STREAMS[Codec.LZ4] + lz4_frame(OTHER)) is CorruptionReason.CODEC_STREAM


def test_many_empty_members_take_no_longer_than_their_bytes() -> None:
    # Handing the whole rest from one member to the next would copy 400 GB here.
    stream = gzip.compress(b"", mtime=0) * 200_000
    before = time.process_time()
    assert decompress(Codec.GZIP, stream, CAP) == b""
    assert time.process_time() - before < 3  # a tenth of that where every byte is copied once


def test_skippable_zstd_frames_are_skipped() -> None:
    skippable = struct.pack("<II", 0x184D2A53, 3) + b"abc"
    assert decompress(Codec.ZSTD, skippable + zstd_frame(TEXT) + skippable + zstd_frame(OTHER), CAP) == TEXT + OTHER


@pytest.mark.parametrize(
    ("codec", "data", "length"),
    # What snappy-java 1.1.10.8, zstd-jni 1.5.7-7 and java.util.zip (Java 17) do with these; None = an exception.
    [
        (Codec.SNAPPY, XERIAL + xerial_block(TEXT) + xerial_block(OTHER), len(TEXT) + len(OTHER)),
        (Codec.SNAPPY, XERIAL, 0),
        (Codec.SNAPPY, b"\0", 0),
        (Codec.SNAPPY, XERIAL + b"\0\0\0\1\0" + xerial_block(OTHER), len(OTHER)),
        (Codec.SNAPPY, XERIAL[:8] + b"\0\0\0\0\0\0\0\1" + xerial_block(OTHER), len(OTHER)),
        (Codec.SNAPPY, XERIAL[:8] + b"\0\0\0\2\0\0\0\2" + xerial_block(OTHER), len(OTHER)),
        (Codec.SNAPPY, b"", None),
        (Codec.SNAPPY, XERIAL[:8], None),
        (Codec.SNAPPY, XERIAL + b"\0\0\0\0" + xerial_block(OTHER), None),
        (Codec.SNAPPY, XERIAL + b"\xff\xff\xff\xfb" + xerial_block(OTHER), None),
        (Codec.SNAPPY, XERIAL + xerial_block(OTHER) + XERIAL[:9], None),
        (Codec.ZSTD, bytes.fromhex("28b52ffd0088010000"), 0),  # window of 128 MiB
        (Codec.ZSTD, bytes.fromhex("28b52ffd0089010000"), None),  # 144 MiB
        (Codec.ZSTD, bytes.fromhex("28b52ffd0090010000"), None),  # 256 MiB
        (Codec.ZSTD, bytes.fromhex("28b52ffde0 0000000000010000 010000"), None),  # 1 TiB in a single segment
        (Codec.ZSTD, bytes.fromhex("27b52ffd") + bytes(20), None),  # the format before zstd 0.8
        (Codec.GZIP, b"", None),
    ],
)
def test_odd_streams_end_as_in_java(codec: Codec, data: bytes, length: int | None) -> None:
    if length is None:
        assert refusal(codec, data) is CorruptionReason.CODEC_STREAM
    else:
        assert len(decompress(codec, data, CAP)) == length


def test_a_zstd_stream_of_no_bytes_is_an_error() -> None:
    # Java reads nothing from nothing; where records are counted, nothing is too little.
    assert refusal(Codec.ZSTD, b"") is CorruptionReason.CODEC_STREAM


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 18, 0x7FFFFFFF])
def test_a_snappy_block_length_is_compared_with_the_bytes_left(length: int) -> None:
    stream = XERIAL + struct.pack(">i", length) + snappy_block(b"sixteen bytes ok")[:17]
    with pytest.raises(CorruptRecordError, match="does not declare" if length == 0 else f"a block of {length} bytes"):
        decompress(Codec.SNAPPY, stream, CAP)


@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize(
    ("preamble", "reason"),
    [
        ("ffffffff0f", CorruptionReason.OUTPUT_CAP),  # 2^32-1
        ("81808002", CorruptionReason.OUTPUT_CAP),  # above the cap
        ("808004", CorruptionReason.CODEC_STREAM),  # 64 KiB from 6 bytes
        ("ffffffff1f", CorruptionReason.CODEC_STREAM),  # more than 32 bits
        ("ffffffffff", CorruptionReason.CODEC_STREAM),  # no end
    ],
)
def test_the_declared_size_of_a_snappy_block_is_checked_before_the_block_is_read(
    framed: bool, preamble: str, reason
) -> None:
    block = bytes.fromhex(preamble) + b"\x14abcde"
    stream = XERIAL + struct.pack(">i", len(block)) + block if framed else block
    assert refusal(Codec.SNAPPY, stream) is reason


def test_a_snappy_block_that_declares_what_it_cannot_give_is_not_handed_to_the_codec(monkeypatch) -> None:
    import snappy

    monkeypatch.setattr(snappy, "uncompress", lambda block: pytest.fail("the codec would allocate 64 KiB for 6 bytes"))
    with pytest.raises(CorruptRecordError, match="more than it can give"):
        decompress(Codec.SNAPPY, bytes.fromhex("808004") + b"\x14abcde", CAP)


def test_the_densest_snappy_there_is_is_not_refused() -> None:
    # 2000 copies of 64 bytes, 3 bytes each, from one literal byte before
    plain = b"z" * (1 + 64 * 2000)
    block = bytes.fromhex("81e807") + b"\x00z" + b"\xfe\x01\x00" * 2000
    assert decompress(Codec.SNAPPY, block, CAP) == plain


@pytest.mark.parametrize(
    "flags",
    [0x20, 0xA0, 0x61, 0x62],
    ids=["version 0", "version 2", "dictionary", "reserved bit"],
)
def test_lz4_frames_that_kafka_does_not_read_are_refused(flags: int) -> None:
    stream = STREAMS[Codec.LZ4]
    assert refusal(Codec.LZ4, stream[:4] + bytes([flags]) + stream[5:]) is CorruptionReason.CODEC_STREAM


def test_lz4_blocks_that_depend_on_each_other_are_refused() -> None:
    import lz4.frame

    linked = lz4.frame.compress(TEXT * 200, block_linked=True)
    with pytest.raises(CorruptRecordError, match="depend on each other"):
        decompress(Codec.LZ4, linked, CAP)


@pytest.mark.parametrize("limit", [len(TEXT), CAP])
@pytest.mark.parametrize("largest", [4, 5, 6, 7])
def test_lz4_frames_with_checksums_and_sizes_are_read(largest: int, limit: int) -> None:
    import lz4.frame

    for flags in itertools.product([False, True], repeat=3):
        options = dict(zip(("content_checksum", "block_checksum", "store_size"), flags, strict=True))
        stream = lz4.frame.compress(TEXT, block_linked=False, block_size=largest, **options)
        assert decompress(Codec.LZ4, stream, limit) == TEXT


def test_of_an_lz4_frame_all_is_checked_but_what_kafka_skips() -> None:
    import lz4.frame

    stream = lz4.frame.compress(TEXT, block_linked=False, content_checksum=True, block_checksum=True, store_size=True)
    unchecked = [*range(len(stream) - 4, len(stream))]
    for position in range(len(stream)):
        injured = handmade.flip(stream, position)
        if position in unchecked:
            assert decompress(Codec.LZ4, injured, CAP) == TEXT
        else:
            assert refusal(Codec.LZ4, injured) is CorruptionReason.CODEC_STREAM


# What Lz4BlockInputStream of Kafka 4.3.1 does with these: None = an exception.
@pytest.mark.parametrize(
    ("descriptor", "blocks", "content"),
    [
        ("6040 82", "06000080 73746f726564 00000000", b"stored"),
        ("6070 73", "06000080 73746f726564 00000000", b"stored"),
        ("6840 0500000000000000 61", "06000080 73746f726564 00000000", b"stored"),  # the size is another
        ("6440 a7", "06000080 73746f726564 00000000 deadbeef", b"stored"),  # nor is the content's checksum
        ("6440 a7", "06000080 73746f726564 00000000 dead", None),
        ("6440 a7", "06000080 73746f726564 00000000", None),
        ("6040 82", "06000080 73746f726564 00000080", b"stored"),  # an empty stored block ends a frame too
        ("6040 82", "06000080 73746f726564", None),
        ("6040 82", "06000080 73746f7265", None),
        ("6040 82", "01000180" + "00" * 65537 + "00000000", None),  # a stored block above 64 KiB
        ("6040 1a", "06000080 73746f726564 00000000", None),
        ("6041 bd", "00000000", None),
        ("6030 d4", "00000000", None),
        ("60c0 2a", "00000000", None),
    ],
)
def test_lz4_frames_end_as_in_kafka(descriptor: str, blocks: str, content: bytes | None) -> None:
    stream = bytes.fromhex("04224d18" + descriptor + blocks)
    if content is None:
        assert refusal(Codec.LZ4, stream) is CorruptionReason.CODEC_STREAM
    else:
        assert decompress(Codec.LZ4, stream, CAP) == content


def test_lz4_header_checksums_are_those_that_other_writers_write() -> None:
    import lz4.frame

    for size, store_size in itertools.product([0, 4, 5, 6, 7], [False, True]):
        frame = lz4.frame.compress(TEXT * 9, block_linked=False, block_size=size, store_size=store_size)
        end = 14 if store_size else 6
        assert header_checksum(frame[4:end]) == frame[end]
    assert header_checksum(bytes.fromhex("6040")) == 0x82
    assert header_checksum(bytes.fromhex("04224d186040")) == 0x1A


@pytest.mark.parametrize("checksum", [0x1A, 0x00, 0x83])
def test_a_wrong_lz4_header_checksum_is_damage_in_all_formats_but_v0(checksum: int) -> None:
    # 1a is what the producers of KAFKA-3160 wrote.
    stream = handmade.patch(STREAMS[Codec.LZ4], 6, bytes([checksum]))
    assert decompress(Codec.LZ4, stream, CAP, magic=0) == TEXT
    for magic in (1, 2):
        with pytest.raises(CorruptRecordError, match="checksum"):
            decompress(Codec.LZ4, stream, CAP, magic=magic)


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


@pytest.mark.long
@pytest.mark.parametrize("block", [1, 1024, 32 * 1024, 100 * 1024])
def test_xerial_blocks_may_have_any_size(block: int) -> None:
    """Brokers and clients of 0.10 wrote blocks of 1024 bytes, all others 32 KiB."""
    plain = TEXT * 200
    assert decompress(Codec.SNAPPY, handmade.stored_snappy(plain, block=block), len(plain)) == plain


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_reserved_codecs_are_refused(codec: int) -> None:
    assert refusal(codec, b"anything") is CorruptionReason.CODEC
    with pytest.raises(ValueError, match="reserved"):
        compress(codec, b"anything")


def test_a_number_that_is_no_codec_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="8"):
        decompress(8, b"", 0)
    with pytest.raises(ValueError, match="negative"):
        decompress(0, b"", -1)


def test_codecs_have_the_names_kafka_prints() -> None:
    assert [codec.kafka_name for codec in list(Codec)[:6]] == ["none", "gzip", "snappy", "lz4", "zstd", "reserved-5"]


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
        [sys.executable, "-c", MEASURE, str(int(codec))], input=bomb, capture_output=True, check=True, timeout=60
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


@pytest.mark.parametrize("size", [0, 1, 65_536, 200_000])
@pytest.mark.parametrize("codec", [Codec.NONE, *CODECS])
def test_what_is_compressed_comes_back(codec: Codec, size: int) -> None:
    plain = (TEXT * (size // len(TEXT) + 1))[:size]
    assert decompress(codec, compress(codec, plain), size) == plain


def test_streams_are_framed_as_kafkas_producers_frame_them() -> None:
    assert compress(Codec.GZIP, TEXT).startswith(bytes.fromhex("1f8b08000000000000ff"))
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert compress(Codec.SNAPPY, TEXT).startswith(XERIAL)
    assert compress(Codec.LZ4, b"stored") == lz4_frame(b"stored")
    assert compress(Codec.LZ4, bytes(70_000)).startswith(bytes.fromhex("04224d18604082"))
    zstd = compress(Codec.ZSTD, TEXT)
    assert zstd.startswith(bytes.fromhex("28b52ffd00"))  # no content size, no checksum
    assert zstd.endswith(bytes.fromhex("010000"))  # an empty last block after the flush
