"""Spark shows what tables and columns are: `DESCRIBE EXTENDED`."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.engine.session import get_session
from spark_jobs.lake.table_specs import TABLES
from tests.spark.cycle import Lake

pytestmark = pytest.mark.spark


@pytest.fixture
def published(source, lake) -> Lake:
    source.partition("orders-0").append(10)
    source.high_watermarks(orders_0=10)
    lake.turn(source.path)
    return lake


def test_spark_shows_the_description_of_each_table_and_the_comment_of_each_column(published):
    spark: Any = get_session(str(published.path))
    names = published.versions()
    assert {"records", "offset_ledger", "segments", "batches"} <= names.keys()
    for name in names:
        spec, place = TABLES[name], f"delta.`{published.path / 'tables' / name}`"
        shown = spark.sql(f"DESCRIBE EXTENDED {place}").collect()
        assert [(row.col_name, row.comment) for row in shown[: len(spec.meanings)]] == list(spec.meanings)
        assert [row.data_type for row in shown if row.col_name == "Comment"] == [spec.one_row]


@pytest.mark.long
def test_spark_reads_the_clock_of_a_row_as_a_time_and_keeps_it_in_rows_that_it_rewrites(published):
    spark: Any = get_session(str(published.path))
    uri = str(published.path / "tables" / "records")
    spark.sql(f"DELETE FROM delta.`{uri}` WHERE offset = 3")
    at = "timestamp'2027-01-15T08:00:00Z'"  # AS_OF_MS
    assert spark.read.format("delta").load(uri).where(f"published_at = {at}").count() == 9
