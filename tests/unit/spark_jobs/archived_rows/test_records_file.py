"""A file of `records` holds what was visible when its segments were validated, whatever lies between."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logcore.errors import LogError
from spark_jobs.archived_rows.records_file import Piece, WriteTask, decoded
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.table_specs import TABLES
from tests import handmade

FIRST = handmade.simple_batch(0, [(None, b"a"), (None, b"b")])
THIRD = handmade.simple_batch(2, [(None, b"c")])


def offsets(folder: Path, data: bytes, *, start: int = 0, first: int = 0, end: int | None = None) -> list[int]:
    path = folder / "s.log"
    path.write_bytes(data)
    piece = Piece("s", str(path), 0, start, len(data) if end is None else end, first, 3)
    task = WriteTask(str(folder), "t", "l", 0, (piece,), ((0, 3),))
    return [offset for columns in decoded(task) for offset in columns["offset"].to_pylist()]


@pytest.mark.parametrize("damage", [FIRST, b"\x01" * 40], ids=["a batch twice", "junk"])
def test_damage_that_took_no_offsets_keeps_nothing_back(tmp_path: Path, damage: bytes) -> None:
    assert offsets(tmp_path, FIRST + damage + (THIRD if damage is FIRST else b"")) == (
        [0, 1, 2] if damage is FIRST else [0, 1]
    )


def test_a_piece_begins_in_the_middle_of_a_file(tmp_path: Path) -> None:
    assert offsets(tmp_path, FIRST + THIRD, start=len(FIRST), first=2) == [2]


def test_a_file_that_lost_its_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="before the end of the bytes to publish"):
        offsets(tmp_path, FIRST, end=len(FIRST + THIRD))


def test_rows_come_in_full_row_groups_however_they_are_decoded(tmp_path):
    spec = TABLES["records"]
    columns = [pa.nulls(1000, field.type) for field in spec.file_schema]
    chunk = pa.RecordBatch.from_arrays(columns, schema=spec.file_schema)
    written = write_file(str(tmp_path), spec, [chunk] * 200, {"topic": "orders"})
    assert written is not None
    footer = pq.read_metadata(tmp_path / written.path)
    rows = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
    assert rows == [65_536, 65_536, 65_536, 200_000 - 3 * 65_536]


def test_large_values_make_smaller_row_groups(tmp_path):
    spec = TABLES["records"]
    values = pa.array([bytes(1 << 20)] * 4)
    columns = [values if field.name == "value" else pa.nulls(4, field.type) for field in spec.file_schema]
    chunk = pa.RecordBatch.from_arrays(columns, schema=spec.file_schema)
    written = write_file(str(tmp_path), spec, [chunk] * 20, {"topic": "orders"})
    assert written is not None
    footer = pq.read_metadata(tmp_path / written.path)
    rows = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
    assert sum(rows) == 80
    assert max(rows) <= 36
