"""`loglake ui` as a person starts it, and questions to its pages as a browser asks them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.engine.job_engine import JOB_ENGINE_VARIABLE, JobEngine
from tests.daemons import WAIT_SECONDS

LAUNCH_BACKFILL = """mutation($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
BACKFILL = """query($id: String!) { partitionBackfillOrError(backfillId: $id) {
  ... on PartitionBackfill { status numPartitions runs(limit: 50) { id status } } } }"""


@dataclass
class Pages:
    """Running pages."""

    port: int
    process: subprocess.Popen[bytes]
    log: Path
    """What the command and all its processes wrote."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """One GraphQL request, as the pages send them."""
        request = urllib.request.Request(
            f"{self.address}/graphql",
            data=json.dumps({"query": query, "variables": variables}).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:
            answer: dict[str, Any] = json.load(response)
        assert "errors" not in answer, answer
        return answer["data"]

    def backfill(self, **chosen: Any) -> dict[str, Any]:
        """Launch a backfill, wait for its end, and return its state."""
        backfill = self.ask(LAUNCH_BACKFILL, p=chosen)["launchPartitionBackfill"]["backfillId"]

        def ended() -> dict[str, Any] | None:
            state = self.ask(BACKFILL, id=backfill)["partitionBackfillOrError"]
            return state if state["status"].startswith(("COMPLETED", "FAILED", "CANCELED")) else None

        return wait_for(ended)


def wait_for(what: Callable[[], Any]) -> Any:
    """The first true answer."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if answer := what():
                return answer
        time.sleep(0.5)
    raise AssertionError(f"nothing after {WAIT_SECONDS} s")


@contextlib.contextmanager
def open_pages(home: Path, folder: Path, *options: str) -> Iterator[Pages]:
    """Pages of a home, in a session of their own; all processes are ended at the end. Their runs start no JVM."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    environment.setdefault("LOGLAKE_JARS_DIR", str(Path(os.environ["LOGLAKE_HOME"], "jars")))
    environment.setdefault(JOB_ENGINE_VARIABLE, JobEngine.LOCAL)
    log = folder / "pages.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "logcore.cli.main", "ui", "--port", str(port), *options],
            cwd=folder,
            env=environment | {"LOGLAKE_HOME": str(home)},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for(lambda: b"Ctrl-C" in log.read_bytes() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield Pages(port, process, log)
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
