"""A record is found in one file of many, by every reader, before and after small files were merged."""

from __future__ import annotations

import datetime

import pytest
from deltalake import DeltaTable

from spark_jobs.contracts import OptimizeConfig
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.launch import run
from tests.scale import point_lookup as lookup

pytestmark = pytest.mark.spark

SHAPE = lookup.Shape(rows=120_000, topics=2, partitions=3, rows_a_file=1_000)
PLACES = [("topic-0", 0, 0), ("topic-0", 0, 999), ("topic-0", 0, 1000), ("topic-1", 2, 12_345), ("topic-1", 1, 19_999)]


@pytest.fixture(scope="module", params=["as published", "merged"])
def lake(request, tmp_path_factory):
    """120 files of 1000 rows; merged they are 6 of 20,000, or more where they are cut."""
    path = str(tmp_path_factory.mktemp("lake"))
    lookup.build(path, SHAPE)
    if request.param == "merged":
        run(OptimizeConfig(path, "run", 0, apply=True, small_bytes=150_000, target_bytes=300_000))
        assert 6 < len(DeltaTable(table_uri(path, "records")).file_uris()) < 30
    return path


@pytest.mark.long
@pytest.mark.parametrize("place", PLACES)
def test_a_record_is_found_in_one_file(lake, place):
    _, partition, offset = place
    expected = [lookup.value_at(partition, offset)]
    [named] = lookup.files_named(lake, *place)
    opened, rows = lookup.files_opened(lake, *place)
    assert [row["value"] for row in rows] == expected
    assert [named.endswith(path) for path in opened] == [True]
    count, found = lookup.spark_files(lake, *place)
    assert (count, [bytes(row["value"]) for row in found]) == (1, expected)
    for reader in lookup.READERS.values():
        assert reader(lake, *place) == expected


def test_a_moment_of_one_topic_is_found_in_one_file_a_partition(lake):
    moment = datetime.datetime.fromtimestamp((lookup.FIRST_TIMESTAMP_MS + 12_345) / 1000, datetime.UTC)
    where = [("topic", "=", "topic-1"), ("timestamp", "=", moment)]
    assert len(DeltaTable(table_uri(lake, "records")).file_uris(file_pruning_predicate=where)) == SHAPE.partitions


def test_a_place_that_no_record_has_opens_no_file(lake):
    assert lookup.files_named(lake, "topic-1", 3, 5) == []
    assert lookup.files_opened(lake, "topic-1", 1, SHAPE.rows_a_partition) == ([], [])
    assert lookup.files_opened(lake, "topic-9", 1, 0) == ([], [])
