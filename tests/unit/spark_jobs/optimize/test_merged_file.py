"""Files of every state table can be merged, and the merged file has the rows in the table's declared order."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.table_specs import FIRST_OF_SEGMENT, RECORD_TABLES, TABLES
from spark_jobs.optimize.file_runs import Merge
from spark_jobs.optimize.merged_file import FileMergeTask, merge_files


def row(name: str, log: str) -> dict[str, object]:
    """A row in which every column of text is ``log`` and every number is 1."""
    schema = TABLES[name].schema
    return {
        field.name: log if pa.types.is_string(field.type) else 1 if pa.types.is_integer(field.type) else None
        for field in schema
    }


@pytest.mark.parametrize("name", [name for name in TABLES if name not in RECORD_TABLES])
def test_rows_of_two_files_are_in_the_order_of_the_table(tmp_path: Path, name: str):
    lake, spec = str(tmp_path), TABLES[name]
    written = [
        write_file(table_uri(lake, name), spec, [pa.RecordBatch.from_pylist([row(name, log)], spec.schema)], {})
        for log in ("b", "a")
    ]
    files = tuple(LiveFile(file.path, file.size, 1, {}, {}, {}) for file in written if file is not None)
    result = merge_files(FileMergeTask(lake, Merge(name, {}, files, 1)))
    assert result.error is None
    (merged,) = result.files
    rows = pq.read_table(Path(table_uri(lake, name)) / merged.path).to_pylist()
    text = next(name for name in ("log", "run_id", *spec.row_order) if name in spec.schema.names)
    assert [each[text] for each in rows] == (["a", "b"] if spec.row_order else ["b", "a"])
    keys = [tuple(each[column] for column in spec.row_order if column != FIRST_OF_SEGMENT) for each in rows]
    assert keys == sorted(keys)
