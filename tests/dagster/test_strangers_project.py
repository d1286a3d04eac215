"""`loglake_assets` in a code location of somebody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from pipelines.command.history import settings_file
from pipelines.definitions import build_definitions
from pipelines.lake_definitions import loglake_assets
from spark_jobs.contracts import Intake
from spark_jobs.errors import UsageError
from spark_jobs.lake.setup.registry import recall, registration_file
from spark_jobs.lake.view.registered_lakes import read_home, read_registered
from tests.broker_directory import LogDirectory
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS

pytestmark = pytest.mark.dagster


def dagster(
    *arguments: str, module: str = "tests.dagster.strangers_project", folder: Path = REPOSITORY, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Dagster's own command on the project."""
    return subprocess.run(
        [sys.executable, "-m", "dagster", *arguments, "-m", module],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


def test_a_project_with_its_own_asset_loads_runs_the_lake_and_makes_its_asset_of_the_records(
    home: Path, tmp_path: Path
) -> None:
    logs = LogDirectory(tmp_path / "kafka-logs")
    for name in ("orders-0", "orders-1"):
        logs.partition(name).append(7)
    logs.high_watermarks(orders_0=7, orders_1=7)
    folder = tmp_path / "dagster"
    folder.mkdir()
    (folder / "dagster.yaml").write_text(settings_file().read_text())
    variables = {
        "SHOP_LAKE": str(tmp_path / "shop"),
        "SHOP_LOGS": str(logs.path),
        "DAGSTER_HOME": str(folder),
        "LOGLAKE_HOME": str(home),
    }

    for arguments in (
        ("definitions", "validate"),
        ("job", "execute", "-j", "shop__intake"),
        ("asset", "materialize", "--select", "orders_total"),
    ):
        done = dagster(*arguments, **variables)
        assert done.returncode == 0, done.stderr[-3000:]

    with dg.DagsterInstance.from_config(str(folder)) as instance:
        keys = instance.get_materialized_partitions(dg.AssetKey(["shop", "records"]))
        event = instance.get_latest_materialization_event(dg.AssetKey("orders_total"))
    assert keys == {"orders-0", "orders-1"}
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.metadata["dagster/row_count"].value == 14


def test_a_project_whose_own_package_is_called_pipelines_loads_and_runs_a_lake(home: Path, tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path / "kafka-logs")
    logs.partition("orders-0").append(7)
    logs.high_watermarks(orders_0=7)
    package = tmp_path / "project" / "pipelines"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "catalog.py").write_text("import dagster as dg\n\n\n@dg.asset\ndef their_asset(): ...\n")
    (package / "definitions.py").write_text(
        "import dagster as dg\nfrom loglake import loglake_assets, loglake_sensors\n\n"
        "from pipelines.catalog import their_asset\n\n"
        "defs = dg.Definitions.merge(\n"
        f"    loglake_assets({str(tmp_path / 'shop')!r}, sources=[{str(logs.path)!r}]),\n"
        "    dg.Definitions(assets=[their_asset], sensors=loglake_sensors()),\n)\n"
    )
    folder = tmp_path / "dagster"
    folder.mkdir()
    variables = {"DAGSTER_HOME": str(folder), "LOGLAKE_HOME": str(home)}

    for arguments in (
        ("definitions", "validate"),
        ("job", "execute", "-j", "shop__intake"),
        ("asset", "materialize", "--select", "their_asset"),
    ):
        done = dagster(*arguments, module="pipelines.definitions", folder=package.parent, **variables)
        assert done.returncode == 0, done.stderr[-3000:]

    with dg.DagsterInstance.from_config(str(folder)) as instance:
        assert instance.get_materialized_partitions(dg.AssetKey(["shop", "records"])) == {"orders-0"}
        assert instance.get_latest_materialization_event(dg.AssetKey("their_asset")) is not None


