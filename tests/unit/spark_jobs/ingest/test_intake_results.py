"""Results of earlier jobs of a run: each is used once, and for exactly its task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.ingest.intake_results import IntakeExecutor, IntakeResults
from tests.unit.spark_jobs.engine.worker_tasks import NumberedTask, bound, work, write

TASK = NumberedTask("orders", 1, "return", "")


@dataclass
class Recorded:
    """Runs nothing: a result says which task it is of, and its size."""

    ran: list[NumberedTask] = field(default_factory=list)

    def run(self, work: Any, tasks: Sequence[NumberedTask], sizes: Sequence[int] | None = None) -> list[Any]:
        self.ran += tasks
        return [(task.partition, sizes and sizes[at]) for at, task in enumerate(tasks)]


def test_tasks_without_a_result_run_and_all_results_come_in_order():
    results, inner = IntakeResults(), Recorded()
    tasks = [replace(TASK, partition=at) for at in range(4)]
    results.put(work, tasks[1], "known", ())
    executor = IntakeExecutor(inner, results, 2)
    assert executor.run(work, tasks, [10, 20, 30, 40]) == [(0, 10), "known", (2, 30), (3, 40)]
    assert [task.partition for task in inner.ran] == [0, 2, 3]


def test_a_result_is_used_once():
    results, inner = IntakeResults(), Recorded()
    results.put(work, TASK, "known", ())
    executor = IntakeExecutor(inner, results, 2)
    assert executor.run(work, [TASK, TASK]) == ["known", (1, None)]
    assert executor.run(work, [TASK]) == [(1, None)]


@pytest.mark.parametrize(
    ("function", "task"),
    [
        (write, TASK),
        (work, replace(TASK, topic="payments")),
        (partial(bound, "another lake"), TASK),
    ],
)
def test_a_result_is_not_used_for_another_function_task_or_lake(function, task):
    results, inner = IntakeResults(), Recorded()
    results.put(partial(bound, "a lake") if isinstance(function, partial) else work, TASK, "known", ())
    assert IntakeExecutor(inner, results, 2).run(function, [task]) == [(1, None)]


def test_files_of_results_that_no_job_used_are_removed_and_others_stay(tmp_path: Path):
    files = [tmp_path / name for name in ("used", "unused")]
    with IntakeResults() as results:
        for at, file in enumerate(files):
            file.touch()
            results.put(work, replace(TASK, partition=at), at, [str(file), str(tmp_path / "already gone")])
        assert results.taken(work, [replace(TASK, partition=0)]) == {0: 0}
    assert [file.exists() for file in files] == [True, False]
    assert not results.taken(work, [replace(TASK, partition=1)])
