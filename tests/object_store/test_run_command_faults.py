"""`loglake run` from an object store that fails: one line, the exit code of the contract, and the next run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.lake.delta.tables.snapshots import open_dataset, open_table
from tests.broker_directory import LogDirectory
from tests.daemons import WAIT_SECONDS
from tests.object_store.faults import Answer, FaultyProxy, Request
from tests.object_store.gateway import Gateway, upload

pytestmark = [pytest.mark.object_store, pytest.mark.dagster]

SEGMENT = f"{0:020d}.log"
RECORDS = 50


class Place:
    """A source of two logs in a bucket, a lake on the disk, and the command between them."""

    def __init__(self, folder: Path, url: str, proxy: FaultyProxy) -> None:
        self.url, self.lake, self.proxy = url, str(folder / "lake"), proxy
        self._home = folder / "home"
        logs = LogDirectory(folder / "source")
        for name in ("orders-0", "orders-1"):
            logs.partition(name).append(RECORDS)
        logs.high_watermarks(orders_0=RECORDS, orders_1=RECORDS)
        upload(logs.path, url)

    def start(self) -> subprocess.Popen[str]:
        own = {"LOGLAKE_HOME": str(self._home), "DAGSTER_HOME": str(self._home / "dagster")}
        return subprocess.Popen(
            [sys.executable, "-m", "logcore.cli.main", "run", self.url, "--lake", self.lake, "--engine", "local"],
            env=os.environ | own | {"AWS_ENDPOINT_URL": self.proxy.address},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self) -> tuple[int, str]:
        """Run it to its end; its exit code and stderr."""
        process = self.start()
        _, stderr = process.communicate(timeout=WAIT_SECONDS)
        return process.returncode, stderr

    def published(self) -> list[tuple[str, int, int]]:
        table = open_table(self.lake, "records")
        if table is None:
            return []
        columns = ["topic", "partition", "offset"]
        rows = open_dataset(self.lake, "records", table).to_table(columns=columns).to_pylist()
        return sorted((row["topic"], row["partition"], row["offset"]) for row in rows)


ALL = [("orders", partition, offset) for partition in (0, 1) for offset in range(RECORDS)]


@pytest.fixture
def place(gateway: Gateway, gateway_bucket: str, tmp_path: Path) -> Iterator[Place]:
    with FaultyProxy(gateway.address) as proxy:
        yield Place(tmp_path, f"{gateway_bucket}/logs", proxy)


@pytest.mark.long
def test_expired_credentials_are_one_error_and_exit_code_3_before_the_first_run_and_after_it(place: Place) -> None:
    expired = Answer.error(400, "ExpiredToken")
    place.proxy.rule = lambda request: expired
    code, stderr = place.run()
    (line,) = stderr.splitlines()
    assert (code, "have expired: ExpiredToken. Renew them" in line) == (3, True), stderr
    assert not os.path.lexists(place.lake)
    place.proxy.rule = None
    assert place.run()[0] == 0
    assert place.published() == ALL
    place.proxy.rule = lambda request: expired
    code, stderr = place.run()
    line, advice = stderr.strip().splitlines()
    assert advice.startswith("  What to do about unreadable: ")
    assert (code, "have expired: ExpiredToken. Renew them" in line) == (3, True), stderr
    assert place.published() == ALL


@pytest.mark.long
def test_a_run_that_is_killed_while_it_reads_an_object_is_completed_by_the_next(place: Place) -> None:
    reached, killed = threading.Event(), threading.Event()

    def rule(request: Request) -> Answer | None:
        if request.method == "GET" and request.path.endswith(f"orders-1/{SEGMENT}"):
            reached.set()
            killed.wait(60)
        return None

    place.proxy.rule = rule
    process = place.start()
    assert reached.wait(60)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=WAIT_SECONDS)
    killed.set()
    assert len(place.published()) < len(ALL)
    place.proxy.rule = None
    assert place.run()[0] == 0
    assert place.published() == ALL
