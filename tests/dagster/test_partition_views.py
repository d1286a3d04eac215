"""Runs of sensors and schedules in the views of partitions, keys of logs that are gone, staleness, and automation."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from spark_jobs.contracts import Intake
from spark_jobs.lake.setup.registry import remember
from tests.dagster.conftest import Define, Execute, tick
from tests.dagster.fake_jobs import World

pytestmark = pytest.mark.dagster

RECORDS = dg.AssetKey(["shop", "records"])
VALIDATED = dg.AssetKey(["shop", "validated_segments"])
KEYS = "topic_partitions/shop"


@pytest.fixture
def shop(execute: Execute, world: World, home: Path, source: Path) -> str:
    """A lake with two logs."""
    path = str(home / "lakes" / "shop")
    world.ends = {"orders-0": 3, "orders-1": 3}
    assert execute(lake=path).success
    remember(path, Intake((str(source),)))
    return path


def test_a_run_that_the_sensor_requested_appears_in_the_view_of_each_topic_partition(
    define: Define, instance: dg.DagsterInstance, world: World, shop: str, source: Path
) -> None:
    world.ends = {"orders-0": 5, "orders-1": 3, "orders-2": 4}
    (source / "orders-2").mkdir()
    (source / "orders-2" / f"{0:020d}.log").write_bytes(b"x")
    (request,) = tick(define(), instance, "shop__new_segments").run_requests or []

    job = define().resolve_job_def("shop__intake")
    result = job.execute_in_process(instance=instance, run_config=request.run_config, tags=dict(request.tags))

    records = instance.fetch_materializations(RECORDS, limit=10).records
    assert {record.partition_key for record in records if record.run_id == result.run_id} == {"orders-0", "orders-2"}
    assert instance.get_materialized_partitions(RECORDS) == {"orders-0", "orders-1", "orders-2"}
    assert set(instance.get_dynamic_partitions(KEYS)) == {"orders-0", "orders-1", "orders-2"}


def test_keys_of_logs_that_are_gone_are_removed_and_others_stay(
    execute: Execute, instance: dg.DagsterInstance, shop: str
) -> None:
    instance.add_dynamic_partitions(KEYS, ["payments-0", "payments-1"])

    assert execute().success

    assert list(instance.get_dynamic_partitions(KEYS)) == ["orders-0", "orders-1"]


def test_a_run_that_saw_fewer_logs_than_the_lake_has_now_removes_no_key(
    instance: dg.DagsterInstance, define: Define, execute: Execute, shop: str
) -> None:
    from pipelines.partitions import register
    from spark_jobs.lake.view.registered_lakes import read_registered

    register(instance, read_registered(shop), ["orders-0"])

    assert set(instance.get_dynamic_partitions(KEYS)) == {"orders-0", "orders-1"}


def stale(define: Define, instance: dg.DagsterInstance, asset: dg.AssetKey) -> set[str]:
    """The topic partitions for which an asset is older than what it is made from."""
    graph = define().resolve_asset_graph()
    found = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    return {key for key in ("orders-0", "orders-1") if found.get_status(asset, key) is StaleStatus.STALE}


def test_only_what_grew_is_stale_until_the_next_run_publishes_it(
    define: Define, execute: Execute, instance: dg.DagsterInstance, world: World, shop: str
) -> None:
    states = [stale(define, instance, VALIDATED)]
    world.ends["orders-0"] = 5
    job = define().resolve_job_def("shop__intake")
    job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey(["shop", "archived_segments"])])
    states.append(stale(define, instance, VALIDATED))
    assert execute().success
    states.append(stale(define, instance, VALIDATED) | stale(define, instance, RECORDS))

    assert states == [set(), {"orders-0"}, set()]


def test_an_asset_with_an_automation_condition_is_requested_when_records_grew_and_not_otherwise(
    define: Define, execute: Execute, instance: dg.DagsterInstance, world: World, shop: str
) -> None:
    @dg.asset(deps=[RECORDS], automation_condition=dg.AutomationCondition.eager())
    def totals() -> None:
        """What somebody else makes of the records."""

    def requested(cursor: object) -> tuple[int, object]:
        definitions = dg.Definitions.merge(define(), dg.Definitions(assets=[totals]))
        result = dg.evaluate_automation_conditions(definitions, instance, cursor=cursor)  # type: ignore[arg-type]
        return result.total_requested, result.cursor

    _, cursor = requested(None)
    assert execute().success  # finds nothing new
    nothing, cursor = requested(cursor)
    world.ends["orders-0"] = 9
    assert execute().success
    grown, cursor = requested(cursor)

    assert (nothing, grown) == (0, 1)
