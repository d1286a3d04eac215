"""The key of an object store is in no output, in no file of the home, and in no object of the lake."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from logcore.storage.objects.listing import pages
from spark_jobs.lake.store import storage
from tests.broker_directory import LogDirectory
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS
from tests.object_store.gateway import upload

pytestmark = [pytest.mark.object_store, pytest.mark.dagster]

SECRET = "planted-store-key"


@pytest.mark.long
def test_the_secret_key_of_a_store_is_in_no_output_and_is_stored_nowhere(server: str, bucket: str, tmp_path: Path):
    source = LogDirectory(tmp_path / "source")
    source.partition("orders-0").append(10)
    source.high_watermarks(orders_0=10)
    upload(source.path, f"{bucket}/logs")
    home = tmp_path / "home"
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    environment |= {"LOGLAKE_HOME": str(home), "AWS_SECRET_ACCESS_KEY": SECRET, "LOGLAKE_STORE_TIMEOUT": "6"}

    def said(expected: tuple[int, ...], *words: str, **more: str) -> bytes:
        line = [sys.executable, "-m", "logcore.cli.main", *words]
        done = subprocess.run(
            line, env=environment | more, cwd=REPOSITORY, capture_output=True, timeout=WAIT_SECONDS, check=False
        )
        assert done.returncode in expected, done.stderr.decode()
        return done.stdout + done.stderr

    lake = f"{bucket}/lake"
    outputs = [
        said((0,), "run", f"{bucket}/logs", "--lake", lake),
        said((0,), "verify", "--log-level", "debug", lake),
        said((0, 1), "doctor", "--lake", lake),
        said((0,), "metrics", lake),
        said((3,), "ls", "--log-level", "debug", "s3://no-such-bucket/logs"),
        said((3,), "run", f"{bucket}/logs", "--lake", lake, AWS_ENDPOINT_URL="http://127.0.0.1:9"),
    ]
    assert b"orders-0" in outputs[0]
    assert [text for text in outputs if SECRET.encode() in text] == []
    kept = [path for path in home.rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in kept)
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []
    objects = [f"{bucket}/{each.key}" for page in pages(lake) for each in page]
    assert len(objects) > 10
    assert [name for name in objects if SECRET.encode() in bytes(storage.read(name))] == []
