"""Another Dagster starts `loglake run` through Dagster Pipes, and gets its results."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logcore.exit_codes import ExitCode
from pipelines.command.history import settings_file
from tests.broker_directory import LogDirectory
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS
from tests.dagster.conftest import loglake

pytestmark = pytest.mark.dagster

COMMAND = [sys.executable, "-m", "logcore.cli.main"]
SECRET = b"value-that-nobody-may-see"


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    made = LogDirectory(tmp_path / "kafka-logs")
    for name in ("orders-0", "orders-1"):
        made.partition(name).append(7)
    made.high_watermarks(orders_0=7, orders_1=7)
    return made


def packed(value: Any) -> str:
    """A value as Dagster puts it into the environment."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()


def environment(folder: Path, **context: Any) -> dict[str, str]:
    """The variables of a step, as Dagster's client sets them."""
    told = {
        "asset_keys": ["shop/records"],
        "code_version_by_asset_key": {},
        "provenance_by_asset_key": {},
        "partition_key": None,
        "partition_key_range": None,
        "partition_time_window": None,
        "run_id": "r",
        "job_name": None,
        "retry_number": 0,
        "extras": {},
    }
    (folder / "context").write_text(json.dumps(told | context))
    return {
        "DAGSTER_PIPES_CONTEXT": packed({"path": str(folder / "context")}),
        "DAGSTER_PIPES_MESSAGES": packed({"path": str(folder / "messages")}),
    }


def messages(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "messages").read_text().splitlines()]


def params(folder: Path, method: str) -> list[dict[str, Any]]:
    return [each["params"] for each in messages(folder) if each["method"] == method]


@pytest.mark.long
def test_the_project_of_the_page_gets_materializations_checks_and_log_messages(
    home: Path, tmp_path: Path, logs: LogDirectory
) -> None:
    page = (REPOSITORY / "docs" / "dagster.md").read_text()
    (example,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "PipesSubprocessClient" in block]
    lake = tmp_path / "shop"
    (tmp_path / "project.py").write_text(
        example.replace("/var/kafka-logs", str(logs.path)).replace("/srv/lakes/shop", str(lake))
    )
    folder = tmp_path / "dagster"
    folder.mkdir()
    (folder / "dagster.yaml").write_text(settings_file().read_text())
    variables = {
        "DAGSTER_HOME": str(folder),
        "LOGLAKE_HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        [sys.executable, "-m", "dagster", "asset", "materialize", "--select", "*", "-f", "project.py"],
        cwd=tmp_path,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]

    with dg.DagsterInstance.from_config(str(folder)) as instance:
        (run,) = instance.get_runs()
        entries = instance.all_logs(run.run_id)
    made = {each.asset_key.path[-1]: each.metadata for entry in entries if (each := entry.asset_materialization)}
    checks = {each.check_name: each for entry in entries if (each := entry.asset_check_evaluation)}
    assert set(made) == {"archived_segments", "validated_segments", "records", "offset_ledger"}
    assert made["records"]["dagster/row_count"].value == 14
    assert made["records"]["records of this run"].value == 14
    assert made["records"]["bytes"].value == sum(
        path.stat().st_size for path in (lake / "tables/records").rglob("*.parquet")
    )
    assert made["records"]["offsets not published"].value == 0
    rows = made["records"]["what changed"].records
    assert [(row.data["topic partition"], row.data["rows"]) for row in rows] == [("orders-0", 7), ("orders-1", 7)]
    assert made["offset_ledger"]["offsets"].value == 14
    assert {name: each.passed for name, each in checks.items()} == {
        "sources_agree": True,
        "no_damage": True,
        "rows_equal_ledger": True,
    }
    said = [entry.user_message for entry in entries if entry.dagster_event is None]
    assert [text for text in said if text.startswith("shop: publish")]
    assert [text for text in said if text.startswith("job intake of lake shop ended")]
    assert not (home / "dagster").exists()


