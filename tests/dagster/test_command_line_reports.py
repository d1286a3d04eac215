"""What a run of the command line reports to Dagster: assets and checks, each changed key at least once, and no run."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from pipelines import lake_definitions
from pipelines.command import dagster_history
from pipelines.command.dagster_history import DagsterHistory
from pipelines.command.running import HistoryInBackground, Runner
from pipelines.run.chains import INTAKE_JOB
from pipelines.run.run_request import RunRequest
from spark_jobs.policies.policies_file import NO_POLICIES
from tests.dagster.conftest import Define, Execute, tick
from tests.dagster.fake_jobs import FakeLauncher, World

pytestmark = [pytest.mark.dagster, pytest.mark.stored]

ASSETS = ("archived_segments", "validated_segments", "records")
RECORDS = dg.AssetKey(["shop", "records"])


@pytest.fixture
def runner(instance: dg.DagsterInstance, world: World, tmp_path: Path) -> Runner:
    history = HistoryInBackground(lambda: DagsterHistory(instance))
    return Runner(history, 1_700_000_000_000, FakeLauncher(world=str(tmp_path)))


def reported(instance: dg.DagsterInstance, asset: str) -> list[str | None]:
    """Partition keys of an asset's materializations, the oldest first."""
    found = instance.fetch_materializations(dg.AssetKey(["shop", asset]), limit=1000, ascending=True).records
    return [record.partition_key for record in found]


def later(define: Define, instance: dg.DagsterInstance) -> list[int]:
    """Tick until nothing waits, and store the events as the daemon does. Returns their number by tick."""
    numbers, cursor = [], None
    while not numbers or numbers[-1]:
        data = tick(define(), instance, "later_events", cursor)
        for event in data.asset_events:
            instance.report_runless_asset_event(event)
        cursor = data.cursor
        numbers.append(len(data.asset_events))
    return numbers


def test_assets_with_their_metadata_and_checks_are_reported_without_a_run(
    runner: Runner, world: World, instance: dg.DagsterInstance, shop: str, source: Path
) -> None:
    world.ends, world.corrupt = {"orders-0": 10, "orders-1": 4}, {"orders-0": (6, 7)}

    outcome = runner.run(INTAKE_JOB, shop, RunRequest((str(source),)), NO_POLICIES)

    assert outcome.failure is None
    assert instance.get_runs_count() == 0
    for asset in ASSETS:
        assert reported(instance, asset) == ["orders-0", "orders-1"]
    newest = instance.fetch_materializations(RECORDS, limit=1).records[0].asset_materialization
    assert newest is not None
    assert newest.metadata["dagster/partition_row_count"].value == 4
    validated = instance.fetch_materializations(dg.AssetKey(["shop", "validated_segments"]), limit=1).records[0]
    assert "picture" in (validated.asset_materialization or newest).metadata
    checks = latest_checks(instance)
    assert {name for name, passed in checks.items() if not passed} == {"no_damage"}
    assert {"sources_agree", "every_offset_accounted_for", "rows_equal_ledger", "expectations_met"} <= checks.keys()


def latest_checks(instance: dg.DagsterInstance) -> dict[str, bool]:
    """The newest answer to each check of the lake, as Dagster's pages show them."""
    found: dict[str, bool] = {}
    for entry in instance.all_logs("", of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION):
        evaluation = entry.get_dagster_event().asset_check_evaluation_data
        found[evaluation.check_name] = evaluation.passed
    return found


def test_a_failed_run_reports_the_steps_before_the_error(
    runner: Runner, world: World, instance: dg.DagsterInstance, shop: str, source: Path
) -> None:
    world.ends, world.error = {"orders-0": 3}, {"publish": OSError(28, "")}

    outcome = runner.run(INTAKE_JOB, shop, RunRequest((str(source),)), NO_POLICIES)

    assert outcome.failure is not None
    assert reported(instance, "validated_segments") == ["orders-0"]
    assert reported(instance, "records") == []


