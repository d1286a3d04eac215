"""A damaged topic partition is red by itself, and Dagster's latest evaluation of a check answers for the whole lake."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionResolvedStatus

from logcore.logs.model.offset_ledger import OffsetState
from pipelines.definitions import build_definitions
from pipelines.event_log import check_evaluations
from pipelines.partitions import topic_partitions
from spark_jobs.contracts import Intake
from spark_jobs.lake.ledger.frontier import LedgerRow, commit_ledger, read_ledger
from spark_jobs.lake.setup.registry import remember
from spark_jobs.lake.view.registered_lakes import RegisteredLake
from tests.dagster.conftest import Execute, check_of, checks_of_partitions
from tests.dagster.fake_jobs import World, log_of

pytestmark = pytest.mark.dagster

SHOP = RegisteredLake("/lakes/shop", "shop", (Intake(("/kafka",)),))
NO_DAMAGE = dg.AssetCheckKey(dg.AssetKey(["shop", "validated_segments"]), "no_damage")


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


def keys_of(instance: dg.DagsterInstance, status: AssetCheckExecutionResolvedStatus) -> set[str]:
    """Topic partitions that Dagster's page of the check `no_damage` counts under a status."""
    with partition_loading_context(dynamic_partitions_store=instance):
        found = instance.event_log_storage.get_asset_check_state([(NO_DAMAGE, topic_partitions(SHOP))])
        return set(found[NO_DAMAGE].subsets[status].subset_value.get_partition_keys())


def latest(instance: dg.DagsterInstance, check: dg.AssetCheckKey = NO_DAMAGE) -> dg.AssetCheckEvaluation:
    """The evaluation that Dagster shows as the state of a check."""
    record = instance.event_log_storage.get_latest_asset_check_execution_by_key([check])[check]
    assert record.evaluation is not None
    return record.evaluation


FAILED, SUCCEEDED = AssetCheckExecutionResolvedStatus.FAILED, AssetCheckExecutionResolvedStatus.SUCCEEDED


def test_a_damaged_partition_is_red_and_its_neighbours_are_not(
    execute: Execute, world: World, instance: dg.DagsterInstance, shop: str
) -> None:
    world.ends, world.corrupt = {"orders-0": 9, "orders-1": 9}, {"orders-1": (4, 6)}

    result = execute(lake=shop)

    assert keys_of(instance, FAILED) == {"orders-1"}
    assert list(checks_of_partitions(result, "no_damage")) == ["orders-1"]
    assert checks_of_partitions(result, "every_offset_accounted_for") == {}


def test_a_red_partition_names_lake_log_offsets_file_position_and_what_to_do(
    execute: Execute, world: World, shop: str
) -> None:
    world.ends, world.corrupt = {"orders-0": 9}, {"orders-0": (4, 6)}

    red = checks_of_partitions(execute(lake=shop), "no_damage")["orders-0"]

    assert (red.passed, red.severity) == (False, dg.AssetCheckSeverity.ERROR)
    where = red.metadata["where"]
    assert isinstance(where, dg.TableMetadataValue)
    (row,) = where.records
    named = row.data
    assert named["lake"] == "shop"
    assert named["topic partition"] == "orders-0"
    assert named["offsets"] == "[4, 6)"
    assert named["file"].endswith(f"{log_of('orders-0')}.log")
    assert named["position"] == 512
    assert "--fill-from COPY`" in str(red.metadata["what to do"].value)
    for part in ("orders-0 of lake shop", "offsets [4, 6)", "position 512"):
        assert part in (red.description or "")


def test_the_latest_evaluation_of_a_red_check_answers_for_the_whole_lake(
    execute: Execute, world: World, instance: dg.DagsterInstance, shop: str
) -> None:
    world.ends = {"orders-0": 9, "orders-1": 9, "orders-2": 9}
    world.corrupt = {"orders-0": (4, 6), "orders-2": (1, 2)}

    result = execute(lake=shop)

    shown = latest(instance)
    assert not shown.passed
    assert shown.metadata["whole lake"].value == check_of(result, "no_damage").description
    assert shown.metadata["damaged topic partitions"].value == 2
    assert [each["log"] for each in shown.metadata["failing"].value] == [log_of("orders-0"), log_of("orders-2")]


def test_a_partition_is_green_again_after_its_check_passes(
    execute: Execute, world: World, instance: dg.DagsterInstance, shop: str
) -> None:
    world.ends = {"orders-0": 9, "orders-1": 9}
    execute(lake=shop)
    rows = lose_an_outcome(shop, log_of("orders-0"))
    execute(lake=shop)
    assert keys_of(instance, FAILED) == {"orders-0"}
    commit_ledger(shop, rows, [log_of("orders-0")], "test")

    result = execute(lake=shop)

    assert keys_of(instance, FAILED) == set()
    assert keys_of(instance, SUCCEEDED) == {"orders-0"}
    assert latest(instance).passed
    assert list(checks_of_partitions(result, "no_damage")) == ["orders-0"]


