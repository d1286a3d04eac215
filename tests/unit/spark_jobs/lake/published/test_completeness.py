"""Ledger and files of `records` are compared by statistics alone; every number is written out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logcore.logs.model.offset_ledger import OffsetState
from spark_jobs.lake.delta.files.file_contents import FileContents, OffsetCounts, read_contents
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.view import ledger_comparison
from spark_jobs.lake.view.ledger_comparison import Difference, differences


def held(start: int, end: int, gaps: int = 0, state: str = "present", log_id: str = "a.0", **given: Any) -> LedgerRow:
    return LedgerRow(
        start_offset=start,
        end_offset=end,
        state=OffsetState(state),
        records=end - start - gaps,
        gaps=gaps,
        published=given.pop("published", True),
        log=f"{log_id}/0",
        topic="t",
        log_id=log_id,
        partition=0,
        **given,
    )


def file(low: int, high: int, rows: int | None = None, log_id: str | None = "a.0", partition: int = 0) -> LiveFile:
    """Offsets from low to high, both held."""
    count = high - low + 1 if rows is None else rows
    least: dict[str, Any] = {"partition": partition, "offset": low} | ({"log_id": log_id} if log_id else {})
    return LiveFile(f"{low}-{high}", 1, count, {"topic": "t"}, least, least | {"offset": high})


def contents_of(lake: str, name: str, path: str) -> FileContents:
    """A file named by its least and greatest offset holds each between them; another one is read."""
    bounds = path.split("-")
    if len(bounds) != 2 or not all(map(str.isdecimal, bounds)):
        return read_contents(lake, name, path)
    low, high = map(int, bounds)
    return FileContents({("a.0", 0): OffsetCounts.of(np.arange(low, high + 1))}, True)


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch):
    def differences_of(
        ledger: list[LedgerRow], files: list[LiveFile], logs: list[str] | None = None
    ) -> tuple[Difference, ...]:
        by_log: dict[str, list[LedgerRow]] = {}
        for row in ledger:
            by_log.setdefault(row.log, []).append(row)
        # The frontier is where the ledger of the test says that it is published to.
        ends = {log: max((r.end_offset for r in rows if r.published), default=0) for log, rows in by_log.items()}
        monkeypatch.setattr(ledger_comparison.frontier, "read_ledger", lambda lake, chosen: by_log)
        monkeypatch.setattr(ledger_comparison.frontier, "read_frontiers", lambda lake, chosen: ends)
        monkeypatch.setattr(ledger_comparison, "newest_files", lambda lake, name: files)
        monkeypatch.setattr(ledger_comparison, "read_contents", contents_of)
        return differences("lake", logs)

    return differences_of


def said(found: tuple[Difference, ...]) -> list[tuple[int, int, int, int]]:
    return [(d.start_offset, d.end_offset, d.expected, d.found) for d in found]


def test_files_that_hold_every_published_record_once_differ_in_nothing(compare):
    ledger = [held(0, 100), held(100, 101, state="control"), held(101, 150), held(150, 160, published=False)]
    assert compare(ledger, [file(50, 99), file(0, 49), file(101, 149)]) == ()
    assert compare(ledger, [file(0, 149, 149)]) == ()
    assert compare([], []) == ()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([file(0, 49, 49), file(50, 99)], [(0, 50, 50, 49)]),
        ([file(0, 49), file(60, 99)], [(50, 100, 50, 40)]),
        ([file(0, 49), file(50, 89)], [(50, 100, 50, 40)]),
        ([file(0, 49), file(50, 99), file(100, 104)], [(100, 105, 0, 5)]),
        ([file(0, 49), file(50, 99), file(50, 99)], [(50, 100, 0, 0), (100, 100, 0, 50)]),
        ([file(0, 60), file(50, 99)], [(50, 61, 0, 0), (61, 100, 39, 50)]),
        ([], [(0, 100, 100, 0)]),
    ],
    ids=[
        "a row less",
        "a hole between files",
        "the end is missing",
        "rows behind it",
        "a file twice",
        "overlap",
        "none",
    ],
)
def test_what_differs_is_named_by_its_offsets(compare, files, expected):
    assert said(compare([held(0, 100)], files)) == expected


def test_one_row_too_many_here_and_one_too_few_there_do_not_make_up_for_each_other(compare):
    assert said(compare([held(0, 100)], [file(0, 49, 51), file(50, 99, 49)])) == [(0, 50, 50, 51), (50, 100, 50, 49)]


def test_a_file_that_ends_among_gaps_is_counted_with_the_next_one(compare):
    ledger = [held(0, 20), held(20, 80, gaps=30), held(80, 100)]
    assert compare(ledger, [file(0, 40, 33), file(42, 79, 17), file(80, 99)]) == ()
    assert said(compare(ledger, [file(0, 40, 33), file(42, 79, 16), file(80, 99)])) == [(0, 100, 70, 69)]
    parts = [*ledger[:2], held(80, 100, evidence="filled-late")]
    assert said(compare(parts, [file(0, 40, 33), file(42, 79, 16), file(80, 99)])) == [(0, 80, 50, 49)]
    # The range ends in a gap, and the next file begins after it.
    assert compare(ledger, [file(0, 70, 50), file(80, 99)]) == ()


def test_what_was_filled_in_and_not_yet_replaced_is_not_expected(compare):
    late = held(10, 20, published=False, evidence="filled-late")
    ledger = [held(0, 10), late, held(20, 30)]
    assert compare(ledger, [file(0, 29, 20)]) == ()
    assert said(compare(ledger, [file(0, 29, 30)])) == [(0, 30, 20, 30)]


def test_rows_in_another_place_are_found_though_their_number_is_right(compare):
    assert [
        d.what for d in compare([held(0, 10), held(10, 20, state="aborted"), held(20, 30)], [file(5, 29, 20)])
    ] == []
    found = compare([held(0, 10), held(10, 20, state="aborted")], [file(3, 12, 10)])
    assert [d.what for d in found] == ["rows lie where none is published"]


def test_incarnations_of_one_topic_partition_are_logs_of_their_own_though_their_offsets_are_the_same(compare):
    ledger = [held(0, 50), held(0, 30, log_id="a.1")]
    assert compare(ledger, [file(0, 49), file(0, 29, log_id="a.1")]) == ()
    found = compare(ledger, [file(0, 49, log_id="a.1"), file(0, 29)])
    assert [(d.log, d.expected, d.found) for d in found] == [("a.0/0", 50, 30), ("a.1/0", 30, 50)]
    assert [d.log for d in compare(ledger[:1], [file(0, 49), file(0, 9, log_id="b.0")])] == ["b.0/0"]


def test_a_file_whose_log_is_unknown_from_statistics_and_content_is_a_difference(compare, tmp_path: Path):
    bounds = [{"partition": 0, "offset": offset, "log_id": log_id} for offset, log_id in ((0, "a"), (4, "b"))]
    gone, cut = str(tmp_path / "gone.parquet"), str(tmp_path / "cut.parquet")
    Path(cut).write_bytes(b"PAR1 and nothing behind it")
    found = compare([], [LiveFile(gone, 1, 5, {"topic": "t"}, *bounds), LiveFile(cut, 1, -1, {"topic": "t"}, {}, {})])
    assert [(d.topic, d.start_offset, d.end_offset, d.found) for d in found] == [("t", 0, 5, 5), ("t", 0, 0, 0)]
    assert found[0].what == f"the file {gone} cannot be read: it is not there"
    assert found[1].what.startswith(f"the file {cut} cannot be read: ")


def written(path: Path, *rows: tuple[str, int, int], **given: Any) -> LiveFile:
    """A file with rows (log id, partition, offset), as somebody who keeps no statistics commits it."""
    log_ids, partitions, offsets = zip(*rows, strict=True)
    types = {"partition": pa.int32(), "offset": pa.int64()}
    columns = {"partition": partitions, "log_id": log_ids, "offset": offsets}
    pq.write_table(pa.table({name: pa.array(column, types.get(name)) for name, column in columns.items()}), path)
    return LiveFile(str(path), 1, len(rows), {"topic": "t"}, given, given)


def test_a_file_without_its_log_in_the_statistics_is_read(compare, tmp_path: Path):
    old = written(tmp_path / "old.parquet", *(("a.0", 0, offset) for offset in range(10)), partition=0)
    assert compare([held(0, 10)], [old]) == ()


def test_files_of_several_logs_count_for_each_of_them_offset_by_offset(compare, tmp_path: Path):
    ledger = [held(0, 30), held(0, 20, log_id="a.1")]
    rows = [*(("a.0", 0, o) for o in range(29, -1, -1)), *(("a.1", 0, o) for o in range(20))]
    even = written(tmp_path / "even.parquet", *(row for row in rows if row[2] % 2 == 0))
    odd = written(tmp_path / "odd.parquet", *(row for row in rows if row[2] % 2))
    assert compare(ledger, [even, odd]) == ()
    without = written(tmp_path / "without.parquet", *(row for row in rows if row[2] % 2 and row != ("a.1", 0, 7)))
    assert [(d.log, d.start_offset, d.end_offset, d.expected, d.found) for d in compare(ledger, [even, without])] == [
        ("a.1/0", 6, 9, 3, 2)
    ]
    twice = written(tmp_path / "twice.parquet", *(row for row in rows if row[2] % 2), ("a.0", 0, 5))
    assert [(d.log, d.start_offset, d.end_offset, d.expected, d.found) for d in compare(ledger, [even, twice])] == [
        ("a.0/0", 5, 6, 1, 2)
    ]


def test_for_one_log_files_that_cannot_have_its_rows_are_not_read(compare, tmp_path: Path):
    other = {"log_id": "b.0", "partition": 0}
    strange = LiveFile(str(tmp_path / "gone.parquet"), 1, 5, {"topic": "t"}, other, other)
    assert compare([held(0, 10)], [file(0, 9), strange], ["a.0/0"]) == ()
