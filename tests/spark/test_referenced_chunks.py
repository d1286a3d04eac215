"""Tasks on Spark read segments in remote storage by the chunk maps that the lake has registered."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, PublishConfig, ValidateConfig
from tests.broker_directory import LogDirectory
from tests.remote_storage import tiered
from tests.spark.cycle import AS_OF_MS, Lake

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_jobs_on_spark_read_registered_segments_without_their_manifests(
    source: LogDirectory, lake: Lake, tmp_path: Path
) -> None:
    storage = tiered(source, tmp_path / "remote", layout="chunks")
    path, remote = str(lake.path), (str(storage.path),)
    launch.run(IngestConfig(path, (str(source.path),), "run", AS_OF_MS, remote=remote, mode="reference"))
    for manifest in storage.path.rglob("*.rsm-manifest"):
        manifest.write_bytes(b"")
    assert launch.run(ValidateConfig(path, "run", AS_OF_MS)).findings == ()
    assert launch.run(PublishConfig(path, "run", AS_OF_MS)).findings == ()
    assert lake.published("orders") == storage.partition.rows
