"""The jobs on a real Spark cluster: tables as from one process, with an executor killed and a zombie on the way."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.cluster.standalone import CONF, StandaloneCluster, executor_of
from tests.crash.alone import Step, finish, start
from tests.crash.forks import Ended, Turn
from tests.crash.prepared import Prepared
from tests.crash.side_effects import Happening, Order, wait_for
from tests.spark.test_starting import run_secrets_script

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

PATIENCE = 400
"""Seconds until a step is given up: it takes ten where nothing else runs."""

SPECULATION = {
    "spark.speculation": "true",
    # a stage of one task has no others to be compared with
    "spark.speculation.task.duration.threshold": "2s",
    # the slower attempt is left alive, so that it can go on when the other has been committed
    "spark.python.task.killTimeout": "600s",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return Prepared(tmp_path_factory.mktemp("prepared"))


@pytest.mark.long
def test_the_whole_journey_with_an_executor_killed_in_the_middle_of_publishing(cluster, prepared):
    lake, marks = prepared.scratch / "lake-journey", prepared.scratch / "marks-journey"
    marks.mkdir()
    stopped = Happening("pause", named="close tables/records/", once=True, signals=str(marks))
    turn = Turn(str(lake), str(prepared.source.path))
    process = start(prepared.scratch, [Step(turn, Order(str(lake), stopped))], cluster.address, CONF)
    try:
        wait_for(marks / "paused", PATIENCE)
        worker = int((marks / "pid").read_text())
        executor = executor_of(worker)
        assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
        os.kill(executor, signal.SIGKILL)
    finally:
        (marks / "go-on").touch()
        (ended,) = finish(process, PATIENCE)
    assert ended.code == 0, ended.said + cluster.logs()
    assert ended.tables == prepared.after["publish"]


@pytest.mark.long
def test_a_slow_attempt_that_goes_on_after_the_faster_one_was_committed_adds_nothing(cluster, prepared):
    lake, marks = prepared.scratch / "lake-zombie", prepared.scratch / "marks-zombie"
    marks.mkdir()
    shutil.copytree(prepared.scratch / "before-publish", lake)
    slow = Happening("pause", named="close tables/records/", once=True, signals=str(marks))
    lake_and_source = (str(lake), str(prepared.source.path))
    steps = [
        Step(Turn(*lake_and_source, ("publish",)), Order(str(lake), slow)),
        # The application stays until the slow attempt has done what it can.
        Step(Turn(*lake_and_source), after=str(marks / "resumed")),
    ]
    process = start(prepared.scratch, steps, cluster.address, CONF | SPECULATION)
    try:
        wait_for(marks / "paused", PATIENCE)
        wait_for(lake / "tables" / "records" / "_delta_log" / f"{1:020d}.json", PATIENCE)
    finally:
        (marks / "go-on").touch()
        published, after = finish(process, PATIENCE)
    assert published.code == 0, published.said + cluster.logs()
    assert published.tables == prepared.after["publish"]
    assert (marks / "resumed").exists()
    named = _live(lake)
    written = {path.name for path in (lake / "tables" / "records").rglob("*.parquet")}
    assert written > named, "the slow attempt wrote nothing: it was no zombie"
    _equal(after, prepared.after["publish"])


def _live(lake: Path) -> set[str]:
    table = DeltaTable(str(lake / "tables" / "records"))
    return {os.path.basename(uri) for uri in table.file_uris()}


def _equal(ended: Ended, tables: dict[str, list[str]]) -> None:
    assert ended.code == 0, ended.said
    assert ended.tables == tables


@pytest.mark.long
def test_executors_get_credentials_without_a_command_line_that_shows_them(cluster, tmp_path):
    given, (first, second) = run_secrets_script(
        tmp_path, CONF, LOGLAKE_SPARK_MASTER=cluster.address, LOGLAKE_HOME=str(tmp_path / "home")
    )
    assert first["java"]
    assert first["seen"] == second["seen"] == []
    assert first["worker"] == given
    assert second["worker"] == [f"{value}-new" for value in given]
