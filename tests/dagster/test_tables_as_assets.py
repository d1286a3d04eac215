"""The tables that analysts query are assets: described, owned, and materialized when a run changed them."""

from __future__ import annotations

import re
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

from pipelines.catalog.names import owners_of
from pipelines.definitions import build_definitions
from spark_jobs.contracts import Intake
from spark_jobs.lake.view.registered_lakes import RegisteredLake
from tests.dagster.conftest import Define, Execute, materialized
from tests.dagster.fake_jobs import World

pytestmark = pytest.mark.dagster

TABLES = ("offset_ledger", "findings", "batches", "transactions")
SHOP = RegisteredLake("/lakes/shop", "shop", (Intake(("/kafka",)),), owners=("anna@example.com", "logs", "team:shop"))


@pytest.fixture
def shop(home: Path) -> str:
    return str(home / "lakes" / "shop")


def events_of(result: dg.ExecuteInProcessResult, table: str) -> list[dg.AssetMaterialization]:
    """The materializations of a table in a run."""
    events = result.get_asset_materialization_events()
    return [event.materialization for event in events if event.asset_key == dg.AssetKey(["shop", table])]


def test_each_table_comes_from_the_assets_whose_steps_write_it() -> None:
    graph = build_definitions([SHOP]).resolve_asset_graph()

    for table in TABLES:
        node = graph.get(dg.AssetKey(["shop", table]))
        assert dg.AssetKey(["shop", "validated_segments"]) in node.parent_keys
        assert node.partitions_def is None


def test_every_asset_has_owners_tags_a_group_and_a_text_without_marks_of_markdown() -> None:
    graph = build_definitions([SHOP]).resolve_asset_graph()

    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert node.owners == ["anna@example.com", "team:logs", "team:shop"], key
        assert node.tags["loglake/lake"] == "shop"
        assert node.group_name
        assert node.kinds
        assert node.description
        assert not re.search(r"[*_]{2}|`|^#|]\(", node.description), key
    for check in graph.asset_check_keys:
        assert "`" not in (graph.get(check).description or "")


def test_no_two_assets_of_two_lakes_claim_the_same_table_and_none_claims_the_table_of_another() -> None:
    store = RegisteredLake("/lakes/store", "store")
    graph = build_definitions([SHOP, store]).resolve_asset_graph()

    named = [(key, graph.get(key).metadata.get("dagster/table_name")) for key in graph.get_all_asset_keys()]
    claims = {key.to_user_string(): table for key, table in named if table is not None}

    assert len(set(claims.values())) == len(claims)
    assert all(key.replace("/", ".") == table for key, table in claims.items())
    assert {"shop/records", "store/records", "shop/offset_ledger"} <= claims.keys()


def test_no_asset_says_that_spark_made_it_because_a_run_may_start_no_jvm() -> None:
    graph = build_definitions([SHOP]).resolve_asset_graph()
    assert [key for key in graph.get_all_asset_keys() if "spark" in graph.get(key).kinds] == []


@pytest.mark.parametrize("owner", ["a@b", "Anna Müller", "x y@example", "team:"])
def test_no_name_of_an_owner_keeps_the_definitions_from_loading(owner: str) -> None:
    lake = RegisteredLake("/lakes/shop", "s" * 80, owners=(owner, ""))

    dg.Definitions.validate_loadable(build_definitions([lake]))
    assert all(each.startswith("team:") for each in owners_of(lake))


def test_columns_of_tables_have_the_comments_of_the_lake_and_records_name_their_sources() -> None:
    graph = build_definitions([SHOP]).resolve_asset_graph()

    ledger = graph.get(dg.AssetKey(["shop", "offset_ledger"])).metadata["dagster/column_schema"]
    described = {column.name: column.description for column in ledger.columns}
    assert described["end_offset"] == "first offset after the range"
    assert described["log"] == "key of the log: LOG_ID/PARTITION"
    lineage = graph.get(dg.AssetKey(["shop", "records"])).metadata["dagster/column_lineage"].deps_by_column
    assert lineage["segment_id"] == [dg.TableColumnDep(dg.AssetKey(["shop", "archived_segments"]), "segment_id")]
    assert lineage["position"] == [dg.TableColumnDep(dg.AssetKey(["shop", "batches"]), "position")]
    for name, deps in lineage.items():
        of_records = graph.get(dg.AssetKey(["shop", "records"])).metadata["dagster/column_schema"].columns
        assert name in {column.name for column in of_records}
        for dep in deps:
            columns = graph.get(dep.asset_key).metadata["dagster/column_schema"].columns
            assert dep.column_name in {column.name for column in columns}


def test_a_table_is_materialized_once_in_a_run_that_changed_it_with_its_figures(
    execute: Execute, world: World, shop: str
) -> None:
    world.ends, world.corrupt = {"orders-0": 9, "orders-1": 9}, {"orders-1": (4, 6)}

    result = execute(lake=shop)

    assert result.success
    (ledger,) = events_of(result, "offset_ledger")
    table = DeltaTable(f"{shop}/tables/offset_ledger")
    assert ledger.partition is None
    shown = {name: value.value for name, value in ledger.metadata.items()}
    assert shown["table version"] == table.version()
    assert shown["dagster/row_count"] == table.to_pyarrow_table().num_rows
    assert shown["bytes"] == sum(file.stat().st_size for file in map(Path, table.file_uris()))
    assert (shown["offsets"], shown["rows of records"]) == (18, 9 + 4)
    assert (shown["offsets not published"], shown["damaged topic partitions"]) == (5, 1)
    assert [event.metadata["open findings: error"].value for event in events_of(result, "findings")] == [1]
    assert materialized(result, "records") == ["orders-0", "orders-1"]


def test_a_run_that_changed_no_table_materializes_none(execute: Execute, world: World, shop: str) -> None:
    world.ends = {"orders-0": 9}
    execute(lake=shop)

    result = execute(lake=shop)

    assert result.success
    assert result.get_asset_materialization_events() == []


@pytest.mark.parametrize("table", ["offset_ledger", "findings"])
def test_a_table_can_be_made_alone_and_a_backfill_of_it_ends_although_nothing_changed(
    execute: Execute, define: Define, instance: dg.DagsterInstance, world: World, shop: str, table: str
) -> None:
    """Records has events of partitions then: a run without a key must not look for their versions."""
    world.ends = {"orders-0": 9}
    execute(lake=shop)
    everything = define().resolve_implicit_global_asset_job_def()

    def made(**tags: str) -> list[str]:
        world.asked.clear()
        chosen = [dg.AssetKey(["shop", table])]
        result = everything.execute_in_process(instance=instance, asset_selection=chosen, tags=tags)
        assert result.success
        return [event.asset_key.path[-1] for event in result.get_asset_materialization_events()]

    assert made() == []
    assert not world.of("ingest")
    assert made(**{"dagster/backfill": "abcdefgh"}) == [table]


def test_a_change_outside_of_runs_is_materialized_by_the_next_run(execute: Execute, world: World, shop: str) -> None:
    world.ends = {"orders-0": 9}
    execute(lake=shop)
    DeltaTable(f"{shop}/tables/offset_ledger").alter.set_table_properties({"delta.appendOnly": "false"})
    world.ends = {"orders-0": 9}

    result = execute(lake=shop)

    (ledger,) = events_of(result, "offset_ledger")
    assert ledger.metadata["table version"].value == DeltaTable(f"{shop}/tables/offset_ledger").version()
