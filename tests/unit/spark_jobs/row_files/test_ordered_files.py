"""Rows of mixed files are written again per log and in order, whatever fits into memory; otherwise nothing is left."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.lake.delta.files.file_contents import read_contents
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.delta.tables.table_location import table_uri
from spark_jobs.lake.store.written_file import WriteResult
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.row_files import ordered_files
from spark_jobs.row_files.file_order import Order, orders_of
from spark_jobs.row_files.ordered_files import OrderTask, order_files

pytestmark = pytest.mark.slow

SCHEMA = TABLES["records"].file_schema.append(pa.field("note", pa.list_(pa.struct([pa.field("x", pa.int32())]))))


def rows(chance: random.Random) -> list[dict[str, Any]]:
    keys = [(log_id, partition, o) for log_id in ("a", "b") for partition in (0, 1) for o in range(50)]
    chance.shuffle(keys)
    return [
        dict.fromkeys(SCHEMA.names)
        | {"log_id": log_id, "partition": partition, "offset": o, "timestamp_ms": o, "value": chance.randbytes(o)}
        | {"note": [{"x": o}] if o % 2 else None}
        for log_id, partition, o in keys
    ]


@pytest.fixture
def mixed(tmp_path: Path) -> tuple[str, list[dict[str, Any]], Order]:
    """Two files with rows of four logs each, in no order, and a lake that they lie in."""
    lake, found = str(tmp_path), rows(random.Random(2))
    files, contents = [], {}
    for number, part in enumerate((found[:90], found[90:])):
        path = f"topic=t/{number}.parquet"
        full = Path(table_uri(lake, "records"), path)
        full.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(part, schema=SCHEMA), full, row_group_size=17, write_page_checksum=True)
        files.append(LiveFile(path, full.stat().st_size, len(part), {"topic": "t"}, {}, {}))
        contents[path] = read_contents(lake, "records", path)
    [order] = orders_of("records", "t", files, contents, {}, 4000)
    return lake, found, order


def done(lake: str, order: Order, **changed: Any) -> list[WriteResult]:
    from base64 import b64encode

    extra = b64encode(pa.schema([SCHEMA.field("note")]).serialize()).decode()
    tasks = [OrderTask(lake, "records", "t", outputs, extra) for outputs in order.tasks]
    return [order_files(replace(task, **changed)) for task in tasks]


@pytest.mark.parametrize("window", [(32 << 20, 128 << 20), (1000, 128 << 20), (32 << 20, 1000), (1, 1)])
def test_every_row_comes_out_once_in_order_with_the_columns_of_users(mixed, monkeypatch, window):
    lake, found, order = mixed
    monkeypatch.setattr(ordered_files, "WINDOW_FILE_BYTES", window[0])
    monkeypatch.setattr(ordered_files, "WINDOW_BYTES", window[1])
    results = done(lake, order)
    assert [result.error for result in results] == [None] * len(order.tasks)
    files = [file for result in results for file in result.files]
    assert len(files) == len(order.outputs) > 4
    written = []
    for file, output in zip(files, order.outputs, strict=True):
        read = pq.ParquetFile(Path(table_uri(lake, "records"), file.path)).read().to_pylist()
        assert {(row["log_id"], row["partition"]) for row in read} == {(output.log_id, output.partition)}
        assert [row["offset"] for row in read] == list(range(output.start, output.end))
        written += read
    assert written == sorted(found, key=lambda row: (row["log_id"], row["partition"], row["offset"]))


def test_a_page_that_was_damaged_since_leaves_nothing_and_names_the_file(mixed):
    lake, _, order = mixed
    root = Path(table_uri(lake, "records"))
    path = root / "topic=t" / "1.parquet"
    group = pq.read_metadata(path).row_group(2)
    [column] = [group.column(i) for i in range(group.num_columns) if group.column(i).path_in_schema == "value"]
    content = bytearray(path.read_bytes())
    content[(column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size - 3] ^= 0x10
    path.write_bytes(content)
    results = done(lake, order)
    failed = [result for result in results if result.error]
    assert {result.lost for result in failed} == {"topic=t/1.parquet"}
    assert all(result.files == () for result in failed)
    kept = {Path(file.path).name for result in results for file in result.files}
    assert {file.name for file in (root / "topic=t").iterdir()} == {"0.parquet", "1.parquet"} | kept


def test_files_that_hold_other_rows_than_were_planned_are_not_written(mixed):
    lake, found, order = mixed
    root = Path(table_uri(lake, "records"))
    other = [row | {"offset": 49 - row["offset"]} for row in found[:90]]
    pq.write_table(pa.Table.from_pylist(other, schema=SCHEMA), root / "topic=t" / "0.parquet")
    results = done(lake, order)
    assert any("rows were written of offsets" in str(result.error) for result in results)
    assert not any(result.lost for result in results)
