"""Retention and `tidy_archive` on a small lake, and files to plant into it."""

from __future__ import annotations

from pathlib import Path

from spark_jobs import launch
from spark_jobs.contracts import (
    JobReport,
    RetentionConfig,
    TidyArchiveConfig,
)
from spark_jobs.policies.policies_file import read_policies
from tests.spark.cycle import AS_OF_MS, Lake

DAY = 86_400_000

RETIRED_AT = 1_700_000_001_500
"""Only the first segment is due then."""

POLICY = "topics: {orders: {cleanup.policy: delete, retention.ms: 1, file.delete.delay.ms: 1000}}"


def retain(lake: Lake, as_of_ms: int = RETIRED_AT) -> None:
    config = RetentionConfig(
        str(lake.path), "retain", as_of_ms, read_policies(str(lake.path.parent / "policies.yaml")), apply=True
    )
    assert launch.run(config).metrics["due_segments"] == 1


def keep_tidy(lake: Lake, **more: object) -> JobReport:
    """Run the job. By default it is the only user of the lake."""
    settings = {"as_of_ms": AS_OF_MS, "apply": True, "force": True, "orphan_after_ms": 0} | more
    config = TidyArchiveConfig(
        str(lake.path), "tidy", policies=read_policies(str(lake.path.parent / "policies.yaml")), **settings
    )
    return launch.run(config)


def plant(lake: Lake, name: str) -> Path:
    path = lake.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(100))
    return path
