"""The tables of the cluster on an S3-compatible server: by `run` and by the command, from sources on disk and there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.run.chains import INTAKE
from pipelines.run.direct import run_steps
from pipelines.run.run_request import RunRequest
from pipelines.run.steps import Run
from spark_jobs import launch
from spark_jobs.cluster import cluster_job
from spark_jobs.contracts import ClusterConfig
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.store import storage
from tests.crash.test_cluster import Source
from tests.in_process import InProcessExecutor
from tests.jobs.test_decode_in_a_run import Jobs
from tests.spark.cycle import AS_OF_MS

pytestmark = pytest.mark.object_store


@pytest.fixture(autouse=True)
def tasks_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))


def rows(lake: str, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in read_rows(lake, table, list(columns)).to_pylist())


def run(lake: str, source: str) -> list[str]:
    jobs = Jobs()
    request = RunRequest(sources=(source,))
    done = run_steps(INTAKE, Run("run", lake, AS_OF_MS, request, request.policies_of(lake), jobs))
    assert done.error is None, done.error
    return jobs.begun


def test_a_lake_on_the_server_follows_internal_topics_and_rests_without_news(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, lake, readings = Source(tmp_path / "source"), f"{bucket}/lake", []
    read = cluster_job._read
    monkeypatch.setattr(cluster_job, "_read", lambda config: readings.append(config) or read(config))
    source.grow(0)
    place = str(source.directory.path)
    assert "cluster" in run(lake, place)
    run(lake, place)
    assert len(readings) == 1
    source.grow(1)
    run(lake, place)
    assert rows(lake, "cluster_offset_commits", "group", "committed_offset") == [
        ("a", 11),
        ("a", 12),
        ("g-0", 0),
        ("g-1", 1),
    ]
    assert rows(lake, "cluster_topics", "topic") == [("topic-0",), ("topic-1",)]
    assert rows(lake, "cluster_transactional_ids", "transactional_id") == [("t-0",), ("t-1",)]


def test_a_source_on_the_server_gives_the_same_rows_as_the_files(bucket: str, tmp_path: Path) -> None:
    source = Source(tmp_path / "source")
    source.grow(0)
    root = source.directory.path
    for path in sorted(root.rglob("*")):
        if path.is_file():
            storage.put(f"{bucket}/source/{path.relative_to(root)}", path.read_bytes())
    lakes = (f"{bucket}/one", f"{bucket}/other")
    for lake, place in zip(lakes, (str(root), f"{bucket}/source"), strict=True):
        report = launch.run(ClusterConfig(lake, "run", AS_OF_MS, (place,)))
        assert not report.plan.waits
        (directory,) = report.plan.directories
        assert (directory.broker, directory.replicas) == (1, 4)
        assert directory.bytes == sum(path.stat().st_size for path in root.rglob("*.log"))
    for table in ("cluster_offset_commits", "cluster_group_offsets", "cluster_topics", "cluster_transactional_ids"):
        one, other = (read_rows(lake, table).to_pylist() for lake in lakes)
        assert one == other
        assert one
