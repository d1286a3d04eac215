"""Frames of LZ4 end as in Kafka, which reads only some of them."""

import itertools

import pytest

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.compression import Codec, decompress
from logcore.records.lz4_frames import header_checksum
from tests import handmade
from tests.unit.logcore.records.compressed_streams import CAP, STREAMS, TEXT, refusal

pytestmark = pytest.mark.slow


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