def run(lake: Path, logs: LogDirectory, home: Path, *more: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return loglake("run", logs.path, "--lake", lake, *more, LOGLAKE_HOME=str(home), **variables)


@pytest.mark.long
def test_damage_is_a_red_check_where_the_step_expects_it_and_a_failed_process_elsewhere(
    home: Path, tmp_path: Path, logs: LogDirectory
) -> None:
    (damaged,) = (logs.path / "orders-1").glob("*.log")
    content = bytearray(damaged.read_bytes())
    content[70] ^= 0xFF
    damaged.write_bytes(content)
    lake = tmp_path / "shop"
    expected = ["no_damage", "rows_equal_ledger", "expectations_met", "no_such_check"]

    seen = run(lake, logs, home, **environment(tmp_path, extras={"loglake_checks": expected}))
    checks = {each["check_name"]: each for each in params(tmp_path, "report_asset_check")}
    assert seen.returncode == ExitCode.CLEAN, seen.stderr
    assert list(checks) == expected
    assert {name: each["passed"] for name, each in checks.items()} == {
        "no_damage": False,
        "rows_equal_ledger": True,
        "expectations_met": True,
        "no_such_check": False,
    }
    assert checks["no_damage"]["severity"] == "ERROR"
    assert "orders-1" in checks["no_damage"]["metadata"]["description"]["raw_value"]
    assert "--fill-from" in checks["no_damage"]["metadata"]["what to do"]["raw_value"]
    warnings = [each["message"] for each in params(tmp_path, "log") if each["level"] == "WARNING"]
    assert [text for text in warnings if text.startswith("failed check no_damage")]

    (tmp_path / "messages").unlink()
    hidden = run(lake, logs, home, **environment(tmp_path, extras={"loglake_checks": ["rows_equal_ledger"]}))
    assert hidden.returncode == ExitCode.DAMAGE
    (tmp_path / "messages").unlink()
    silent = run(lake, logs, home, **environment(tmp_path))
    assert silent.returncode == ExitCode.DAMAGE
    assert params(tmp_path, "report_asset_check") == []


def test_a_step_for_one_topic_partition_gets_its_metadata(home: Path, tmp_path: Path, logs: LogDirectory) -> None:
    key = {"partition_key": "orders-1", "partition_key_range": {"start": "orders-1", "end": "orders-1"}}
    done = run(
        tmp_path / "shop",
        logs,
        home,
        "--partition",
        "orders-1",
        **environment(tmp_path, asset_keys=["sales/orders"], **key),
    )
    assert done.returncode == 0, done.stderr
    (made,) = params(tmp_path, "report_asset_materialization")
    assert made["asset_key"] == "sales/orders"
    assert made["metadata"]["dagster/partition_row_count"] == {"type": "int", "raw_value": 7}
    assert made["metadata"]["published up to offset"]["raw_value"] == 7


def test_a_failed_run_reports_its_sentence_and_no_trace(home: Path, tmp_path: Path) -> None:
    variables = environment(tmp_path)
    done = loglake("run", tmp_path / "nowhere", "--lake", tmp_path / "shop", LOGLAKE_HOME=str(home), **variables)
    assert done.returncode == ExitCode.NOT_CHECKED
    assert [each["level"] for each in params(tmp_path, "log")] == ["ERROR"]
    (closed,) = params(tmp_path, "closed")
    assert "nowhere does not exist" in closed["exception"]["message"]
    assert closed["exception"]["stack"] == []


@pytest.mark.long
@pytest.mark.parametrize(
    "variables",
    [
        {"DAGSTER_PIPES_CONTEXT": "no base64 of token=hidden", "DAGSTER_PIPES_MESSAGES": "x"},
        {
            "DAGSTER_PIPES_CONTEXT": packed({"data": {"extras": {}}}),
            "DAGSTER_PIPES_MESSAGES": packed({"path": "/no/x"}),
        },
    ],
    ids=["variables that nobody can read", "messages that cannot be written"],
)
def test_a_report_that_cannot_be_made_does_not_harm_the_run(
    home: Path, tmp_path: Path, logs: LogDirectory, variables: Mapping[str, str]
) -> None:
    done = run(tmp_path / "shop", logs, home, **variables)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("note: the report to Dagster by Pipes failed") == 1
    assert "hidden" not in done.stderr
    assert "orders-1" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("place", ["at its begin", "in its middle"])
def test_a_report_that_breaks_leaves_the_run_and_its_exit_code_as_they_are(
    home: Path, tmp_path: Path, logs: LogDirectory, place: str
) -> None:
    if place == "at its begin":
        variables = environment(tmp_path, extras={"loglake_checks": ["no_damage"]})
        os.symlink("/dev/full", tmp_path / "messages")
        error = "OSError"
    else:  # dagster_pipes opens with it, and cannot use it
        variables = environment(tmp_path, asset_keys=[7], extras={"loglake_checks": ["no_damage"]})
        error = "TypeError"
    done = run(tmp_path / "shop", logs, home, **variables)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("note: the report to Dagster by Pipes failed") == 1
    assert f"failed with {error}." in done.stderr
    assert "orders-1" in done.stdout


@pytest.mark.long
def test_without_the_variables_there_is_no_report_and_dagster_pipes_is_not_imported(
    home: Path, tmp_path: Path, logs: LogDirectory
) -> None:
    code = (
        "import sys; from logcore.cli.main import main; "
        "code = main(sys.argv[1:]); print('pipes', 'dagster_pipes' in sys.modules, 'dagster' in sys.modules)"
    )
    arguments = ["run", str(logs.path), "--lake", str(tmp_path / "shop")]
    variables = os.environ | {"LOGLAKE_HOME": str(home)}
    for _ in range(2):  # the second run has nothing to do, and so does not load Dagster, which imports dagster_pipes
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env=variables,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=True,
        )
    assert "pipes False False" in done.stdout


def test_no_message_contains_a_key_or_a_value(home: Path, tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path / "kafka-logs")
    logs.partition("orders-0").append(1, tag=SECRET)
    logs.high_watermarks(orders_0=1)
    done = run(tmp_path / "shop", logs, home, **environment(tmp_path, extras={"loglake_checks": ["no_damage"]}))
    assert done.returncode == 0, done.stderr
    assert params(tmp_path, "report_asset_materialization")
    assert SECRET.decode() not in (tmp_path / "messages").read_text()
