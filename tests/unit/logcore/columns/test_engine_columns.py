"""All engines give the columns that are requested, with nulls where there is nothing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from logcore.columns.engines import Engine
from logcore.columns.records_columns import RECORDS_SCHEMA
from logcore.columns.wanted import Wanted
from tests import handmade
from tests.unit.logcore.columns.decoded_rows import (
    PLACE,
    decoded,
    every_engine,
    rows_of,
)
from tests.unit.logcore.columns.engine_input import ONE_OF_EACH

pytestmark = pytest.mark.slow


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
