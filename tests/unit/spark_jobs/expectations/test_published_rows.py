"""Rows are counted as they lie in files; every expectation is counted by hand from what was written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.expectations import expectations_job
from spark_jobs.expectations.expectations_job import ByPlace, CountTask, RowCounts, count_rows
from spark_jobs.lake.delta.files.live_files import LiveFile

SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("log_id", pa.string()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_ms", pa.int64()),
    ]
)


def written(path: Path, offsets: list[int], log_id: str = "a.0", partition: int = 0, **times: object) -> str:
    rows = [
        {"partition": partition, "log_id": log_id, "offset": offset, "timestamp": 5, "timestamp_ms": 5} | times
        for offset in offsets
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path, row_group_size=7)
    return str(path)


def counted(*files: str, start: int = 0, end: int = 1000) -> RowCounts:
    return count_rows(CountTask("a.0", 0, start, end, files))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectations_job, "CHUNK_ROWS", 5)
    monkeypatch.setattr(expectations_job, "WINDOW_OFFSETS", 16)


def test_only_rows_of_the_log_and_the_range_count(tmp_path):
    files = [
        written(tmp_path / "a", list(range(40))),
        written(tmp_path / "b", list(range(40, 60)), log_id="b.0"),
        written(tmp_path / "c", list(range(40, 60)), partition=1),
        written(tmp_path / "d", list(range(60, 80))),
    ]
    found = counted(*files, start=10, end=70)
    assert found == RowCounts(
        rows=40,
        distinct_offsets=40,
        min_offset=10,
        max_offset=69,
        non_rising_offsets=0,
        unexpected_null_timestamps=0,
    )


@pytest.mark.parametrize(
    ("files", "rows", "distinct", "falls"),
    [
        ([[1, 2, 3, 4, 4, 5]], 6, 5, 1),
        ([[5, 4, 3]], 3, 3, 2),
        ([list(range(20)), list(range(15, 30))], 35, 30, 0),
        ([list(range(50, 60)), list(range(10))], 20, 20, 0),
        ([[1, 2, 3, 4, 5, 6, 7, 3, 900]], 9, 8, 1),
    ],
    ids=["twice in a row", "falling", "two files overlap", "files in another order", "over chunks and row groups"],
)
def test_duplicate_rows_and_rows_out_of_order_are_counted_separately(tmp_path, files, rows, distinct, falls):
    paths = [written(tmp_path / f"part-{i:032x}.parquet", offsets) for i, offsets in enumerate(files)]
    found = counted(*paths)
    assert (found.rows, found.distinct_offsets, found.non_rising_offsets) == (rows, distinct, falls)


def test_the_order_of_rows_counts_in_our_own_files_alone(tmp_path):
    found = counted(written(tmp_path / "part-00000-by-another-engine.zstd.parquet", [5, 4, 3]))
    assert (found.rows, found.distinct_offsets, found.non_rising_offsets) == (3, 3, 0)


def test_a_file_that_is_lost_holds_no_row_and_the_others_are_counted(tmp_path):
    lost = str(tmp_path / "lost.parquet")
    found = counted(lost, written(tmp_path / "there.parquet", [1, 2]))
    assert (found.rows, found.distinct_offsets) == (2, 2)


def test_a_range_without_rows_has_no_offsets(tmp_path):
    found = counted(written(tmp_path / "a", [1, 2]), start=5)
    assert (found.rows, found.distinct_offsets, found.min_offset, found.max_offset) == (0, 0, None, None)


@pytest.mark.parametrize(
    ("milliseconds", "lost"),
    [(-1, 0), (5, 3), (2**62, 0), (-2, 3), (0, 3), (-62_135_596_800_000, 3), (-62_135_596_800_001, 0)],
)
def test_a_timestamp_is_lost_only_where_there_could_be_one(tmp_path, milliseconds, lost):
    path = written(tmp_path / "a", [1, 2, 3], timestamp=None, timestamp_ms=milliseconds)
    assert counted(path).unexpected_null_timestamps == lost


def test_files_that_cannot_hold_the_range_are_not_read_and_those_of_unknown_content_are():
    def file(name: str, topic: str = "t", **bounds: tuple[object, object]) -> LiveFile:
        least, greatest = ({k: v[side] for k, v in bounds.items()} for side in (0, 1))
        return LiveFile(name, 1, 1, {"topic": topic}, least, greatest)

    files = ByPlace(
        [
            file("later", partition=(0, 0), offset=(50, 99)),
            file("below", partition=(0, 0), offset=(0, 9)),
            file("at its end", partition=(0, 0), offset=(20, 29)),
            file("another topic", "u", partition=(0, 0), offset=(10, 19)),
            file("another partition", partition=(1, 1), offset=(10, 19)),
            file("another log", partition=(0, 0), offset=(10, 19), log_id=("b", "b")),
            file("several", partition=(0, 3), offset=(15, 19), log_id=("a", "b")),
            file("first", partition=(0, 0), offset=(10, 12), log_id=("a", "a")),
            file("nothing known"),
        ]
    )
    assert [f.path for f in files.of("t", 0, "a", 10, 20)] == ["nothing known", "first", "several"]
