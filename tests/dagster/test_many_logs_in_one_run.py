"""One run checks every log and reports the changed ones by partition."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from spark_jobs.errors import JobError, LeaseHeld
from tests.dagster.conftest import Execute, check_of, materialized
from tests.dagster.fake_jobs import World, seed

pytestmark = [pytest.mark.dagster, pytest.mark.stored]

ASSETS = ("archived_segments", "validated_segments", "records")


def test_three_changed_logs_of_a_thousand_are_one_run_with_three_events_an_asset(
    execute: Execute, world: World, instance: dg.DagsterInstance, home: Path
) -> None:
    lake = str(home / "lakes" / "shop")
    world.ends = {f"orders-{number}": 0 for number in range(1000)}
    seed(world, lake)

    world.ends |= {"orders-3": 2, "orders-500": 2, "orders-999": 2}
    result = execute(lake=lake)

    assert result.success
    assert instance.get_runs_count() == 1
    assert len(instance.get_dynamic_partitions("topic_partitions/shop")) == 1000
    for asset in ASSETS:
        assert materialized(result, asset) == ["orders-3", "orders-500", "orders-999"]
    latest = instance.get_latest_materialization_event(dg.AssetKey(["shop", "records"]))
    assert latest is not None
    assert latest.run_id == result.run_id


def test_a_run_that_finds_nothing_new_has_no_materialization_and_still_evaluates_every_check(
    execute: Execute, world: World, home: Path
) -> None:
    lake = str(home / "lakes" / "shop")
    world.ends = {"orders-0": 3}
    execute(lake=lake)

    result = execute(lake=lake)

    assert result.success
    assert result.get_asset_materialization_events() == []
    answered = {check.check_name: check.passed for check in result.get_asset_check_evaluations()}
    assert answered == {
        "sources_agree": True,
        "no_damage": True,
        "every_offset_accounted_for": True,
        "nothing_remote": True,
        "rows_equal_ledger": True,
        "no_hanging_transaction": True,
        "tables_unharmed": True,
        "expectations_met": True,
    }


def test_steps_after_one_that_finds_nothing_new_do_what_a_broken_run_left_to_them(
    execute: Execute, world: World, home: Path
) -> None:
    lake = str(home / "lakes" / "shop")
    world.ends = {"orders-0": 3}
    world.error = {"validate": JobError("the machine went away")}
    assert not execute(lake=lake).success
    world.error = {}

    result = execute(lake=lake)

    assert result.success
    assert materialized(result, "archived_segments") == []
    assert materialized(result, "validated_segments") == ["orders-0"]
    assert materialized(result, "records") == ["orders-0"]


def test_published_rows_that_a_broken_run_did_not_check_are_checked_by_the_next(
    execute: Execute, world: World, home: Path
) -> None:
    lake = str(home / "lakes" / "shop")
    world.ends = {"orders-0": 3}
    world.error = {"expectations": JobError("the machine went away")}
    assert not execute(lake=lake).success
    world.error = {}
    world.asked.clear()

    result = execute(lake=lake)

    assert materialized(result, "records") == []
    assert [config.ranges for config in world.of("expectations")] == [{"orders@test.0/0": (0, 3)}]
    assert check_of(result, "expectations_met").passed


@pytest.mark.long
def test_all_steps_of_a_run_are_given_the_same_clock(execute: Execute, world: World, home: Path) -> None:
    world.ends = {"orders-0": 3}
    execute(lake=str(home / "lakes" / "shop"))
    execute(lake=str(home / "lakes" / "shop"), as_of="1700000000000ms")

    first, second = (
        {c.as_of_ms for c in world.asked if c.run_id == run} for run in dict.fromkeys(c.run_id for c in world.asked)
    )

    assert len(first) == 1
    assert second == {1_700_000_000_000}


def test_a_run_that_finds_its_lake_being_worked_on_waits_for_it(
    execute: Execute, world: World, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.errors.failures.LEASE_WAIT_SECONDS", 0)
    world.ends = {"orders-0": 3}
    world.error_once = {"validate": LeaseHeld("The lake is being worked on by another process.")}

    result = execute(lake=str(home / "lakes" / "shop"))

    assert result.success
    assert [config.JOB for config in world.asked] == ["ingest", "validate", "validate", "publish", "expectations"]
    assert materialized(result, "records") == ["orders-0"]
