"""Guards hold on an object store without a lease: of several commits that depend on one frontier, one succeeds."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pytest

from spark_jobs.errors import ConcurrentChange
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import read_rows, table_uri
from spark_jobs.lake.delta.tables.table_creation import ensure_table
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_specs import TABLES

pytestmark = pytest.mark.object_store

WRITERS = 4


def _written(lake: str, start: int, end: int) -> WrittenFile:
    spec = TABLES["records"]
    rows = [
        {"topic": "a", "partition": 0, "offset": offset, "value": b"%d" % offset, "log_id": "a.0"}
        for offset in range(start, end)
    ]
    chunk = pa.RecordBatch.from_pylist(rows, schema=spec.schema)
    file = write_file(table_uri(lake, "records"), spec, [chunk], {"topic": "a"})
    assert file is not None
    return file


def test_of_several_publishers_of_one_range_one_commits_it(bucket):
    lake = f"{bucket}/lake"
    ensure_table(lake, "records")
    for start, end in ((0, 5), (5, 10)):
        files = [_written(lake, start, end) for _ in range(WRITERS)]

        def publish(file: WrittenFile, start: int = start, end: int = end) -> bool:
            try:
                commits.add_files(lake, "records", [file], "run", [Guard("records/a.0/0", start or None, end)])
            except ConcurrentChange:
                return False
            return True

        with ThreadPoolExecutor(WRITERS) as threads:
            assert sum(threads.map(publish, files)) == 1
    assert sorted(row["offset"] for row in read_rows(lake, "records").to_pylist()) == list(range(10))
    assert commits.versions(lake, "records", ["records/a.0/0"]) == {"records/a.0/0": 10}


def test_a_commit_makes_no_request_for_each_file(
    bucket: str, requests_of: Callable[[Callable[[], object]], list[str]]
) -> None:
    counts = []
    for files in (1, 12):
        lake = f"{bucket}/lake-{files}"
        ensure_table(lake, "records")
        written = [_written(lake, start, start + 1) for start in range(files)]
        found = requests_of(partial(commits.add_files, lake, "records", written, "run"))
        counts.append(len(found))
    assert counts[0] == counts[1]
