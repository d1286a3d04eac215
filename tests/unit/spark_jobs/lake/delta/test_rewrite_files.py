"""Files take the place of others in one commit, and never where another commit changed what they stand for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from logcore.columns.records_columns import RECORDS_SCHEMA
from spark_jobs.errors import ConcurrentChange, OutputMismatch
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.files.live_files import live_files
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import open_table, table_uri
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_specs import TABLES


class Records:
    """A table of records in which the offset alone identifies a row."""

    def __init__(self, lake: Path) -> None:
        self.lake = str(lake)
        self.uri = table_uri(self.lake, "records")

    def write(self, *offsets: int) -> WrittenFile:
        rows = [{"topic": "t", "partition": 0, "offset": o, "timestamp_ms": 0, "log_id": "l"} for o in offsets]
        chunk = pa.RecordBatch.from_pylist(rows, schema=RECORDS_SCHEMA)
        written = write_file(self.uri, TABLES["records"], [chunk], {"topic": "t"})
        assert written is not None
        return written

    def add(self, *offsets: int) -> str:
        written = self.write(*offsets)
        commits.add_files(self.lake, "records", [written], "run")
        return written.path

    def offsets(self) -> list[int]:
        table = open_table(self.lake, "records")
        assert table is not None
        return sorted(table.to_pyarrow_table()["offset"].to_pylist())

    def version(self) -> int:
        return DeltaTable(self.uri).version()


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path)


def test_a_file_takes_the_place_of_two_in_one_version(records):
    one, two, kept = records.add(0, 1), records.add(2, 3), records.add(4)
    version = records.version()
    merged = records.write(0, 1, 2, 3)
    commits.rewrite_files(
        records.lake, "records", [one, two], [merged], "run", data_change=False, guards=[Guard("x", None, 1)]
    )
    assert records.version() == version + 1
    assert records.offsets() == [0, 1, 2, 3, 4]
    table = DeltaTable(records.uri)
    assert {file.path for file in live_files(table)} == {merged.path, kept}
    assert table.transaction_version("x") == 1


def test_a_rewrite_that_should_keep_its_rows_and_does_not_is_refused(records):
    one = records.add(0, 1)
    with pytest.raises(OutputMismatch, match="1 rows were written instead of 2"):
        commits.rewrite_files(records.lake, "records", [one], [records.write(0)], "run", data_change=False)
    assert records.offsets() == [0, 1]


def _append(records: Records) -> None:
    records.add(9)


def _merge(records: Records) -> None:
    DeltaTable(records.uri).optimize.compact()


def _delete(records: Records) -> None:
    DeltaTable(records.uri).delete("offset = 1")


@pytest.mark.parametrize("other", [_append, _merge, _delete])
def test_whatever_commits_between_look_and_commit_the_rewrite_is_refused(
    records: Records, other: Callable[[Records], None]
):
    one, two = records.add(0, 1), records.add(2, 3)
    rewritten = records.write(0, 1, 2)
    with pytest.raises(ConcurrentChange):
        commits.rewrite_files(
            records.lake, "records", [one, two], [rewritten], "run", data_change=True, check=lambda _: other(records)
        )
    expected = {"_append": [0, 1, 2, 3, 9], "_merge": [0, 1, 2, 3], "_delete": [0, 2, 3]}
    assert records.offsets() == expected[other.__name__]


@pytest.mark.parametrize("other", [_merge, _delete])
def test_a_file_that_was_merged_or_cut_before_the_look_is_not_replaced_again(records, other):
    one, two = records.add(0, 1), records.add(2, 3)
    other(records)
    before = records.offsets()
    with pytest.raises(ConcurrentChange, match="no longer live"):
        commits.rewrite_files(records.lake, "records", [one, two], [records.write(0)], "run", data_change=True)
    assert records.offsets() == before


def test_a_guarded_version_that_moved_refuses_the_rewrite(records):
    one = records.add(0, 1)
    commits.add_files(records.lake, "records", [], "run", [Guard("x", None, 1)])
    with pytest.raises(ConcurrentChange, match="is at 1"):
        commits.rewrite_files(records.lake, "records", [one], [], "run", data_change=True, guards=[Guard("x", None, 2)])
    assert records.offsets() == [0, 1]
