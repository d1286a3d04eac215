"""All engines read streams as other clients write them, and treat bytes after a stream as Kafka does."""

from __future__ import annotations

import lz4.frame
import pytest
import zstandard

from logcore.columns.engines import Engine
from logcore.columns.wanted import Wanted
from tests import handmade
from tests.fuzz import streams
from tests.unit.logcore.columns.decoded_rows import decoded, every_engine, offsets_of, summed

pytestmark = pytest.mark.slow

PLAIN = b"".join(handmade.record(delta, b"key %d" % delta, b"some text " * 300) for delta in range(200))
_WITH_SIZE = zstandard.ZstdCompressor(level=3, write_content_size=True)
_WITH_CHECKSUM = zstandard.ZstdCompressor(level=1, write_content_size=False, write_checksum=True)
_WITH_BOTH = zstandard.ZstdCompressor(level=1, write_content_size=True, write_checksum=True)
FOREIGN: dict[str, tuple[int, bytes]] = {
    "lz4 with its size": (handmade.LZ4, lz4.frame.compress(PLAIN, block_linked=False, store_size=True)),
    "lz4 with a checksum": (
        handmade.LZ4,
        lz4.frame.compress(PLAIN, block_linked=False, store_size=False, content_checksum=True),
    ),
    "lz4 with size and checksum": (
        handmade.LZ4,
        lz4.frame.compress(PLAIN, block_linked=False, store_size=True, content_checksum=True),
    ),
    "lz4 of large blocks": (
        handmade.LZ4,
        lz4.frame.compress(
            PLAIN, block_linked=False, store_size=False, block_size=lz4.frame.BLOCKSIZE_MAX4MB, compression_level=9
        ),
    ),
    "lz4 stored": (handmade.LZ4, handmade.stored_lz4(PLAIN)),
    "zstd with its size": (handmade.ZSTD, _WITH_SIZE.compress(PLAIN)),
    "zstd with a checksum": (handmade.ZSTD, _WITH_CHECKSUM.compress(PLAIN)),
    "zstd with size and checksum": (handmade.ZSTD, _WITH_BOTH.compress(PLAIN)),
    "raw snappy": (handmade.SNAPPY, streams.snappy_raw(PLAIN)),
    "xerial blocks of 1 KiB": (handmade.SNAPPY, streams.snappy_stream(PLAIN, 1024)),
    "xerial in one block": (handmade.SNAPPY, streams.snappy_stream(PLAIN, 1 << 20)),
    "snappy of literals": (handmade.SNAPPY, handmade.stored_snappy(PLAIN)),
    "gzip at its best": (handmade.GZIP, streams.gzip_stream(PLAIN, 9)),
    "gzip stored": (handmade.GZIP, handmade.stored_gzip(PLAIN)),
}


def test_the_foreign_streams_are_what_they_are_called() -> None:
    flags = {name: stream[4] for name, (codec, stream) in FOREIGN.items() if codec in (handmade.LZ4, handmade.ZSTD)}
    assert [flags[name] & 0x0C for name in list(flags)[:3]] == [0x08, 0x04, 0x0C]
    single, checksum = 0x20, 0x04
    assert flags["zstd with its size"] & (single | checksum | 0xC0) == single | 0x80
    assert flags["zstd with a checksum"] & (single | checksum) == checksum


@every_engine
@pytest.mark.parametrize("name", FOREIGN)
def test_streams_as_other_clients_write_them(engine: Engine, name: str) -> None:
    codec, stream = FOREIGN[name]
    data = summed(handmade.batch(body=stream, count=200, last_offset_delta=199, attributes=codec, crc=0))
    table, stretches, careful = decoded(data, engine, wanted=Wanted(columns=("key", "value")))
    assert stretches == []
    assert table["key"].to_pylist() == [b"key %d" % delta for delta in range(200)]
    assert set(table["value"].to_pylist()) == {b"some text " * 300}
    assert engine is Engine.REFERENCE or careful == 0


@every_engine
@pytest.mark.parametrize("name", FOREIGN)
def test_a_byte_after_a_stream_is_damage_only_where_kafka_looks_at_it(engine: Engine, name: str) -> None:
    codec, stream = FOREIGN[name]
    data = handmade.batch(body=stream + b"\x55", count=200, last_offset_delta=199, attributes=codec, crc=0)
    table, stretches, _ = decoded(summed(data), engine)
    is_damage = codec == handmade.ZSTD or name == "raw snappy"
    assert (table.num_rows, len(stretches)) == ((0, 1) if is_damage else (200, 0))


@every_engine
def test_the_lz4_checksum_that_old_clients_got_wrong_is_for_v0_alone(engine: Engine) -> None:
    broken = handmade.stored_lz4(handmade.record(), header=handmade.BROKEN_LZ4_HEADER)
    data = handmade.wrapper_v0([0, 1], codec=handmade.LZ4)
    assert offsets_of(data, engine) == [0, 1]
    for bad in (
        handmade.batch(body=broken, count=1, base_offset=2, attributes=handmade.LZ4),
        handmade.wrapper(
            [], value=handmade.stored_lz4(handmade.message(0), header=handmade.BROKEN_LZ4_HEADER), offset=2, codec=3
        ),
    ):
        table, stretches, _ = decoded(data + bad, engine)
        assert table["offset"].to_pylist() == [0, 1]
        assert [each.position for each in stretches] == [len(data)]
