"""S3-compatible servers on loopback, each a process of its own, and a fresh bucket a test.

`server` is moto: always there, slow. `gateway` is versitygw: fast and strict, and skipped where it cannot be built.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logcore.storage.objects import answers, settings
from tests.object_store.faults import FaultyProxy
from tests.object_store.gateway import Gateway, NoGateway, serving, wait_for_answer

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
    try:
        wait_for_answer(address, process)
        with environment_set(settings):
            yield address
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def environment_set(settings: dict[str, str]) -> Iterator[None]:
    """Set environment variables, for this process and for workers that start inside."""
    from spark_jobs.engine.local_executor import get_local_executor
    from spark_jobs.engine.session import stop_session

    before = {name: os.environ.get(name) for name in settings}
    stop_session()  # its workers would look for lakes elsewhere
    get_local_executor().stop()
    os.environ.update(settings)
    try:
        yield
    finally:
        stop_session()
        get_local_executor().stop()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


@pytest.fixture(scope="session")
def running_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """versitygw over a directory of this session."""
    folder = tmp_path_factory.mktemp("gateway") / "objects"
    folder.mkdir()
    try:
        with serving(Path(os.environ["LOGLAKE_HOME"]), folder) as gateway:
            yield gateway
    except NoGateway as error:
        pytest.skip(str(error))


@pytest.fixture
def gateway(running_gateway: Gateway) -> Iterator[Gateway]:
    """The server; the environment says how to reach it as long as the test runs."""
    with environment_set(running_gateway.settings):
        yield running_gateway


@pytest.fixture
def gateway_bucket(gateway: Gateway) -> str:
    """``s3://<a bucket that only this test has>``."""
    return gateway.bucket(f"test-{uuid.uuid4().hex}")


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


@pytest.fixture
def proxy(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """Between this process and the store."""
    with FaultyProxy(server) as between:
        monkeypatch.setenv("AWS_ENDPOINT_URL", between.address)
        monkeypatch.setenv(settings.TIMEOUT_VARIABLE, "6")
        answers.silence.ended()
        yield between
        answers.silence.ended()
