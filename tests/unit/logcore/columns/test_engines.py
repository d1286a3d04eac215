"""All engines give what is requested, at every edge of the format, and the fast ones do it themselves."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from logcore.columns.engines import Engine, available, decode_segment
from logcore.columns.schema import RECORDS_SCHEMA
from logcore.columns.wanted import Wanted
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
from tests.unit.logcore.columns.test_decoding_parity import injured_records

pytestmark = pytest.mark.slow

MIN_INT64, MAX_INT64 = -(1 << 63), (1 << 63) - 1
HUGE = 100_000_000


def test_kernels_work_on_this_machine_and_come_first() -> None:
    """Else everything below says nothing about them."""
    assert available() == (Engine.KERNELS, Engine.REFERENCE)


# Columns.

HEADERS = [(b"trace", b"\x00\x01"), ("ключ".encode(), None), (b"", b"")]
ONE_OF_EACH = (
    handmade.batch(
        [
            handmade.record(0, b"k", b"v", headers=HEADERS),
            handmade.record(1, None, None, timestamp_delta=5),
            handmade.record(2, b"", b"", timestamp_delta=-1001),
        ],
        leader_epoch=7,
        base_timestamp=1000,
        max_timestamp=1005,
    )
    + handmade.batch(
        [handmade.record(0, headers=[(b"\xff", b"x"), (b"a", None)])],
        base_offset=5,
        leader_epoch=-1,
        base_timestamp=99,
        max_timestamp=253_402_300_800_000,
        attributes=handmade.LOG_APPEND_TIME,
    )
    + handmade.message_v0(6, None, b"old")
)


def all_columns() -> list[dict[str, Any]]:
    """The rows of ONE_OF_EACH, as they must be."""
    common = {"topic": "orders", "partition": 3, "log_id": "abc.0", "segment_id": "seg"}
    first, second = handmade.size_of(ONE_OF_EACH), handmade.size_of(ONE_OF_EACH, handmade.size_of(ONE_OF_EACH))
    named = [
        {"key": "trace", "value": b"\x00\x01"},
        {"key": "ключ", "value": None},
        {"key": "", "value": b""},
    ]
    # offset, ms, microseconds, type, key, value, headers, epoch, position, raw names
    rows: list[tuple[Any, ...]] = [
        (0, 1000, 1_000_000, 0, b"k", b"v", named, 7, 0, None),
        (1, 1005, 1_005_000, 0, None, None, None, 7, 0, None),
        (2, -1, None, 0, b"", b"", None, 7, 0, None),
        (
            5,
            253_402_300_800_000,
            None,
            1,
            b"k",
            b"v",
            [{"key": "\ufffd", "value": b"x"}, {"key": "a", "value": None}],
            None,
            first,
            [b"\xff", b"a"],
        ),
        (6, -1, None, -1, None, b"old", None, None, first + second, None),
    ]
    return [
        common
        | {
            "offset": offset,
            "timestamp": micros,
            "timestampType": kind,
            "key": key,
            "value": value,
            "headers": headers,
            "timestamp_ms": ms,
            "leader_epoch": epoch,
            "position": PLACE.position_base + position,
            "header_keys_raw": raw,
        }
        for offset, ms, micros, kind, key, value, headers, epoch, position, raw in rows
    ]


def rows_with_microseconds(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with timestamps as microseconds, which Python's own type cannot all hold."""
    if "timestamp" in table.schema.names:
        at = table.schema.get_field_index("timestamp")
        table = table.set_column(at, "timestamp", table["timestamp"].cast(pa.int64()))
    return table.to_pylist()


@every_engine
def test_every_column_of_every_kind_of_row_is_as_stated(engine: Engine) -> None:
    table, stretches, _ = decoded(ONE_OF_EACH, engine)
    assert table.schema == RECORDS_SCHEMA
    assert stretches == []
    assert rows_with_microseconds(table) == all_columns()


@every_engine
@pytest.mark.parametrize("name", RECORDS_SCHEMA.names)
def test_any_column_alone_and_any_column_left_out(engine: Engine, name: str) -> None:
    others = tuple(other for other in RECORDS_SCHEMA.names if other != name)
    for columns in ((name,), others):
        table, _, _ = decoded(ONE_OF_EACH, engine, wanted=Wanted(columns=columns))
        assert table.schema.names == list(columns)
        assert rows_with_microseconds(table) == [{column: row[column] for column in columns} for row in all_columns()]


@every_engine
def test_columns_come_in_the_order_of_the_schema_whatever_the_order_of_the_wish(engine: Engine) -> None:
    table, _, _ = decoded(ONE_OF_EACH, engine, wanted=Wanted(columns=("position", "value", "offset", "value")))
    assert table.schema.names == ["offset", "value", "position"]


@every_engine
def test_a_column_that_no_record_has_is_refused(engine: Engine) -> None:
    with pytest.raises(ValueError, match="no column 'colour'"):
        decoded(ONE_OF_EACH, engine, wanted=Wanted(columns=("offset", "colour")))


# Filters. Rows are (offset, timestamp, key); each batch its own format and codec, all of them filtered alike.

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


@every_engine
def test_batches_without_records_have_no_rows(engine: Engine) -> None:
    data = handmade.empty_batch(0, 9) + handmade.empty_batch(10, 0, attributes=handmade.CONTROL)
    table, stretches, careful = decoded(data, engine, wanted=Wanted(control=True))
    assert (table.num_rows, stretches) == (0, [])
    assert careful == (2 if engine is Engine.REFERENCE else 0)


@every_engine
def test_nulls_everywhere(engine: Engine) -> None:
    records = [
        handmade.record(delta, None, None, timestamp_delta=-1001, headers=[(b"", None)] * (delta % 2))
        for delta in range(100)
    ]
    for row in rows_of(handmade.batch(records, leader_epoch=-1), engine):
        assert [row[name] for name in ("key", "value", "timestamp", "leader_epoch", "header_keys_raw")] == [None] * 5
        assert row["headers"] == ([{"key": "", "value": None}] if row["offset"] % 2 else None)


@every_engine
@pytest.mark.parametrize("column", ["key", "value"])
def test_null_and_empty_and_filled_values_differ_at_every_bit_of_a_validity_byte(engine: Engine, column: str) -> None:
    contents = [None, b"", b"x", b"", None, None, b"yy", b"", b"", None, b"z" * 40, None, None] * 7
    for start in range(9):
        rows = [(each, None) if column == "key" else (None, each) for each in contents[start:]]
        found = rows_of(handmade.simple_batch(0, rows), engine)
        assert [row[column] for row in found] == contents[start:]


# What is large.


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
