"""All engines give the same at the edges of a segment, and the fast ones do it themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from logcore.columns.engines import Engine, available, decode_segment
from tests import handmade
from tests.conftest import Sample
from tests.fuzz import streams
from tests.unit.logcore.columns.decoded_rows import (
    PLACE,
    decoded,
    every_engine,
    every_fast_engine,
    offsets_of,
    rows_of,
    summed,
)
from tests.unit.logcore.columns.engine_input import ONE_OF_EACH

pytestmark = pytest.mark.slow


def test_kernels_work_on_this_machine_and_come_first() -> None:
    """Else everything below says nothing about them."""
    assert available() == (Engine.KERNELS, Engine.REFERENCE)


# Parts of a segment.


@every_engine
def test_a_walk_starts_at_the_given_position_and_offset(engine: Engine) -> None:
    batches = [handmade.simple_batch(at, [(b"k", b"v")] * 2) for at in (0, 2, 4, 6)]
    data, size = b"".join(batches), len(batches[0])
    assert offsets_of(data, engine, start=size, next_offset=2) == [2, 3, 4, 5, 6, 7]
    assert offsets_of(data, engine, start=2 * size, next_offset=1, stop=3 * size) == [4, 5]
    assert offsets_of(data, engine, start=2 * size, next_offset=4, stop=2 * size) == []
    assert offsets_of(data, engine, start=4 * size, next_offset=8) == []
    # A batch below the offset that is next is a damaged one.
    _, stretches, _ = decoded(data, engine, start=size, next_offset=3)
    assert [(each.position, each.offset) for each in stretches] == [(size, 3)]


@every_engine
def test_a_walk_says_where_it_ended(engine: Engine) -> None:
    data = handmade.simple_batch(0, [(b"k", b"v")]) + handmade.empty_batch(1, 3) + bytes(100)
    walk = decode_segment(data, place=PLACE, base_offset=0, sealed=False, engine=engine)
    assert sum(item.num_rows for item in walk if isinstance(item, pa.RecordBatch)) == 1
    assert (walk.position, walk.next_offset, walk.padding) == (len(data), 5, 100)
    walk = decode_segment(data, place=PLACE, base_offset=0, sealed=False, engine=engine, stop=10)
    assert len(list(walk)) == 1
    assert (walk.position, walk.next_offset, walk.padding) == (len(data) - 161, 1, 0)


@every_engine
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(engine: Engine, kind: Callable[[bytes], Any]) -> None:
    assert len(rows_of(kind(ONE_OF_EACH), engine)) == 5


# Where there is nothing.


@every_engine
@pytest.mark.parametrize("sealed", [True, False])
def test_an_empty_file_and_one_of_padding_have_no_rows(engine: Engine, sealed: bool) -> None:
    for nbytes in (0, 1, 11, 12, 17, 60, 61, 5000):
        walk = decode_segment(bytes(nbytes), place=PLACE, base_offset=9, sealed=sealed, engine=engine)
        assert list(walk) == []
        assert (walk.position, walk.next_offset, walk.padding) == (nbytes, 9, nbytes)


# The fast lanes are really taken, and agree with the reference.


def segment_of(form: str) -> bytes:
    """A few thousand records, a form's way."""
    data, offset = b"", 0
    for _ in range(40):
        keys = [b"k%d" % at for at in range(50)]
        if form.startswith("v2"):
            codec = ["none", "gzip", "snappy", "lz4", "zstd"].index(form[3:])
            records = [
                handmade.record(at, key, b"value " * (at % 9), headers=[(b"h", key)] * (at % 3))
                for at, key in enumerate(keys)
            ]
            batch = handmade.batch(
                body=streams.STREAMS[codec](b"".join(records)),
                count=50,
                last_offset_delta=49,
                base_offset=offset,
                attributes=codec,
                crc=0,
            )
            data += summed(batch)
            offset += 50
            continue
        magic = int(form[1])
        inner = [handmade.message(at if magic else offset + at, key, b"v", magic=magic) for at, key in enumerate(keys)]
        if form.endswith("none"):
            for key in keys:
                data += handmade.message(offset, key, b"v", magic=magic)
                offset += 1
            continue
        codec = ["none", "gzip", "snappy", "lz4"].index(form[3:])
        pack = streams.lz4_stream_of_v0 if form == "v0 lz4" else streams.STREAMS[codec]
        value = pack(b"".join(inner))
        data += handmade.wrapper(inner, offset=offset + 49, codec=codec, magic=magic, value=value)
        offset += 50
    return data


FORMS = [
    *(f"v2 {codec}" for codec in ("none", "gzip", "snappy", "lz4", "zstd")),
    *(f"v{magic} {codec}" for magic in (0, 1) for codec in ("none", "gzip", "snappy", "lz4")),
]


@every_fast_engine
@pytest.mark.parametrize("form", FORMS)
def test_good_input_never_takes_the_slow_path(engine: Engine, form: str) -> None:
    data = segment_of(form)
    table, stretches, careful = decoded(data, engine)
    assert (stretches, careful) == ([], 0)
    assert table["offset"].equals(pa.chunked_array([range(2000)], pa.int64()))
    expected, _, _ = decoded(data, Engine.REFERENCE)
    assert table.equals(expected)


@every_fast_engine
@pytest.mark.parametrize(
    "name", ["codecs-v2-4.3.1", "timestamps-v2-4.4.0", "transactions-4.4.0", "internal-topics-4.4.0", "damaged"]
)
def test_all_columns_of_brokers_segments_are_those_of_the_reference(
    engine: Engine, sample: Callable[[str], Sample], name: str
) -> None:
    paths = sorted(sample(name).logdir.glob("*/*.log"))
    assert paths
    for path in paths:
        data, base = path.read_bytes(), int(path.stem)
        for sealed in (True, False):
            table, stretches, careful = decoded(data, engine, base_offset=base, sealed=sealed)
            expected, expected_stretches, _ = decoded(data, Engine.REFERENCE, base_offset=base, sealed=sealed)
            assert table.equals(expected)
            assert stretches == expected_stretches
            assert name == "damaged" or careful == 0


@every_fast_engine
@pytest.mark.parametrize("bit", range(6))
@pytest.mark.parametrize("raised", ["message", "wrapper", "v2 batch"])
def test_of_two_batches_with_overlapping_offsets_the_same_one_is_refused(engine: Engine, raised: str, bit: int) -> None:
    """A wrapper's first offset is inside the wrapper. No checksum covers the offset before a batch."""
    batch = {
        "message": handmade.message_v1(64, 1000, b"k", b"v"),
        "wrapper": handmade.wrapper_v1([64, 65]),
        "v2 batch": handmade.simple_batch(64, [(b"k", b"v")]),
    }[raised]
    for first in (60, 63):
        before = handmade.message_v1(first, 1000, b"k", b"v")
        for behind in (
            handmade.wrapper_v1(range(66, 140)),
            handmade.wrapper_v1(range(70, 140), codec=handmade.LZ4),
            handmade.simple_batch(66, [(b"k", b"v")] * 9),
            handmade.message_v1(66, 1000, b"k", b"v"),
        ):
            data = before + handmade.flip(batch, 7, bit) + behind + handmade.wrapper_v1([140, 150])
            table, stretches, _ = decoded(data, engine)
            expected, expected_stretches, _ = decoded(data, Engine.REFERENCE)
            assert stretches == expected_stretches
            assert table.equals(expected)
