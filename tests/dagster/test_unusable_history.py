"""A home of Dagster that cannot be used is named with what to do: a run says so at its end, and a watch goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.exit_codes import ExitCode
from pipelines.command.dagster_history import DagsterHistory, open_instance
from pipelines.command.running import HistoryInBackground, Runner, open_dagster_history
from pipelines.run.chains import INTAKE_JOB
from pipelines.run.run_request import RunRequest
from spark_jobs import launch
from spark_jobs.lake.view.registered_lakes import read_registered
from spark_jobs.policies.policies_file import NO_POLICIES
from tests.broker_directory import LogDirectory
from tests.dagster.fake_jobs import FakeLauncher, World
from tests.dagster.test_watch_reports import Watched
from tests.in_process import InProcessExecutor, without_spark

pytestmark = [pytest.mark.dagster, pytest.mark.stored]
SECRET = "planted-password"
SCHEDULES, RUNS, EVENTS = "schedules/schedules.db", "history/runs.db", "history/runs/index.db"
NO_DATABASE = (SECRET * 300).encode()


@pytest.fixture
def dagsters_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of Dagster that the environment names; its path needs quotes in a shell."""
    folder = tmp_path / "dagster's home"
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    open_instance(str(folder)).dispose()
    return folder


@pytest.mark.parametrize(
    ("file", "content", "cause"),
    [
        (SCHEDULES, NO_DATABASE, "file is not a database"),
        (RUNS, NO_DATABASE, "file is not a database"),
        (EVENTS, NO_DATABASE, "file is not a database"),
        ("dagster.yaml", f"{SECRET}: [".encode(), "ParserError"),
        ("dagster.yaml", f"{SECRET}: true".encode(), "DagsterInvalidConfigError"),
        ("dagster.yaml", f"run_storage: {{module: {SECRET}, class: A, config: {{}}}}".encode(), "CheckError"),
    ],
)
def test_a_run_says_what_its_history_lacks_and_what_to_do(
    dagsters_home: Path, world: World, source: Path, tmp_path: Path, file: str, content: bytes, cause: str
) -> None:
    world.ends = {"orders-0": 3}
    (dagsters_home / file).write_bytes(content)
    with HistoryInBackground(lambda: open_dagster_history(str(dagsters_home))) as history:
        runner = Runner(history, 1_700_000_000_000, FakeLauncher(world=str(tmp_path)))
        outcome = runner.run(INTAKE_JOB, str(tmp_path / "lake"), RunRequest((str(source),)), NO_POLICIES)

    assert outcome.changed["records"] == ("orders-0",)
    assert outcome.failure is None
    assert outcome.unrecorded is not None
    assert outcome.unrecorded.code is ExitCode.NOT_CHECKED
    said = outcome.unrecorded.message
    assert said.startswith(f"The run {outcome.run_id} is complete, but Dagster could not record it: ")
    assert f"Dagster's home {dagsters_home} cannot be used: {cause}" in said
    quoted = str(dagsters_home).replace("'", "'\"'\"'")
    assert f"mv '{quoted}' '{quoted}.old'" in said
    assert SECRET not in said


def test_a_run_that_cannot_be_recorded_registers_its_sources_and_maintains(
    dagsters_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    logs, lake = LogDirectory(tmp_path / "logs"), tmp_path / "lake"
    logs.partition("orders-0").append(5)
    logs.high_watermarks(orders_0=5)
    (dagsters_home / RUNS).write_bytes(NO_DATABASE)
    with without_spark():
        code = main(["run", str(logs.path), "--lake", str(lake), "--maintain", "--apply"])
    said = capsys.readouterr()
    assert code == ExitCode.NOT_CHECKED
    assert "archived 1 segment, published 5 records" in said.out
    assert "maintenance:" in said.out
    assert said.err.count("is complete, but Dagster could not record it") == 1
    assert read_registered(str(lake)).intakes[0].sources == (str(logs.path),)


def test_a_failed_step_counts_before_a_history_that_cannot_be_opened(
    dagsters_home: Path, world: World, source: Path, tmp_path: Path
) -> None:
    world.ends, world.error = {"orders-0": 3}, {"validate": OSError(28, "")}
    (dagsters_home / RUNS).write_bytes(NO_DATABASE)
    with HistoryInBackground(lambda: open_dagster_history(str(dagsters_home))) as history:
        runner = Runner(history, 1_700_000_000_000, FakeLauncher(world=str(tmp_path)))
        outcome = runner.run(INTAKE_JOB, str(tmp_path / "lake"), RunRequest((str(source),)), NO_POLICIES)
    assert outcome.failure is not None
    assert "No space left on device" in outcome.failure.message


def test_a_watch_goes_on_says_so_once_and_reports_again_after_the_repair(
    dagsters_home: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(dagsters_home))
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    (dagsters_home / RUNS).write_bytes(NO_DATABASE)
    with HistoryInBackground(lambda: open_dagster_history(str(dagsters_home))) as history:
        watched = Watched(tmp_path, home, history)
        watched.rounds((0, 5), (60_000, 7), (120_000, 11))
        assert len(watched.reported) == 3
        (said,) = watched.complained
        assert f"Dagster's home {dagsters_home} cannot be used: file is not a database" in said

        shutil.move(dagsters_home, tmp_path / "old")
        watched.rounds((180_000, 13))
        with open_instance(str(dagsters_home)) as instance:
            watched.history = DagsterHistory(instance)
            assert watched.published() == [13]
        (dagsters_home / EVENTS).write_bytes(NO_DATABASE)
        watched.history = history
        watched.rounds((240_000, 17), (300_000, 19))
    assert len(watched.complained) == 2, "it failed again after a report"
