"""An S3-compatible server on loopback, a process of its own, and a fresh bucket a test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package")
def server() -> Iterator[str]:
    """Its address. The environment says how to get there as long as tests of this folder run.

    Not a thread of ours: deltalake holds Python's lock in some calls, and would wait for itself.
    """
    from spark_jobs.machine.session import stop_session

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
