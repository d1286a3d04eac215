"""The field `forget_remote` of a run in Dagster: the lake forgets remote storage, as with the option of the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from pipelines.catalog.run_configuration import run_config
from pipelines.definitions import build_definitions
from pipelines.run.look import outcome_without_work
from pipelines.run.run_request import RunRequest
from spark_jobs.contracts import Intake
from spark_jobs.lake.setup import registry
from spark_jobs.lake.view.registered_lakes import read_registered
from spark_jobs.policies.policies_file import NO_POLICIES
from tests.broker_directory import LogDirectory
from tests.crash import visible
from tests.dagster.conftest import Execute
from tests.dagster.fake_jobs import World
from tests.in_process import without_spark
from tests.remote_storage import RemoteStorage, tiered

pytestmark = pytest.mark.dagster


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    """The sentence of the step that failed."""
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    return str(failure.step_failure_data.user_failure_data.description)


@pytest.fixture
def lake(execute: Execute, world: World, source: Path, tmp_path: Path) -> str:
    """A lake of fake jobs with two registrations of its source, each with remote storage."""
    world.ends = {"orders-0": 10}
    path = str(tmp_path / "lake")
    LogDirectory(tmp_path / "other").partition("payments-0").append(1)
    registry.remember(path, Intake((str(source), str(tmp_path / "other")), remote=("/cold", "/tier")))
    registry.remember(path, Intake((str(source),), remote=("/tier",)))
    assert execute(lake=path).success
    assert [each.remote for each in registry.recall(path).intakes] == [("/cold", "/tier"), ("/tier",)]
    world.asked.clear()
    return path


@pytest.mark.parametrize("sources", [[], None], ids=["registered-sources", "named-sources"])
def test_a_run_with_the_field_forgets_the_remote_storage_of_its_sources(
    execute: Execute, world: World, lake: str, sources: list[str] | None
) -> None:
    named: dict[str, Any] = {} if sources is None else {"sources": sources}
    assert execute(lake=lake, forget_remote=True, **named).success
    assert {config.remote for config in world.of("ingest")} == {()}
    assert {each.remote for each in registry.recall(lake).intakes} == {()}
    assert execute(lake=lake, forget_remote=True, **named).success, "nothing is remembered any more"


def test_a_run_that_only_looks_for_work_forgets_nothing(lake: str) -> None:
    before = registry.recall(lake).intakes
    assert outcome_without_work(lake, RunRequest(forget_remote=True), NO_POLICIES, 1) is None
    assert registry.recall(lake).intakes == before


def test_the_field_beside_remote_storage_that_is_named_fails_the_step(execute: Execute, lake: str) -> None:
    result = execute(lake=lake, forget_remote=True, remote=["/tier"])
    assert "forget_remote" in failure_of(result)
    assert all(each.remote for each in registry.recall(lake).intakes)


@pytest.fixture
def tier(tmp_path: Path) -> tuple[LogDirectory, RemoteStorage]:
    source = LogDirectory(tmp_path / "source")
    return source, tiered(source, tmp_path / "remote")


@pytest.mark.stored
@pytest.mark.parametrize("mode", ["copy", "reference"])
def test_storage_in_which_segments_are_registered_is_not_forgotten(
    tier: tuple[LogDirectory, RemoteStorage], home: Path, instance: dg.DagsterInstance, tmp_path: Path, mode: str
) -> None:
    source, storage = tier
    path = str(tmp_path / "lake")
    registry.remember(path, Intake((str(source.path),), mode=mode, remote=(str(storage.path),)))

    def execute(**settings: Any) -> dg.ExecuteInProcessResult:
        lake = read_registered(path)
        job = build_definitions([lake]).resolve_job_def("lake__intake")
        with without_spark():
            config = run_config(lake, "intake", RunRequest(**settings))
            return job.execute_in_process(instance=instance, run_config=config, raise_on_error=False)

    assert execute().success
    assert len(visible.rows(tmp_path / "lake", "records")) == 50
    result = execute(forget_remote=True)
    (known,) = registry.recall(path).intakes
    if mode == "copy":
        assert (result.success, known.remote) == (True, ())
        assert execute().success
        assert len(visible.rows(tmp_path / "lake", "records")) == 50
    else:
        assert "3 segments of the lake are registered there" in failure_of(result)
        assert known.remote == (str(storage.path),)