def test_of_many_topic_partitions_the_first_are_reported_at_once_and_all_others_by_a_sensor(
    runner: Runner,
    define: Define,
    world: World,
    instance: dg.DagsterInstance,
    shop: str,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dagster_history, "MOST_KEYS", 2)
    monkeypatch.setattr(lake_definitions, "MOST_EVENTS", 4)
    world.ends = {f"orders-{number}": 2 for number in range(5)}

    runner.run(INTAKE_JOB, shop, RunRequest((str(source),)), NO_POLICIES)

    for asset in ASSETS:
        assert reported(instance, asset) == ["orders-0", "orders-1"]
        (summary,) = instance.fetch_observations(dg.AssetKey(["shop", asset]), limit=5).records
        assert "5 topic partitions changed" in (summary.event_log_entry.asset_observation.description or "")
    assert later(define, instance) == [4, 4, 1, 0]
    for asset in ASSETS:
        assert reported(instance, asset) == list(world.ends)
    assert later(define, instance) == [0]


def test_what_waits_is_reported_also_if_the_next_run_comes_first(
    runner: Runner,
    define: Define,
    world: World,
    instance: dg.DagsterInstance,
    shop: str,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dagster_history, "MOST_KEYS", 1)
    world.ends = {f"orders-{number}": 2 for number in range(3)}
    runner.run(INTAKE_JOB, shop, RunRequest((str(source),)), NO_POLICIES)
    world.ends |= {"orders-0": 5, "orders-1": 5}
    runner.run(INTAKE_JOB, shop, RunRequest((str(source),)), NO_POLICIES)

    later(define, instance)

    for asset in ASSETS:
        assert sorted(map(str, reported(instance, asset))) == ["orders-0", "orders-0", "orders-1", "orders-2"]


def test_an_asset_downstream_is_requested_once_all_is_reported(
    runner: Runner, define: Define, world: World, instance: dg.DagsterInstance, shop: str, source: Path
) -> None:
    @dg.asset(deps=[RECORDS], automation_condition=dg.AutomationCondition.eager())
    def totals() -> None:
        """What somebody else makes of the records."""

    def requested(cursor: object) -> tuple[int, object]:
        definitions = dg.Definitions.merge(define(), dg.Definitions(assets=[totals]))
        result = dg.evaluate_automation_conditions(definitions, instance, cursor=cursor)  # type: ignore[arg-type]
        return result.total_requested, result.cursor

    world.ends = {"orders-0": 2, "orders-1": 2}
    _, cursor = requested(None)
    runner.run(INTAKE_JOB, shop, RunRequest((str(source),)), NO_POLICIES)
    number, _ = requested(cursor)
    assert number == 1


def test_the_sensor_requests_no_run_of_what_the_command_line_has_taken_in(
    runner: Runner, define: Define, world: World, instance: dg.DagsterInstance, shop: str, source: Path
) -> None:
    world.ends = {"orders-0": 2}
    (source / "orders-0").mkdir()
    (source / "orders-0" / f"{0:020d}.log").write_bytes(b"x")

    runner.run(INTAKE_JOB, shop, RunRequest((str(source),)), NO_POLICIES)
    quiet = tick(define(), instance, "shop__new_segments")
    (source / "orders-1").mkdir()
    (source / "orders-1" / f"{0:020d}.log").write_bytes(b"x")
    grown = tick(define(), instance, "shop__new_segments", quiet.cursor)

    assert (quiet.run_requests or []) == []
    assert len(grown.run_requests or []) == 1


def test_a_run_of_dagster_with_very_many_changed_keys_has_a_summary_and_an_event_each(
    execute: Execute, world: World, instance: dg.DagsterInstance, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.events.MANY_KEYS", 3)
    world.ends = {f"orders-{number}": 2 for number in range(4)}

    result = execute(lake=str(home / "lakes" / "shop"))

    assert result.success
    for asset in ASSETS:
        key = dg.AssetKey(["shop", asset])
        assert instance.get_materialized_partitions(key) == set(world.ends)
        (summary,) = instance.fetch_observations(key, limit=10).records
        assert summary.event_log_entry.asset_observation.metadata["topic partitions"].value == 4
        assert instance.fetch_materializations(key, limit=1).records[0].storage_id > summary.storage_id


def test_some_changed_keys_have_pictures_and_no_summary(
    execute: Execute, world: World, instance: dg.DagsterInstance, home: Path
) -> None:
    world.ends = {"orders-0": 2, "orders-1": 2}

    execute(lake=str(home / "lakes" / "shop"))

    key = dg.AssetKey(["shop", "validated_segments"])
    metadata = instance.fetch_materializations(key, limit=1).records[0].asset_materialization.metadata
    assert {"picture", "offsets by state"} <= metadata.keys()
    assert not instance.fetch_observations(key, limit=10).records
