"""No file goes that anybody can still need."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.errors import UsageError
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.files.live_files import live_files
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import open_table, table_uri
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.launch import run
from tests.spark.scattered_files import all_rows, optimize_config, removed_files, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]

DAY_MS = 86_400_000

NOW_MS = 4_000_000_000_000
"""Long after anything in these tests was written."""


def _age(written_ms: int, *paths: Path) -> None:
    for path in paths:
        os.utime(path, ns=(written_ms * 1_000_000,) * 2)


@pytest.fixture
def years_later(monkeypatch):
    """The disk's own time is far ahead, so that files are as old as a run's clock says."""
    monkeypatch.setattr(storage, "clock_ms", lambda root: 2 * NOW_MS)


def test_a_run_with_a_clock_ahead_of_time_leaves_the_files_of_a_publish_at_work(scattered):
    at_work = Path(table_uri(str(scattered), "records"), "topic=a", "part-not-committed-yet.parquet")
    at_work.write_bytes(b"half written")
    assert run(optimize_config(scattered, as_of_ms=NOW_MS)).metrics["removed_files"] == 0
    assert at_work.exists()


def test_only_files_below_the_floor_that_no_version_names_are_removed(scattered, years_later):
    run(optimize_config(scattered))
    root = Path(table_uri(str(scattered), "records"))
    live = {root / file.path for file in live_files(open_table(str(scattered), "records"))}
    superseded = set(root.rglob("*.parquet")) - live
    assert len(superseded) == 10
    old, young = root / "topic=a" / "part-old.parquet", root / "topic=a" / "part-young.parquet"
    for path in (old, young):
        path.write_bytes(b"half written")
    _age(0, *live, *superseded)  # a file counts from its removal, however long ago it was written
    removed_ms = max(removed_files(root).values())

    soon = removed_ms + 7 * DAY_MS - 1000
    _age(soon - 8 * DAY_MS, old)
    _age(soon - 6 * DAY_MS, young)
    dry = run(optimize_config(scattered, as_of_ms=soon, apply=False))
    assert [file.path for file in dry.plan.vacuum.files] == ["topic=a/part-old.parquet"]
    assert old.exists()
    before = all_rows(scattered)
    assert run(optimize_config(scattered, as_of_ms=soon)).metrics["removed_files"] == 1
    assert not old.exists()
    assert young.exists()
    assert all(path.exists() for path in superseded)

    later = removed_ms + 7 * DAY_MS + 1000
    assert run(optimize_config(scattered, as_of_ms=later)).metrics["removed_files"] == 10
    assert not any(path.exists() for path in superseded)
    assert all(path.exists() for path in live)
    assert all_rows(scattered) == before


def test_a_floor_below_seven_days_is_refused_unless_it_is_forced(scattered):
    with pytest.raises(UsageError, match="seven days"):
        run(optimize_config(scattered, vacuum_after_ms=7 * DAY_MS - 1))
    orphan = Path(table_uri(str(scattered), "records"), "topic=a", "part-orphan.parquet")
    orphan.write_bytes(b"x")
    _age(NOW_MS - DAY_MS, orphan)
    forced = optimize_config(scattered, as_of_ms=NOW_MS, vacuum_after_ms=DAY_MS // 2, force=True)
    assert run(forced).metrics["removed_files"] >= 1
    assert not orphan.exists()


def test_files_younger_than_twice_the_longest_wait_for_a_commit_stay(tmp_path, years_later):
    """A publish that takes five days has files of five days that no version names yet."""
    spec, root = TABLES["records"], table_uri(str(tmp_path), "records")
    chunk = pa.RecordBatch.from_pylist(rows_of("a", 0, "a.0", 0, 5), schema=TABLES["records"].schema)
    file = write_file(root, spec, [chunk], {"topic": "a"})
    waited = replace(file, modified_ms=file.modified_ms - 5 * DAY_MS)
    commits.add_files(str(tmp_path), "records", [waited], "run")
    waiting = write_file(root, spec, [chunk], {"topic": "a"})
    _age(NOW_MS - 9 * DAY_MS, Path(root, waiting.path))
    assert run(optimize_config(tmp_path, as_of_ms=NOW_MS, apply=False)).plan.vacuum.count == 0
    commits.add_files(str(tmp_path), "records", [replace(waiting, modified_ms=file.modified_ms)], "run")
    late = write_file(root, spec, [chunk], {"topic": "a"})
    _age(NOW_MS - 11 * DAY_MS, Path(root, late.path))
    report = run(optimize_config(tmp_path, as_of_ms=NOW_MS, apply=False))
    assert [each.path for each in report.plan.vacuum.files] == [late.path]
    assert 10 * DAY_MS <= report.plan.vacuum.floor_ms < 10 * DAY_MS + 600_000