@pytest.mark.long
def test_a_green_partition_does_not_hide_what_else_is_red(
    execute: Execute, world: World, instance: dg.DagsterInstance, shop: str
) -> None:
    world.ends, world.corrupt = {"orders-0": 9, "orders-1": 9}, {"orders-1": (4, 6)}
    execute(lake=shop)
    rows = lose_an_outcome(shop, log_of("orders-0"))
    execute(lake=shop)
    commit_ledger(shop, rows, [log_of("orders-0")], "test")

    result = execute(lake=shop)

    assert {key: check.passed for key, check in checks_of_partitions(result, "no_damage").items()} == {
        "orders-0": True,
        "orders-1": False,
    }
    assert not latest(instance).passed


def test_a_source_that_cannot_be_read_stays_the_state_of_its_check(
    execute: Execute, world: World, instance: dg.DagsterInstance, source: Path, shop: str
) -> None:
    world.ends = {"orders-0": 9}

    result = execute(lake=shop, sources=[str(source), str(source.parent / "not-mounted")])

    assert checks_of_partitions(result, "sources_agree") == {}
    shown = latest(instance, dg.AssetCheckKey(dg.AssetKey(["shop", "archived_segments"]), "sources_agree"))
    assert (shown.passed, shown.partition) == (False, None)


@pytest.mark.parametrize("chosen", ["orders-0", "orders-1"])
def test_a_run_for_a_partition_answers_for_it_and_for_the_lake(
    execute: Execute, world: World, instance: dg.DagsterInstance, shop: str, chosen: str
) -> None:
    world.ends, world.corrupt = {"orders-0": 9, "orders-1": 9}, {"orders-1": (4, 6)}
    execute(lake=shop)
    remember(shop, Intake(("/kafka",)))

    result = execute(partition_key=chosen)

    red = chosen == "orders-1"
    assert {key: check.passed for key, check in checks_of_partitions(result, "no_damage").items()} == {chosen: not red}
    assert keys_of(instance, FAILED) == {"orders-1"}
    assert keys_of(instance, SUCCEEDED) == (set() if red else {"orders-0"})
    assert not check_of(result, "no_damage").passed
    assert (latest(instance).passed, latest(instance).partition) == (False, None)


def test_a_range_of_partitions_has_an_answer_for_each(
    execute: Execute, world: World, instance: dg.DagsterInstance, shop: str
) -> None:
    world.ends, world.corrupt = {"orders-0": 9, "orders-1": 9, "orders-2": 9}, {"orders-1": (4, 6)}
    execute(lake=shop)
    remember(shop, Intake(("/kafka",)))

    ends = {"dagster/asset_partition_range_start": "orders-0", "dagster/asset_partition_range_end": "orders-1"}
    result = execute(tags=ends)

    assert not result.success, "there is no /kafka, and the run says so when its checks are answered"
    assert {key: check.passed for key, check in checks_of_partitions(result, "no_damage").items()} == {
        "orders-0": True,
        "orders-1": False,
    }
    assert latest(instance).partition is None


def test_few_of_many_damaged_partitions_have_evaluations_and_the_lake_counts_all(
    execute: Execute, world: World, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_evaluations, "MAX_KEYS", 3)
    world.ends = {f"orders-{number}": 9 for number in range(7)}
    world.corrupt = dict.fromkeys(world.ends, (4, 6))

    result = execute(lake=shop)

    assert len(checks_of_partitions(result, "no_damage")) == 3
    assert check_of(result, "no_damage").metadata["damaged topic partitions"].value == 7


def test_many_recovered_partitions_neither_hide_damaged_ones_nor_raise_the_limit(
    execute: Execute, world: World, instance: dg.DagsterInstance, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_evaluations, "MAX_KEYS", 2)
    world.ends = {f"orders-{number}": 9 for number in range(5)}
    execute(lake=shop)
    sound = {number: lose_an_outcome(shop, log_of(f"orders-{number}")) for number in range(2)}
    execute(lake=shop)
    for number, rows in sound.items():
        commit_ledger(shop, rows, [log_of(f"orders-{number}")], "test")
    for number in range(2, 5):
        lose_an_outcome(shop, log_of(f"orders-{number}"))

    checks = checks_of_partitions(execute(lake=shop), "no_damage")

    assert len(checks) == 2
    assert not latest(instance).passed


def test_nothing_is_evaluated_for_a_partition_before_there_is_data(execute: Execute, world: World, shop: str) -> None:
    result = execute(lake=shop)

    assert all(check.partition is None for check in result.get_asset_check_evaluations())


def test_definitions_load_without_a_warning_of_the_framework() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_definitions([SHOP]).resolve_asset_graph()
