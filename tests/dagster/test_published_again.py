"""Ranges that are published again, and the isolation, sources and waiting time that a run passes to its jobs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from spark_jobs.contracts import Intake
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.setup.registry import hinted, recall, remember
from spark_jobs.policies.policies_file import read_policies
from tests.dagster.conftest import Execute, check_of, materialized
from tests.dagster.fake_jobs import World, log_of

pytestmark = pytest.mark.dagster


@pytest.fixture
def lake(execute: Execute, world: World, tmp_path: Path) -> str:
    """Two logs, taken in and published."""
    world.ends = {"orders-0": 10, "orders-1": 10}
    path = str(tmp_path / "lake")
    assert execute(lake=path).success
    world.asked.clear()
    return path


def test_only_requested_or_late_ranges_are_replaced(execute: Execute, world: World, lake: str):
    assert execute(lake=lake).success
    assert world.of("replace") == []


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ({"replace": "2..5"}, (2, 5, None, None)),
        ({"replace": "..5"}, (None, 5, None, None)),
        ({"replace": ".."}, (0, None, None, None)),
        ({"replace": "..", "replace_since": "7ms", "replace_until": "9ms"}, (None, None, 7, 9)),
        ({"replace": "..", "replace_since": "0ms"}, (None, None, 0, None)),
    ],
)
def test_a_range_reaches_the_job_as_it_was_given(
    execute: Execute, world: World, lake: str, said: dict, asked: tuple[int | None, ...]
):
    assert execute(lake=lake, **said).success
    (config,) = world.of("replace")
    assert (config.start_offset, config.end_offset, config.since_ms, config.until_ms) == asked
    assert config.names_a_range


def test_a_backfill_of_a_topic_partition_replaces_its_range_and_no_others(execute: Execute, world: World, lake: str):
    result = execute(lake=lake, partition_key="orders-1", replace="2..5")
    assert result.success
    (config,) = world.of("replace")
    assert config.logs == (log_of("orders-1"),)
    assert materialized(result, "records") == ["orders-1"]


def test_a_replaced_range_is_materialized_for_the_logs_that_changed(execute: Execute, world: World, lake: str):
    assert materialized(execute(lake=lake, replace="2..5"), "records") == ["orders-0", "orders-1"]


def test_a_refusal_is_shown_by_name_and_does_not_stop_the_others(execute: Execute, world: World, lake: str):
    world.not_held = {"orders-0"}
    result = execute(lake=lake, replace="2..5")
    assert result.success
    observed = [e for e in result.all_events if e.event_type is dg.DagsterEventType.ASSET_OBSERVATION]
    refused = [e.asset_observation_data.asset_observation.metadata["refused"].value for e in observed]
    assert refused == [["orders-0: not held any more"]]
    assert materialized(result, "records") == ["orders-1"]


@pytest.mark.parametrize("said", [{"replace": "5..2"}, {"replace": "5"}, {"replace_since": "5ms"}])
def test_a_range_that_is_none_fails_the_step_with_a_sentence(execute: Execute, world: World, lake: str, said: dict):
    result = execute(lake=lake, **said)
    assert not result.success
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert "replace" in failure.step_failure_data.user_failure_data.description
    assert world.of("replace") == []


def test_offsets_filled_late_are_published_by_the_next_run_whatever_its_request_is(
    execute: Execute, world: World, lake: str
):
    log = log_of("orders-0")
    ranges = frontier.read_ledger(lake, [log])[log]
    (whole,) = ranges
    pieces = [
        replace(whole, end_offset=3, records=3),
        replace(whole, start_offset=3, end_offset=5, records=2, published=False),
        replace(whole, start_offset=5, records=5),
    ]
    frontier.commit_ledger(lake, pieces, [log], "filled")
    from deltalake import DeltaTable

    DeltaTable(str(Path(lake, "tables", "records"))).delete("partition = 0 AND offset >= 3 AND offset < 5")

    result = execute(lake=lake)

    assert result.success
    (config,) = world.of("replace")
    assert not config.names_a_range
    assert check_of(result, "rows_equal_ledger").passed
    world.asked.clear()
    assert execute(lake=lake).success
    assert world.of("replace") == []


def test_isolation_and_sources_to_fill_from_reach_the_jobs(execute: Execute, world: World, lake: str):
    assert execute(lake=lake, isolation_level="read_uncommitted", fill_from=["/other"], move_source=True).success
    (ingest,), (publish,) = world.of("ingest"), world.of("publish")
    assert (ingest.fill_from, ingest.move_source, publish.isolation_level) == (("/other",), True, "read_uncommitted")
    world.asked.clear()
    assert execute(lake=lake).success
    (ingest,), (publish,) = world.of("ingest"), world.of("publish")
    assert (ingest.fill_from, ingest.move_source, publish.isolation_level) == ((), False, "read_committed")


def test_remote_storage_reaches_ingest_alone(execute: Execute, world: World, lake: str):
    assert execute(lake=lake, remote=["/tier", "s3://bucket/tier"]).success
    (ingest,) = world.of("ingest")
    assert ingest.remote == ("/tier", "s3://bucket/tier")
    assert [config.JOB for config in world.asked if hasattr(config, "remote")] == ["ingest"]


def test_policies_reach_every_job_that_reads_them(execute: Execute, world: World, lake: str, tmp_path: Path):
    policies = tmp_path / "policies.yaml"
    policies.write_text("topics: {}")
    assert execute(lake=lake, policies=str(policies), replace="..").success
    asked = {config.JOB: config.policies for config in world.asked if hasattr(config, "policies")}
    assert asked == dict.fromkeys(("ingest", "validate", "publish", "replace"), read_policies(str(policies)))


def test_every_step_follows_the_policies_with_which_the_run_began(
    execute: Execute, world: World, lake: str, tmp_path: Path
):
    policies = tmp_path / "policies.yaml"
    policies.write_text("topics: {orders: {salvage: permissive}}")
    began = read_policies(str(policies))
    world.before["validate"] = lambda: policies.write_text("topics: {}")
    assert execute(lake=lake, policies=str(policies)).success
    assert [config.policies for config in (*world.of("ingest"), *world.of("publish"))] == [began, began]
    world.asked.clear()
    assert execute(lake=lake, policies=str(policies)).success
    (publish,) = world.of("publish")
    assert publish.policies.topics == ()


def test_a_run_that_may_wait_says_so_and_one_for_chosen_topic_partitions_never_waits(
    execute: Execute, world: World, lake: str
):
    for said in ({}, {"at_once": False}, {"at_once": False, "partition_key": "orders-0"}):
        assert execute(lake=lake, **said).success
    assert [config.at_once for config in world.of("ingest")] == [True, False, True]
    assert [config.at_once for config in world.of("publish")] == [True, False, True]


def test_a_lake_remembers_isolation_and_sources_to_fill_from_until_others_are_named(home: Path, tmp_path: Path):
    lake, paths = str(tmp_path / "lake"), ("/logs",)
    remember(lake, Intake(paths, isolation_level="read_uncommitted", fill_from=("/replica",)))
    remember(lake, Intake(paths, topics=("orders",)))
    (kept,) = recall(lake).intakes
    assert (kept.isolation_level, kept.fill_from) == ("read_uncommitted", ("/replica",))
    remember(lake, Intake(paths, isolation_level="read_committed", fill_from=("/other",)))
    (kept,) = recall(lake).intakes
    assert (kept.isolation_level, kept.fill_from) == ("read_committed", ("/other",))


def test_a_lake_remembers_remote_storage_until_another_is_named(home: Path, tmp_path: Path):
    lake, paths = str(tmp_path / "lake"), ("/logs",)
    for named, kept in ((("/tier",), ("/tier",)), ((), ("/tier",)), (("s3://b/tier",), ("s3://b/tier",))):
        remember(lake, Intake(paths, remote=named))
        assert [intake.remote for intake in recall(lake).intakes] == [kept]


def test_what_a_lake_remembers_itself_is_a_hint_and_allows_nothing(home: Path, tmp_path: Path):
    told = {"sources": ["/logs"], "topics": [], "mode": "copy", "policies": None}
    (tmp_path / "sources.json").write_text(json.dumps({"version": 2, "intakes": [told]}))
    assert hinted(str(tmp_path)) == (Intake(("/logs",)),)
    memory = recall(str(tmp_path))
    assert memory.intakes == ()
