"""Which files are read, and what is counted in them: rows by their own time of publication, fields below structs."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.expectations import row_history
from spark_jobs.expectations.key_kinds import KeyKind
from spark_jobs.expectations.row_history import HistoryTask, count_file, tasks_of, together
from spark_jobs.expectations.share_change import TalliedPlace, Tally
from spark_jobs.lake.delta.files.live_files import LiveFile

DAYS = [datetime.datetime(2026, 1, day, tzinfo=datetime.UTC) for day in range(1, 5)]
TIME = pa.timestamp("us", tz="UTC")


def file(name: str, least: int, greatest: int, rows: int = 10) -> LiveFile:
    return LiveFile(name, 1, rows, {}, {"published_at": DAYS[least]}, {"published_at": DAYS[greatest]}, {})


def names(tasks: list[HistoryTask]) -> list[str]:
    return [task.path for task in tasks]


def test_all_newest_files_are_read_and_of_earlier_ones_the_newest_until_there_are_enough_rows(monkeypatch) -> None:
    monkeypatch.setattr(row_history, "HISTORY_ROWS", 15)
    files = [file("a", 0, 0), file("b", 1, 1), file("c", 2, 2), file("d", 3, 3), file("e", 3, 3)]
    assert names(tasks_of("/t", files)) == ["/t/d", "/t/e", "/t/c", "/t/b"]
    monkeypatch.setattr(row_history, "HISTORY_FILES", 1)
    assert names(tasks_of("/t", files)) == ["/t/d", "/t/e", "/t/c"]


def test_nothing_is_read_where_no_row_is_earlier_and_a_merged_file_has_both_kinds() -> None:
    assert tasks_of("/t", []) == []
    assert tasks_of("/t", [LiveFile("old", 1, 5, {}, {}, {}, {})]) == []
    assert tasks_of("/t", [file("a", 3, 3), file("b", 3, 3)]) == []
    assert names(tasks_of("/t", [file("merged", 0, 3)])) == ["/t/merged"]


def written(path: Path, rows: list[tuple[int, int, int, Any]], column: str, kind: pa.DataType) -> str:
    """Write rows of partition, offset, day and a value."""
    table = pa.table(
        {
            "partition": pa.array([row[0] for row in rows], pa.int32()),
            "log_id": pa.array(["t"] * len(rows), pa.string()),
            "offset": pa.array([row[1] for row in rows], pa.int64()),
            "published_at": pa.array([DAYS[row[2]] for row in rows], TIME),
            column: pa.array([row[3] for row in rows], kind),
        }
    )
    pq.write_table(table, path)
    return str(path)


def test_nulls_of_fields_count_only_where_their_struct_is_set(tmp_path: Path) -> None:
    inner = pa.struct([("city", pa.string()), ("tags", pa.list_(pa.string()))])
    kind = pa.struct([("price", pa.float64()), ("at", inner)])
    rows = [
        (0, 1, 0, {"price": 1.0, "at": {"city": "x", "tags": [None]}}),
        (0, 2, 3, {"price": None, "at": None}),
        (0, 3, 3, None),
        (1, 1, 3, {"price": 2.0, "at": {"city": None, "tags": None}}),
    ]
    path = written(tmp_path / "a.parquet", rows, "value", kind)
    found = count_file(HistoryTask(path, 1, DAYS[3], ("value",)))
    assert found.problem is None
    a, b, c = TalliedPlace(0, "t", 2), TalliedPlace(0, "t", 3), TalliedPlace(1, "t", 1)
    expected = {
        "value": (Tally(3, 1, 1, 0), b, a),
        "value.price": (Tally(2, 1, 1, 0), a, c),
        "value.at": (Tally(2, 1, 1, 0), a, c),
        "value.at.city": (Tally(1, 1, 1, 0), c, None),
        "value.at.tags": (Tally(1, 1, 1, 0), c, None),
    }
    assert {name: (tally, tally.first_true, tally.first_false) for name, tally in found.tallies.items()} == expected


def test_a_file_without_a_column_is_no_history_of_it(tmp_path: Path) -> None:
    old = written(tmp_path / "old", [(0, 1, 0, {"a": 1})], "value", pa.struct([("a", pa.int64())]))
    kind = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    new = written(tmp_path / "new", [(0, 2, 3, {"a": 1, "b": 2})], "value", kind)
    counted = together([count_file(HistoryTask(path, 1, DAYS[3], ("value",))) for path in (old, new)])
    assert counted.tallies["value.a"].is_comparable
    assert not counted.tallies["value.b"].is_comparable


def test_keys_of_a_file_are_counted_by_kind_row_by_row(tmp_path: Path) -> None:
    rows = [(0, 1, 0, b"\x00\x00\x00\x01"), (0, 2, 3, b"\x00\x00\x00\x02"), (0, 3, 3, b"customer-1"), (0, 4, 3, None)]
    path = written(tmp_path / "a", rows, "key", pa.binary())
    found = count_file(HistoryTask(path, 1, DAYS[3], ())).tallies
    assert found[KeyKind.FOUR_BYTES] == Tally(3, 1, 1, 1)
    assert (found[KeyKind.TEXT], found[KeyKind.TEXT].first_true) == (Tally(3, 1, 1, 0), TalliedPlace(0, "t", 3))
    assert found[KeyKind.NONE] == Tally(3, 1, 1, 0)


def test_a_file_of_another_engine_with_other_columns_is_a_problem_and_no_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a", [(0, 1, 3, 7)], "key", pa.int64())
    assert count_file(HistoryTask(path, 1, DAYS[3], ())).problem == "a: its columns are not those of the table"
    path = written(tmp_path / "b", [(0, 1, 3, 7)], "another", pa.int64())
    assert count_file(HistoryTask(path, 1, DAYS[3], ())).problem == "b: its columns are not those of the table"


def test_a_file_that_is_gone_is_a_problem_with_its_name(tmp_path: Path) -> None:
    found = count_file(HistoryTask(str(tmp_path / "gone.parquet"), 1, DAYS[3], ()))
    assert found.problem is not None
    assert "gone.parquet" in found.problem
