"""A replacement keeps the table's layout, and never touches rows of another log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from logcore.columns.records_columns import RECORDS_SCHEMA
from spark_jobs.archived_rows.archived_bytes import ArchivedBytes
from spark_jobs.archived_rows.records_file import WriteTask
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.files.live_files import LiveFile, live_files
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import open_table, table_uri
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.replace.layout import FileSpan, RecordFiles, connected, parts_of
from spark_jobs.replace.replace_job import with_mixed_files
from spark_jobs.replace.request import LogRequest, TopicRequest
from spark_jobs.replace.rewritten_file import OURS, RowStretch, _old_rows

Ranges = tuple[tuple[int, int], ...]
LOGS = {("t", 0): ["l.0", "l.1"]}


def request(*ranges: tuple[int, int], visible: Ranges = (), mixed: frozenset[str] = frozenset()) -> LogRequest:
    return LogRequest("l.0/0", "t", "l.0", 0, ranges, visible, 0, mixed)


def write(lake: Path, *rows: tuple[str, int]) -> str:
    """One committed file with rows (log id, offset) in this order."""
    values = [{"topic": "t", "partition": 0, "offset": o, "timestamp_ms": 0, "log_id": i} for i, o in rows]
    chunk = pa.RecordBatch.from_pylist(values, schema=RECORDS_SCHEMA)
    written = write_file(table_uri(str(lake), "records"), TABLES["records"], [chunk], {"topic": "t"})
    assert written is not None
    commits.add_files(str(lake), "records", [written], "run")
    return written.path


def spans(lake: Path, *ranges: tuple[int, int]) -> list[str]:
    return [span.path for span in RecordFiles(str(lake), LOGS).of(live(lake), request(*ranges))]


def live(lake: Path) -> list[LiveFile]:
    table = open_table(str(lake), "records")
    assert table is not None
    return live_files(table)


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


def test_a_request_that_meets_a_file_of_two_logs_takes_all_its_rows_along(tmp_path):
    mixed = write(tmp_path, ("l.0", 1), ("l.1", 2), ("l.0", 3), ("l.1", 7))
    alone = write(tmp_path, ("l.1", 20))
    lookup = RecordFiles(str(tmp_path), LOGS)
    apart = [TopicRequest("t", (request((4, 9)),))]
    assert with_mixed_files(apart, lookup, live(tmp_path)) == apart
    several = [TopicRequest("t", (request((0, 1), visible=((0, 1),)),)), TopicRequest("t", (request((2, 4)),))]
    [topic] = with_mixed_files(several, lookup, live(tmp_path))
    mine, other = topic.logs
    assert (mine.log, mine.ranges, mine.visible, mine.mixed) == ("l.0/0", ((0, 1), (2, 4)), ((0, 1),), {mixed})
    assert (other.log, other.ranges, other.mixed) == ("l.1/0", (), {mixed})
    spans = [(each.path, each.start, each.end, each.rows, each.is_ordered) for each in lookup.of(live(tmp_path), other)]
    assert spans == [(mixed, 2, 8, 2, False)] != [(alone, 20, 21, 1, True)]


def test_parts_with_files_that_overlap_or_are_out_of_order_are_written_again_and_fit_into_memory():
    files = [file("a", 0, 10), file("b", 10, 20), file("c", 15, 30), replace(file("d", 30, 40), is_ordered=False)]
    parts = parts_of(request((0, 40)), files, held((0, 40)))
    found = [(part.stretch.start, part.stretch.end, part.is_disordered) for part in parts]
    assert found == [(0, 10, False), (10, 15, False), (15, 30, True), (30, 40, True)]
    large = [replace(file("d", 0, 40), is_ordered=False, size=200 << 20)]
    parts = parts_of(request(mixed=frozenset({"d"})), large, held((0, 40)))
    assert [(part.stretch.start, part.stretch.end) for part in parts] == [(0, 10), (10, 20), (20, 30), (30, 40)]


def test_a_part_begins_where_a_file_began_and_a_range_between_files_is_one_of_its_own():
    files = [file("a", 0, 10), file("b", 10, 20), file("c", 30, 40)]
    parts = parts_of(request((5, 35), visible=((5, 35),)), files, held((0, 40)))
    assert [(p.stretch.start, p.stretch.end, p.stretch.files) for p in parts] == [
        (0, 10, ("a",)),
        (10, 30, ("b",)),
        (30, 40, ("c",)),
    ]
    assert [p.stretch.ranges for p in parts] == [((5, 10),), ((10, 30),), ((30, 35),)]
    between = parts_of(request((20, 30), visible=((20, 30),)), files[1:], held((0, 40)))
    assert [(p.stretch.start, p.stretch.end, p.stretch.files) for p in between if p.stretch.ranges] == [(20, 30, ())]


def test_all_parts_of_a_file_are_written_again_or_none():
    files = [file("wide", 0, 100), file("inside", 40, 60), file("apart", 100, 110)]
    parts = parts_of(request((50, 51), (105, 106)), files, held((0, 110)))
    different = [part for part in parts if part.stretch.ranges == ((50, 51),)]
    assert {path for part in connected(parts, different) for path in part.stretch.files} == {"wide", "inside"}
    assert connected(parts, []) == []


def test_rows_that_somebody_left_out_of_order_are_read_in_order(tmp_path):
    first = write(tmp_path, ("l.0", 7), ("l.0", 3), ("l.1", 4))
    second = write(tmp_path, ("l.0", 5), ("l.0", 12))
    stretch = RowStretch(WriteTask(str(tmp_path), "t", "l.0", 0, (), ()), 0, 10, (), (first, second))
    assert [o for chunk in _old_rows(stretch, OURS) for o in chunk["offset"].to_pylist()] == [3, 5, 7]
