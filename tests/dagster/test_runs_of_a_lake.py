"""Runs that Dagster starts are in the table `runs` of their lake and in the figures for Prometheus, failed ones too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.tags import BACKFILL_ID_TAG, SCHEDULE_NAME_TAG, SENSOR_NAME_TAG
from deltalake import DeltaTable

from logcore.errors import UnsupportedFormatError
from pipelines.catalog.names import asset_key, name_in_lake
from pipelines.catalog.run_configuration import run_config, started_by
from pipelines.command.dagster_history import DagsterHistory
from pipelines.command.running import HistoryInBackground, Runner
from pipelines.run.chains import INTAKE_JOB
from pipelines.run.run_request import RunRequest
from spark_jobs.errors import CommitUnanswered, StorageError
from spark_jobs.lake.view.registered_lakes import read_registered
from spark_jobs.lake.view.runs import run_rows
from spark_jobs.lake_commands.metrics import lake_samples
from spark_jobs.policies.policies_file import NO_POLICIES
from tests.dagster.conftest import Define, Execute
from tests.dagster.fake_jobs import FakeLauncher, World

pytestmark = [pytest.mark.dagster, pytest.mark.stored]

SECRET = "password-4711"


@pytest.fixture
def lake(home: Path, world: World) -> str:
    world.ends = {"orders-0": 10, "orders-1": 4}
    return str(home / "lakes" / "shop")


def rows(lake: str) -> list[dict[str, Any]]:
    """Rows of the table as any reader sees them, the oldest first."""
    path = Path(lake, "tables", "runs")
    if not path.is_dir():
        return []
    found: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["started_ms"])


def figures(lake: str) -> dict[tuple[str, ...], float]:
    """Figures of the newest runs, by name and labels besides the lake."""
    samples = lake_samples(lake, "shop", 1_800_000_000_000)
    return {
        (each.metric.removeprefix("loglake_last_run_"), *(value for _, value in each.labels[1:])): each.value
        for each in samples
        if each.metric.startswith("loglake_last_run") and dict(each.labels).get("job")
    }


@pytest.mark.long
def test_a_run_has_one_row_that_says_what_started_it(execute: Execute, lake: str, home: Path) -> None:
    result = execute(lake=lake, tags={SCHEDULE_NAME_TAG: "shop__timed_intake"})

    assert result.success
    (row,) = rows(lake)
    assert (row["run_id"], row["job"], row["started_by"]) == (result.run_id, "intake", "schedule")
    assert (row["outcome"], row["failed_step"], row["error"]) == ("succeeded", None, None)
    assert (row["segments"], row["bytes"], row["records"], row["changed_logs"]) == (2, 2000, 14, 2)
    assert (row["lag_offsets"], row["open_transactions"], row["failed_checks"]) == (0, 0, 0)
    phases = {name.removesuffix("_ms") for name, value in row.items() if name.endswith("_ms") and value is not None}
    assert {"ingest", "validate", "publish"} <= phases
    assert not {"replace", "retention", "optimize"} & phases
    assert not any(Path(home, "unfinished_runs").iterdir()), "nothing of an ended run is kept"


@pytest.mark.parametrize(
    ("tag", "name"), [(SENSOR_NAME_TAG, "sensor"), (BACKFILL_ID_TAG, "backfill"), ("dagster/partition", "dagster")]
)
def test_what_started_a_run_is_in_the_tags_that_dagster_gives_it(tag: str, name: str) -> None:
    assert started_by({tag: "some name"}) == name


def test_the_figures_for_prometheus_are_those_of_the_newest_row_of_each_job(
    execute: Execute, lake: str, world: World
) -> None:
    execute(lake=lake)
    assert execute("maintenance", lake=lake, apply=True).success
    intake, maintenance = rows(lake)

    found = figures(lake)

    assert found["succeeded", "intake"] == found["succeeded", "maintenance"] == 1
    assert found["timestamp_seconds", "intake"] == intake["ended_ms"] / 1000
    took_ms = maintenance["ended_ms"] - maintenance["started_ms"]
    assert found["duration_seconds", "maintenance"] == took_ms / 1000
    assert found["phase_duration_seconds", "intake", "publish"] == intake["publish_ms"] / 1000
    assert ("phase_duration_seconds", "intake", "replace") not in found
    assert found["phase_duration_seconds", "maintenance", "optimize"] == maintenance["optimize_ms"] / 1000


@pytest.mark.parametrize("error", [UnsupportedFormatError(SECRET), RuntimeError(SECRET)], ids=["ours", "unforeseen"])
def test_a_failed_run_has_a_row_with_step_and_class_of_the_error_and_nothing_of_its_text(
    execute: Execute, lake: str, world: World, error: Exception
) -> None:
    execute(lake=lake)
    world.ends = {"orders-0": 12, "orders-1": 4}
    world.error = {"publish": error}

    result = execute(lake=lake)

    assert not result.success
    row = rows(lake)[-1]
    assert (row["run_id"], row["outcome"]) == (result.run_id, "failed")
    assert (row["failed_step"], row["error"]) == ("publish", type(error).__name__)
    assert (row["segments"], row["records"]) == (1, 0), "what its first steps did is there"
    assert figures(lake)["succeeded", "intake"] == 0
    for folder, _, names in os.walk(Path(lake, "tables", "runs")):
        assert not any(SECRET.encode() in Path(folder, name).read_bytes() for name in names)


@pytest.mark.long
def test_a_run_that_finds_nothing_to_do_and_a_dry_run_write_no_row(execute: Execute, lake: str, world: World) -> None:
    execute(lake=lake)
    before = DeltaTable(str(Path(lake, "tables", "runs"))).version()

    assert execute(lake=lake).success
    assert execute("maintenance", lake=lake).success

    assert DeltaTable(str(Path(lake, "tables", "runs"))).version() == before
    assert len(rows(lake)) == 1


def test_runs_whose_source_vanished_fail_and_have_one_row_until_it_is_back(
    execute: Execute, lake: str, world: World, tmp_path: Path
) -> None:
    assert execute(lake=lake).success
    gone = str(tmp_path / "not-mounted")

    runs = [execute(lake=lake, sources=[gone], tags={SCHEDULE_NAME_TAG: "shop__timed_intake"}) for _ in range(2)]

    assert [result.success for result in runs] == [False, False]
    (failure,) = [event for event in runs[0].all_events if event.is_step_failure]
    assert gone in failure.step_failure_data.user_failure_data.description
    assert [(row["run_id"], row["failed_step"], row["error"]) for row in rows(lake)[1:]] == [
        (runs[0].run_id, "ingest", "SourceUnread")
    ]
    assert figures(lake)["succeeded", "intake"] == 0
    assert execute(lake=lake).success
    assert len(rows(lake)) == 3, "the run that mends a failure has a row"
    assert execute(lake=lake).success
    assert len(rows(lake)) == 3, "a run that found nothing has no row"
    assert figures(lake)["succeeded", "intake"] == 1


def test_a_first_run_that_fails_makes_no_lake(execute: Execute, lake: str, world: World) -> None:
    world.error = {"ingest": UnsupportedFormatError("no such format")}
    assert not execute(lake=lake).success
    assert not Path(lake, "tables").exists()


def test_a_run_of_some_assets_writes_its_row_after_the_last_of_them(
    execute: Execute, define: Define, instance: dg.DagsterInstance, lake: str, world: World, source: Path
) -> None:
    execute(lake=lake)
    world.ends = {"orders-0": 20, "orders-1": 4}
    of = read_registered(lake)

    result = (
        define()
        .resolve_job_def(name_in_lake(of, "intake"))
        .execute_in_process(
            instance=instance,
            run_config=run_config(of, "intake", RunRequest((str(source),))),
            asset_selection=[asset_key(of, "archived_segments")],
        )
    )

    assert result.success
    row = rows(lake)[-1]
    assert (row["run_id"], row["outcome"], row["segments"]) == (result.run_id, "succeeded", 1)
    assert row["publish_ms"] is None


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.errors.failures.TRANSIENT_WAIT_SECONDS", 0)


def test_a_step_that_is_tried_again_leaves_one_row_with_what_all_attempts_did(
    execute: Execute, lake: str, world: World, no_waiting: None
) -> None:
    world.error_once = {"publish": StorageError("no answer")}
    assert execute(lake=lake).success
    (row,) = rows(lake)
    assert (row["outcome"], row["error"], row["records"]) == ("succeeded", None, 14)


def test_a_row_whose_commit_was_not_confirmed_is_not_written_twice(
    execute: Execute, lake: str, world: World, no_waiting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, tries = run_rows.commits.append, []

    def append(*arguments: Any) -> None:
        whole(*arguments)
        tries.append(arguments[1])
        if tries == ["runs"]:
            raise CommitUnanswered("The store closed the connection.")

    monkeypatch.setattr(run_rows, "commits", type("Commits", (), {"append": staticmethod(append)}))
    assert execute(lake=lake).success
    assert tries == ["runs"]
    assert len(rows(lake)) == 1


def runner(instance: dg.DagsterInstance, tmp_path: Path) -> Runner:
    history = HistoryInBackground(lambda: DagsterHistory(instance))
    return Runner(history, 1_700_000_000_000, FakeLauncher(world=str(tmp_path)))


def test_a_run_of_the_command_line_has_one_row(
    instance: dg.DagsterInstance, lake: str, world: World, tmp_path: Path, source: Path
) -> None:
    of_command = runner(instance, tmp_path)
    outcome = of_command.run(INTAKE_JOB, lake, RunRequest((str(source),)), NO_POLICIES)
    world.ends["orders-0"] = 15
    world.error = {"validate": UnsupportedFormatError("no such format")}
    failed = of_command.run(INTAKE_JOB, lake, RunRequest((str(source),)), NO_POLICIES)

    first, second = rows(lake)
    assert (first["run_id"], first["started_by"], first["records"]) == (outcome.run_id, "run", 14)
    assert first["as_of_ms"] == 1_700_000_000_000
    assert (second["run_id"], second["failed_step"]) == (failed.run_id, "validate")


def test_a_row_that_cannot_be_written_fails_the_run_by_its_own_sentence_and_loses_nothing_else(
    instance: dg.DagsterInstance,
    lake: str,
    world: World,
    tmp_path: Path,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def append(*_: Any) -> None:
        raise StorageError("The disk of the table runs is full.")

    monkeypatch.setattr("pipelines.run.run_row_writer.append_run", append)
    outcome = runner(instance, tmp_path).run(INTAKE_JOB, lake, RunRequest((str(source),)), NO_POLICIES)

    assert outcome.failure is not None
    assert outcome.failure.message.startswith("The disk of the table runs is full.")
    assert DeltaTable(f"{lake}/tables/records").to_pyarrow_table().num_rows == 14
    assert rows(lake) == []