def test_two_lakes_fit_into_one_project_and_have_what_our_own_code_location_has(home: Path, tmp_path: Path) -> None:
    lakes = [str(tmp_path / name) for name in ("shop", "store")]
    merged = dg.Definitions.merge(*(loglake_assets(lake, sources=[str(tmp_path)]) for lake in lakes))
    ours = build_definitions(read_home(str(home)).lakes)

    dg.Definitions.validate_loadable(merged)
    theirs_graph, our_graph = merged.resolve_asset_graph(), ours.resolve_asset_graph()
    assert theirs_graph.get_all_asset_keys() == our_graph.get_all_asset_keys()
    assert theirs_graph.asset_check_keys == our_graph.asset_check_keys
    assert {each.name for each in merged.schedules or ()} == {each.name for each in ours.schedules or ()}
    assert {each.name for each in ours.sensors or ()} - {each.name for each in merged.sensors or ()} == {
        "alerts",
        "later_events",
    }


def test_the_lake_is_registered_with_sources_and_policies_and_the_same_again_writes_nothing(
    home: Path, tmp_path: Path
) -> None:
    lake, policies = str(tmp_path / "shop"), tmp_path / "policies.yaml"
    policies.write_text("lake: {ingest: every 5 min}")
    loglake_assets(lake, str(policies), sources=["/kafka"])
    before = Path(registration_file(lake)).stat().st_mtime_ns
    loglake_assets(lake, str(policies), sources=["/kafka"])
    loglake_assets(lake)

    assert recall(lake).intakes == (Intake(("/kafka",), policies=str(policies)),)
    assert read_registered(lake).policy.ingest == 300_000
    assert Path(registration_file(lake)).stat().st_mtime_ns == before
    assert not Path(lake, "tables").exists()


def test_policies_without_sources_are_refused_with_one_sentence(home: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name its sources too"):
        loglake_assets(str(tmp_path / "shop"), "policies.yaml")
    assert read_home(str(home)).lakes == ()


def test_a_component_that_dg_scaffolds_has_the_definitions_of_its_lake(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    package = project / "src" / "shop_project"
    (package / "defs").mkdir(parents=True)
    (project / "pyproject.toml").write_text(
        '[project]\nname = "shop_project"\nversion = "0.1"\n[tool.dg]\ndirectory_type = "project"\n'
        '[tool.dg.project]\nroot_module = "shop_project"\n'
    )
    (package / "__init__.py").touch()
    (package / "definitions.py").write_text(
        "from pathlib import Path\n\nimport dagster as dg\n\n\n@dg.definitions\ndef defs():\n"
        "    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)\n"
    )
    variables = {"LOGLAKE_HOME": str(home), "PYTHONPATH": str(package.parent), "DAGSTER_HOME": str(tmp_path)}
    lake, logs = str(tmp_path / "shop"), str(tmp_path / "kafka-logs")

    def dg_command(*words: str) -> str:
        program = Path(sys.executable).with_name("dg")
        done = subprocess.run(
            [program, *words],
            cwd=project,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    kind = "loglake.lake_component.LakeComponent"
    assert kind in dg_command("list", "components", "--json")
    dg_command("scaffold", "defs", kind, "shop", "--lake", lake, "--sources", logs)
    assert yaml.safe_load((package / "defs" / "shop" / "defs.yaml").read_text()) == {
        "type": kind,
        "attributes": {"lake": lake, "sources": [logs]},
    }
    listed = json.loads(dg_command("list", "defs", "--json"))
    assert recall(lake).intakes == (Intake((logs,)),)
    ours = loglake_assets(lake).resolve_asset_graph()
    assert {each["asset_key"] for each in listed["assets"]} >= {
        key.to_user_string() for key in ours.materializable_asset_keys
    }
    checks = {f"{check.asset_key.to_user_string()}:{check.name}" for check in ours.asset_check_keys}
    assert {each["key"] for each in listed["asset_checks"]} == checks
    assert {"shop__intake", "shop__maintenance"} <= {each["name"] for each in listed["jobs"]}
