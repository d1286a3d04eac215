"""`latest` of a large log on Spark, killed before each commit and in the middle of a file: each key once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.standalone import CONF, StandaloneCluster, executor_of
from tests.crash.alone import Step, finish, start
from tests.crash.forks import Forks
from tests.crash.side_effects import Happening, Order, wait_for
from tests.crash.test_latest import MANY_TASKS, POLICY, TABLE, rows
from tests.crash.topic_scene import GROWN, TopicScene, make_topic_scene

pytestmark = [pytest.mark.cluster, pytest.mark.crash, pytest.mark.spark]

PATIENCE = 400


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicScene]:
    """New rows in two logs of a table that has rows; every log goes through the shuffle."""
    scratch = tmp_path_factory.mktemp("latest")
    forks = Forks(scratch)
    yield make_topic_scene(
        "latest",
        (TABLE,),
        GROWN,
        [forks],
        scratch,
        policies=(POLICY % ("delete", MANY_TASKS), POLICY % ("soft-delete", MANY_TASKS)),
        rows=rows,
        constants={"spark_jobs.latest.latest_task.PART_BYTES": 1_000, "spark_jobs.newest.hash_ranges.RANGE_ROWS": 3},
    )
    forks.close()


@pytest.fixture(scope="module")
def commits(scene: TopicScene) -> list[str]:
    names = [name for name in dict.fromkeys(scene.effects) if name.startswith("commit ")]
    assert f"commit tables/{TABLE}" in names
    return names


@pytest.mark.long
def test_a_driver_killed_before_each_commit_leaves_what_the_next_run_completes(
    scene: TopicScene, commits: list[str]
) -> None:
    lakes = [scene.lake(f"driver-{number}") for number in range(len(commits))]
    for lake, commit in zip(lakes, commits, strict=True):
        turn = scene.turn(lake, happening=Happening("kill", named=commit))
        killed = start(scene.scratch, [Step(turn)], "local[2]")
        _, said = killed.communicate(timeout=PATIENCE)
        assert killed.returncode == -signal.SIGKILL, f"not killed before {commit}: {said[-2000:]}"
    again = [Step(scene.turn(lake, look_first=True)) for lake in lakes]
    ended = finish(start(scene.scratch, again, "local[2]"), PATIENCE)
    assert len(ended) == len(commits)
    for commit, each in zip(commits, ended, strict=True):
        assert scene.difference(each) is None, f"driver killed before {commit}: {scene.difference(each)}"


@pytest.mark.long
def test_executors_killed_before_each_commit_and_in_the_middle_of_a_file_change_nothing(
    scene: TopicScene, commits: list[str], tmp_path: Path
) -> None:
    steps, marks = [], []
    for number, name in enumerate([*commits, f"close tables/{TABLE}/"]):
        lake, mark = scene.lake(f"executors-{number}"), tmp_path / f"marks-{number}"
        mark.mkdir()
        stopped = Happening("pause", named=name, once=True, signals=str(mark))
        marks.append(mark)
        if name in commits:
            steps.append(Step(scene.turn(lake, happening=stopped)))
        else:
            steps.append(Step(scene.turn(lake), Order(str(lake), stopped)))
    with StandaloneCluster(tmp_path) as cluster:
        process = start(scene.scratch, steps, cluster.address, CONF)
        try:
            for mark in marks:
                wait_for(mark / "paused", PATIENCE)
                if mark == marks[-1]:
                    os.kill(executor_of(int((mark / "pid").read_text())), signal.SIGKILL)
                else:
                    assert cluster.kill_executors() > 0
                (mark / "go-on").touch()
        finally:
            for mark in marks:
                (mark / "go-on").touch()
            ended = finish(process, PATIENCE)
    assert len(ended) == len(steps)
    for at, each in enumerate(ended):
        assert scene.difference(each) is None, f"step {at}: {scene.difference(each)}\n{cluster.logs()}"
