"""A run for chosen topic partitions works on those alone, in the lake that has them."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from spark_jobs.contracts import Intake
from spark_jobs.lake.setup.registry import recall, registration_file, remember
from tests.dagster.conftest import Define, Execute, materialized
from tests.dagster.fake_jobs import World, log_of

pytestmark = pytest.mark.dagster


@pytest.fixture
def shop(execute: Execute, world: World, home: Path, source: Path) -> str:
    """A lake with three logs that have all grown since."""
    lake = str(home / "lakes" / "shop")
    world.ends = {"orders-0": 3, "orders-1": 3, "orders-2": 3}
    assert execute(lake=lake).success
    remember(lake, Intake((str(source),)))
    world.ends = dict.fromkeys(world.ends, 5)
    world.asked.clear()
    return lake


def test_only_the_chosen_partition_is_processed_and_materialized(execute: Execute, world: World, shop: str) -> None:
    result = execute(partition_key="orders-1")

    assert result.success
    for asset in ("archived_segments", "validated_segments", "records"):
        assert materialized(result, asset) == ["orders-1"]
    assert [config.logs for config in world.of("ingest")] == [("orders-1",)]
    assert [config.logs for config in world.of("validate")] == [(log_of("orders-1"),)]
    assert {config.lake for config in world.asked} == {shop}


def test_a_chosen_partition_with_nothing_new_is_materialized_too_so_that_a_backfill_ends(
    execute: Execute, world: World, shop: str
) -> None:
    execute(partition_key="orders-1")

    result = execute(partition_key="orders-1")

    assert materialized(result, "records") == ["orders-1"]
    (event,) = [e for e in result.get_asset_materialization_events() if e.asset_key.path == ["shop", "records"]]
    assert event.materialization.metadata["this run"].value == "nothing new"
    assert event.materialization.metadata["published up to offset"].value == 5


def test_lakes_of_two_clusters_with_one_topic_share_no_topic_partition_and_no_status(
    execute: Execute, instance: dg.DagsterInstance, world: World, tmp_path: Path
) -> None:
    partitions = {"north": {"orders-0", "orders-1"}, "south": {"orders-0", "orders-2"}}
    for lake, names in partitions.items():
        world.ends = dict.fromkeys(names, 3)
        assert execute(lake=str(tmp_path / lake)).success

    for lake, names in partitions.items():
        assert set(instance.get_dynamic_partitions(f"topic_partitions/{lake}")) == names
        for asset in ("archived_segments", "validated_segments", "records"):
            assert instance.get_materialized_partitions(dg.AssetKey([lake, asset])) == names


def test_all_assets_of_a_chosen_one_are_made_in_one_run(
    define: Define, instance: dg.DagsterInstance, world: World, shop: str
) -> None:
    everything = define().resolve_implicit_global_asset_job_def()

    result = everything.execute_in_process(instance=instance, partition_key="orders-1", raise_on_error=False)

    assert result.success
    for asset in [
        "archived_segments",
        "validated_segments",
        "records",
        "retained_log",
        "compacted_log",
        "tidy_archive",
        "rebuilt_indexes",
        "optimized_tables",
    ]:
        assert materialized(result, asset) == ["orders-1"], asset
    assert not any(config.apply for config in (*world.of("retention"), *world.of("compaction")))


def test_a_step_whose_asset_was_not_chosen_asks_no_job(
    define: Define, instance: dg.DagsterInstance, world: World, shop: str
) -> None:
    everything = define().resolve_implicit_global_asset_job_def()

    result = everything.execute_in_process(
        instance=instance, partition_key="orders-1", asset_selection=[dg.AssetKey(["shop", "validated_segments"])]
    )

    assert {config.JOB for config in world.asked} == {"validate"}
    assert {event.asset_key.to_user_string() for event in result.get_asset_materialization_events()} == {
        "shop/validated_segments"
    }


def test_a_key_that_the_lake_does_not_hold_is_a_clear_failure(
    execute: Execute, world: World, shop: str, instance: dg.DagsterInstance
) -> None:
    instance.add_dynamic_partitions("topic_partitions/shop", ["payments-0"])

    result = execute(partition_key="payments-0", lake=shop)

    assert not result.success
    assert "the lake shop nor its sources have payments-0" in _failure(result)


def test_a_run_without_configuration_takes_in_what_the_lake_remembers(
    execute: Execute, world: World, shop: str, source: Path
) -> None:
    remember(shop, Intake((str(source),), high_watermark="log-end", include_internal=True))

    assert execute().success

    (ingest,) = world.of("ingest")
    assert (ingest.sources, ingest.high_watermark) == ((str(source),), "log-end")
    assert [config.include_internal for config in world.of("publish")] == [True]


def test_a_narrower_run_does_not_make_a_lake_forget_the_rest_of_a_source(home: Path, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    remember(lake, Intake(("/kafka",)))
    remember(lake, Intake(("/kafka",), topics=("orders",), mode="reference"))
    remember(lake, Intake(("/other",), topics=("payments",)))

    assert recall(lake).intakes == (Intake(("/kafka",), mode="reference"), Intake(("/other",), topics=("payments",)))


def test_remembering_the_same_again_writes_nothing(home: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    remember(str(lake), Intake(("/kafka",)))
    files = [lake / "sources.json", Path(registration_file(str(lake)))]
    before = [file.stat().st_mtime_ns for file in files]
    remember(str(lake), Intake(("/kafka",)))
    assert [file.stat().st_mtime_ns for file in files] == before


def _failure(result) -> str:
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    return failure.step_failure_data.user_failure_data.description
