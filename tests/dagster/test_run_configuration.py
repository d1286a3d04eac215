"""The configuration of a run: what the Launchpad shows, what reaches the jobs, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logcore.reading.read_options import OffsetRange
from pipelines.catalog.run_configuration import request_of, run_config
from pipelines.definitions import build_definitions
from pipelines.run.run_request import RunRequest
from spark_jobs.contracts import Intake, JobConfig, JobReport
from spark_jobs.lake.setup.registry import remember
from spark_jobs.lake.view.registered_lakes import RegisteredLake
from tests.dagster.conftest import Define, Execute, materialized
from tests.dagster.fake_jobs import FakeLauncher, World

pytestmark = pytest.mark.dagster

SHOP = RegisteredLake("/lakes/shop", "shop", (Intake(("/kafka",)),))
PLACES = {
    "shop__intake": ("shop", "ops", "begin"),
    "shop__maintenance": ("shop__maintenance_steps", "ops", "begin"),
    "shop__verification": ("shop__whole_lake_lake_verified",),
}


@pytest.fixture
def lake(execute: Execute, world: World, home: Path, source: Path) -> str:
    """Two logs, taken in and published."""
    world.ends = {"orders-0": 10, "orders-1": 10}
    path = str(home / "lakes" / "shop")
    assert execute(lake=path).success
    remember(path, Intake((str(source),)))
    world.asked.clear()
    world.engines.clear()
    return path


def fields_of(job: str) -> dict[str, Any]:
    """The fields that the Launchpad shows for a job."""
    found: Any = build_definitions([SHOP]).resolve_job_def(job).run_config_schema.config_type.fields["ops"]
    for name in (*PLACES[job], "config"):
        found = found.config_type.fields[name]
    return dict(found.config_type.fields)


@pytest.mark.parametrize("job", PLACES)
def test_every_field_is_optional_and_has_a_help_text(job: str) -> None:
    fields = fields_of(job)

    assert {"as_of"} <= set(fields)
    assert [name for name, field in fields.items() if field.is_required or not field.description] == []


def test_a_choice_of_words_shows_its_words_and_its_default() -> None:
    fields = fields_of("shop__intake")
    types = {name: getattr(field.config_type, "inner_type", field.config_type) for name, field in fields.items()}
    shown = {
        name: ([value.config_value for value in kind.enum_values], fields[name].default_value)
        for name, kind in types.items()
        if hasattr(kind, "enum_values")
    }

    assert shown == {
        "mode": (["copy", "reference"], "copy"),
        "isolation_level": (["read_committed", "read_uncommitted"], "read_committed"),
        "engine": (["auto", "local", "spark"], "auto"),
    }


@pytest.mark.parametrize(
    ("said", "named"),
    [({"mode": "move"}, "mode"), ({"replce": ".."}, "replce"), ({"partitions": ["one"]}, "partitions")],
)
def test_a_word_that_is_none_is_refused_before_the_run_exists(
    define: Define, instance: dg.DagsterInstance, lake: str, said: dict[str, Any], named: str
) -> None:
    config = {"ops": {"shop": {"ops": {"begin": {"config": said}}}}}

    with pytest.raises(dg.DagsterInvalidConfigError, match=named):
        define().resolve_job_def("shop__intake").execute_in_process(instance=instance, run_config=config)


def test_a_range_of_time_is_stated_as_times_and_reaches_the_job_for_the_chosen_partition(
    define: Define, instance: dg.DagsterInstance, world: World, lake: str
) -> None:
    said = {"replace": "..", "replace_since": "2026-03-01T00:00:00Z", "replace_until": "1772409600000ms"}
    job = define().resolve_job_def("shop__intake")

    result = job.execute_in_process(
        instance=instance,
        partition_key="orders-1",
        run_config={"ops": {"shop": {"ops": {"begin": {"config": said}}}}},
    )

    assert result.success
    (config,) = world.of("replace")
    assert (config.since_ms, config.until_ms) == (1_772_323_200_000, 1_772_409_600_000)
    assert materialized(result, "records") == ["orders-1"]


def test_the_clock_of_a_run_can_be_stated(execute: Execute, world: World, lake: str) -> None:
    assert execute(as_of="1772323200000ms").success
    assert {config.as_of_ms for config in world.asked if hasattr(config, "as_of_ms")} == {1_772_323_200_000}


def test_the_first_job_with_tasks_chooses_the_engine_of_its_whole_run_and_the_tag_says_it(
    execute: Execute, instance: dg.DagsterInstance, world: World, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = "spark: Dagster started the run"
    run, given = FakeLauncher.run, {}

    def said(self: FakeLauncher, config: JobConfig, engine: str = "auto", results: object = None) -> JobReport:
        given[config.JOB] = engine
        report = run(self, config, engine, results)
        return replace(report, engine="" if config.JOB == "ingest" else chosen)

    monkeypatch.setattr(FakeLauncher, "run", said)
    world.ends["orders-0"] = 20
    result = execute()
    assert instance.get_run_by_id(result.run_id).tags["loglake/engine"] == chosen
    assert (given.pop("ingest"), given.pop("validate")) == ("auto", "auto")
    assert set(given.values()) == {chosen}
    assert "publish" in given


def test_a_run_without_tasks_has_no_tag_of_an_engine(execute: Execute, instance: dg.DagsterInstance, lake: str) -> None:
    result = execute()
    assert "loglake/engine" not in instance.get_run_by_id(result.run_id).tags


def test_the_engine_of_a_run_comes_before_that_of_the_policies(
    execute: Execute, instance: dg.DagsterInstance, world: World, lake: str, source: Path, tmp_path: Path
) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text("lake: {engine: local}")
    remember(lake, Intake((str(source),), policies=str(policies)))

    result = execute(engine="spark")

    assert set(world.engines) == {"spark"}
    assert instance.get_run_by_id(result.run_id).tags["loglake/engine"] == "spark: as requested"


@pytest.mark.parametrize(
    "request_",
    [
        RunRequest(),
        RunRequest(apply=True, engine="spark", max_tasks_per_round=0),
        RunRequest(("/a", "s3://b/c"), topics=("t*",), partitions=(0, 3), mode="reference", high_watermark="log-end"),
        RunRequest(("/a",), cluster="name", include_internal=True, policies="/p.yaml"),
        RunRequest(("/a",), isolation_level="read_uncommitted", fill_from=("/b",), remote=("/c",), logs=("t-0",)),
        RunRequest(forget_remote=True, move_source=True, at_once=False, as_of_ms=-1),
        RunRequest(replace=OffsetRange(2, 5), replace_since_ms=0, replace_until_ms=9, replace_withdrawn=True),
        *(RunRequest(replace=OffsetRange(*bounds)) for bounds in ((None, None), (None, 7), (0, None))),
    ],
)
@pytest.mark.parametrize("job", ["intake", "maintenance"])
def test_every_field_of_a_request_passes_through_the_configuration_of_a_run(request_: RunRequest, job: str) -> None:
    config = run_config(SHOP, job, request_)
    resolved = build_definitions([SHOP]).resolve_job_def(f"shop__{job}")

    assert dg.validate_run_config(resolved, config)
    assert request_of(dg.DagsterRun(job_name="any", run_config=config), SHOP, job) == request_


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    (event,) = [event for event in result.all_events if event.is_step_failure]
    data = event.step_failure_data.user_failure_data
    assert data is not None
    return str(data.description)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"replace": "5..2"}, "replace: '5..2' ends before it begins"),
        ({"replace": ".."} | {"job": "maintenance"}, "this run does not make them. Choose records too."),
        (
            {"logs": ["orders-0"], "partition_key": "orders-1"},
            "this run is for the partitions orders-1. Leave out logs",
        ),
    ],
)
def test_a_request_that_cannot_be_carried_out_is_refused_with_one_sentence_before_any_job(
    execute: Execute, world: World, lake: str, said: dict[str, Any], sentence: str
) -> None:
    result = execute(**said)

    assert not result.success
    assert sentence in failure_of(result)
    assert world.asked == []


@pytest.mark.parametrize("field", ["as_of", "replace_since"])
def test_a_time_that_is_none_is_refused_with_one_sentence_before_any_job(
    define: Define, instance: dg.DagsterInstance, world: World, lake: str, field: str
) -> None:
    config = {"ops": {"shop": {"ops": {"begin": {"config": {"replace": "..", field: "yesterday"}}}}}}
    job = define().resolve_job_def("shop__intake")

    result = job.execute_in_process(instance=instance, run_config=config, raise_on_error=False)

    assert failure_of(result) == f"{field}: 'yesterday' is neither an ISO-8601 time nor epoch milliseconds"
    assert world.asked == []


def test_a_topic_partition_that_is_nowhere_is_named_and_nothing_is_published_for_it(
    execute: Execute, world: World, lake: str
) -> None:
    result = execute(logs=["orders-9"], replace="..")

    assert failure_of(result) == "Neither the lake shop nor its sources have orders-9."
    assert world.of("publish") == []
