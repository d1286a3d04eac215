"""Real log directories from a bucket into a bucket: the tables of a local lake, and the records of the real consumers.

`make test` tries some snapshots of the corpus, `make test-long` tries every one.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs import launch
from spark_jobs.errors import JobError
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES
from tests import sampling
from tests.conformance.conftest import Corpus
from tests.conformance.lakes import TABLE_OF, by_log, journey
from tests.conformance.snapshots import SNAPSHOTS, Snapshot
from tests.conformance.test_tables import same_as_consumed
from tests.object_store.conftest import environment_set
from tests.object_store.gateway import Gateway, upload
from tests.object_store.test_run import rows

pytestmark = pytest.mark.object_store

EVERY_SNAPSHOT = os.environ.get("LOGLAKE_TEST_EVERY_SNAPSHOT") == "1"
CONSUMED = [snapshot for snapshot in SNAPSHOTS if snapshot.consumed]
DRAWN = sampling.drawn(CONSUMED, 3, "snapshots in buckets")


@pytest.fixture(scope="module")
def reached(running_gateway: Gateway) -> Iterator[Gateway]:
    """The server, for all tests of this module: their worker processes start once."""
    with environment_set(running_gateway.settings):
        yield running_gateway


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(tmp_path_factory.mktemp("corpus"))


def load(snapshot: Snapshot, source: str, lake: str, folder: Path) -> str | None:
    """Publish all topics; returns why that is refused, without the place."""
    try:
        for config in journey(snapshot, source, lake, folder):
            launch.run(config, engine="local")
    except JobError as error:
        return str(error).replace(source, "SOURCE").replace(lake, "LAKE")
    return None


def without_empty_folders(logdir: Path) -> Path:
    """What a bucket can hold of a log directory: a copy without empty folders, or the directory itself."""
    empty = [path for path in logdir.rglob("*") if path.is_dir() and not any(path.iterdir())]
    if not empty:
        return logdir
    copy = logdir.with_name(f"{logdir.name}-without-empty-folders")
    shutil.copytree(logdir, copy)
    for path in empty:
        copy.joinpath(path.relative_to(logdir)).rmdir()
    return copy


@pytest.mark.long
@pytest.mark.parametrize("snapshot", SNAPSHOTS if EVERY_SNAPSHOT else DRAWN, ids=str)
def test_tables_are_those_of_a_local_lake_and_hold_what_consumers_received(reached, corpus, tmp_path, snapshot):
    logdir, bucket = without_empty_folders(corpus.directory(snapshot)), reached.bucket(f"corpus-{uuid.uuid4().hex}")
    source, remote, local = f"{bucket}/broker/logs", f"{bucket}/lake", str(tmp_path / "lake")
    upload(logdir, source)
    expected = load(snapshot, str(logdir), local, tmp_path)
    assert load(snapshot, source, remote, tmp_path) == expected
    for table in TABLES:
        assert rows(remote, table, source) == rows(local, table, str(logdir)), table
    segments = rows(remote, "segments")
    assert segments or expected or snapshot.name == "remote", "a remote store is no log directory"
    for segment in segments:
        assert storage.read(f"{remote}/{segment['path']}") == Path(local, segment["path"]).read_bytes()
    for isolation_level in snapshot.consumed:
        found = by_log(rows(remote, TABLE_OF[isolation_level]))
        same_as_consumed(corpus, snapshot, isolation_level, found)
