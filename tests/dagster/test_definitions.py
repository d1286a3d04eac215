"""The code location loads, says what it is, and brings nothing heavy."""

from __future__ import annotations

import itertools
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from pipelines.command.history import settings_file
from pipelines.definitions import build_definitions
from spark_jobs.contracts import Intake
from spark_jobs.lake.view.registered_lakes import RegisteredLake
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS
from tests.in_process import without_spark

pytestmark = pytest.mark.dagster

SHOP = RegisteredLake("/lakes/shop", "shop", (Intake(("/kafka",)),))

ASSETS = {
    "archived_segments",
    "validated_segments",
    "records",
    "retained_log",
    "compacted_log",
    "tidy_archive",
    "rebuilt_indexes",
    "optimized_tables",
}


@pytest.fixture(scope="module")
def defs() -> dg.Definitions:
    """The definitions of one lake."""
    return build_definitions([SHOP])


def test_the_definitions_can_be_loaded_with_two_lakes_and_with_none(defs: dg.Definitions) -> None:
    dg.Definitions.validate_loadable(defs)
    dg.Definitions.validate_loadable(build_definitions([SHOP, RegisteredLake("s3://bucket/store", "store.1-b")]))
    dg.Definitions.validate_loadable(build_definitions([]))


@pytest.mark.long
def test_workspace_yaml_is_valid_from_another_directory_and_without_a_network(tmp_path: Path) -> None:
    # An unreachable proxy simulates a missing network: every request to another host fails.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", "-w", str(REPOSITORY / "workspace.yaml")],
        cwd=tmp_path,
        env={**os.environ, **nowhere, "DAGSTER_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation successful for code location loglake" in done.stdout + done.stderr


def is_on(defs: dg.Definitions, lake: str) -> bool:
    """Whether the nightly maintenance of a lake runs before anybody switched it on."""
    identifier = re.sub(r"\W", "_", lake)
    schedule = defs.resolve_schedule_def(f"{identifier}__nightly_maintenance")
    return schedule.default_status is dg.DefaultScheduleStatus.RUNNING


@pytest.mark.stored
def test_workspace_yaml_of_a_fresh_clone_shows_the_lakes_of_the_demo_and_one_job_that_makes_them(
    home: Path, instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code_location = runpy.run_path(str(REPOSITORY / "loglake" / "code_location.py"))
    names = {path.name.removesuffix(".tar.xz") for path in (REPOSITORY / "samples").glob("*.tar.xz")}
    fresh = code_location["defs"]()
    shown = {key.path[0] for key in fresh.resolve_asset_graph().materializable_asset_keys}
    assert (len(names), shown) == (5, names)
    on = {name for name in names if is_on(fresh, name)}
    assert on == names, "the nightly compaction of the demo's lakes"

    samples = tmp_path / "samples"
    samples.mkdir()
    shutil.copy(REPOSITORY / "samples" / "damaged.tar.xz", samples)
    monkeypatch.setenv("DAGSTER_HOME", instance.root_directory)
    config = {"ops": {"make_lakes": {"config": {"samples": str(samples)}}}}
    with without_spark():
        demo = fresh.resolve_job_def("demo")
        assert demo.execute_in_process(instance=instance, run_config=config, raise_on_error=False).success
    assert instance.get_materialized_partitions(dg.AssetKey(["damaged", "records"]))
    made = code_location["defs"]().resolve_asset_graph().materializable_asset_keys
    assert {key.path[0] for key in made} == {"damaged"}
    assert is_on(code_location["defs"](), "damaged")
    assert not is_on(build_definitions([SHOP]), "shop")


@pytest.mark.parametrize("module", ["pipelines.definitions", "pipelines.cli", "pipelines.command.demo"])
def test_loading_brings_neither_pyspark_nor_great_expectations(module: str) -> None:
    heavy = ("pyspark", "delta", "great_expectations", "py4j")
    code = f"import sys, {module}; print([m for m in sys.modules if m.split('.')[0] in {heavy}])"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_commands_are_declared_without_dagster() -> None:
    code = "import sys, pipelines.cli; print('dagster' in sys.modules, 'deltalake' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"


def test_each_asset_comes_from_the_one_before_it(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    chain = ["log_directories", "archived_segments", "validated_segments", "records", "retained_log",
             "compacted_log", "tidy_archive", "rebuilt_indexes"]  # fmt: skip
    keys = {name: dg.AssetKey(["shop", name]) for name in (*chain, "optimized_tables")}
    assert graph.get(keys["optimized_tables"]).parent_keys == {keys["records"]}
    for before, after in itertools.pairwise(chain):
        assert graph.get(keys[after]).parent_keys == {keys[before]}


def test_every_asset_says_what_it_is_and_shows_described_columns(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    for name in ASSETS:
        node = graph.get(dg.AssetKey(["shop", name]))
        assert node.description
        assert node.partitions_def is not None
        assert node.kinds
        schema = node.metadata["dagster/column_schema"]
        assert all(column.description for column in schema.columns)


def test_dagster_shows_descriptions_as_they_are_so_they_have_no_marks(defs: dg.Definitions) -> None:
    graph, repository = defs.resolve_asset_graph(), defs.get_repository_def()
    texts = {str(key): graph.get(key).description for key in [*graph.get_all_asset_keys(), *graph.asset_check_keys]}
    shown = (*repository.get_all_jobs(), *repository.schedule_defs, *repository.sensor_defs)
    texts |= {each.name: each.description for each in shown if not each.name.startswith("__")}

    assert len(texts) > 20
    assert [name for name, text in texts.items() if not text] == []
    assert [name for name, text in texts.items() if text and set(text) & set("`*")] == []


def test_no_check_stops_a_run(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    blocking = {key.name for key in graph.asset_check_keys if graph.get(key).blocking}
    assert blocking == set()


def test_steps_that_may_start_spark_share_the_pool_that_the_instance_limits_to_one(
    defs: dg.Definitions, tmp_path: Path
) -> None:
    (tmp_path / "dagster.yaml").write_text(settings_file().read_text())
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        pools = instance.get_concurrency_config().pool_config
    assert pools.default_pool_limit == 1
    for job in ("shop__intake", "shop__maintenance"):
        nodes = defs.resolve_job_def(job).all_node_defs
        ops = [node for node in nodes if isinstance(node, dg.OpDefinition) and not node.name.endswith("__begin")]
        assert ops
        assert {op.pool for op in ops} == {"spark"}
