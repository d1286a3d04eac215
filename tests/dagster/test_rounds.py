"""A run that Dagster starts takes a large load in rounds, and records each asset of a log once, for all rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from pipelines.catalog.run_configuration import run_config
from pipelines.definitions import build_definitions
from pipelines.run.run_request import RunRequest
from spark_jobs.ingest import ingest_job as job
from spark_jobs.lake.setup.registry import register
from spark_jobs.lake.view.registered_lakes import read_registered
from tests.broker_directory import LogDirectory
from tests.crash import visible
from tests.dagster.conftest import materialized
from tests.in_process import without_spark

pytestmark = pytest.mark.dagster

ASSETS = ("archived_segments", "validated_segments", "records")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogDirectory:
    """Two logs of two segments with ten records each; a segment is a task."""
    monkeypatch.setattr(job, "SHARED_BYTES", 0)
    made = LogDirectory(tmp_path / "kafka-logs")
    for name in ("orders-0", "orders-1"):
        log = made.partition(name)
        for _ in range(2):
            log.roll()
            log.append(10)
    made.high_watermarks(orders_0=20, orders_1=20)
    return made


@pytest.fixture
def run(source: LogDirectory, home: Path, tmp_path: Path, instance: dg.DagsterInstance) -> Any:
    def execute(**selection: Any) -> dg.ExecuteInProcessResult:
        lake = str(tmp_path / "lake")
        register(lake)
        config = run_config(read_registered(lake), "intake", RunRequest((str(source.path),), max_tasks_per_round=1))
        job = build_definitions([read_registered(lake)]).resolve_job_def("lake__intake")
        with without_spark():
            return job.execute_in_process(instance=instance, run_config=config, **selection)

    return execute


def test_all_rounds_of_a_log_are_one_materialization_of_each_asset(run: Any, tmp_path: Path) -> None:
    result = run()
    assert result.success
    assert result.dagster_run.tags["loglake/engine"] == "local: as LOGLAKE_JOB_ENGINE requests"
    for asset in ASSETS:
        assert sorted(map(str, materialized(result, asset))) == ["orders-0", "orders-1"]
    events = [event.materialization for event in result.get_asset_materialization_events()]
    said = [each.metadata["this run"].value for each in events if each.asset_key.path == ["lake", "records"]]
    assert all(str(each).startswith("20 records, 2 files") for each in said), said
    assert len(visible.rows(tmp_path / "lake", "records")) == 40


def test_a_run_for_the_archive_alone_publishes_nothing(run: Any, tmp_path: Path) -> None:
    result = run(asset_selection=[dg.AssetKey(["lake", "archived_segments"])])
    assert result.success
    assert sorted(map(str, materialized(result, "archived_segments"))) == ["orders-0", "orders-1"]
    assert len(visible.rows(tmp_path / "lake", "segments")) == 4
    assert not visible.rows(tmp_path / "lake", "validations")
