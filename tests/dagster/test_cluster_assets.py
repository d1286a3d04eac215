"""Tables of the cluster are assets of lakes that have them: columns, sources, checks, figures."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest

from logcore.topics.internal_topics import InternalTopic
from pipelines.catalog.names import name_in_lake
from pipelines.catalog.run_configuration import run_config
from pipelines.definitions import build_definitions
from pipelines.resources import JobLauncher
from pipelines.run.run_request import RunRequest
from spark_jobs import launch
from spark_jobs.contracts import Intake
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.view.cluster_tables import TABLES_OF
from spark_jobs.lake.view.registered_lakes import RegisteredLake, read_registered
from tests.conformance.conftest import Corpus, corpus  # noqa: F401 - a fixture
from tests.conformance.snapshots import snapshot
from tests.dagster.conftest import check_of, materializations_of
from tests.in_process import InProcessExecutor

pytestmark = pytest.mark.dagster

ALL = [name for names in TABLES_OF.values() for name in names]
GROUPS, METADATA = "internal-topics-4.4.0/logdir", "cluster-metadata-4.4.0/logdir"


@pytest.fixture
def registered(
    request: pytest.FixtureRequest,
    corpus: Corpus,  # noqa: F811
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> RegisteredLake:
    """A lake of a broker that ran with internal topics."""
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    source, lake = corpus.directory(snapshot(request.param)), str(tmp_path / "shop")
    launch.register(lake, Intake((str(source),)))
    return read_registered(lake)


def run_twice(lake: RegisteredLake, instance: dg.DagsterInstance) -> dict[str, dg.AssetMaterialization]:
    """Run the intake twice: the materializations of the tables by the first run. The second one has none."""
    job = build_definitions([lake], JobLauncher()).resolve_job_def(name_in_lake(lake, "intake"))
    configuration = run_config(lake, "intake", RunRequest())
    first, second = (job.execute_in_process(instance=instance, run_config=configuration) for _ in range(2))
    for result in (first, second):
        assert check_of(result, "cluster_follows_sources").passed
        assert check_of(result, "no_commit_beyond_log_end").description
    assert not [name for name in ALL if materializations_of(second, [name])]
    return {name: event for name in ALL for event in materializations_of(first, [name])}


@pytest.mark.parametrize("registered", [GROUPS], indirect=True)
def test_a_lake_without_the_tables_shows_none_of_them(registered: RegisteredLake) -> None:
    keys = build_definitions([registered]).resolve_asset_graph().get_all_asset_keys()
    assert not [key for key in keys if key.path[-1].startswith("cluster_")]


@pytest.mark.parametrize("registered", [GROUPS], indirect=True)
def test_a_run_materializes_changed_tables_of_groups_once_with_the_lag_as_numbers(
    registered: RegisteredLake, instance: dg.DagsterInstance
) -> None:
    made = run_twice(registered, instance)
    assert made.keys() == {*TABLES_OF[InternalTopic.CONSUMER_OFFSETS], "cluster_transactional_ids"}
    offsets = made["cluster_group_offsets"].metadata
    rows = read_rows(registered.path, "cluster_group_offsets", ["group", "lag"]).to_pylist()
    assert offsets["lag of all groups"].value == sum(row["lag"] for row in rows if (row["lag"] or 0) > 0)
    of_groups = {name: value.value for name, value in offsets.items() if name.startswith("lag of ")}
    assert 2 <= len(of_groups) <= 9
    for group in {row["group"] for row in rows}:
        mine = sum(max(row["lag"] or 0, 0) for row in rows if row["group"] == group)
        assert of_groups.get(f"lag of {group}", mine) == mine
    assert made["cluster_groups"].metadata["dagster/row_count"].value > 8

    graph = build_definitions([registered]).resolve_asset_graph()
    shown = {key.path[-1] for key in graph.get_all_asset_keys() if key.path[-1].startswith("cluster_")}
    assert shown == made.keys()
    node = graph.get(dg.AssetKey([registered.name, "cluster_group_offsets"]))
    assert node.parent_keys == {
        dg.AssetKey([registered.name, "log_directories"]),
        dg.AssetKey([registered.name, "transactions"]),
    }
    columns = {column.name: column.description for column in node.metadata["dagster/column_schema"].columns}
    assert columns["lag"] == "offsets up to the high watermark"
    for name in shown:
        described = graph.get(dg.AssetKey([registered.name, name]))
        assert described.description
        assert described.owners == graph.get(dg.AssetKey([registered.name, "records"])).owners


@pytest.mark.parametrize("registered", [GROUPS], indirect=True)
def test_a_table_of_the_cluster_can_be_made_from_its_own_page(
    registered: RegisteredLake, instance: dg.DagsterInstance
) -> None:
    run_twice(registered, instance)
    job = build_definitions([registered], JobLauncher()).resolve_implicit_global_asset_job_def()
    key = dg.AssetKey([registered.name, "cluster_groups"])
    for tags, made in (({}, 0), ({"dagster/backfill": "abcdefgh"}, 1)):
        result = job.execute_in_process(instance=instance, asset_selection=[key], tags=tags)
        assert len(materializations_of(result, ["cluster_groups"])) == made
        assert {event.asset_key.path[-1] for event in result.get_asset_materialization_events()} <= {"cluster_groups"}


@pytest.mark.parametrize("registered", [METADATA], indirect=True)
@pytest.mark.long
def test_the_asset_of_partitions_shows_the_placement(
    registered: RegisteredLake,
    instance: dg.DagsterInstance,
    corpus: Corpus,  # noqa: F811
) -> None:
    shown = run_twice(registered, instance)["cluster_partitions"].metadata
    assert sum(int(record.data["leaders"]) for record in shown["placement"].records) <= shown["partitions"].value
    topics = json.loads(corpus.oracle(snapshot(METADATA), "topics.json").read_text())
    assert shown["partitions"].value >= sum(len(topic["partitions"]) for topic in topics.values()) > 20
    (directory,) = [record.data for record in shown["log directories"].records if record.data["path"]]
    source = corpus.directory(snapshot(METADATA))
    live = [path for path in source.glob("*/*.log") if not path.parent.name.endswith("-delete")]
    assert int(directory["bytes"]) == sum(path.stat().st_size for path in live)
    properties = (source / "meta.properties").read_text()
    assert f"directory.id={directory['directory']}" in properties
    assert f"node.id={directory['broker']}" in properties
