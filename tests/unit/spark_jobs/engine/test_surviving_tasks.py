"""Tasks that fail together, as Spark reports it, are run again: only the one that fails is done in its other way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from spark_jobs.engine.executor import TaskFailed, run_surviving
from spark_jobs.errors import JobError


@dataclass(frozen=True)
class Numbered:
    """A task that says which it is, and whether it was done in its other way."""

    number: int
    is_other: bool = False

    def second_try(self) -> Numbered:
        return replace(self, is_other=True)


@dataclass
class FailsTogether:
    """Fails as Spark does: without a word about which task it was. `ran` has what was done, in its order."""

    deadly: frozenset[int]
    always: bool = False
    error: type[JobError] = JobError
    ran: list[Numbered] = field(default_factory=list)
    calls: int = 0

    def run(self, work: Callable[[Any], Any], tasks: Sequence[Any], sizes: Sequence[int] | None = None) -> list[Any]:
        self.calls += 1
        assert sizes is None or len(sizes) == len(tasks)
        results = []
        for task in tasks:
            if task.number in self.deadly and (self.always or not task.is_other):
                raise self.error("a task failed")
            self.ran.append(task)
            results.append(work(task))
        return results


def survived(executor: FailsTogether, count: int) -> list[Any]:
    tasks = [Numbered(number) for number in range(count)]
    work: Callable[[Numbered], tuple[int, bool]] = lambda task: (task.number, task.is_other)  # noqa: E731
    return run_surviving(executor, work, tasks, list(range(count)), lambda task, how: f"{task.number} {how}")


@pytest.mark.parametrize("deadly", [(0,), (6,), (12,), (3, 4), (0, 12)])
def test_only_tasks_that_fail_are_done_in_their_other_way(deadly: tuple[int, ...]) -> None:
    executor = FailsTogether(frozenset(deadly))
    assert survived(executor, 13) == [(number, number in deadly) for number in range(13)]
    assert executor.calls <= 1 + 10 * len(deadly), "a task is found by halves"


def test_tasks_that_always_fail_have_a_result_that_says_so() -> None:
    executor = FailsTogether(frozenset({2}), always=True)
    results = survived(executor, 4)
    assert [*results[:2], results[3]] == [(0, False), (1, False), (3, False)]
    assert results[2] == "2 did not finish (a task failed)"


def test_a_fault_of_the_program_is_not_tried_again() -> None:
    executor = FailsTogether(frozenset({2}), error=TaskFailed)
    with pytest.raises(TaskFailed):
        survived(executor, 4)
    assert executor.calls == 1
