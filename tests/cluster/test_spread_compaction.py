"""A log cleaned by many executors, one of which is killed while it writes a group: the files of an undisturbed run."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.broker_directory import LogDirectory
from tests.cluster.standalone import CONF, StandaloneCluster, executor_of
from tests.crash.alone import Step, finish, start
from tests.crash.forks import Forks, Turn
from tests.crash.side_effects import Happening, Order, wait_for
from tests.crash.test_compaction import POLICY, archive_files, write_logs

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

PATIENCE = 400


@pytest.mark.long
def test_an_executor_killed_in_the_middle_of_a_rewrite_leaves_the_files_of_an_undisturbed_run(tmp_path: Path):
    source = LogDirectory(tmp_path / "source")
    write_logs(source)
    policies = tmp_path / "policies.yaml"
    policies.write_text(f'topics: {{"c*": {POLICY.format(spread=0)}}}')
    options: dict[str, dict[str, object]] = {"compaction": {"policies": str(policies), "apply": True}}
    forks = Forks(tmp_path)
    assert forks.run(Turn(str(tmp_path / "before"), str(source.path))).code == 0
    lakes = {name: Path(shutil.copytree(tmp_path / "before", tmp_path / name)) for name in ("undisturbed", "killed")}
    turns = {name: Turn(str(lake), str(source.path), ("compaction",), options=options) for name, lake in lakes.items()}
    undisturbed = forks.run(turns["undisturbed"])
    forks.close()
    assert undisturbed.code == 0, undisturbed.said
    marks = tmp_path / "marks"
    marks.mkdir()
    # The name of the file that a group becomes begins with its base offset.
    stopped = Happening("pause", named=f"/{0:020d}.", once=True, signals=str(marks))
    with StandaloneCluster(tmp_path) as cluster:
        process = start(tmp_path, [Step(turns["killed"], Order(str(lakes["killed"]), stopped))], cluster.address, CONF)
        try:
            wait_for(marks / "paused", PATIENCE)
            executor = executor_of(int((marks / "pid").read_text()))
            assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
            os.kill(executor, signal.SIGKILL)
        finally:
            (marks / "go-on").touch()
            (ended,) = finish(process, PATIENCE)
        assert ended.code == 0, ended.said + cluster.logs()
    assert ended.reports[0]["metrics"]["spread_logs"] == 1
    assert ended.tables == undisturbed.tables
    assert archive_files(lakes["killed"]) == archive_files(lakes["undisturbed"])
