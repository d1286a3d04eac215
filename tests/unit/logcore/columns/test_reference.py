from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from logcore.columns.engines import Engine, decode_segment
from logcore.columns.records_columns import RECORDS_SCHEMA
from logcore.columns.reference import table_timestamp
from logcore.columns.wanted import Place, Wanted
from logcore.errors import CorruptionReason
from logcore.records.record import DEFAULT_LIMITS, Limits
from logcore.segments.scanning.scan import Stretch
from logcore.texts import java_text
from tests import handmade

# Bytes of a name, and the UTF-16 units of `new String(bytes, UTF_8)` in Java 17.
JAVA_NAMES = {
    "": "",
    "41": "0041",
    "c3a9": "00e9",
    "e282ac": "20ac",
    "f09f9a80": "d83dde80",
    "f48fbfbf": "dbffdfff",
    "efbfbd": "fffd",
    "00": "0000",
    "efbbbf41": "feff0041",
    # lone continuation and lead bytes
    "80": "fffd",
    "bf41": "fffd0041",
    "ff": "fffd",
    "fe41": "fffd0041",
    "c3": "fffd",
    "c341": "fffd0041",
    # cut sequences
    "e280": "fffd",
    "e28041": "fffd0041",
    "f09f98": "fffd",
    "f48f41": "fffd0041",
    # overlong
    "c080": "fffdfffd",
    "c1bf": "fffdfffd",
    "e08080": "fffdfffdfffd",
    "e0a041": "fffd0041",
    "f08080": "fffdfffdfffd",
    "f0808080": "fffdfffdfffdfffd",
    # beyond U+10FFFF
    "f4908080": "fffdfffdfffdfffd",
    "f8888080": "fffdfffdfffdfffd",
    # encoded surrogates: one replacement each, where Python makes three
    "eda080": "fffd",
    "edbfbf": "fffd",
    "edafbf41": "fffd0041",
    "eda080edb080": "fffdfffd",
    "eda0": "fffd",
    "eda041": "fffd0041",
    "eda0c3a9": "fffd00e9",
    "eda0ed": "fffdfffd",
    "ed41": "fffd0041",
    "ed9fbf": "d7ff",
}


def read(
    data: bytes,
    visible: Sequence[tuple[int, int]] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    position_base: int = 0,
) -> list[pa.RecordBatch | Stretch]:
    walk = decode_segment(
        data,
        place=Place("orders", 3, "abc.0", "seg", position_base),
        base_offset=0,
        sealed=True,
        wanted=Wanted(visible=None if visible is None else tuple(visible)),
        limits=limits,
        engine=Engine.REFERENCE,
    )
    return list(walk)


def rows(data: bytes, visible: Sequence[tuple[int, int]] | None = None) -> list[dict]:
    given = read(data, visible)
    assert not any(isinstance(item, Stretch) for item in given)
    return [row for columns in given for row in columns.to_pylist()]


def refused(data: bytes, visible: Sequence[tuple[int, int]] | None = None, limits: Limits = DEFAULT_LIMITS) -> Stretch:
    (stretch,) = read(data, visible, limits)
    assert isinstance(stretch, Stretch)
    return stretch


def test_the_columns_are_the_tables_in_its_order_with_its_types() -> None:
    assert [(field.name, str(field.type)) for field in RECORDS_SCHEMA] == [
        ("topic", "string"),
        ("partition", "int32"),
        ("offset", "int64"),
        ("timestamp", "timestamp[us, tz=UTC]"),
        ("timestampType", "int32"),
        ("key", "binary"),
        ("value", "binary"),
        ("headers", "list<item: struct<key: string, value: binary>>"),
        ("timestamp_ms", "int64"),
        ("leader_epoch", "int32"),
        ("log_id", "string"),
        ("segment_id", "string"),
        ("position", "int64"),
        ("header_keys_raw", "list<item: binary>"),
    ]
    data = handmade.simple_batch(0, [(b"k", b"v")])
    (decoded,) = read(data)
    assert decoded.schema.equals(RECORDS_SCHEMA)
    decoded.validate(full=True)


def test_a_row_has_all_that_its_record_and_its_batch_say() -> None:
    record = handmade.record(2, b"key", b"value", timestamp_delta=5, headers=[(b"h", b"1"), (b"h", None)])
    data = handmade.batch(
        [record], base_offset=40, leader_epoch=7, base_timestamp=1_700_000_000_000, last_offset_delta=9
    )
    assert rows(data) == [
        {
            "topic": "orders",
            "partition": 3,
            "offset": 42,
            "timestamp": datetime(2023, 11, 14, 22, 13, 20, 5000, tzinfo=UTC),
            "timestampType": 0,
            "key": b"key",
            "value": b"value",
            "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
            "timestamp_ms": 1_700_000_000_005,
            "leader_epoch": 7,
            "log_id": "abc.0",
            "segment_id": "seg",
            "position": 0,
            "header_keys_raw": None,
        }
    ]


def test_null_and_empty_stay_two_things() -> None:
    data = handmade.simple_batch(0, [(None, None), (b"", b"")])
    assert [(row["key"], row["value"], row["headers"]) for row in rows(data)] == [(None, None, None), (b"", b"", None)]


def test_no_leader_epoch_is_null_and_epoch_zero_is_not() -> None:
    for epoch, expected in [(-1, None), (0, 0)]:
        assert rows(handmade.simple_batch(0, [(b"k", b"v")], leader_epoch=epoch))[0]["leader_epoch"] == expected


