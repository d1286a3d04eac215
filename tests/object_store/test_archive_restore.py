"""Archived files that are gone come back from copies on an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs import launch
from spark_jobs.contracts import IngestConfig
from spark_jobs.lake.segments import archive, archive_restore
from spark_jobs.lake.store import storage
from tests.broker_directory import LogDirectory
from tests.object_store.gateway import upload
from tests.spark.cycle import AS_OF_MS

pytestmark = pytest.mark.object_store


@pytest.mark.parametrize("is_lake_remote", [False, True])
@pytest.mark.parametrize("copy", ["source", "named directory", "named partition"])
def test_a_copy_in_a_bucket_restores_an_archived_file(
    gateway_bucket: str, tmp_path: Path, copy: str, is_lake_remote: bool
) -> None:
    source = LogDirectory(tmp_path / "logs")
    source.partition("orders-0").append(4)
    source.high_watermarks(orders_0=4)
    upload(source.path, f"{gateway_bucket}/logs")
    lake = f"{gateway_bucket}/lake" if is_lake_remote else str(tmp_path / "lake")
    config = IngestConfig(lake, (f"{gateway_bucket}/logs",), "run-1", AS_OF_MS)
    launch.run(config, engine="local")
    (segment,) = archive.read_segments(lake)
    path = storage.join(lake, segment.path)
    content = storage.read(path)
    storage.delete(path)
    named: tuple[str, ...] = ()
    if copy != "source":
        upload(source.path, f"{gateway_bucket}/copy")
        for file in list(storage.files_below(f"{gateway_bucket}/logs")):
            storage.delete(file.path)
        assert archive_restore.plan(lake).restorable == ()
        named = (f"{gateway_bucket}/copy" + ("/orders-0" if copy == "named partition" else ""),)
    made = archive_restore.plan(lake, named)
    assert (len(made.harmed), made.lost) == (1, ())
    assert archive_restore.apply(lake, made) == made.restorable
    assert storage.read(path) == content
    assert archive_restore.plan(lake).harmed == ()
