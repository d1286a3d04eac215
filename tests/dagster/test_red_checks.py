"""A red check names every damaged topic partition, and Dagster's latest evaluation answers for the whole lake."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from logcore.logs.model.offset_ledger import OffsetState
from pipelines.definitions import build_definitions
from spark_jobs.contracts import Intake
from spark_jobs.lake.ledger.frontier import LedgerRow, commit_ledger, read_ledger
from spark_jobs.lake.setup.registry import remember
from spark_jobs.lake.view.registered_lakes import RegisteredLake
from tests.dagster.conftest import Execute, check_of
from tests.dagster.fake_jobs import World, log_of

pytestmark = pytest.mark.dagster

SHOP = RegisteredLake("/lakes/shop", "shop", (Intake(("/kafka",)),))


@pytest.fixture
def shop(home: Path) -> str:
    return str(home / "lakes" / "shop")


def lose_an_outcome(lake: str, log: str) -> list[LedgerRow]:
    """The ledger calls offsets 4 and 5 of a sound log unknown. Returns its rows as they were."""
    rows = read_ledger(lake, [log])[log]
    (whole,) = rows
    lost = replace(
        whole,
        start_offset=4,
        end_offset=6,
        state=OffsetState.UNKNOWN,
        records=0,
        evidence="marker-lost",
        published=False,
    )
    rest = replace(whole, start_offset=6, records=whole.records - 6, published=False)
    commit_ledger(lake, [replace(whole, end_offset=4, records=4), lost, rest], [log], "test")
    return rows


def rows_of(check: dg.AssetCheckEvaluation) -> list[dict]:
    """What the table of a check names."""
    where = check.metadata["where"]
    assert isinstance(where, dg.TableMetadataValue)
    return [record.data for record in where.records]


def damaged(result: dg.ExecuteInProcessResult) -> list[str]:
    """Topic partitions that the check `no_damage` names."""
    return [row["topic partition"].partition(" of lake ")[0] for row in rows_of(check_of(result, "no_damage"))]


def test_a_damaged_partition_is_named_and_its_neighbours_are_not(execute: Execute, world: World, shop: str) -> None:
    world.ends, world.corrupt = {"orders-0": 9, "orders-1": 9}, {"orders-1": (4, 6)}

    result = execute(lake=shop)

    assert damaged(result) == ["orders-1"]
    assert check_of(result, "every_offset_accounted_for").passed


def test_a_red_check_names_lake_log_offsets_file_position_and_what_to_do(
    execute: Execute, world: World, shop: str
) -> None:
    world.ends, world.corrupt = {"orders-0": 9}, {"orders-0": (4, 6)}

    red = check_of(execute(lake=shop), "no_damage")

    assert (red.passed, red.severity) == (False, dg.AssetCheckSeverity.ERROR)
    (named,) = rows_of(red)
    assert named["topic partition"] == "orders-0 of lake shop"
    assert named["offsets"] == "[4, 6)"
    assert named["file"].endswith(f"{log_of('orders-0')}.log")
    assert named["position"] == 512
    assert "--fill-from COPY`" in str(red.metadata["what to do"].value)
    for part in ("orders-0 of lake shop", "offsets [4, 6)", "position 512"):
        assert part in (red.description or "")


def test_a_red_check_counts_all_its_partitions(execute: Execute, world: World, shop: str) -> None:
    world.ends = {f"orders-{number}": 9 for number in range(3)}
    world.corrupt = {"orders-0": (4, 6), "orders-2": (1, 2)}

    shown = check_of(execute(lake=shop), "no_damage")

    assert not shown.passed
    assert shown.metadata["damaged topic partitions"].value == 2
    assert [each["log"] for each in shown.metadata["failing"].value] == [log_of("orders-0"), log_of("orders-2")]


def test_a_check_is_green_again_after_it_passes(execute: Execute, world: World, shop: str) -> None:
    world.ends = {"orders-0": 9, "orders-1": 9}
    execute(lake=shop)
    rows = lose_an_outcome(shop, log_of("orders-0"))
    assert damaged(execute(lake=shop)) == ["orders-0"]
    commit_ledger(shop, rows, [log_of("orders-0")], "test")

    assert check_of(execute(lake=shop), "no_damage").passed


@pytest.mark.long
def test_a_partition_that_is_sound_again_does_not_hide_what_else_is_red(
    execute: Execute, world: World, shop: str
) -> None:
    world.ends, world.corrupt = {"orders-0": 9, "orders-1": 9}, {"orders-1": (4, 6)}
    execute(lake=shop)
    rows = lose_an_outcome(shop, log_of("orders-0"))
    assert damaged(execute(lake=shop)) == ["orders-0", "orders-1"]
    commit_ledger(shop, rows, [log_of("orders-0")], "test")

    assert damaged(execute(lake=shop)) == ["orders-1"]


def test_a_source_that_cannot_be_read_makes_its_check_red(
    execute: Execute, world: World, source: Path, shop: str
) -> None:
    world.ends = {"orders-0": 9}

    result = execute(lake=shop, sources=[str(source), str(source.parent / "not-mounted")])

    assert not check_of(result, "sources_agree").passed


@pytest.mark.parametrize("chosen", ["orders-0", "orders-1"])
def test_a_run_for_a_partition_answers_for_the_lake(execute: Execute, world: World, shop: str, chosen: str) -> None:
    world.ends, world.corrupt = {"orders-0": 9, "orders-1": 9}, {"orders-1": (4, 6)}
    execute(lake=shop)
    remember(shop, Intake(("/kafka",)))

    assert damaged(execute(partition_key=chosen)) == ["orders-1"]


def test_a_run_for_a_range_of_partitions_answers_for_the_lake(execute: Execute, world: World, shop: str) -> None:
    world.ends, world.corrupt = {"orders-0": 9, "orders-1": 9, "orders-2": 9}, {"orders-1": (4, 6)}
    execute(lake=shop)
    remember(shop, Intake(("/kafka",)))

    ends = {"dagster/asset_partition_range_start": "orders-0", "dagster/asset_partition_range_end": "orders-1"}
    result = execute(tags=ends)

    assert not result.success, "there is no /kafka, and the run says so when its checks are answered"
    assert damaged(result) == ["orders-1"]


def test_the_headline_of_each_check_counts_all_partitions_in_a_run_for_one_too(
    execute: Execute, world: World, shop: str
) -> None:
    world.ends = {"orders-0": 9, "orders-1": 9, "orders-2": 9}
    headlines = {check.check_name: check.description for check in execute(lake=shop).get_asset_check_evaluations()}
    remember(shop, Intake(("/kafka",)))

    shown = execute(partition_key="orders-2").get_asset_check_evaluations()

    assert {check.check_name: check.description for check in shown} == headlines | {
        check.check_name: check.description for check in shown if check.check_name == "sources_agree"
    }
    assert headlines["every_offset_accounted_for"] == "27 offsets of 3 logs of lake shop"


def test_definitions_load_without_a_warning_of_the_framework() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Dagster itself asks pydantic so for the fields of a resource that has none.
        warnings.filterwarnings("ignore", message="The `__fields__` attribute is deprecated")
        build_definitions([SHOP]).resolve_asset_graph()
