"""Real log directories on the standalone cluster: the tables of one process, and the records of the real consumers.

Source and lake lie on a disk, or in a bucket. A test that is drawn tries one snapshot of the corpus; `make test-long`
tries every one on a disk, and some in a bucket.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.errors import JobError
from tests import sampling
from tests.cluster.standalone import CONF, StandaloneCluster
from tests.conformance.conftest import Corpus
from tests.conformance.lakes import EVERYTHING, TABLE_OF, CorpusLake, by_log, write_policies
from tests.conformance.snapshots import SNAPSHOTS, Snapshot
from tests.conformance.test_tables import same_as_consumed
from tests.crash import visible
from tests.crash.alone import Step, finish, start
from tests.crash.forks import Ended, Turn, run
from tests.in_process import without_spark
from tests.object_store.conftest import environment_set
from tests.object_store.gateway import NoGateway, serving, upload
from tests.object_store.test_run import rows

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.long]

EVERY_SNAPSHOT = os.environ.get("LOGLAKE_TEST_EVERY_SNAPSHOT") == "1"
CONSUMED = [snapshot for snapshot in SNAPSHOTS if snapshot.consumed]
ON_DISK = SNAPSHOTS if EVERY_SNAPSHOT else sampling.drawn(CONSUMED, 1, "snapshots on the cluster")
IN_BUCKET = sampling.drawn(CONSUMED, 8 if EVERY_SNAPSHOT else 1, "snapshots in buckets on the cluster")
PATIENCE = 300 + 60 * len(ON_DISK)
"""Seconds until the process is given up: it takes some seconds for each snapshot where nothing else runs."""


@dataclass(frozen=True, slots=True)
class Journeys:
    """What became of the snapshots on the cluster.

    Attributes:
        on_disk: By snapshot; the lake is the folder `cluster` below its own.
        in_bucket: By snapshot and its bucket; the source is its prefix `logs`, the lake its prefix `lake`.
        why_none: Why nothing lies in a bucket.
    """

    corpus: Corpus
    folder: Path
    on_disk: dict[Snapshot, Ended]
    in_bucket: dict[tuple[Snapshot, str], Ended]
    why_none: str

    def turn(self, snapshot: Snapshot, name: str) -> Turn:
        """Publish all topics of a snapshot on a disk at both isolation levels, into a lake of this name."""
        folder = self.folder / snapshot.case / snapshot.name
        folder.mkdir(parents=True, exist_ok=True)
        source, policies = str(self.corpus.directory(snapshot)), write_policies(snapshot, folder)
        return Turn(str(folder / name), source, policies=policies, options={"publish": EVERYTHING})

    def in_one_process(self, snapshot: Snapshot) -> tuple[Turn, dict[str, list[str]] | str]:
        """What was done without a cluster; and the tables, or why the load was refused."""
        turn, said = self.turn(snapshot, "process"), dict[str, Any]()
        try:
            with without_spark():
                run(turn, said)
        except JobError as error:
            return turn, f"{type(error).__name__}: {error}".replace(turn.lake, "LAKE")
        return turn, said["tables"]


@pytest.fixture(scope="module")
def journeys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journeys]:
    """One application does everything. The bucket can be reached as long as the tests of this module run."""
    folder = tmp_path_factory.mktemp("journeys")
    done = Journeys(Corpus(folder / "corpus"), folder, {}, {}, "")
    steps = [Step(done.turn(snapshot, "cluster")) for snapshot in ON_DISK]
    with ExitStack() as stack:
        buckets: dict[Snapshot, str] = {}
        settings: dict[str, str] = {}
        try:
            (folder / "objects").mkdir()
            gateway = stack.enter_context(serving(Path(os.environ["LOGLAKE_HOME"]), folder / "objects"))
            settings = gateway.settings
            stack.enter_context(environment_set(settings))
            buckets = {snapshot: gateway.bucket(f"corpus-{number}") for number, snapshot in enumerate(IN_BUCKET)}
        except NoGateway as error:
            done = Journeys(done.corpus, folder, done.on_disk, done.in_bucket, str(error))
        for snapshot, bucket in buckets.items():
            upload(done.corpus.directory(snapshot), f"{bucket}/logs")
            of_disk = done.turn(snapshot, "cluster")
            more = {"policies": of_disk.policies, "options": of_disk.options}
            steps.append(Step(Turn(f"{bucket}/lake", f"{bucket}/logs", **more)))
        with StandaloneCluster(folder) as cluster:
            ended = finish(start(folder, steps, cluster.address, CONF, settings), PATIENCE)
        done.on_disk.update(zip(ON_DISK, ended, strict=False))
        done.in_bucket.update(zip(buckets.items(), ended[len(ON_DISK) :], strict=True))
        yield done


def test_tables_from_a_cluster_are_those_of_one_process_and_hold_what_consumers_received(journeys: Journeys) -> None:
    for snapshot, ended in journeys.on_disk.items():
        lake = Path(journeys.turn(snapshot, "cluster").lake)
        _, expected = journeys.in_one_process(snapshot)
        if isinstance(expected, str):
            assert ended.said.replace(str(lake), "LAKE") == expected, snapshot
            continue
        assert ended.code == 0, f"{snapshot}: {ended.said}"
        assert ended.tables == expected, snapshot
        assert expected["segments"] or snapshot.name == "remote", f"{snapshot}: a remote store is no log directory"
        for isolation_level in snapshot.consumed:
            found = CorpusLake(lake).consumed(isolation_level)
            same_as_consumed(journeys.corpus, snapshot, isolation_level, found)
    assert list(journeys.on_disk) == list(ON_DISK)


def test_so_are_those_from_a_bucket_into_a_bucket(journeys: Journeys) -> None:
    if journeys.why_none:
        pytest.skip(journeys.why_none)
    for (snapshot, bucket), ended in journeys.in_bucket.items():
        assert ended.code == 0, f"{snapshot}: {ended.said}"
        local, expected = journeys.in_one_process(snapshot)
        assert expected["segments"], snapshot
        for table in visible.TABLES:
            assert rows(f"{bucket}/lake", table, f"{bucket}/logs") == rows(local.lake, table, local.source), table
        for isolation_level in snapshot.consumed:
            found = by_log(rows(f"{bucket}/lake", TABLE_OF[isolation_level]))
            same_as_consumed(journeys.corpus, snapshot, isolation_level, found)
    assert [snapshot for snapshot, _ in journeys.in_bucket] == IN_BUCKET
