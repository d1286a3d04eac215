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
from spark_jobs.lake.store import lease, storage
from tests.broker_directory import LogDirectory
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS
from tests.object_store.gateway import Gateway, upload
from tests.object_store.test_run import published

pytestmark = [pytest.mark.object_store, pytest.mark.usefixtures("signals_act")]

WAITING = """
import pathlib, sys, time
from spark_jobs.publish import publish_job as job
waits = pathlib.Path(sys.argv.pop(1))
def waiting(*arguments):
    waits.touch()
    time.sleep(120)
job.apply = waiting
"""
"""The job `publish` waits until it is cancelled."""
COMMAND = WAITING + "from logcore.cli.main import main\nsys.exit(main())"


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
        _, errors = process.communicate(timeout=WAIT_SECONDS)
    assert waits.exists(), errors
    return process.returncode, errors


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {"LOGLAKE_HOME": str(tmp_path / "home"), "DAGSTER_HOME": str(tmp_path / "dagster")}
    line = [sys.executable, "-m", "logcore.cli.main", "run", *arguments]
    return subprocess.run(line, env=variables, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


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
