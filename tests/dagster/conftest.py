"""A persistent Dagster instance, a lake home, and a world of fake jobs, all in the test's own folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from pipelines.catalog.names import graph_name, name_in_lake
from pipelines.command.history import settings_file
from pipelines.definitions import build_definitions
from spark_jobs.contracts import Intake
from spark_jobs.engine.job_engine import JOB_ENGINE_VARIABLE, JobEngine
from spark_jobs.lake.setup.registry import register, remember
from spark_jobs.lake.view.registered_lakes import read_home, read_registered
from tests.daemons import WAIT_SECONDS
from tests.dagster.fake_jobs import WORLDS, FakeLauncher, World


def pytest_configure(config: pytest.Config) -> None:
    """Only tests of this folder ask for it."""
    config.addinivalue_line("markers", "stored: wants a Dagster instance on disk instead of one in memory")


@pytest.fixture(scope="module", autouse=True)
def local_engine() -> Iterator[None]:
    """What Dagster starts here has its tasks in processes: a JVM starts only for tests whose claim is about Spark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(JOB_ENGINE_VARIABLE, JobEngine.LOCAL)
        yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty lake home that the environment names."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return tmp_path / "home"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source directory for a lake."""
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


Define = Callable[[], dg.Definitions]


@pytest.fixture
def define(world: World, tmp_path: Path, home: Path) -> Define:
    """``define()``: the real definitions of the lakes that are registered now, with fake jobs under them."""
    return lambda: build_definitions(read_home(str(home)).lakes, FakeLauncher(world=str(tmp_path)))


Execute = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture
def execute(define: Define, instance: dg.DagsterInstance, source: Path, home: Path) -> Execute:
    """``execute(lake=…, partition_key=…)``: one run of a job of the lake, or of the only registered one.

    Other arguments are fields of the run's configuration, as a user states them in the Launchpad.
    """

    def run(
        job: str = "intake",
        *,
        lake: str | None = None,
        partition_key: str | None = None,
        tags: dict | None = None,
        **said: Any,
    ) -> dg.ExecuteInProcessResult:
        if lake is None:
            (of,) = read_home(str(home)).lakes
        else:
            register(lake)
            of = read_registered(lake)
            said = {"sources": [str(source)], **said}
        return (
            define()
            .resolve_job_def(name_in_lake(of, job))
            .execute_in_process(
                instance=instance,
                run_config={"ops": {graph_name(of, job): {"ops": {"begin": {"config": said}}}}},
                partition_key=partition_key,
                tags=tags,
                raise_on_error=False,
            )
        )

    return run


def materialized(result: dg.ExecuteInProcessResult, asset: str) -> list[str | None]:
    """Partition keys of an asset's materializations in a run, in their order."""
    return [event.partition for event in result.get_asset_materialization_events() if event.asset_key.path[-1] == asset]


def materializations_of(result: dg.ExecuteInProcessResult, key: Sequence[str]) -> list[dg.AssetMaterialization]:
    """Materializations of an asset; the key is without the lake's name."""
    events = result.get_asset_materialization_events()
    return [event.materialization for event in events if list(event.asset_key.path[1:]) == list(key)]


def check_of(result: dg.ExecuteInProcessResult, name: str) -> dg.AssetCheckEvaluation:
    """The one evaluation of a check in a run."""
    (found,) = [c for c in result.get_asset_check_evaluations() if c.check_name == name]
    return found


def night(
    definitions: dg.Definitions, instance: dg.DagsterInstance, schedule: str, moment: datetime
) -> list[dg.RunRequest]:
    """What a schedule requests at this time."""
    with dg.build_schedule_context(instance=instance, scheduled_execution_time=moment) as context:
        return list(definitions.resolve_schedule_def(schedule).evaluate_tick(context).run_requests or [])


def tick(
    definitions: dg.Definitions, instance: dg.DagsterInstance, sensor: str, cursor: str | None = None
) -> SensorExecutionData:
    """One tick of a sensor."""
    with dg.build_sensor_context(instance=instance, definitions=definitions, cursor=cursor) as context:
        return definitions.resolve_sensor_def(sensor).evaluate_tick(context)


def loglake(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Type a command in a shell without Dagster's or Loglake's variables."""
    clean = {k: v for k, v in os.environ.items() if k not in ("DAGSTER_HOME", JOB_ENGINE_VARIABLE)}
    return subprocess.run(
        [sys.executable, "-m", "logcore.cli.main", *map(str, arguments)],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


@pytest.fixture
def shop(home: Path, source: Path) -> str:
    """A lake that remembers the source and has taken in nothing."""
    lake = str(home / "lakes" / "shop")
    remember(lake, Intake((str(source),)))
    return lake
