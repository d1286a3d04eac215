"""Tasks in worker processes: all results in order, a dead worker costs its own task only."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from multiprocessing.connection import Pipe
from pathlib import Path

import pytest

from spark_jobs.engine import local_executor, local_worker
from spark_jobs.engine.executor import TaskFailed, WorkerDied, run_surviving
from spark_jobs.engine.local_executor import LocalExecutor
from spark_jobs.lake.store import disk_sync, storage
from spark_jobs.lake_verification.verified_thing import Thing, verify_thing
from tests.unit.spark_jobs.engine.worker_tasks import ChangingTask, NumberedTask, work, write


@pytest.fixture
def executor() -> Iterator[LocalExecutor]:
    made = LocalExecutor(2)
    yield made
    made.stop()


def tasks(folder: Path, *behaviours: str) -> list[NumberedTask]:
    return [NumberedTask("orders", at, behaviour, str(folder)) for at, behaviour in enumerate(behaviours)]


def attempts(folder: Path) -> dict[int, int]:
    return {int(mark.name): mark.stat().st_size for mark in folder.iterdir()}


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def ends_within(seconds: float, pids: list[int]) -> bool:
    end = time.monotonic() + seconds
    while any(map(is_alive, pids)):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_folders_of_the_current_directory_are_no_packages_of_a_worker(executor, tmp_path, monkeypatch):
    (tmp_path / "spark_jobs").mkdir()
    (tmp_path / "spark_jobs" / "__init__.py").write_text("raise SystemExit('the package of another folder')\n")
    (tmp_path / "marks").mkdir()
    monkeypatch.chdir(tmp_path)
    assert executor.run(work, tasks(tmp_path / "marks", "return", "return")) == [0, 1]


def test_results_come_in_the_order_of_the_tasks_whatever_their_sizes(executor, tmp_path):
    many = tasks(tmp_path, *["return"] * 25)
    assert executor.run(work, many, [at * 7 % 5 for at in range(25)]) == list(range(25))
    assert attempts(tmp_path) == dict.fromkeys(range(25), 1)


def test_no_tasks_start_no_worker(monkeypatch, executor):
    monkeypatch.setattr(sys, "executable", "/does/not/exist")
    assert executor.run(work, []) == []


def test_workers_are_used_again_by_the_next_run(executor, tmp_path):
    first = executor.run(work, tasks(tmp_path, "pid", "pid", "pid", "pid"))
    second = executor.run(work, tasks(tmp_path, "pid"))
    assert len(set(first)) <= 2
    assert set(second) <= set(first)


def test_a_task_whose_worker_died_runs_once_more_and_the_others_once(executor, tmp_path):
    assert executor.run(work, tasks(tmp_path, "return", "die once", "return", "return")) == [0, 1, 2, 3]
    assert attempts(tmp_path) == {0: 1, 1: 2, 2: 1, 3: 1}


@pytest.mark.parametrize(("behaviour", "how"), [("die", "was ended by SIGKILL"), ("exit", "ended with exit code 7")])
def test_a_task_that_always_ends_its_worker_is_named_after_all_others_ran(executor, tmp_path, behaviour, how):
    with pytest.raises(WorkerDied, match=f"The worker of orders-1 {how}") as raised:
        executor.run(work, tasks(tmp_path, "return", behaviour, "return", "return"))
    assert "orders-0" not in str(raised.value)
    assert attempts(tmp_path) == {0: 1, 1: 2, 2: 1, 3: 1}
    assert executor.run(work, tasks(tmp_path, "return")) == [0]


def test_a_task_without_a_partition_is_named_by_what_it_reads(executor):
    thing = Thing("table/records/a.parquet", "1", 1, partial(int, "no number"))
    with pytest.raises(TaskFailed, match=r"The task for table/records/a\.parquet failed: "):
        executor.run(verify_thing, [thing])


def test_a_task_may_be_done_in_another_way_after_its_worker_died(executor, tmp_path):
    several = [*tasks(tmp_path, "return"), ChangingTask("orders", 1, "die", str(tmp_path))]
    assert executor.run(work, several) == [0, 1]
    assert attempts(tmp_path) == {0: 1, 1: 2}


def test_who_survives_dead_workers_gets_a_result_for_each_task(executor, tmp_path):
    some = tasks(tmp_path, "return", "die", "return")
    results = run_surviving(executor, work, some, [1, 1, 1], lambda task, how: f"{task.partition} {how}")
    assert [results[0], results[2]] == [0, 2]
    assert str(results[1]).startswith("1 was ended by SIGKILL")
    with pytest.raises(TaskFailed):
        run_surviving(executor, work, tasks(tmp_path, "raise"), [1], lambda *_: "survived")


def test_each_task_that_is_done_is_reported_once_with_its_bytes(executor, tmp_path):
    seen: list[tuple[str, int, int, int | None, int | None]] = []
    executor.on_progress = lambda p: seen.append((p.what, p.done, p.total, p.done_bytes, p.total_bytes))
    executor.run(work, tasks(tmp_path, "return", "die once", "return", "return"), [10, 20, 30, 40])
    assert seen[0] == ("tasks", 0, 4, 0, 100)
    assert [done for _, done, *_ in seen] == [0, 1, 2, 3, 4], "a task that runs twice counts once"
    assert seen[-1] == ("tasks", 4, 4, 100, 100)
    seen.clear()
    executor.run(work, tasks(tmp_path, "return"))
    assert seen == [("tasks", 0, 1, None, None), ("tasks", 1, 1, None, None)]
    seen.clear()
    executor.run(work, [])
    assert not seen


def test_small_tasks_come_in_groups_and_large_ones_alone(executor, tmp_path, monkeypatch):
    sent: list[int] = []
    original = local_executor._next_group
    monkeypatch.setattr(
        local_executor, "_next_group", lambda *given: (group := original(*given), sent.append(len(group)))[0]
    )
    many = tasks(tmp_path, *["return"] * 100)
    assert executor.run(work, many, [1 << 10] * 100) == list(range(100))
    assert max(sent) == local_executor.GROUP_TASKS
    assert sum(sent) == 100
    assert sent[-2:] == [1, 1], "the last tasks are shared between the workers"
    sent.clear()
    assert executor.run(work, many, [local_executor.GROUP_BYTES] * 100) == list(range(100))
    assert set(sent) == {1}
    sent.clear()
    assert executor.run(work, many) == list(range(100))
    assert set(sent) == {1}, "of unknown size"


def test_in_a_group_a_task_that_always_ends_its_worker_is_named_and_all_others_run(executor, tmp_path):
    many = tasks(tmp_path, *["return"] * 20, "die", *["return"] * 20)
    with pytest.raises(WorkerDied, match=r"The worker of orders-20 was ended by SIGKILL") as raised:
        executor.run(work, many, [1] * 41)
    assert str(raised.value).count("The worker of") == 1
    assert set(attempts(tmp_path)) == set(range(41))


def test_in_a_group_a_task_whose_worker_died_runs_once_more(executor, tmp_path):
    many = tasks(tmp_path, *["return"] * 20, "die once", *["return"] * 20)
    assert executor.run(work, many, [1] * 41) == list(range(41))


def test_an_exception_of_a_task_ends_the_run_and_its_workers(executor, tmp_path):
    pids = executor.run(work, tasks(tmp_path, "pid", "pid"))
    begun = time.monotonic()
    with pytest.raises(TaskFailed, match=r"task for orders-1 failed: OSError: \[Errno 28\] No space left"):
        executor.run(work, tasks(tmp_path, "wait", "raise"))
    assert time.monotonic() - begun < 60
    executor.stop()
    assert ends_within(5, pids)


def test_what_a_task_prints_is_no_output_of_the_command(executor, tmp_path, capfd):
    assert executor.run(work, tasks(tmp_path, "print")) == [0]
    assert "to stdout" not in capfd.readouterr().out


def test_a_worker_that_grew_too_large_is_replaced(executor, tmp_path, monkeypatch):
    monkeypatch.setattr(local_executor, "WORKER_BYTES", 50 << 20)
    one = LocalExecutor(1)
    before = one.run(work, tasks(tmp_path, "pid"))
    one.run(work, tasks(tmp_path, "grow"))
    after = one.run(work, tasks(tmp_path, "pid"))
    one.stop()
    assert before != after


@pytest.mark.parametrize(("count", "large_bytes"), [(1, 100), (3, 1), (200, 1), (200, 100)])
def test_files_that_are_synced_late_are_on_disk_when_the_run_returns(
    executor, tmp_path, monkeypatch, count, large_bytes
):
    synced: list[str] = []
    whole: list[str] = []
    monkeypatch.setattr(disk_sync, "sync", synced.append)
    monkeypatch.setattr(local_executor, "sync", synced.append)
    monkeypatch.setattr(local_executor, "LARGE_BYTES", large_bytes)
    monkeypatch.setattr(disk_sync, "_sync_file_system", whole.append)
    paths = executor.run(write, tasks(tmp_path, *["content"] * count))
    assert [Path(path).read_text() for path in paths] == ["content"] * count
    if not whole:  # many are synced with their file system
        assert {str(tmp_path / "written"), str(tmp_path)} <= set(synced)
        assert set(paths) <= set(synced)
    assert bool(whole) == (count == 200 and large_bytes == 100)


@pytest.mark.parametrize("large_bytes", [1, 100])
def test_a_disk_that_fails_to_keep_a_file_fails_the_run(executor, tmp_path, monkeypatch, large_bytes):
    def fail(path: str) -> None:
        if path.endswith("1.data"):
            raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr(disk_sync, "sync", fail)
    monkeypatch.setattr(local_executor, "sync", fail)
    monkeypatch.setattr(local_executor, "LARGE_BYTES", large_bytes)
    with pytest.raises(OSError, match="Input/output error"):
        executor.run(write, tasks(tmp_path, "a", "b", "c"))


def test_a_file_that_is_replaced_is_on_disk_before_it_takes_the_place(tmp_path, monkeypatch):
    path = tmp_path / "there"
    path.write_text("earlier")
    synced: list[str] = []
    monkeypatch.setattr(disk_sync, "sync", synced.append)
    with disk_sync.late_syncs() as unsynced, storage.writing(str(path)) as local:
        Path(local).write_text("later")
    assert not unsynced.files
    assert local in synced
    assert path.read_text() == "later"


DRIVER = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background processes with SIGINT ignored
import sys
from spark_jobs.engine.local_executor import LocalExecutor
from tests.unit.spark_jobs.engine.worker_tasks import NumberedTask, work
executor = LocalExecutor(2)
print(*executor.run(work, [NumberedTask("orders", at, "pid", sys.argv[1]) for at in range(8)]), flush=True)
executor.run(work, [NumberedTask("orders", at, "wait", sys.argv[1]) for at in range(2)])
"""


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_no_worker_that_is_idle_or_busy_outlives_a_driver_that_was_ended(tmp_path, ended_by):
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert driver.stdout is not None
    pids = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(pids) == 8
    os.kill(driver.pid, ended_by)
    driver.wait(10)
    driver.stdout.close()
    assert ends_within(5, list(set(pids)))


def test_an_idle_worker_loads_modules_until_its_first_task_comes(monkeypatch):
    ours, theirs = Pipe()
    loaded: list[str] = []

    def load(name: str) -> None:
        loaded.append(name)
        if len(loaded) == 2:
            ours.send_bytes(b"a task")

    monkeypatch.setattr(local_worker.importlib, "import_module", load)
    with ours, theirs:
        local_worker.load_while_idle(theirs)
    assert loaded == list(local_worker.LIKELY_MODULES[:2])


@pytest.mark.parametrize("name", local_worker.LIKELY_MODULES)
def test_what_an_idle_worker_loads_is_there(name):
    assert find_spec(name) is not None
