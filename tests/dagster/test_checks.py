"""A failed check names the place of the problem. A check that looked at nothing is never green."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest

from spark_jobs.contracts import Intake
from spark_jobs.errors import JobError
from spark_jobs.lake.setup.registry import remember
from tests.dagster.conftest import Execute, check_of, materialized
from tests.dagster.fake_jobs import World, log_of

pytestmark = pytest.mark.dagster


def test_damage_is_a_red_check_that_names_the_place_and_stops_no_other_partition(
    execute: Execute, world: World, home: Path
) -> None:
    world.ends = {"orders-0": 9, "orders-1": 9}
    world.corrupt = {"orders-0": (4, 6)}

    result = execute(lake=str(home / "lakes" / "shop"))

    assert result.success
    check = check_of(result, "no_damage")
    assert (check.passed, check.severity, check.blocking) == (False, dg.AssetCheckSeverity.ERROR, False)
    for part in ("orders-0", "lake shop", "offsets [4, 6)", f"{log_of('orders-0')}.log", "position 512"):
        assert part in (check.description or "")
    assert "orders-1" not in (check.description or "")
    assert materialized(result, "records") == ["orders-0", "orders-1"]
    assert check_of(result, "every_offset_accounted_for").passed
    assert check_of(result, "rows_equal_ledger").metadata["records published by the ledger"].value == 4 + 9


def test_damage_stays_red_in_later_runs_of_its_lake_and_in_no_run_of_another(
    execute: Execute, world: World, home: Path
) -> None:
    world.ends, world.corrupt = {"orders-0": 9}, {"orders-0": (4, 6)}
    damaged, sound = (str(home / "lakes" / name) for name in ("damaged", "sound"))
    execute(lake=damaged)
    for lake in (damaged, sound):
        remember(lake, Intake(("/kafka",)))

    again = execute(lake=damaged)
    world.corrupt = {}
    elsewhere = execute(lake=sound)

    check = check_of(again, "no_damage")
    assert not check.passed
    assert "lake damaged" in (check.description or "")
    assert all(check.passed for check in elsewhere.get_asset_check_evaluations())
    assert "damaged" not in json.dumps([c.description for c in elsewhere.get_asset_check_evaluations()])


def test_a_broken_lake_stops_no_run_of_its_neighbour(execute: Execute, world: World, home: Path) -> None:
    world.ends = {"orders-0": 9}
    sound, broken = (str(home / "lakes" / name) for name in ("sound", "broken"))
    for lake in (sound, broken):
        assert execute(lake=lake).success
        remember(lake, Intake(("/kafka",), policies="/not/there.yaml" if lake == broken else None))
    Path(broken, "lake.json").write_text("{")
    Path(broken, "expectations.json").write_text("{")
    Path(broken, "sources.json").write_text('{"version": 99}')

    result = execute(lake=sound)

    assert result.success
    assert all(check.passed for check in result.get_asset_check_evaluations())


def test_a_ledger_with_a_hole_is_a_red_check_that_names_the_log_and_the_others_go_on(
    execute: Execute, world: World, home: Path
) -> None:
    world.ends = {"orders-0": 9, "orders-1": 9}
    world.ledger_hole = "orders-1"

    result = execute(lake=str(home / "lakes" / "shop"))

    assert result.success
    check = check_of(result, "every_offset_accounted_for")
    assert (check.passed, check.blocking, check.severity) == (False, False, dg.AssetCheckSeverity.ERROR)
    assert "orders-1 of lake shop, offsets [0, 1): no range covers the offsets [0, 1)" in (check.description or "")
    assert "orders-0" not in (check.description or "")
    assert len(world.of("publish")) == 1


def test_an_expectation_that_is_not_met_stays_red_while_nothing_new_is_published(
    execute: Execute, world: World, home: Path
) -> None:
    world.ends, world.unmet = {"orders-0": 9, "orders-1": 9}, {"orders-1"}
    execute(lake=str(home / "lakes" / "shop"))
    world.asked.clear()

    result = execute(lake=str(home / "lakes" / "shop"))

    assert world.of("expectations") == []
    check = check_of(result, "expectations_met")
    assert not check.passed
    assert "orders-1 of lake shop, offsets [0, 9): offsets_are_unique" in (check.description or "")
    assert "orders-0" not in (check.description or "")


def test_an_expectation_that_was_not_met_is_asked_again_where_the_partition_is_chosen(
    execute: Execute, world: World, home: Path
) -> None:
    world.ends, world.unmet = {"orders-0": 9, "orders-1": 9}, {"orders-1"}
    execute(lake=str(home / "lakes" / "shop"))
    remember(str(home / "lakes" / "shop"), Intake(("/kafka",)))
    world.unmet = set()

    result = execute(partition_key="orders-1")

    assert check_of(result, "expectations_met").passed


def test_an_answer_that_was_lost_is_requested_again(execute: Execute, world: World, home: Path) -> None:
    world.ends = {"orders-0": 9}
    execute(lake=str(home / "lakes" / "shop"))
    (answers,) = (home / "expectations").iterdir()
    answers.unlink()
    world.asked.clear()

    result = execute(lake=str(home / "lakes" / "shop"))

    assert [config.ranges for config in world.of("expectations")] == [{log_of("orders-0"): (0, 9)}]
    assert check_of(result, "expectations_met").passed


def test_a_report_without_expectations_is_a_failed_check(execute: Execute, world: World, home: Path) -> None:
    world.ends, world.no_outcomes = {"orders-0": 9}, True

    result = execute(lake=str(home / "lakes" / "shop"))

    check = check_of(result, "expectations_met")
    assert not check.passed
    assert check.severity is dg.AssetCheckSeverity.ERROR


def test_a_job_that_breaks_is_a_failed_step_and_no_failed_check(execute: Execute, world: World, home: Path) -> None:
    world.ends, world.error = {"orders-0": 9}, {"publish": JobError("the table records is not there any more")}

    result = execute(lake=str(home / "lakes" / "shop"))

    assert not result.success
    assert {check.check_name for check in result.get_asset_check_evaluations()} == {
        "sources_agree",
        "no_damage",
        "every_offset_accounted_for",
        "nothing_remote",
    }
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert failure.step_failure_data.user_failure_data is not None
    assert failure.step_failure_data.user_failure_data.description == "the table records is not there any more"


def test_checks_of_an_empty_lake_are_not_green(execute: Execute, world: World, home: Path) -> None:
    result = execute(lake=str(home / "lakes" / "empty"))

    answered = {check.check_name: check.passed for check in result.get_asset_check_evaluations()}
    names = ["sources_agree", "no_damage", "every_offset_accounted_for", "rows_equal_ledger", "expectations_met"]
    names += ["no_hanging_transaction", "tables_unharmed", "nothing_remote"]
    assert answered == dict.fromkeys(names, False)


def test_a_source_that_cannot_be_read_is_red_in_every_run_until_it_can(
    execute: Execute, world: World, home: Path, source: Path
) -> None:
    world.ends = {"orders-0": 9}
    gone = str(source.parent / "not-mounted")
    lake = str(home / "lakes" / "shop")

    first, second = (execute(lake=lake, sources=[str(source), gone]) for _ in range(2))
    Path(gone).mkdir()
    (Path(gone) / "meta.properties").write_text("version=1\n")
    third = execute(lake=lake, sources=[str(source), gone])

    for result in (first, second):
        check = check_of(result, "sources_agree")
        assert not check.passed
        assert "path-not-found" in (check.description or "")
    assert check_of(third, "sources_agree").passed
