"""Columns that a user added keep their values when files are put in order or replaced."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.cycle import Lake
from tests.spark.shared_records.mixed_files import (
    assert_equal_to_source,
    by_compact,
    is_ordered,
    make,
    optimized,
    paths,
    replaced,
    rows,
    sql,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]

NOTE = "STRUCT<who: STRING, marks: ARRAY<INT>, seen: MAP<STRING, DATE>>"


def with_extra_columns(lake: Lake) -> None:
    """Columns of a user, filled for every row but those of offset 0."""
    sql(lake, "ALTER TABLE {records} ADD COLUMNS (label STRING, note " + NOTE + ", price DECIMAL(20, 3))")
    sql(
        lake,
        "UPDATE {records} SET label = concat(topic, partition, '/', offset), price = offset / 8, "
        "note = named_struct('who', string(offset), 'marks', array(int(offset), null), 'seen', "
        "map('first', date '2020-02-29')) WHERE offset > 0",
    )


def labels(lake: Lake) -> dict[tuple[str, int, int], Any]:
    found = {(r["topic"], r["partition"], r["offset"]): (r["label"], r["price"], r["note"]) for r in rows(lake)}
    assert sum(label is not None for label, _, _ in found.values()) >= 80
    return found


@pytest.mark.long
@pytest.mark.parametrize("compacted", [False, True], ids=["updated", "compacted"])
def test_optimize_and_replace_carry_extra_columns(tmp_path, compacted):
    source, lake, logs = make(tmp_path)
    with_extra_columns(lake)
    if compacted:
        by_compact(lake)
    before = labels(lake)
    for end in (40, 50):
        logs["orders-1"].append(10, per_batch=1, tag=b"orders-1")
        source.high_watermarks(orders_0=30, orders_1=end, payments_0=30)
        lake.turn(source.path)
    replaced(lake)
    optimized(lake)
    after = labels(lake)
    assert is_ordered(lake)
    assert len(paths(lake)) == 3
    assert {key: value for key, value in after.items() if key in before} == before
    assert [value for key, value in after.items() if key not in before] == [(None, None, None)] * 20
    assert_equal_to_source(lake, logs)


@pytest.mark.long
def test_replace_carries_extra_columns_by_log_and_offset(shared, logs):
    with_extra_columns(shared)
    before = labels(shared)
    sql(shared, "UPDATE {records} SET value = unhex('00') WHERE topic = 'orders' AND offset IN (4, 17)")
    sql(shared, "DELETE FROM {records} WHERE topic = 'orders' AND partition = 1 AND offset IN (8, 9, 29)")
    replaced(shared, start_offset=2, end_offset=30)
    gone = {("orders", 1, offset) for offset in (8, 9, 29)}
    assert labels(shared) == before | dict.fromkeys(gone, (None, None, None))
    assert_equal_to_source(shared, logs)
