"""Tables of the latest rows are assets: columns, their sources, and a materialization when a run changed one."""

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
from tests.dagster.conftest import check_of, materializations_of
from tests.dagster.test_decoded_assets import registered
from tests.in_process import InProcessExecutor
from tests.jobs.decoded_lake import Decoded

pytestmark = pytest.mark.dagster
KEY = ["latest_orders"]


@pytest.fixture
def lake(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Decoded:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    return Decoded(tmp_path, "topics: {orders: {latest: soft-delete}}")


def test_a_run_materializes_a_changed_table_once_and_answers_the_check(
    lake: Decoded, instance: dg.DagsterInstance
) -> None:
    lake.append((b"a", b"one"), (b"b", b"two"), (b"a", None))
    of = registered(lake)
    job = build_definitions([of], JobLauncher()).resolve_job_def(name_in_lake(of, "intake"))
    results = [
        job.execute_in_process(instance=instance, run_config=run_config(of, "intake", RunRequest())) for _ in range(2)
    ]
    made = [materializations_of(result, KEY) for result in results]
    assert [len(each) for each in made] == [1, 0]
    assert made[0][0].metadata["dagster/row_count"].value == 2
    for result in results:
        check = check_of(result, "latest_follows_records")
        assert check.passed
        assert check.description == "2 rows in 1 topic"
    node = build_definitions([of]).resolve_asset_graph().get(dg.AssetKey([of.name, *KEY]))
    assert node.parent_keys == {dg.AssetKey([of.name, "records"])}
    lineage = node.metadata["dagster/column_lineage"].deps_by_column
    assert lineage["is_deleted"] == [dg.TableColumnDep(dg.AssetKey([of.name, "records"]), "value")]
    assert lineage.keys() == {column.name for column in node.metadata["dagster/column_schema"].columns}
