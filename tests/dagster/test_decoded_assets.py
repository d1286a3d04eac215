"""Decoded tables are assets: columns, where these come from, and a materialization when a run changed the table."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from pipelines.catalog.names import name_in_lake
from pipelines.catalog.run_configuration import run_config
from pipelines.definitions import build_definitions
from pipelines.resources import JobLauncher
from pipelines.run.run_request import RunRequest
from spark_jobs import launch
from spark_jobs.contracts import Intake, LatestConfig
from spark_jobs.lake.view.registered_lakes import RegisteredLake, read_registered
from spark_jobs.policies.policies_file import read_policies
from tests.dagster.conftest import check_of, materializations_of
from tests.in_process import InProcessExecutor
from tests.jobs.decoded_lake import Decoded
from tests.spark.cycle import AS_OF_MS

pytestmark = pytest.mark.dagster
KEY = ["decoded_orders"]


@pytest.fixture
def lake(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Decoded:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    return Decoded(tmp_path)


def registered(lake: Decoded) -> RegisteredLake:
    launch.register(lake.path, Intake((str(lake.source.path),), policies=str(lake.policies)))
    return read_registered(lake.path)


def test_columns_name_what_they_are_and_where_in_records_they_come_from(lake: Decoded) -> None:
    lake.append((b"a", b"one"))
    lake.decode()
    of = registered(lake)
    node = build_definitions([of]).resolve_asset_graph().get(dg.AssetKey([of.name, *KEY]))
    assert node.parent_keys == {dg.AssetKey([of.name, "records"])}
    columns = {column.name: column for column in node.metadata["dagster/column_schema"].columns}
    assert columns["value"].type == "string"
    assert columns["value"].description == "decoded value; null for a tombstone"
    lineage = node.metadata["dagster/column_lineage"].deps_by_column
    assert lineage.keys() == columns.keys()
    assert lineage["value"] == [dg.TableColumnDep(dg.AssetKey([of.name, "records"]), "value")]
    assert lineage["is_tombstone"] == lineage["value"]


def test_a_lake_whose_policies_cannot_be_read_has_its_other_assets(lake: Decoded) -> None:
    lake.append((b"a", b"one"))
    of = registered(lake)
    lake.policies.write_text("topics: [")
    keys = build_definitions([of]).resolve_asset_graph().get_all_asset_keys()
    assert dg.AssetKey([of.name, "records"]) in keys
    assert dg.AssetKey([of.name, *KEY]) not in keys


def test_a_run_that_changed_the_table_materializes_it_once_and_answers_the_check(
    lake: Decoded, instance: dg.DagsterInstance
) -> None:
    lake.append((b"a", b"one"), (b"b", b"\xff"))
    of = registered(lake)
    job = build_definitions([of], JobLauncher()).resolve_job_def(name_in_lake(of, "intake"))
    results = [
        job.execute_in_process(instance=instance, run_config=run_config(of, "intake", RunRequest())) for _ in range(2)
    ]
    made = [materializations_of(result, KEY) for result in results]
    assert [len(each) for each in made] == [1, 0]
    figures = {name: value.value for name, value in made[0][0].metadata.items()}
    assert (figures["dagster/row_count"], figures["undecoded rows"]) == (1, 1)
    for result in results:
        check = check_of(result, "decoded_rows_equal_records")
        assert check.passed
        assert check.description == "1 row decoded and 1 undecoded, in 1 topic"


def test_a_run_for_one_partition_answers_for_all_topics(lake: Decoded, instance: dg.DagsterInstance) -> None:
    lake.append_elsewhere("payments-0", 2)
    lake.append((b"a", b"one"))
    of = registered(lake)
    job = build_definitions([of], JobLauncher()).resolve_job_def(name_in_lake(of, "intake"))
    assert job.execute_in_process(instance=instance).success
    result = job.execute_in_process(instance=instance, partition_key="orders-0")
    assert check_of(result, "decoded_rows_equal_records").description.endswith("in 2 topics")


def test_the_table_can_be_brought_up_to_date_from_its_own_page(lake: Decoded, instance: dg.DagsterInstance) -> None:
    lake.append((b"a", b"one"))
    lake.decode()
    lake.append((b"b", b"two"))
    of = registered(lake)
    job = build_definitions([of], JobLauncher()).resolve_implicit_global_asset_job_def()
    key = dg.AssetKey([of.name, *KEY])
    results = [job.execute_in_process(instance=instance, asset_selection=[key]) for _ in range(2)]
    made = [materializations_of(result, KEY) for result in results]
    assert [len(each) for each in made] == [1, 0]
    assert made[0][0].metadata["dagster/row_count"].value == 2


def test_no_two_assets_of_a_lake_have_the_same_last_name(lake: Decoded) -> None:
    """Dagster's graph shows the last part of a key only."""
    lake.policies.write_text("topics: {orders: {decode.value: string, latest: soft-delete}}")
    lake.append((b"a", b"one"))
    lake.decode()
    launch.run(LatestConfig(lake.path, "latest", AS_OF_MS, read_policies(str(lake.policies))))
    of = registered(lake)
    keys = build_definitions([of]).resolve_asset_graph().get_all_asset_keys()
    assert {"decoded_orders", "latest_orders"} <= {key.path[-1] for key in keys}
    assert len({key.path[-1] for key in keys}) == len(keys)


def test_a_topic_of_any_name_has_an_asset_with_the_name_that_queries_use(
    lake: Decoded, instance: dg.DagsterInstance
) -> None:
    """Dagster's outputs may have letters, digits and `_` only, and no two topics may share one."""
    lake.policies.write_text('topics: {"*": {decode.value: string}}')
    for topic in ("a.b", "a-b", "A-b"):
        lake.source.partition(f"{topic}-0").append(2)
        lake.marks[f"{topic}_0"] = 2
    lake.append((b"a", b"one"))
    of = registered(lake)
    job = build_definitions([of], JobLauncher()).resolve_job_def(name_in_lake(of, "intake"))
    configuration = run_config(of, "intake", RunRequest())
    assert job.execute_in_process(instance=instance, run_config=configuration).success
    graph = build_definitions([of]).resolve_asset_graph()
    shown = {key.path[-1] for key in graph.get_all_asset_keys() if key.path[-1].startswith("decoded_")}
    assert shown == {"decoded_a_2eb", "decoded_a_2db", "decoded__41_2db", "decoded_orders"}
    assert all(instance.get_latest_materialization_event(dg.AssetKey([of.name, name])) for name in shown)
