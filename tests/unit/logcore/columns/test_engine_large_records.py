"""All engines decode what is large or very many, and give out nothing of a damaged batch."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from logcore.columns.engines import Engine
from logcore.columns.wanted import Wanted
from tests import handmade
from tests.fuzz import streams
from tests.unit.logcore.columns.both_decoders import injured_records
from tests.unit.logcore.columns.decoded_rows import (
    decoded,
    every_engine,
    every_fast_engine,
    offsets_of,
    summed,
)
from tests.unit.logcore.columns.engine_input import MAX_INT64

pytestmark = pytest.mark.slow

HUGE = 100_000_000


@pytest.mark.long
@every_engine
@pytest.mark.parametrize("form", ["v2", "v2 zstd", "v1", "v1 gzip"])
def test_a_record_of_100_million_bytes(engine: Engine, form: str) -> None:
    value = bytes(1000) + b"middle" + bytes(HUGE - 1006)
    if form.startswith("v2"):
        codec = handmade.ZSTD if "zstd" in form else 0
        body = streams.STREAMS[codec](handmade.record(0, b"k", value))
        data = summed(handmade.batch(body=body, count=1, attributes=codec, crc=0))
    elif form == "v1":
        data = summed(handmade.message(0, b"k", value, crc=0))
    else:
        inner = summed(handmade.message(0, b"k", value, crc=0))
        data = summed(handmade.message(0, None, streams.gzip_stream(inner, 1), attributes=handmade.GZIP, crc=0))
    data += handmade.simple_batch(1, [(b"k", b"small")])
    table, stretches, careful = decoded(data, engine, wanted=Wanted(columns=("value",)))
    assert stretches == []
    assert table["value"][0].as_buffer().equals(pa.py_buffer(value))
    assert table["value"][1].as_py() == b"small"
    if engine is not Engine.REFERENCE:
        assert careful == 0


@every_engine
@pytest.mark.parametrize("base", [0, 5, (1 << 62), MAX_INT64 - (1 << 31)])
def test_two_records_as_far_apart_as_can_be(engine: Engine, base: int) -> None:
    far = (1 << 31) - 1
    data = handmade.batch([handmade.record(0), handmade.record(far)], base_offset=base, last_offset_delta=far)
    assert offsets_of(data, engine, base_offset=base) == [base, base + far]
    assert offsets_of(data, engine, base_offset=base, wanted=Wanted(visible=((base + 1, base + far),))) == []


TINY = 300_000


@pytest.fixture(scope="module")
def tiny_records() -> list[bytes]:
    return [handmade.record(delta, None, None) for delta in range(TINY)]


@every_fast_engine
@pytest.mark.parametrize("codec", [0, handmade.LZ4])
def test_a_batch_of_very_many_records(engine: Engine, tiny_records: list[bytes], codec: int) -> None:
    body = streams.STREAMS[codec](b"".join(tiny_records))
    data = summed(handmade.batch(body=body, count=TINY, last_offset_delta=TINY - 1, attributes=codec, crc=0))
    data += handmade.simple_batch(TINY, [(b"last", None)])
    table, stretches, careful = decoded(data, engine, wanted=Wanted(columns=("offset", "key")))
    assert stretches == []
    assert table["offset"].equals(pa.chunked_array([range(TINY + 1)], pa.int64()))
    assert table["key"].null_count == TINY
    assert careful == 0
    table, _, _ = decoded(data, engine, wanted=Wanted(columns=("offset",), visible=((TINY - 1, TINY + 1),)))
    assert table["offset"].to_pylist() == [TINY - 1, TINY]


@pytest.mark.long
@every_fast_engine
@pytest.mark.parametrize("codec", [0, handmade.LZ4])
def test_of_very_many_records_none_is_given_out_if_the_last_is_damaged(
    engine: Engine, tiny_records: list[bytes], codec: int
) -> None:
    body = streams.STREAMS[codec](b"".join(tiny_records[:-1]) + handmade.record(TINY - 2))
    bad = summed(handmade.batch(body=body, count=TINY, last_offset_delta=TINY - 1, attributes=codec, crc=0))
    data = bad + handmade.simple_batch(TINY, [(b"k", b"v")])
    table, stretches, _ = decoded(data, engine)
    assert table["offset"].to_pylist() == [TINY]
    assert [(each.position, each.size, str(each.reason)) for each in stretches] == [(0, len(bad), "OFFSET_ORDER")]


@every_engine
def test_of_a_batch_of_many_megabytes_none_is_given_out_if_the_last_record_is_damaged(engine: Engine) -> None:
    records = [handmade.record(delta, b"k", bytes(1 << 20)) for delta in range(17)]
    good = handmade.batch(records[:16], crc=0, last_offset_delta=15)
    bad = handmade.batch([*records[:16], records[3]], base_offset=16, crc=0, last_offset_delta=16)
    data = summed(good) + summed(bad) + handmade.simple_batch(40, [(b"k", b"v")])
    table, stretches, _ = decoded(data, engine, wanted=Wanted(columns=("offset",)))
    assert table["offset"].to_pylist() == [*range(16), 40]
    assert [each.position for each in stretches] == [len(good)]


@pytest.mark.long
@every_engine
def test_a_record_of_very_many_headers(engine: Engine) -> None:
    count = 100_000
    headers = [(b"n%d" % number, None if number % 3 == 0 else b"%d" % number) for number in range(count)]
    data = handmade.batch([handmade.record(0, headers=headers), handmade.record(1, headers=headers[:2])], crc=0)
    table, stretches, careful = decoded(summed(data), engine, wanted=Wanted(columns=("headers",)))
    assert stretches == []
    assert careful == (0 if engine is Engine.KERNELS else 1)
    found = table["headers"].to_pylist()
    assert found[0] == [{"key": name.decode(), "value": value} for name, value in headers]
    assert found[1] == found[0][:2]


@pytest.mark.parametrize("count", [1_000_000, 1_000_001])
def test_a_record_may_not_have_more_headers_than_a_million(count: int) -> None:
    body = bytes(3) + handmade.nullable(b"k") + handmade.nullable(b"v") + handmade.varint(count) + b"\0\1" * count
    data = summed(handmade.batch([handmade.varint(len(body)) + body], crc=0))
    table, stretches, _ = decoded(data, Engine.KERNELS, wanted=Wanted(columns=("offset",)))
    assert (table.num_rows, len(stretches)) == ((1, 0) if count <= 1_000_000 else (0, 1))


@every_fast_engine
@pytest.mark.parametrize("codec", [0, handmade.LZ4])
@pytest.mark.parametrize("injury", injured_records())
def test_nothing_of_a_damaged_batch_is_given_out(engine: Engine, injury: str, codec: int) -> None:
    bad = handmade.patch(injured_records()[injury], 0, struct.pack(">q", 1))
    if codec and injury != "checksum" and bad[22] & 7 == 0:
        bad = bad[:61] + handmade.stored_lz4(bad[61:])
        bad = handmade.patch(bad, 8, struct.pack(">i", len(bad) - 12))
        bad = handmade.fix_crc(handmade.patch(bad, 22, bytes([codec])))
    before, behind = handmade.simple_batch(0, [(b"a", b"1")]), handmade.simple_batch((1 << 31) - 1, [(b"b", b"2")])
    table, stretches, _ = decoded(before + bad + behind, engine)
    assert table["offset"].to_pylist() == [0, (1 << 31) - 1]
    assert [each.position for each in stretches] == [len(before)]
