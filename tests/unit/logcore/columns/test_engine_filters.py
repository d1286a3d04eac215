"""All engines give the rows that are requested: by offset, time, key and kind."""

from __future__ import annotations

import struct

import pytest

from logcore.columns.engines import Engine
from logcore.columns.wanted import Wanted
from tests import handmade
from tests.fuzz import streams
from tests.unit.logcore.columns.decoded_rows import (
    decoded,
    every_engine,
    offsets_of,
)
from tests.unit.logcore.columns.engine_input import MAX_INT64, MIN_INT64

pytestmark = pytest.mark.slow

FILTERED: list[list[tuple[int, int, bytes | None]]] = [
    [(0, 10, b"a"), (1, 20, b""), (2, 30, None), (3, 15, b"ab")],
    [(4, MIN_INT64, b"a"), (5, MAX_INT64, b"b"), (7, -1, b"")],
    [(10, 20, b"a"), (11, 21, None)],
    [(12, -1, b"a")],
    [(13, 40, b"key of more than sixteen bytes"), (15, 40, b"key of more than sixteen byteS")],
    [(20, 10, b"b"), (21, 11, b"a")],
]

ALL_FILTERED = [row for rows in FILTERED for row in rows]


def filtered_batch(rows: list[tuple[int, int, bytes | None]], codec: int) -> bytes:
    base = rows[0][0]
    first = rows[0][1]
    records = [
        handmade.record(offset - base, key, b"v", timestamp_delta=wrapped(time - first)) for offset, time, key in rows
    ]
    return handmade.batch(
        body=streams.STREAMS[codec](b"".join(records)),
        base_offset=base,
        count=len(rows),
        last_offset_delta=rows[-1][0] - base,
        base_timestamp=first,
        attributes=codec,
    )


