"""An S3-compatible server on loopback, a process of its own, and a fresh bucket a test."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_COLOUR = re.compile("\x1b\\[[0-9;]*m")


@pytest.fixture(scope="package")
def server_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file to which the server writes a line for each request."""
    return tmp_path_factory.mktemp("server") / "requests.log"


@pytest.fixture(scope="package")
def server(server_log: Path) -> Iterator[str]:
    """Its address. The environment says how to get there as long as tests of this folder run.

    Not a thread of ours: deltalake holds Python's lock in some calls, and would wait for itself.
    """
    from spark_jobs.machine.session import stop_session

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with server_log.open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
    address = f"http://127.0.0.1:{port}"
    settings = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "not-secret",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    before = dict(os.environ)
    try:
        _wait_for(address, process)
        stop_session()  # its workers would look for lakes elsewhere
        os.environ.update(settings)
        yield address
    finally:
        stop_session()
        for name in settings:
            os.environ.pop(name)
        os.environ.update({name: value for name, value in before.items() if name in settings})
        process.terminate()
        process.wait(10)


@pytest.fixture
def bucket(server: str) -> str:
    """``s3://<a bucket that only this test has>``."""
    name = f"test-{uuid.uuid4().hex}"
    with urllib.request.urlopen(urllib.request.Request(f"{server}/{name}", method="PUT")) as answer:
        assert answer.status == 200
    return f"s3://{name}"


@pytest.fixture
def requests_of(server: str, server_log: Path) -> Callable[[Callable[[], object]], list[str]]:
    """``requests_of(work)``: the requests that the server answered meanwhile, as ``GET /bucket/key?query``."""

    def count(work: Callable[[], object]) -> list[str]:
        before = server_log.stat().st_size
        work()
        # The line of a request that failed is coloured.
        text = _COLOUR.sub("", server_log.read_bytes()[before:].decode())
        return [line.split('"')[1].removesuffix(" HTTP/1.1") for line in text.splitlines() if 'HTTP/1.1"' in line]

    return count


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(address)
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
