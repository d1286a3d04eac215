"""A backfill that is cancelled while it works: nothing is lost, the lease is free, and the next run does the rest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

from pipelines.errors.failures import CANCELED
from spark_jobs.lake.store import lease
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS
from tests.dagster.conftest import loglake

pytestmark = [pytest.mark.dagster, pytest.mark.stored, pytest.mark.usefixtures("signals_act")]

WAITING = """
import pathlib, sys, time
from spark_jobs.publish import publish_job as job
waits = pathlib.Path(sys.argv.pop(1))
def waiting(*arguments):
    waits.touch()
    time.sleep(120)
job.apply = waiting
from dagster._cli import main
main()
"""
"""Dagster's command line, whose job `publish` waits until it is cancelled."""


def rows(lake: Path) -> list[tuple[str, int]]:
    table = DeltaTable(str(lake / "tables" / "records")).to_pyarrow_table(columns=["topic", "offset"])
    return sorted((row["topic"], row["offset"]) for row in table.to_pylist())


@pytest.mark.long
def test_a_cancelled_backfill_loses_nothing_and_the_next_run_does_the_rest(tmp_path: Path) -> None:
    source = LogDirectory(tmp_path / "kafka-logs")
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    orders.append(10)
    payments.append(10)
    source.high_watermarks(orders_0=10, payments_0=10)
    lake, home = tmp_path / "shop", tmp_path / "home"
    first = loglake("run", source.path, "--lake", lake, LOGLAKE_HOME=str(home))
    assert first.returncode == 0, first.stderr
    before = rows(lake)
    orders.append(10)
    payments.append(10)
    source.high_watermarks(orders_0=20, payments_0=20)

    tags = {
        "dagster/backfill": "planted",
        "dagster/asset_partition_range_start": "orders-0",
        "dagster/asset_partition_range_end": "payments-0",
    }
    line = [sys.executable, "-c", WAITING, str(tmp_path / "waits"), "job", "execute"]
    line += ["-m", "pipelines.definitions", "-j", "shop__intake", "--tags", json.dumps(tags)]
    variables = {**os.environ, "LOGLAKE_HOME": str(home), "DAGSTER_HOME": str(home / "dagster")}
    with subprocess.Popen(line, env=variables, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + 120
        while not (tmp_path / "waits").exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        _, errors = process.communicate(timeout=WAIT_SECONDS)
        took = time.monotonic() - begun
    assert (tmp_path / "waits").exists(), errors
    assert took < 30
    after = errors[errors.index(CANCELED) :]
    assert "Stack Trace" not in errors
    assert 'File "' not in errors
    assert "DagsterExecutionInterruptedError" in after, "our sentence comes first"
    assert not lease.is_held(str(lake), 0)
    with dg.DagsterInstance.from_config(str(home / "dagster")) as instance:
        latest = instance.get_runs(limit=1)[0]
        assert latest.tags["dagster/backfill"] == "planted"
        assert latest.status in (dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE)
    assert rows(lake) == before, "a reader sees what was there"

    again = loglake("run", source.path, "--lake", lake, LOGLAKE_HOME=str(home))
    assert again.returncode == 0, again.stderr
    assert rows(lake) == [(topic, offset) for topic in ("orders", "payments") for offset in range(20)]
