"""State tables whose files another engine rewrote: delta-rs writes strings as views."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.lake.delta.tables import snapshots, table_creation
from spark_jobs.lake.delta.tables.snapshots import scan, scan_file
from spark_jobs.lake.table_specs import TABLES

SCHEMA = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("start_offset", pa.int64())])
ROWS = [("orders", 0, 0), ("orders", 1, 0), ("payments", 0, 0), ("payments", 0, 5)]


@pytest.fixture
def rewritten(tmp_path: Path) -> DeltaTable:
    """Four rows, of which a deletion by delta-rs left three in a file of views."""
    uri = str(tmp_path / "tables" / "offset_ledger")
    table_creation.ensure_table(str(tmp_path), "offset_ledger")
    rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in ROWS]
    write_deltalake(uri, pa.Table.from_pylist(rows, TABLES["offset_ledger"].schema), mode="append")
    DeltaTable(uri).delete("topic = 'orders' AND partition = 1")
    (path,) = DeltaTable(uri).file_uris()
    assert pa.types.is_string_view(pq.read_schema(path).field("topic").type)
    return DeltaTable(uri)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ([("topic", "==", "payments")], {("payments", 0, 0), ("payments", 0, 5)}),
        ([("topic", "in", ["orders"])], {("orders", 0, 0)}),
        ([("topic", "in", [])], set()),
        ([("topic", "==", "payments"), ("start_offset", ">=", 5)], {("payments", 0, 5)}),
        ([("topic", "is_null", True)], set()),
        (None, {("orders", 0, 0), ("payments", 0, 0), ("payments", 0, 5)}),
    ],
)
def test_rows_of_a_table_that_delta_rs_rewrote_are_found(rewritten: DeltaTable, tmp_path: Path, condition, expected):
    found = snapshots.read_rows(str(tmp_path), "offset_ledger", SCHEMA.names, condition)
    assert {tuple(row.values()) for row in found.to_pylist()} == expected


def test_rows_of_files_with_and_without_views_are_found_together(rewritten: DeltaTable, tmp_path: Path):
    later = pa.Table.from_pylist([{"topic": "payments", "partition": 7}], TABLES["offset_ledger"].schema)
    write_deltalake(rewritten.table_uri, later, mode="append")
    assert len(DeltaTable(rewritten.table_uri).file_uris()) == 2
    found = snapshots.read_rows(str(tmp_path), "offset_ledger", ["partition"], [("topic", "==", "payments")])
    assert sorted(found["partition"].to_pylist()) == [0, 0, 7]


def test_each_file_of_it_can_be_searched_alone(rewritten: DeltaTable, tmp_path: Path):
    dataset = snapshots.open_dataset(str(tmp_path), "offset_ledger", rewritten)
    condition = ds.field("topic") == "payments"
    (fragment,) = dataset.get_fragments(filter=condition)
    assert sum(batch.num_rows for batch in scan_file(dataset, fragment, ["start_offset"], condition)) == 2
    (batch,) = scan(dataset, ["start_offset"], condition)
    assert batch.schema.names == ["start_offset"]
