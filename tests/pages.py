"""`loglake ui` as a person starts it, and questions to its pages as a browser asks them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from spark_jobs.engine.job_engine import JOB_ENGINE_VARIABLE, JobEngine
from tests.daemons import WAIT_SECONDS, state_of

ANSWER_SECONDS = 300
"""`loglake ui` gives up a start after 180. A machine that stalls is slow, not broken."""
LOG_END = 3_000
"""So many characters of a log say what was last."""

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

        return wait_for(ended, self)


class Running(Protocol):
    """A program that a test waits for."""

    @property
    def process(self) -> subprocess.Popen[bytes]: ...

    @property
    def log(self) -> Path:
        """What it wrote."""
        ...


def wait_for(what: Callable[[], Any], *programs: Running) -> Any:
    """The first true answer. The programs must run until then."""
    deadline = time.monotonic() + ANSWER_SECONDS
    answer: object = None
    while time.monotonic() < deadline:
        try:
            if answer := what():
                return answer
        except OSError as error:
            answer = error
        if any(each.process.poll() is not None for each in programs):
            raise AssertionError(f"a program ended; the last answer is {answer!r}\n{_known_of(programs)}")
        time.sleep(0.5)
    raise AssertionError(f"nothing after {ANSWER_SECONDS} s; the last answer is {answer!r}\n{_known_of(programs)}")


def _known_of(programs: Sequence[Running]) -> str:
    """States of programs, and the end of what each wrote."""
    return "\n".join(f"{state_of(p.process)}\n{p.log.read_text(errors='replace')[-LOG_END:]}" for p in programs)


def free_port() -> int:
    """A port on which no program listens. No connection of another process takes it: Linux gives those higher ones."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def open_pages(home: Path, folder: Path, *options: str) -> Iterator[Pages]:
    """Pages of a home, in a session of their own; all processes are ended at the end. Their runs start no JVM."""
    port = free_port()
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
    pages = Pages(port, process, log)
    try:
        wait_for(lambda: b"Ctrl-C" in log.read_bytes(), pages)
        yield pages
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
