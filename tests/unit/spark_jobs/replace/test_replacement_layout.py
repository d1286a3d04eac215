"""A replacement keeps the table's layout, and never touches rows of another log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from logcore.columns.schema import RECORDS_SCHEMA
from spark_jobs.lake.delta.commits import file_commits
from spark_jobs.lake.delta.files.live_files import live_files
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import open_table
from spark_jobs.lake.delta.tables.table_location import table_uri
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.replace.layout import FileSpan, LogOf, MixedFile, RecordFiles, connected, parts_of
from spark_jobs.row_files.archived_bytes import ArchivedBytes
from spark_jobs.row_files.records_file import WriteTask
from spark_jobs.row_files.rewritten_file import OURS, RowStretch, _old_rows

LOG = LogOf("t", 0, "l.0")


def write(lake: Path, *rows: tuple[str, int]) -> str:
    """One committed file with rows (log id, offset) in this order."""
    values = [{"topic": "t", "partition": 0, "offset": o, "timestamp_ms": 0, "log_id": i} for i, o in rows]
    chunk = pa.RecordBatch.from_pylist(values, schema=RECORDS_SCHEMA)
    written = write_file(table_uri(str(lake), "records"), TABLES["records"], [chunk], {"topic": "t"})
    assert written is not None
    file_commits.add_files(str(lake), "records", [written], "run")
    return written.path


def spans(lake: Path, *ranges: tuple[int, int]) -> list[str]:
    table = open_table(str(lake), "records")
    assert table is not None
    return [span.path for span in RecordFiles(str(lake), [("t", 0)]).of(live_files(table), LOG, ranges)]


def held(*segments: tuple[int, int]) -> ArchivedBytes:
    rows = [
        Segment(
            f"s{start}", "l.0/0", "t", "l.0", 0, start, end, f"archive/{start}", 0, 100, True, "d", 0, None, 0, "o", 0,
            start, None, None, None, None, None, None, None,
        )
        for start, end in segments
    ]  # fmt: skip
    return ArchivedBytes("/lake", {"l.0/0": rows}, {}, {})


def file(path: str, start: int, end: int) -> FileSpan:
    return FileSpan(path, start, end, end - start, 100)


def test_files_of_another_incarnation_are_not_the_logs_whatever_their_offsets(tmp_path):
    mine, other = write(tmp_path, ("l.0", 1), ("l.0", 5)), write(tmp_path, ("l.1", 1), ("l.1", 5))
    assert spans(tmp_path, (0, 10)) == [mine] != [other]
    assert spans(tmp_path, (6, 10)) == []


def test_a_file_with_rows_of_two_logs_is_refused_only_where_the_range_meets_it(tmp_path):
    write(tmp_path, ("l.0", 1), ("l.1", 2))
    with pytest.raises(MixedFile, match="rows of several logs"):
        spans(tmp_path, (0, 2))
    assert spans(tmp_path, (3, 9)) == []


def test_a_part_begins_where_a_file_began_and_a_range_between_files_is_one_of_its_own():
    files = [file("a", 0, 10), file("b", 10, 20), file("c", 30, 40)]
    parts = parts_of(LOG, "l.0/0", [(5, 35)], [(5, 35)], files, held((0, 40)))
    assert [(p.stretch.start, p.stretch.end, p.stretch.files) for p in parts] == [
        (0, 10, ("a",)),
        (10, 30, ("b",)),
        (30, 40, ("c",)),
    ]
    assert [p.stretch.ranges for p in parts] == [((5, 10),), ((10, 30),), ((30, 35),)]
    between = parts_of(LOG, "l.0/0", [(20, 30)], [(20, 30)], files[1:], held((0, 40)))
    assert [(p.stretch.start, p.stretch.end, p.stretch.files) for p in between if p.stretch.ranges] == [(20, 30, ())]


def test_all_parts_of_a_file_are_written_again_or_none():
    files = [file("wide", 0, 100), file("inside", 40, 60), file("apart", 100, 110)]
    parts = parts_of(LOG, "l.0/0", [(50, 51), (105, 106)], [], files, held((0, 110)))
    different = [part for part in parts if part.stretch.ranges == ((50, 51),)]
    assert {path for part in connected(parts, different) for path in part.stretch.files} == {"wide", "inside"}
    assert connected(parts, []) == []


def test_rows_that_somebody_left_out_of_order_are_read_in_order(tmp_path):
    first = write(tmp_path, ("l.0", 7), ("l.0", 3), ("l.1", 4))
    second = write(tmp_path, ("l.0", 5), ("l.0", 12))
    stretch = RowStretch(WriteTask(str(tmp_path), "t", "l.0", 0, (), ()), 0, 10, (), (first, second))
    assert [o for chunk in _old_rows(stretch, OURS) for o in chunk["offset"].to_pylist()] == [3, 5, 7]
