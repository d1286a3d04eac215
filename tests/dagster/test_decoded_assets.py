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
from spark_jobs.contracts import Intake
from spark_jobs.lake.view.registered_lakes import RegisteredLake, read_registered
from tests.dagster.conftest import check_of, materializations_of
from tests.in_process import InProcessExecutor
from tests.jobs.decoded_lake import Decoded

pytestmark = pytest.mark.dagster


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
    node = build_definitions([of]).resolve_asset_graph().get(dg.AssetKey([of.name, "decoded", "orders"]))
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
    assert dg.AssetKey([of.name, "decoded", "orders"]) not in keys


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


KEY = ["decoded", "orders"]
