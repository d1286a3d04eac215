"""A run on a lake in a bucket that is cancelled while it works: the lease is free at once, and the next run goes on.

Here nothing but the run itself frees the lease: of a killed process it is free only after two minutes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from logcore.exit_codes import ExitCode
from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, ValidateConfig
from spark_jobs.lake.store import lease, storage
from tests.broker_directory import LogDirectory
from tests.conftest import REPOSITORY
from tests.object_store.gateway import Gateway, upload
from tests.object_store.test_run import published
from tests.spark.cycle import AS_OF_MS

pytestmark = [pytest.mark.object_store, pytest.mark.usefixtures("signals_act")]

WAITING = """
import pathlib, sys, time
from spark_jobs.publish import job
waits = pathlib.Path(sys.argv.pop(1))
def waiting(*arguments):
    waits.touch()
    time.sleep(120)
job.apply = waiting
"""
"""The job `publish` waits until it is cancelled."""
COMMAND = WAITING + "from logcore.cli.main import main\nsys.exit(main())"
STARTS_A_JOB = """
import sys
from spark_jobs import launch
from spark_jobs.contracts import PublishConfig
_, _, lake, as_of_ms = sys.argv
launch.run("publish", PublishConfig(lake, "run-1", int(as_of_ms)), mode="subprocess", engine="local")
"""


@pytest.fixture
def source(gateway_bucket: str, tmp_path: Path) -> str:
    logs = LogDirectory(tmp_path / "logs")
    logs.partition("orders-0").append(20)
    logs.high_watermarks(orders_0=20)
    upload(logs.path, f"{gateway_bucket}/logs")
    return f"{gateway_bucket}/logs"


def cancel(tmp_path: Path, program: str, number: signal.Signals, *arguments: str) -> tuple[int, str]:
    """Start the program, send it the signal when `publish` works; returns exit code and standard error."""
    waits = tmp_path / "waits"
    variables = os.environ | {"LOGLAKE_HOME": str(tmp_path / "home"), "DAGSTER_HOME": str(tmp_path / "dagster")}
    line = [sys.executable, "-c", program, str(waits), *arguments]
    with subprocess.Popen(line, env=variables, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + 120
        while not waits.exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert waits.exists(), errors
    return process.returncode, errors


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {"LOGLAKE_HOME": str(tmp_path / "home"), "DAGSTER_HOME": str(tmp_path / "dagster")}
    line = [sys.executable, "-m", "logcore.cli.main", "run", *arguments]
    return subprocess.run(line, env=variables, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_cancelled_run_frees_the_lease_and_the_next_run_does_the_rest(
    gateway: Gateway, gateway_bucket, tmp_path, source, number
):
    lake = f"{gateway_bucket}/lake"
    code, errors = cancel(tmp_path, COMMAND, number, "run", source, "--lake", lake)
    assert (code, errors.splitlines()[-1]) == (
        ExitCode.INTERRUPTED,
        "interrupted: what was committed stays. Run the same command again to continue.",
    )
    assert not lease.is_held(lake, storage.clock_ms(lake))
    done = run(tmp_path, source, "--lake", lake)
    assert done.returncode == 0, done.stderr
    assert published(lake) == [("orders", 0, offset, b"v%d" % offset) for offset in range(20)]


@pytest.mark.long
def test_a_job_in_a_process_of_its_own_frees_the_lease_when_the_process_that_started_it_is_cancelled(
    gateway: Gateway, gateway_bucket, tmp_path, source, monkeypatch
):
    lake = f"{gateway_bucket}/lake"
    for config in (IngestConfig(lake, (source,), "run-1", AS_OF_MS), ValidateConfig(lake, "run-1", AS_OF_MS)):
        launch.run(config.JOB, config, engine="local")
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "sitecustomize.py").write_text(WAITING.replace("sys.argv.pop(1)", repr(str(tmp_path / "waits"))))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(planted), str(REPOSITORY))))
    code, errors = cancel(tmp_path, STARTS_A_JOB, signal.SIGINT, lake, str(AS_OF_MS))
    assert code != 0
    assert "KeyboardInterrupt" in errors
    assert not lease.is_held(lake, storage.clock_ms(lake))
