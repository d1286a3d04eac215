"""The segments that speed is measured on are what they claim to be."""

import struct
import zlib
from functools import cache
from pathlib import Path

import pytest

from logcore.records.batch import TimestampType
from logcore.records.compression import Codec
from logcore.records.record import Record
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan
from tests.bench.corpora import MIB, SEGMENT_NAME, Segment, named, segment
from tests.bench.segments import FIRST_TIMESTAMP, XERIAL
from tests.bench.totals import Totals

pytestmark = pytest.mark.slow

V2 = ["small-none-16k", "small-none-1m", "medium-none-16k", "headers-none-16k", "10k-none-1m", "100k-none-1m"]
COMPRESSED = ["small-gzip-16k", "small-snappy-16k", "small-lz4-16k", "small-zstd-16k", "small-lz4-1m"]
V1 = ["small-none-16k-v1", "small-lz4-16k-v1"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Segment]:
    folder = tmp_path_factory.mktemp("bench")
    return {name: segment(named(name), 1, folder) for name in [*V2, *COMPRESSED, *V1]}


@cache
def read(made: Segment) -> tuple[list[ScannedBatch], list[Record]]:
    records: list[Record] = []
    found = list(
        SegmentScan(
            made.path.read_bytes(),
            base_offset=0,
            sealed=True,
            decode=True,
            inspect=lambda _, each: records.append(each),
        )
    )
    batches = [item for item in found if isinstance(item, ScannedBatch)]
    assert len(batches) == len(found), "a stretch that cannot be trusted"
    return batches, records


def totals(records: list[Record]) -> Totals:
    return Totals() + Totals(
        records=len(records),
        offset_sum=sum(each.offset for each in records),
        timestamp_sum=sum(each.timestamp for each in records),
        key_bytes=sum(len(each.key or b"") for each in records),
        value_bytes=sum(len(each.value or b"") for each in records),
        headers=sum(len(each.headers) for each in records),
        header_bytes=sum(len(name) + len(value or b"") for each in records for name, value in each.headers),
        null_keys=sum(each.key is None for each in records),
        null_values=sum(each.value is None for each in records),
    )


@pytest.mark.parametrize("name", [*V2, *COMPRESSED, *V1])
def test_the_reference_reader_finds_every_record_that_was_written(made: dict[str, Segment], name: str) -> None:
    batches, records = read(made[name])
    assert totals(records) == made[name].totals
    assert len(batches) == made[name].batches
    assert made[name].size == made[name].path.stat().st_size == sum(batch.size for batch in batches)
    assert [each.offset for each in records] == list(range(len(records)))
    assert made[name].raw_bytes >= MIB


@pytest.mark.parametrize("name", [*V2, *COMPRESSED, *V1])
def test_headers_match_the_records_of_their_batch(made: dict[str, Segment], name: str) -> None:
    batches, records = read(made[name])
    corpus = made[name].corpus
    first = 0
    for batch in batches:
        header = batch.header
        inside = records[first : first + header.record_count]
        assert (header.base_offset, header.last_offset) == (inside[0].offset, inside[-1].offset)
        assert header.max_timestamp == max(each.timestamp for each in inside)
        assert (header.magic, header.codec.kafka_name) == (corpus.magic, corpus.codec)
        assert header.timestamp_type is TimestampType.CREATE_TIME
        if corpus.magic == 2:
            assert (header.producer_id, header.base_sequence) == (4242, header.base_offset)
        first += header.record_count


@pytest.mark.parametrize(
    ("name", "key_bytes", "value_bytes"),
    [
        ("small-none-16k", 13, (78, 90)),
        ("medium-none-16k", 13, (700, 760)),
        ("headers-none-16k", 13, (78, 90)),
        ("10k-none-1m", 13, (9_900, 10_100)),
        ("100k-none-1m", 13, (99_900, 100_100)),
        ("small-none-16k-v1", 13, (78, 90)),
    ],
)
def test_records_have_the_sizes_of_their_shape(
    made: dict[str, Segment], name: str, key_bytes: int, value_bytes: tuple[int, int]
) -> None:
    _, records = read(made[name])
    assert {len(each.key) for each in records if each.key is not None} == {key_bytes}
    values = [len(each.value) for each in records if each.value is not None]
    assert value_bytes[0] <= sum(values) / len(values) <= value_bytes[1]
    if name.startswith(("small", "medium", "headers")):
        assert len(set(values)) > 5, "lengths that never change would be too easy to read"


def test_one_in_a_hundred_keys_and_values_is_null(made: dict[str, Segment]) -> None:
    known = made["small-none-16k"].totals
    assert 0.005 < known.null_keys / known.records < 0.015
    assert 0.005 < known.null_values / known.records < 0.015


def test_records_of_the_headers_shape_have_two(made: dict[str, Segment]) -> None:
    _, records = read(made["headers-none-16k"])
    assert {tuple(name for name, _ in each.headers) for each in records} == {(b"traceparent", b"content-type")}
    assert {len(each.headers[0][1] or b"") for each in records} == {55}


