"""Offsets of rows are counted with their multiplicity, whatever order rows come in; a file is read once."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.lake.delta.files import file_contents
from spark_jobs.lake.delta.files.file_contents import FileUnreadable, OffsetCounts, read_contents
from spark_jobs.lake.delta.tables.snapshots import table_uri


def some(chance: random.Random) -> list[int]:
    return [chance.randrange(60) for _ in range(chance.randrange(1, 80))]


def counted(offsets: list[int]) -> OffsetCounts:
    return OffsetCounts.of(np.array(offsets, dtype=np.int64))


def test_rows_are_counted_as_a_counter_counts_them():
    chance = random.Random(5)
    for _ in range(300):
        left, right = some(chance), some(chance)
        both = OffsetCounts.together([counted(left), counted(right)])
        rows = sorted(left + right)
        assert (both.rows, both.start, both.end) == (len(rows), rows[0], rows[-1] + 1)
        assert [both.below(o) for o in range(62)] == [sum(each < o for each in rows) for o in range(62)]
        covered = [offset for start, end in both.stretches() for offset in range(start, end)]
        assert covered == sorted(set(rows))


def write(lake: Path, rows: list[tuple[str, int, int]], name: str = "f.parquet") -> Path:
    path = Path(table_uri(str(lake), "records"), name)
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = dict(zip(("log_id", "partition", "offset"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), path, row_group_size=7)
    return path


def test_rows_of_a_file_are_counted_by_log(tmp_path):
    chance = random.Random(3)
    rows = [(f"l.{chance.randrange(3)}", chance.randrange(2), chance.randrange(40)) for _ in range(500)]
    write(tmp_path, rows)
    found = read_contents(str(tmp_path), "records", "f.parquet")
    expected = Counter(rows)
    assert found.rows == 500
    assert not found.is_ordered
    assert {key: [o.below(at + 1) - o.below(at) for at in range(40)] for key, o in found.logs.items()} == {
        (log_id, partition): [expected[log_id, partition, at] for at in range(40)]
        for log_id, partition in {row[:2] for row in rows}
    }


@pytest.mark.parametrize(
    ("rows", "is_ordered"),
    [
        ([("l", 0, o) for o in range(20)], True),
        ([("l", 0, o) for o in (1, 2, 2, 3)], True),
        ([("l", 0, o) for o in (*range(7), 5, *range(8, 20))], False),
        ([("l", 0, o) for o in (*range(10), 4)], False),
        ([("l", 0, 1), ("m", 0, 2)], False),
        ([("l", 0, 1), ("l", 1, 2)], False),
    ],
)
def test_a_file_is_in_order_when_it_is_of_one_log_whose_offsets_never_fall(tmp_path, rows, is_ordered):
    write(tmp_path, rows)
    assert read_contents(str(tmp_path), "records", "f.parquet").is_ordered is is_ordered


def test_a_file_is_read_once_and_again_when_it_is_another(tmp_path, monkeypatch):
    path = write(tmp_path, [("l", 0, 1)])
    opened = []
    read = file_contents.open_parquet
    monkeypatch.setattr(
        file_contents, "open_parquet", lambda *args, **given: opened.append(args) or read(*args, **given)
    )
    for _ in range(3):
        assert read_contents(str(tmp_path), "records", "f.parquet").rows == 1
    assert len(opened) == 1
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FileUnreadable) as cut:
        read_contents(str(tmp_path), "records", "f.parquet")
    assert cut.value.is_lost
    path.unlink()
    with pytest.raises(FileUnreadable, match="it is not there"):
        read_contents(str(tmp_path), "records", "f.parquet")


def test_a_file_whose_bytes_the_disk_does_not_give_is_unreadable_and_not_lost(tmp_path, monkeypatch):
    write(tmp_path, [("l", 0, 1)])

    def refused(*args: object, **given: object) -> object:
        raise OSError("no answer")

    monkeypatch.setattr(file_contents, "open_parquet", refused)
    monkeypatch.setattr(file_contents, "_read_through", refused)
    with pytest.raises(FileUnreadable, match="no answer") as silent:
        read_contents(str(tmp_path), "records", "f.parquet")
    assert not silent.value.is_lost


def test_what_is_remembered_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(file_contents, "REMEMBERED_BYTES", 1000)
    monkeypatch.setattr(file_contents, "_remembered", type(file_contents._remembered)())
    for number in range(20):
        write(tmp_path, [("l", 0, o) for o in range(0, 100, 2)], f"{number}.parquet")
        assert read_contents(str(tmp_path), "records", f"{number}.parquet").rows == 50
    assert len(file_contents._remembered) == 1