def test_log_append_time_is_reported_in_the_row() -> None:
    data = handmade.simple_batch(0, [(b"k", b"v")], attributes=handmade.LOG_APPEND_TIME, max_timestamp=2000)
    assert [(row["timestampType"], row["timestamp_ms"]) for row in rows(data)] == [(1, 2000)]


@pytest.mark.parametrize(
    ("timestamp_ms", "year"),
    [
        (-1, None),
        (0, 1970),
        (-2, 1969),
        (-62_135_596_800_000, 1),
        (-62_135_596_800_001, None),
        (253_402_300_799_999, 9999),
        (253_402_300_800_000, None),
        ((1 << 63) - 1, None),
        (-(1 << 63), None),
        (1_700_000_000, 1970),
    ],
)
def test_timestamps_out_of_the_tables_range_are_null_and_kept_raw(timestamp_ms: int, year: int | None) -> None:
    data = handmade.simple_batch(0, [(b"k", b"v")], base_timestamp=timestamp_ms)
    (decoded,) = read(data)
    assert decoded["timestamp_ms"].to_pylist() == [timestamp_ms]
    micros = decoded["timestamp"].cast(pa.int64()).to_pylist()
    assert micros == [None if year is None else timestamp_ms * 1000]
    if year is not None:
        assert decoded["timestamp"].to_pylist()[0].year == year
    assert table_timestamp(timestamp_ms) == micros[0]


@pytest.mark.parametrize(("name", "units"), JAVA_NAMES.items())
def test_header_names_decode_as_java_decodes_them(name: str, units: str) -> None:
    assert java_text(bytes.fromhex(name)).encode("utf-16-be").hex() == units


def test_raw_header_names_are_kept_only_where_one_is_not_utf8() -> None:
    records = [
        handmade.record(0, headers=[("é".encode(), b"1"), (b"\xff", b"2"), (b"\xfe", b"3")]),
        handmade.record(1, headers=[("\N{REPLACEMENT CHARACTER}".encode(), b"1")]),
        handmade.record(2),
    ]
    first, second, third = rows(handmade.batch(records))
    assert [header["key"] for header in first["headers"]] == [
        "é",
        "\N{REPLACEMENT CHARACTER}",
        "\N{REPLACEMENT CHARACTER}",
    ]
    assert first["header_keys_raw"] == ["é".encode(), b"\xff", b"\xfe"]
    assert second["header_keys_raw"] is None
    assert (third["headers"], third["header_keys_raw"]) == (None, None)


@pytest.mark.parametrize(
    ("visible", "offsets"),
    [
        (None, [10, 11, 12, 13, 14]),
        ([], []),
        ([(0, 10)], []),
        ([(10, 11)], [10]),
        ([(11, 13)], [11, 12]),
        ([(0, 11), (14, 99)], [10, 14]),
        ([(12, 12)], []),
        ([(15, 20)], []),
    ],
)
def test_visible_ranges_include_their_start_and_exclude_their_end(visible, offsets: list[int]) -> None:
    data = handmade.simple_batch(10, [(b"k", b"v")] * 5)
    assert [row["offset"] for row in rows(data, visible=visible)] == offsets


def test_control_records_are_never_rows() -> None:
    data = handmade.marker(5, handmade.COMMIT, producer_id=1)
    assert rows(data) == []
    assert rows(data, visible=[(0, 100)]) == []


def test_an_empty_batch_gives_no_rows() -> None:
    assert read(handmade.empty_batch(5, 3)) == []


def test_the_position_is_the_batchs_in_its_segment() -> None:
    first, second = handmade.simple_batch(0, [(b"k", b"v")]), handmade.simple_batch(1, [(b"k", b"v")] * 2)
    positions = [row["position"] for columns in read(first + second, position_base=1000) for row in columns.to_pylist()]
    assert positions == [1000, 1000 + len(first), 1000 + len(first)]


def test_a_wrong_checksum_is_found() -> None:
    stretch = refused(handmade.flip(handmade.simple_batch(9, [(b"key", b"value")]), 70))
    assert (stretch.reason, stretch.position) == (CorruptionReason.CRC, 0)


def test_a_record_that_is_not_requested_is_parsed_too() -> None:
    data = handmade.batch([handmade.record(0), handmade.record(1, length=-1)], base_offset=0)
    assert refused(data, visible=[(0, 1)]).reason is CorruptionReason.RECORD_LENGTH


def test_limits_reach_the_reader() -> None:
    data = handmade.batch([handmade.record(0, headers=[(b"a", b"")] * 3)])
    assert refused(data, limits=Limits(headers_per_record=2)).reason is CorruptionReason.OUTPUT_CAP


def test_many_batches_give_the_rows_of_each_in_order() -> None:
    data = b"".join(
        handmade.simple_batch(base, [(b"k%d" % base, b"v")] * 3, leader_epoch=base) for base in range(0, 30, 3)
    )
    assert [row["offset"] for row in rows(data)] == list(range(30))
    assert [row["leader_epoch"] for row in rows(data)] == [offset // 3 * 3 for offset in range(30)]


def test_rows_around_a_damaged_batch_come_out_and_none_of_its_own() -> None:
    good = handmade.simple_batch(0, [(b"k", b"v")] * 2)
    bad = handmade.batch([handmade.record(0), handmade.record(1, length=-1)], base_offset=2)
    first, stretch, last = read(good + bad + handmade.simple_batch(4, [(b"k", b"v")]))
    assert first["offset"].to_pylist() == [0, 1]
    assert (stretch.reason, stretch.position) == (CorruptionReason.RECORD_LENGTH, len(good))
    assert last["offset"].to_pylist() == [4]
