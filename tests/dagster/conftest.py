"""A persistent Dagster instance, a lake home, and a world of fake jobs, all in the test's own folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from pipelines.command.history import settings_file
from pipelines.definitions import build_definitions
from pipelines.jobs import run_config
from tests.dagster.fake_jobs import WORLDS, FakeLauncher, World


def pytest_configure(config: pytest.Config) -> None:
    """Only tests of this folder ask for it."""
    config.addinivalue_line("markers", "stored: wants a Dagster instance on disk instead of one in memory")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty lake home that the environment names."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return tmp_path / "home"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory that a lake may be told to take in."""
    directory = tmp_path / "kafka-logs"
    directory.mkdir()
    (directory / "meta.properties").write_text("version=1\ncluster.id=test\n")
    return directory


@pytest.fixture
def instance(request: pytest.FixtureRequest, home: Path) -> Iterator[dg.DagsterInstance]:
    """A Dagster instance: on disk for tests marked ``stored``, as the demo and the UI share one, else in memory."""
    if request.node.get_closest_marker("stored") is None:
        with dg.DagsterInstance.ephemeral() as made:
            yield made
        return
    folder = home / "dagster"
    folder.mkdir(parents=True)
    (folder / "dagster.yaml").write_text(settings_file().read_text())
    with dg.DagsterInstance.from_config(str(folder)) as made:
        yield made


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """The logs that the fake jobs know."""
    WORLDS[str(tmp_path)] = World()
    yield WORLDS[str(tmp_path)]
    del WORLDS[str(tmp_path)]


@pytest.fixture
def definitions(world: World, tmp_path: Path) -> dg.Definitions:
    """The real definitions, with fake jobs under them."""
    return build_definitions(launcher=FakeLauncher(world=str(tmp_path)))


Execute = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture
def execute(definitions: dg.Definitions, instance: dg.DagsterInstance, source: Path) -> Execute:
    """``execute("loglake", lake=…, partition_key=…)``: one run on the instance."""

    def run(job: str = "loglake", *, partition_key: str | None = None, tags: dict | None = None, **settings: Any):
        return definitions.resolve_job_def(job).execute_in_process(
            instance=instance,
            run_config=run_config(**{"sources": [str(source)], **settings} if "lake" in settings else settings),
            partition_key=partition_key,
            tags=tags,
            raise_on_error=False,
        )

    return run


def materialized(result: dg.ExecuteInProcessResult, asset: str) -> list[str | None]:
    """Partition keys of an asset's materializations in a run, in their order."""
    return [
        event.partition for event in result.get_asset_materialization_events() if event.asset_key == dg.AssetKey(asset)
    ]


def check_of(result: dg.ExecuteInProcessResult, name: str) -> dg.AssetCheckEvaluation:
    """The one evaluation of a check in a run."""
    (found,) = [check for check in result.get_asset_check_evaluations() if check.check_name == name]
    return found


def loglake(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Type a command in a shell without Dagster's or Loglake's variables."""
    clean = {k: v for k, v in os.environ.items() if k != "DAGSTER_HOME"}
    return subprocess.run(
        [sys.executable, "-m", "logcore.cli.main", *map(str, arguments)],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
