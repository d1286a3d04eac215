"""Compressed streams that end early, go on, or come twice, in every format that has the codec, through every engine."""

import struct

import pyarrow as pa
import pytest

from logcore.columns.engines import Engine, available
from logcore.segments.scanning.scan import Stretch
from tests import handmade
from tests.fuzz import streams
from tests.fuzz.canonical import message
from tests.fuzz.engines_compared import equal, outcome

ENGINES = list(available())
FORMATS = [(magic, codec) for codec in range(1, 5) for magic in (0, 1, 2) if magic == 2 or codec != streams.ZSTD]
READ_TWICE = {streams.GZIP, streams.SNAPPY, streams.ZSTD}
"""Members, xerial streams and frames may follow each other; of LZ4 Kafka reads one frame."""
_IDS = [
    f"v{magic}-{name}"
    for magic, name in ((magic, ["none", "gzip", "snappy", "lz4", "zstd"][codec]) for magic, codec in FORMATS)
]


def parts(magic: int) -> tuple[bytes, bytes]:
    """Two records, or two messages, each to be compressed on its own."""
    if magic == 2:
        return handmade.record(0, b"a", b"first"), handmade.record(1, b"b", b"second")
    return message(magic, 0, b"a", b"first", 5), message(magic, 1, b"b", b"second", 5)


def batch(magic: int, codec: int, stream: bytes) -> bytes:
    """A batch of both at offsets 0 and 1."""
    if magic == 2:
        return handmade.batch(body=stream, attributes=codec, count=2, last_offset_delta=1)
    return message(magic, 1, None, stream, 5, codec)


def reasons(data: bytes, engine: Engine) -> list[str]:
    """Of the stretches; rows must be as the reference's."""
    found = outcome(data, 0, engine)
    assert equal(found, outcome(data, 0, Engine.REFERENCE))
    return [str(item.reason) for item in found if isinstance(item, Stretch)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=_IDS)
def test_a_second_stream_is_read_where_kafka_reads_it(magic: int, codec: int, engine: Engine) -> None:
    first, second = parts(magic)
    pack = streams.STREAMS[codec]
    twice = batch(magic, codec, pack(first) + pack(second))
    assert reasons(batch(magic, codec, pack(first + second)), engine) == []
    if codec in READ_TWICE:
        assert reasons(twice, engine) == []
        assert [item.num_rows for item in outcome(twice, 0, engine)] == [2]
        return
    # The second one is bytes after the stream, so a record is missing. Only v1 does not show it.
    assert reasons(twice, engine) == [["OFFSET_ORDER"], [], ["COUNT"]][magic]
    assert sum(item.num_rows for item in outcome(twice, 0, engine) if isinstance(item, pa.Table)) == (magic == 1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=_IDS)
def test_bytes_after_a_stream_are_damage_only_where_kafka_looks_at_them(magic: int, codec: int, engine: Engine) -> None:
    stream = streams.STREAMS[codec](b"".join(parts(magic)))
    for junk in (b"\0", b"x", b"\0\0\0\0\0", b"\xff" * 20):
        # A xerial stream goes on with four bytes of a length; zstd-jni looks for a frame.
        is_ignored = codec in (streams.GZIP, streams.LZ4) or (codec == streams.SNAPPY and len(junk) < 4)
        assert reasons(batch(magic, codec, stream + junk), engine) == ([] if is_ignored else ["CODEC_STREAM"]), junk


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=_IDS)
def test_a_stream_cut_anywhere_is_damage(magic: int, codec: int, engine: Engine) -> None:
    stream = streams.STREAMS[codec](b"".join(parts(magic)))
    for length in range(len(stream)):
        assert len(reasons(batch(magic, codec, stream[:length]), engine)) == 1, length


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("length", [-(1 << 31), -2, -1, 0, 1, 5, 1 << 20, (1 << 31) - 1])
def test_a_xerial_block_of_any_wrong_length_is_damage(magic: int, length: int, engine: Engine) -> None:
    sound = streams.snappy_stream(b"".join(parts(magic)))
    wrong = handmade.patch(sound, len(streams.XERIAL), struct.pack(">i", length))
    assert reasons(batch(magic, streams.SNAPPY, sound), engine) == []
    assert reasons(batch(magic, streams.SNAPPY, wrong), engine) == ["CODEC_STREAM"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("block", [1, 7, 32 * 1024, None], ids=lambda block: f"{block or 'unframed'}")
def test_snappy_is_read_in_blocks_of_any_size_and_without_a_frame(
    magic: int, block: int | None, engine: Engine
) -> None:
    plain = b"".join(parts(magic))
    stream = streams.snappy_raw(plain) if block is None else streams.snappy_stream(plain, block)
    assert [item.num_rows for item in outcome(batch(magic, streams.SNAPPY, stream), 0, engine)] == [2]
