from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from logcore.columns.reference import decode, decode_batches, decode_header_name, table_timestamp
from logcore.columns.schema import RECORDS_SCHEMA
from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.batch import BatchHeader, read_header
from logcore.records.record import Limits
from tests import handmade

PLACE = {"topic": "orders", "partition": 3, "log_id": "abc.0", "segment_id": "seg"}

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


def rows(data: bytes, **options) -> list[dict]:
    return decode(data, 0, read_header(data), **PLACE, **options).to_pylist()


def spans(data: bytes) -> list[tuple[int, BatchHeader]]:
    found, position = [], 0
    while position < len(data):
        found.append((position, read_header(data, position)))
        position += handmade.size_of(data, position)
    return found


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
    decoded = decode(data, 0, read_header(data), **PLACE)
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


def test_log_append_time_is_said_in_the_row() -> None:
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
    decoded = decode(data, 0, read_header(data), **PLACE)
    assert decoded["timestamp_ms"].to_pylist() == [timestamp_ms]
    micros = decoded["timestamp"].cast(pa.int64()).to_pylist()
    assert micros == [None if year is None else timestamp_ms * 1000]
    if year is not None:
        assert decoded["timestamp"].to_pylist()[0].year == year
    assert table_timestamp(timestamp_ms) == micros[0]


@pytest.mark.parametrize(("name", "units"), JAVA_NAMES.items())
def test_header_names_decode_as_java_decodes_them(name: str, units: str) -> None:
    assert decode_header_name(bytes.fromhex(name)).encode("utf-16-be").hex() == units


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
    streamed = decode_batches(data, spans(data), **PLACE, visible=visible)
    assert [offset for chunk in streamed for offset in chunk["offset"].to_pylist()] == offsets


def test_control_records_are_never_rows() -> None:
    data = handmade.marker(5, handmade.COMMIT, producer_id=1)
    assert rows(data) == []
    assert rows(data, visible=[(0, 100)]) == []


def test_an_empty_batch_gives_no_rows_and_still_the_schema() -> None:
    data = handmade.empty_batch(5, 3)
    decoded = decode(data, 0, read_header(data), **PLACE)
    assert decoded.num_rows == 0
    assert decoded.schema.equals(RECORDS_SCHEMA)


def test_the_position_is_the_batchs_in_its_segment() -> None:
    first, second = handmade.simple_batch(0, [(b"k", b"v")]), handmade.simple_batch(1, [(b"k", b"v")] * 2)
    data = b"skip" + first + second
    places = [(4, read_header(first)), (4 + len(first), read_header(second))]
    (columns,) = decode_batches(data, places, **PLACE, position_base=1000)
    assert columns["position"].to_pylist() == [1004, 1004 + len(first), 1004 + len(first)]


def test_a_wrong_checksum_is_found_unless_one_asks_not_to_look() -> None:
    data = handmade.flip(handmade.simple_batch(9, [(b"key", b"value")]), 70)
    with pytest.raises(CorruptRecordError) as caught:
        rows(data)
    assert caught.value.reason is CorruptionReason.CRC
    assert (caught.value.position, caught.value.offset) == (0, 9)
    assert len(rows(data, verify_crc=False)) == 1


def test_a_record_that_nobody_asked_for_is_parsed_all_the_same() -> None:
    data = handmade.batch([handmade.record(0), handmade.record(1, length=-1)], base_offset=0)
    with pytest.raises(CorruptRecordError) as caught:
        rows(data, visible=[(0, 1)])
    assert caught.value.reason is CorruptionReason.RECORD_LENGTH


def test_limits_reach_the_reader() -> None:
    data = handmade.batch([handmade.record(0, headers=[(b"a", b"")] * 3)])
    with pytest.raises(CorruptRecordError) as caught:
        rows(data, limits=Limits(headers_per_record=2))
    assert caught.value.reason is CorruptionReason.OUTPUT_CAP


def test_many_batches_give_the_rows_of_each_in_order() -> None:
    data = b"".join(
        handmade.simple_batch(base, [(b"k%d" % base, b"v")] * 3, leader_epoch=base) for base in range(0, 30, 3)
    )
    (columns,) = decode_batches(data, spans(data), **PLACE)
    assert columns["offset"].to_pylist() == list(range(30))
    assert columns["leader_epoch"].to_pylist() == [offset // 3 * 3 for offset in range(30)]
    one_by_one = [decode(data, position, header, **PLACE) for position, header in spans(data)]
    assert pa.Table.from_batches([columns]).equals(pa.Table.from_batches(one_by_one).combine_chunks())


def test_pieces_are_given_out_as_they_fill_and_nothing_is_read_ahead() -> None:
    batches = [handmade.simple_batch(base, [(b"k" * 36, b"v" * 900)] * 2) for base in range(0, 20, 2)]
    data = b"".join(batches)
    asked = []

    def watched() -> Iterator[tuple[int, BatchHeader]]:
        for span in spans(data):
            asked.append(span[0])
            yield span

    # a row counts for 1000 bytes, so 3000 are three rows
    pieces = decode_batches(data, watched(), **PLACE, chunk_bytes=3000)
    assert asked == []
    assert next(pieces)["offset"].to_pylist() == [0, 1, 2]
    assert asked == [0, len(batches[0])]
    assert [piece.num_rows for piece in pieces] == [3, 3, 3, 3, 3, 2]


def test_nothing_visible_gives_no_piece() -> None:
    data = handmade.simple_batch(0, [(b"k", b"v")])
    assert list(decode_batches(data, spans(data), **PLACE, visible=[])) == []
    assert list(decode_batches(data, [], **PLACE)) == []


def test_rows_before_a_damaged_batch_come_out_and_none_of_its_own() -> None:
    good = handmade.simple_batch(0, [(b"k", b"v")] * 2)
    bad = handmade.batch([handmade.record(0), handmade.record(1, length=-1)], base_offset=2)
    pieces = decode_batches(good + bad + good, spans(good + bad + good), **PLACE)
    assert next(pieces)["offset"].to_pylist() == [0, 1]
    with pytest.raises(CorruptRecordError) as caught:
        next(pieces)
    assert (caught.value.reason, caught.value.position) == (CorruptionReason.RECORD_LENGTH, len(good))
