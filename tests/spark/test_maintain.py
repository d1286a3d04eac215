"""What could be deleted or merged is listed, with its age, and nothing is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_jobs import launch
from spark_jobs.contracts import MaintainConfig, RebuildIndexesConfig, RetentionConfig
from tests.broker_directory import LogDirectory
from tests.spark.archived import append_segment, files
from tests.spark.cycle import AS_OF_MS, Lake

pytestmark = pytest.mark.spark


def test_orphans_retired_files_and_small_slices_are_listed_and_stay(tmp_path):
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    orders = source.partition("orders-0")
    append_segment(orders, [(b"k", b"v")] * 10, 1_700_000_001_000)
    append_segment(orders, [(b"k", b"v")] * 5, 1_700_000_002_000)
    lake.turn(source.path)
    for _ in range(2):
        orders.append(5)
        lake.turn(source.path)
    policies = tmp_path / "policies.yaml"
    policies.write_text("topics: {orders: {cleanup.policy: delete, retention.ms: 1, file.delete.delay.ms: 1000}}")
    retired_at = 1_700_000_001_500  # only the first segment is due
    launch.run("rebuild_indexes", RebuildIndexesConfig(str(lake.path), "rebuild", AS_OF_MS))
    retention = RetentionConfig(str(lake.path), "retain", retired_at, str(policies), apply=True)
    assert launch.run("retention", retention).metrics["due_segments"] == 1

    planted = {"archive/lost.0/0/00000000000000000000.log": 100, "tables/records/topic=orders/part-lost.parquet": 7}
    for name, size in planted.items():
        path = lake.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
        os.utime(path, ns=((AS_OF_MS - 5000) * 1_000_000,) * 2)
    before = files(lake.path)
    versions = lake.versions()

    report = launch.run("maintain", MaintainConfig(str(lake.path), "maintain", AS_OF_MS, str(policies)))
    assert not report.used_spark
    orphans = report.plan["orphans"]
    assert {file["path"]: (file["size"], file["age_ms"]) for file in orphans["files"]} == {
        name: (size, 5000) for name, size in planted.items()
    }
    assert (orphans["count"], orphans["bytes"]) == (2, 107)
    [retired] = [row for row in lake.rows("segments") if row["retired_ms"] is not None]
    stem = retired["path"].removesuffix(".log")
    assert {file["path"] for file in report.plan["deletable"]["files"]} == {
        stem + suffix for suffix in (".log", ".index", ".timeindex")
    }
    [slices] = report.plan["mergeable"]["logs"]
    assert slices["base_offsets"] == (10, 15, 20)
    superseded = {Path(file["path"]).parts[1] for file in report.plan["superseded"]["files"]}
    assert "segments" in superseded
    assert lake.versions() == versions
    after = files(lake.path)
    assert {name: after[name] for name in after if name != "lease.json"} == {
        name: before[name] for name in before if name != "lease.json"
    }

    soon = MaintainConfig(str(lake.path), "maintain", retired_at + 1000, str(policies))
    assert launch.run("maintain", soon).plan["deletable"]["count"] == 0
