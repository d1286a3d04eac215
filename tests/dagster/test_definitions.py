"""The code location loads, says what it is, and brings nothing heavy."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from pipelines.command.history import settings_file
from pipelines.definitions import defs
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.dagster

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


def test_the_definitions_can_be_loaded() -> None:
    dg.Definitions.validate_loadable(defs)


def test_workspace_yaml_is_valid_from_another_directory_and_without_a_network(tmp_path: Path) -> None:
    # An unreachable proxy stands for a missing network: whoever tries to reach out, fails.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", "-w", str(REPOSITORY / "workspace.yaml")],
        cwd=tmp_path,
        env={**os.environ, **nowhere, "DAGSTER_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation successful for code location loglake" in done.stdout + done.stderr


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


def test_each_asset_comes_from_the_one_before_it() -> None:
    graph = defs.resolve_asset_graph()
    chain = ["kafka_log_directories", "archived_segments", "validated_segments", "records", "retained_log",
             "compacted_log", "tidy_archive", "rebuilt_indexes"]  # fmt: skip
    assert graph.get(dg.AssetKey("optimized_tables")).parent_keys == {dg.AssetKey("records")}
    for before, after in itertools.pairwise(chain):
        assert graph.get(dg.AssetKey(after)).parent_keys == {dg.AssetKey(before)}


def test_every_asset_says_what_it_is_and_shows_described_columns() -> None:
    graph = defs.resolve_asset_graph()
    for name in ASSETS:
        node = graph.get(dg.AssetKey(name))
        assert node.description
        assert node.partitions_def is not None
        assert node.kinds
        schema = node.metadata["dagster/column_schema"]
        assert all(column.description for column in schema.columns)


def test_only_the_ledger_check_stops_a_run() -> None:
    graph = defs.resolve_asset_graph()
    blocking = {key.name for key in graph.asset_check_keys if graph.get(key).blocking}
    assert blocking == set()


def test_steps_that_may_start_spark_share_the_pool_that_the_instance_limits_to_one(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text(settings_file().read_text())
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        pools = instance.get_concurrency_config().pool_config
    assert pools.default_pool_limit == 1
    for job in ("loglake", "maintenance"):
        nodes = defs.resolve_job_def(job).all_node_defs
        ops = [node for node in nodes if isinstance(node, dg.OpDefinition) and not node.name.startswith("begin_")]
        assert ops
        assert {op.pool for op in ops} == {"spark"}
