"""A store that stops answering ends in an error within the stated time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from logcore.storage.objects import answers, settings
from spark_jobs.errors import CommitUnanswered, StorageError, UsageError
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.tables import snapshots
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES
from tests.daemons import WAIT_SECONDS
from tests.object_store.stalling import StallingProxy

SECONDS = 3
"""What LOGLAKE_STORE_TIMEOUT is here."""
SLACK = 4
"""For a busy machine."""

ROW = pa.Table.from_pylist([dict.fromkeys(TABLES["logs"].schema.names)], schema=TABLES["logs"].schema)


@pytest.fixture
def proxy(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[StallingProxy]:
    """Between this process and the store."""
    with StallingProxy(server) as between:
        monkeypatch.setenv("AWS_ENDPOINT_URL", between.address)
        monkeypatch.setenv(settings.TIMEOUT_VARIABLE, str(SECONDS))
        answers.silence.ended()
        yield between
        answers.silence.ended()


OPERATIONS: dict[str, Callable[[str], object]] = {
    "read": lambda lake: storage.read(f"{lake}/file"),
    "put": lambda lake: storage.put(f"{lake}/file", b"other"),
    "create": lambda lake: storage.create(f"{lake}/new", b"content"),
    "list": lambda lake: list(storage.files_below(lake)),
    "delete": lambda lake: storage.delete(f"{lake}/file"),
    "open a table": lambda lake: snapshots.open_table(lake, "logs"),
    "commit": lambda lake: commits.append(lake, "logs", ROW, "run"),
    "read rows": lambda lake: snapshots.read_rows(lake, "logs"),
    "read through arrow": lambda lake: storage.arrow_filesystem(lake).open_input_file("file").read(),
}


@pytest.mark.long
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_is_not_answered_ends_within_the_stated_time(bucket, proxy, operation):
    lake = f"{bucket}/lake"
    storage.put(f"{lake}/file", b"content")
    commits.append(lake, "logs", ROW, "run")
    OPERATIONS[operation](lake)  # it works until then
    if operation == "delete":
        storage.put(f"{lake}/file", b"content")
    proxy.stall()
    started = time.monotonic()
    with pytest.raises((StorageError, CommitUnanswered, OSError)) as ended:
        OPERATIONS[operation](lake)
    assert time.monotonic() - started < SECONDS + SLACK
    assert "\x1b" not in str(ended.value)


def test_the_error_names_store_and_time_and_what_follows_fails_at_once(bucket, proxy):
    lake = f"{bucket}/lake"
    storage.put(f"{lake}/file", b"content")
    proxy.stall()
    with pytest.raises(StorageError, match=r"did not answer for \d+ seconds") as first:
        storage.read(f"{lake}/file")
    assert proxy.address in str(first.value)
    assert f"{settings.TIMEOUT_VARIABLE} is {SECONDS}" in str(first.value)
    started = time.monotonic()
    for _ in range(100):
        with pytest.raises(StorageError, match="did not answer"):
            storage.read(f"{lake}/file")
    assert time.monotonic() - started < SECONDS + SLACK


@pytest.mark.long
def test_a_store_that_answers_again_is_asked_again(bucket, proxy, server, monkeypatch):
    lake = f"{bucket}/lake"
    storage.put(f"{lake}/file", b"content")
    proxy.stall()
    with pytest.raises(StorageError):
        storage.read(f"{lake}/file")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    time.sleep(SECONDS / 2)
    assert storage.read(f"{lake}/file") == b"content"
    assert storage.read(f"{lake}/file") == b"content"


@pytest.mark.parametrize("said", ["0", "soon", "-3", "nan"])
def test_a_time_that_is_none_is_a_mistake_of_the_caller(bucket, proxy, monkeypatch, said):
    monkeypatch.setenv(settings.TIMEOUT_VARIABLE, said)
    with pytest.raises(UsageError, match=settings.TIMEOUT_VARIABLE):
        storage.read(f"{bucket}/lake/file")


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.dagster
@pytest.mark.parametrize("requests", [25, 150, 400])
def test_a_run_ends_when_the_store_stops_answering_in_the_middle_of_it(bucket, proxy, tmp_path: Path, sample, requests):
    proxy.stall_after = requests
    environment = os.environ | {"LOGLAKE_HOME": str(tmp_path / "home"), "DAGSTER_HOME": str(tmp_path / "dagster")}
    source = sample("transactions-4.4.0").logdir
    command = [sys.executable, "-m", "logcore.cli.main", "run", str(source), "--lake", f"{bucket}/lake"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    ended = time.monotonic()
    assert proxy.stalled_at is not None, f"{proxy.requests} requests"
    assert ended - proxy.stalled_at < 40  # the bound in README is about the store; Spark and Dagster end too
    assert done.returncode == 3
    said = done.stderr
    assert said.startswith("error: ")
    assert said.count("\n") <= 3
    assert "\x1b" not in done.stderr
    assert "Traceback" not in done.stderr
