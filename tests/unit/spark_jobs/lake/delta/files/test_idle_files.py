"""A file that no version names any more is as old as its removal, and never older."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa

from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.files.live_files import idle_files
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.delta_log import read_history
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_specs import TABLES

SPEC = TABLES["records"]


def _write(lake: str) -> WrittenFile:
    chunk = pa.RecordBatch.from_pylist([{"topic": "t", "partition": 0, "offset": 0, "log_id": "l"}], SPEC.schema)
    file = write_file(table_uri(lake, "records"), SPEC, [chunk], {"topic": "t"})
    assert file is not None
    return file


def test_a_file_that_was_removed_after_the_history_was_read_counts_from_its_removal(tmp_path: Path):
    lake = str(tmp_path)
    old = _write(lake)
    os.utime(Path(table_uri(lake, "records")) / old.path, (1_000_000, 1_000_000))
    commits.add_files(lake, "records", [old], "run")
    history = read_history(lake, "records")
    now_ms = time.time_ns() // 1_000_000
    commits.rewrite_files(lake, "records", [old.path], [_write(lake)], "run", data_change=False)
    [idle] = idle_files(lake, "records", history)
    assert (idle.path, idle.was_live) == (old.path, True)
    assert idle.since_ms >= now_ms
