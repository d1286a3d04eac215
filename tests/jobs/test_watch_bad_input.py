"""Bad input under a watch is one clear line; the other logs go on, and nothing is lost or doubled.

With tasks in this process, as Spark runs them, and in worker processes.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.command.watch import Watch
from pipelines.run.run_request import RunRequest
from spark_jobs import launch
from spark_jobs.engine.executor import Executor
from spark_jobs.engine.local_executor import LocalExecutor
from spark_jobs.lake.segments import archive
from tests.broker_directory import OTHER_TOPIC_ID, TOPIC_ID, LogDirectory, Partition
from tests.crash import visible
from tests.in_process import InProcessExecutor

NOW_MS = 1_700_000_000_000
THIRD_TOPIC_ID = "DDDDDDDDDDDDDDDDDDDDDA"


class Before:
    """An executor that first does something, once, when tasks of a function come."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.function, self.do = "", lambda: None

    def once(self, function: str, do: Callable[[], None]) -> None:
        self.function, self.do = function, do

    def run(self, work: Any, tasks: Any, sizes: Any = None) -> Any:
        if getattr(work, "func", work).__name__ == self.function:
            self.function = ""
            self.do()
        return self.executor.run(work, tasks, sizes)


@pytest.fixture(params=["process", "workers"])
def executor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Before]:
    workers = LocalExecutor(2)
    made = Before(workers if request.param == "workers" else InProcessExecutor())
    monkeypatch.setattr(launch, "start_executor", lambda *_: made)
    yield made
    workers.stop()


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogDirectory:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    return LogDirectory(tmp_path / "kafka-logs")


@pytest.fixture
def logs(source: LogDirectory) -> dict[str, Partition]:
    made = {
        "orders": source.partition("orders-0", TOPIC_ID),
        "payments": source.partition("payments-0", OTHER_TOPIC_ID),
    }
    grow(source, made)
    return made


@pytest.fixture
def complained() -> list[str]:
    return []


@pytest.fixture
def watch(tmp_path: Path, source: LogDirectory, complained: list[str], executor: Before) -> Watch:
    request = RunRequest(sources=(str(source.path),))
    return Watch(str(tmp_path / "lake"), request, lambda: NOW_MS, lambda _: None, complained.append)


def grow(source: LogDirectory, logs: dict[str, Partition]) -> None:
    """A new segment of ten records in each log."""
    for log in logs.values():
        log.roll()
        log.append(10)
    source.high_watermarks(**{f"{name}_0": log.next_offset for name, log in logs.items()})


def published(watch: Watch) -> dict[str, list[int]]:
    """Offsets by topic."""
    found: dict[str, list[int]] = {}
    for row in visible.rows(Path(watch.lake), "records"):
        found.setdefault(row["topic"], []).append(row["offset"])
    return {topic: sorted(offsets) for topic, offsets in found.items()}


def check_whole(watch: Watch, logs: dict[str, Partition]) -> None:
    """Everything is published, once."""
    visible.check(Path(watch.lake))
    assert published(watch) == {name: list(range(log.next_offset)) for name, log in logs.items()}


def look_twice(watch: Watch) -> None:
    watch.look()
    watch._seen = None  # as if the source had changed
    watch.look()


@pytest.mark.long
def test_a_segment_that_is_deleted_between_plan_and_read_stops_its_log_alone(
    watch, source, logs, executor, complained, tmp_path
):
    watch.look()
    grow(source, logs)
    segment = logs["orders"].segments()[-1]
    away = tmp_path / "away.log"
    executor.once("copy_segment", lambda: segment.rename(away))
    watch.look()
    assert published(watch) == {"orders": list(range(10)), "payments": list(range(20))}
    (line,) = complained
    assert "orders-0" in line
    assert segment.name in line
    watch.look()  # now the segment is away when the plan is made: the log ends below its high watermark
    assert ["orders-0" in line for line in complained] == [True, True]
    assert "high watermark" in complained[1]
    away.rename(segment)
    watch.look()
    check_whole(watch, logs)
    assert len(complained) == 2


def test_a_segment_that_is_cut_between_plan_and_read_is_taken_as_far_as_it_goes(
    watch, source, logs, executor, complained
):
    watch.look()
    grow(source, logs)
    segment = logs["orders"].segments()[-1]
    content = segment.read_bytes()
    executor.once("copy_segment", lambda: segment.write_bytes(content[: len(content) // 2 + 10]))
    look_twice(watch)
    offsets = published(watch)
    assert offsets["payments"] == list(range(20))
    assert offsets["orders"] == list(range(len(offsets["orders"])))
    segment.write_bytes(content)
    look_twice(watch)
    check_whole(watch, logs)
    assert len(complained) <= 1


def test_a_topic_that_is_made_again_stops_with_one_line_and_the_other_continues(watch, source, logs, complained):
    watch.look()
    for path in logs["orders"].path.iterdir():
        path.unlink()
    again = {"orders": source.partition("orders-0", THIRD_TOPIC_ID), "payments": logs["payments"]}
    grow(source, again)
    look_twice(watch)
    assert published(watch) == {"orders": list(range(10)), "payments": list(range(20))}
    (line,) = complained
    assert "orders-0" in line
    assert "topic id" in line


def test_a_topic_that_is_made_again_is_followed_where_its_policy_says_so(watch, source, logs, complained, tmp_path):
    policies = tmp_path / "policies.yaml"
    policies.write_text("topics:\n  orders: {on_recreate: append}\n")
    watch.request = RunRequest(sources=(str(source.path),), policies=str(policies))
    watch.look()
    for path in logs["orders"].path.iterdir():
        path.unlink()
    again = {"orders": source.partition("orders-0", THIRD_TOPIC_ID), "payments": logs["payments"]}
    grow(source, again)
    watch.look()
    visible.check(Path(watch.lake))
    assert published(watch) == {"orders": sorted([*range(10), *range(10)]), "payments": list(range(20))}
    assert not complained


@pytest.mark.parametrize("step", ["commit_segments", "commit_logs"])
def test_a_full_lake_is_one_line_and_the_watch_goes_on_when_there_is_room(
    watch, source, logs, complained, monkeypatch, step
):
    watch.look()
    grow(source, logs)
    commit = getattr(archive, step)

    def full(lake: str, *_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"{lake}/tables")

    monkeypatch.setattr(archive, step, full)
    for _ in range(3):
        assert watch.look().error is not None
    (line,) = complained
    assert "No space left on device" in line
    assert watch.lake in line
    monkeypatch.setattr(archive, step, commit)
    assert watch.look().records == 20
    check_whole(watch, logs)


@pytest.mark.long
@pytest.mark.parametrize("executor", ["workers"], indirect=True)
def test_workers_that_are_killed_between_two_rounds_cost_nothing(watch, source, logs, executor, complained):
    watch.look()
    grow(source, logs)
    workers = executor.executor
    assert isinstance(workers, LocalExecutor)
    assert workers._idle
    for worker in workers._idle:
        os.kill(worker.process.pid, signal.SIGKILL)
    watch.look()
    check_whole(watch, logs)
    assert not complained


@pytest.mark.long
@pytest.mark.parametrize("executor", ["workers"], indirect=True)
def test_a_worker_that_is_killed_in_its_task_is_replaced(watch, source, logs, executor, complained):
    workers = executor.executor
    assert isinstance(workers, LocalExecutor)
    watch.look()
    grow(source, logs)
    executor.once("write_records", lambda: [os.kill(each.process.pid, signal.SIGKILL) for each in workers._idle])
    watch.look()
    check_whole(watch, logs)
    assert not complained
