"""Tables on an object store are merged, checked off and cleaned as those on disk are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_jobs.contracts import OptimizeConfig
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.files.live_files import live_files
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import open_table, read_rows, table_uri
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.launch import run

pytestmark = pytest.mark.object_store

LATER_MS = 4_000_000_000_000


def _publish(lake: str, start: int, end: int) -> None:
    spec = TABLES["records"]
    rows = [
        {"topic": "a", "partition": 0, "offset": offset, "value": b"%d" % offset, "log_id": "a.0"}
        for offset in range(start, end)
    ]
    chunk = pa.RecordBatch.from_pylist(rows, schema=spec.schema)
    file = write_file(table_uri(lake, "records"), spec, [chunk], {"topic": "a"})
    assert file is not None
    guard = Guard("records/a.0/0", start or None, end)
    commits.add_files(lake, "records", [file], "run", [guard])


@pytest.mark.long
def test_small_files_are_merged_and_needless_files_are_removed(bucket, monkeypatch):
    lake = f"{bucket}/lake"
    for start in range(0, 60, 5):
        _publish(lake, start, start + 5)
    report = run(OptimizeConfig(lake, "run", 0, apply=True))
    assert (report.metrics["merged_files"], report.metrics["written_files"], report.metrics["checkpoints"]) == (
        12,
        1,
        1,
    )
    root = table_uri(lake, "records")
    assert len([file for file in storage.files_below(root) if "/part-" in file.path]) == 13
    later = OptimizeConfig(lake, "run", LATER_MS, apply=True)
    assert run(later).plan.vacuum.count == 0, "by the store's own time they are young"
    monkeypatch.setattr(storage, "clock_ms", lambda root: LATER_MS)
    assert run(later).metrics["removed_files"] == 12
    [live] = live_files(open_table(lake, "records"))
    assert [file.path for file in storage.files_below(root) if "/part-" in file.path] == [storage.join(root, live.path)]
    rows = read_rows(lake, "records", ["offset", "value"]).to_pylist()
    assert rows == [{"offset": offset, "value": b"%d" % offset} for offset in range(60)]
    assert commits.versions(lake, "records", ["records/a.0/0"]) == {"records/a.0/0": 60}
    _publish(lake, 60, 65)
    assert run(OptimizeConfig(lake, "run", 0)).plan.merges[0].end_offset == 65