@pytest.mark.parametrize(("name", "limit"), [("small-none-16k", 16_384), ("small-none-1m", 1_000_000)])
def test_batches_are_full_but_not_too_full(made: dict[str, Segment], name: str, limit: int) -> None:
    batches, _ = read(made[name])
    assert all(batch.size - 61 <= limit for batch in batches)
    assert all(batch.size > 0.9 * limit for batch in batches[:-1])


def test_a_record_that_no_batch_is_large_enough_for_gets_its_own(tmp_path: Path) -> None:
    made = segment(named("100k-none-16k"), 1, tmp_path)
    batches, _ = read(made)
    assert {batch.header.record_count for batch in batches} == {1}


def stored(made: Segment) -> list[bytes]:
    data = made.path.read_bytes()
    batches, _ = read(made)
    return [data[batch.position + 61 : batch.end] for batch in batches]


def test_gzip_streams_are_whole_members(made: dict[str, Segment]) -> None:
    for stream in stored(made["small-gzip-16k"]):
        reader = zlib.decompressobj(31)
        reader.decompress(stream)
        assert reader.eof
        assert not reader.unused_data


def test_snappy_is_in_xerial_blocks_of_32_kb(made: dict[str, Segment], tmp_path: Path) -> None:
    assert all(stream.startswith(XERIAL) for stream in stored(made["small-snappy-16k"]))
    stream = stored(segment(named("small-snappy-1m"), 1, tmp_path))[0]
    at, blocks = len(XERIAL), 0
    while at < len(stream):
        at += 4 + struct.unpack_from(">i", stream, at)[0]
        blocks += 1
    assert at == len(stream)
    assert 1_000_000 // 32_768 - 1 <= blocks <= 1_000_000 // 32_768 + 1


@pytest.mark.parametrize("name", ["small-lz4-16k", "small-lz4-1m"])
def test_lz4_frames_have_independent_64_kb_blocks_and_no_content_size(made: dict[str, Segment], name: str) -> None:
    for stream in stored(made[name]):
        # version 1, independent blocks, no checksums but the header's, no size; 64 KB; ends in an empty block
        assert stream[:6] == b"\x04\x22\x4d\x18\x60\x40"
        assert stream[-4:] == bytes(4)


def test_zstd_frames_do_not_declare_the_size_of_their_content(made: dict[str, Segment]) -> None:
    for stream in stored(made["small-zstd-16k"]):
        assert stream[:4] == b"\x28\xb5\x2f\xfd"
        descriptor = stream[4]
        assert descriptor >> 6 == 0, "a content size of one byte or more"
        assert not descriptor & 0x20, "single segment: the content size stands for the window"


def test_v1_wrappers_number_their_messages_from_0(made: dict[str, Segment]) -> None:
    import lz4.frame

    data = made["small-lz4-16k-v1"].path.read_bytes()
    offset, size = struct.unpack_from(">qi", data)
    attributes, timestamp = data[17], struct.unpack_from(">q", data, 18)[0]
    key_size, value_size = struct.unpack_from(">ii", data, 26)
    assert (attributes, key_size, value_size) == (3, -1, size - 22)
    inner = lz4.frame.decompress(data[34 : 34 + value_size])
    at, offsets, timestamps = 0, [], []
    while at < len(inner):
        inner_offset, inner_size, crc = struct.unpack_from(">qiI", inner, at)
        assert crc == zlib.crc32(inner[at + 16 : at + 12 + inner_size])
        offsets.append(inner_offset)
        timestamps.append(struct.unpack_from(">q", inner, at + 18)[0])
        at += 12 + inner_size
    assert offsets == list(range(offset + 1))
    assert timestamp == timestamps[-1] == max(timestamps)
    assert timestamps[0] >= FIRST_TIMESTAMP
    assert len(inner) <= 16_384


def test_a_corpus_is_made_once_and_is_the_same_every_time(tmp_path: Path) -> None:
    corpus = named("small-none-16k")
    first = segment(corpus, 1, tmp_path / "a")
    written = first.path.stat().st_mtime_ns
    assert segment(corpus, 1, tmp_path / "a") == first
    assert first.path.stat().st_mtime_ns == written
    assert segment(corpus, 1, tmp_path / "b").path.read_bytes() == first.path.read_bytes()


def test_a_half_made_corpus_is_replaced(tmp_path: Path) -> None:
    whole = segment(named("small-none-16k"), 1, tmp_path / "a").path.read_bytes()
    torn = tmp_path / "b" / "small-none-16k-0" / SEGMENT_NAME
    torn.parent.mkdir(parents=True)
    torn.write_bytes(whole[:1000])
    assert segment(named("small-none-16k"), 1, tmp_path / "b").path.read_bytes() == whole


@pytest.mark.parametrize(
    "name", ["small", "small-lz4", "tiny-none-16k", "small-lzma-16k", "small-none-4k", "small-none-16k-v0"]
)
def test_a_name_without_a_corpus_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"no corpus|unpack"):
        named(name)


def test_codecs_are_numbered_as_in_kafka() -> None:
    from tests.bench.segments import CODECS

    assert [Codec(number).kafka_name for number in range(5)] == list(CODECS)
