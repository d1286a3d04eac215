"""Streams of every codec give what was put in, up to a cap; damage in them is an error."""

import gzip
import struct
import time

import pytest

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.compression import Codec, compress, decompress
from tests import handmade
from tests.unit.logcore.records.compressed_streams import (
    CAP,
    CODECS,
    STREAMS,
    TEXT,
    XERIAL,
    lz4_frame,
    refusal,
    snappy_block,
    xerial,
    xerial_block,
    zstd_frame,
)

pytestmark = pytest.mark.slow

OTHER = b"another stream"


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