def wrapped(number: int) -> int:
    """As a Java long."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def filtered_segment() -> bytes:
    v1 = [handmade.message(delta, key, b"v", timestamp=time) for delta, (_, time, key) in enumerate(FILTERED[2])]
    return (
        filtered_batch(FILTERED[0], 0)
        + filtered_batch(FILTERED[1], handmade.LZ4)
        + handmade.marker(8, handmade.COMMIT, producer_id=1, base_timestamp=20)
        + handmade.wrapper(v1, offset=11, codec=handmade.SNAPPY)
        + handmade.message_v0(12, b"a", b"v")
        + filtered_batch(FILTERED[4], handmade.ZSTD)
        + filtered_batch(FILTERED[5], 0)
    )


def assert_filtered(engine: Engine, wanted: Wanted, expected: list[int]) -> None:
    table, stretches, careful = decoded(filtered_segment(), engine, wanted=wanted)
    assert stretches == []
    assert table["offset"].to_pylist() == expected
    if engine is not Engine.REFERENCE:
        assert careful == 0


@every_engine
@pytest.mark.parametrize(
    "visible",
    [
        (),
        ((0, 0),),
        ((5, 5), (5, 5)),
        ((0, 22),),
        ((MIN_INT64, MAX_INT64),),
        ((0, 1),),
        ((1, 2), (2, 3)),
        ((3, 4), (4, 5), (5, 5), (5, 6)),
        ((6, 7),),
        ((8, 10),),
        ((14, 15), (16, 20)),
        ((21, 22), (22, 1000)),
        ((22, 23),),
        ((-5, 0),),
        tuple((offset, offset + 1) for offset in range(0, 22, 2)),
        tuple((offset // 100, (offset + 50) // 100) for offset in range(-5000, 5000, 100)),
    ],
)
def test_only_visible_offsets(engine: Engine, visible: tuple[tuple[int, int], ...]) -> None:
    expected = [row[0] for row in ALL_FILTERED if any(start <= row[0] < end for start, end in visible)]
    assert_filtered(engine, Wanted(visible=visible), expected)


TIMES = [None, MIN_INT64, MIN_INT64 + 1, -2, -1, 0, 10, 11, 20, 21, 40, 41, MAX_INT64 - 1, MAX_INT64]


@every_engine
@pytest.mark.parametrize("since", TIMES)
def test_only_times_from_one_on_and_before_another(engine: Engine, since: int | None) -> None:
    for until in TIMES:
        expected = [
            offset
            for offset, time, _ in ALL_FILTERED
            if (since is None or time >= since) and (until is None or time < until)
        ]
        assert_filtered(engine, Wanted(since=since, until=until), expected)


@every_engine
@pytest.mark.parametrize(
    "key", [b"", b"a", b"b", b"ab", b"abc", b"\0", b"key of more than sixteen bytes", b"key of more than sixteen byte"]
)
def test_only_one_key_where_empty_is_not_null(engine: Engine, key: bytes) -> None:
    assert_filtered(engine, Wanted(key=key), [row[0] for row in ALL_FILTERED if row[2] == key])
    expected = [row[0] for row in ALL_FILTERED if row[2] == key and row[1] >= 10 and row[0] < 12]
    assert_filtered(engine, Wanted(key=key, since=10, visible=((0, 12),)), expected)


@every_engine
def test_control_records_only_if_requested_and_filtered_like_others(engine: Engine) -> None:
    both = sorted([*(row[0] for row in ALL_FILTERED), 8])
    assert_filtered(engine, Wanted(control=True), both)
    assert_filtered(engine, Wanted(control=True, visible=((7, 9),)), [7, 8])
    assert_filtered(engine, Wanted(control=True, since=20, until=21), [1, 8, 10])
    assert_filtered(engine, Wanted(control=True, key=struct.pack(">hh", 0, handmade.COMMIT)), [8])


@every_engine
def test_log_append_time_is_what_is_filtered_by(engine: Engine) -> None:
    records = [handmade.record(0, timestamp_delta=5), handmade.record(1, timestamp_delta=500)]
    data = handmade.batch(records, base_timestamp=100, max_timestamp=300, attributes=handmade.LOG_APPEND_TIME)
    data += handmade.wrapper_append_time([2, 3], 300)
    assert offsets_of(data, engine, wanted=Wanted(since=300, until=301)) == [0, 1, 2, 3]
    assert offsets_of(data, engine, wanted=Wanted(until=300)) == []
    assert offsets_of(data, engine, wanted=Wanted(since=301)) == []


@every_engine
@pytest.mark.parametrize("codec", [0, handmade.GZIP, handmade.SNAPPY, handmade.LZ4, handmade.ZSTD])
def test_batches_of_which_nothing_is_wanted_are_not_looked_into(engine: Engine, codec: int) -> None:
    rotten = b"\x7f no record, no stream"
    bad = [
        handmade.batch(body=rotten, count=1, base_offset=at, attributes=codec | kind)
        for at, kind in ((1, 0), (2, handmade.CONTROL))
    ]
    data = handmade.simple_batch(0, [(b"k", b"v")]) + b"".join(bad) + handmade.simple_batch(3, [(b"k", b"v")])
    table, stretches, careful = decoded(data, engine, wanted=Wanted(visible=((0, 1), (3, 9))))
    assert table["offset"].to_pylist() == [0, 3]
    assert stretches == []
    assert careful == (4 if engine is Engine.REFERENCE else 0)
    # Looked into, they are damage.
    _, stretches, _ = decoded(data, engine, wanted=Wanted(control=True))
    assert [each.position for each in stretches] == [70, 70 + len(bad[0])]


@every_engine
def test_a_batch_of_which_nothing_is_wanted_must_still_have_its_checksum(engine: Engine) -> None:
    data = handmade.simple_batch(0, [(b"k", b"v")]) + handmade.simple_batch(1, [(b"k", b"v")], crc=1)
    _, stretches, _ = decoded(data, engine, wanted=Wanted(visible=((0, 1),)))
    assert [str(each.reason) for each in stretches] == ["CRC"]
