"""What runs the tasks of a job: worker processes of this machine, or Spark. Jobs know this interface alone.

A task is a small frozen dataclass and its result another: bytes go from the worker to files, never through the driver.
How they travel is the executor's business; both have to be picklable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from spark_jobs.engine.task_progress import OnProgress
from spark_jobs.errors import JobError

Task = TypeVar("Task")
Result = TypeVar("Result")


class WorkerDied(JobError):
    """The worker process of a task died twice: of its memory, of a signal, or in native code.

    Attributes:
        died: How it died, by the position of the task.
        results: What the other tasks returned, by position.
    """

    def __init__(self, message: str, died: Mapping[int, str], results: Mapping[int, Any]) -> None:
        super().__init__(message)
        self.died = died
        self.results = results


class TaskFailed(JobError):
    """A task ended with an exception that it does not handle: a fault of the machine or of this program."""


class Executor(Protocol):
    """Runs independent tasks."""

    def run(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], sizes: Sequence[int] | None = None
    ) -> list[Result]:
        """Run ``work`` on every task and return the results in the order of ``tasks``.

        Args:
            work: a function of an importable module, with what all tasks share bound by ``functools.partial``; workers
                import it by name. It handles the faults of its own input; an exception out of it fails the whole job.
            sizes: bytes that each task reads, so that small ones may share a worker's time; None if it is not known.
        """
        ...


class CountingExecutor(Executor, Protocol):
    """An executor that reports how many tasks of a job are done."""

    on_progress: OnProgress | None
    """Gets each step; None: nobody does."""


def run_tasks(
    executor: Executor | None,
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    sizes: Sequence[int] | None = None,
) -> list[Result]:
    """As :meth:`Executor.run`; without an executor the tasks run in this process, one after another."""
    return [perform(work, task) for task in tasks] if executor is None else executor.run(work, tasks, sizes)


def run_surviving(
    executor: Executor | None,
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    sizes: Sequence[int],
    died: Callable[[Task, str], Result],
) -> list[Result]:
    """As :func:`run_tasks`, but a task whose worker dies twice has a result too.

    Args:
        died: Makes the result of such a task; gets the task, and how its worker ended.
    """
    try:
        return run_tasks(executor, work, tasks, sizes)
    except WorkerDied as error:
        return [died(task, error.died[at]) if at in error.died else error.results[at] for at, task in enumerate(tasks)]
    except TaskFailed:
        raise
    except JobError:
        assert executor is not None
        return _in_halves(executor, work, tasks, sizes, died)


def _in_halves(
    executor: Executor,
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    sizes: Sequence[int],
    died: Callable[[Task, str], Result],
) -> list[Result]:
    """Run tasks again that failed together: Spark does not say which task it was.

    A half that fails is halved again. So only a task that fails alone is done in its other way.
    """
    if len(tasks) == 1:
        return [_alone(executor, work, second_try(tasks[0]), died)]
    results: list[Result] = []
    middle = len(tasks) // 2
    for some, of_some in ((tasks[:middle], sizes[:middle]), (tasks[middle:], sizes[middle:])):
        try:
            results += executor.run(work, some, of_some)
        except TaskFailed:
            raise
        except JobError:
            results += _in_halves(executor, work, some, of_some, died)
    return results


def _alone(
    executor: Executor, work: Callable[[Task], Result], task: Task, died: Callable[[Task, str], Result]
) -> Result:
    try:
        return executor.run(work, [task])[0]
    except JobError as error:
        return died(task, f"did not finish ({error})")


def second_try(task: Task) -> Task:
    """The task as it runs after a worker died of it: what its method ``second_try`` returns, else itself."""
    return task.second_try() if hasattr(task, "second_try") else task


def workers_of(executor: Executor) -> int:
    """How many tasks run at a time, as far as the executor knows."""
    return max(1, getattr(executor, "processes", 1))


def counting(executor: Executor) -> CountingExecutor | None:
    """The executor, if it reports progress; Spark shows it on its own pages."""
    return executor if hasattr(executor, "on_progress") else None  # type: ignore[return-value]


_SYNCED_LATE: set[str] = set()


def synced_late(work: Callable[..., Result]) -> Callable[..., Result]:
    """Declare that the files of a task need to be on disk only when its job goes on, not when the task returns.

    No file of such a task may depend on another one of it.
    """
    _SYNCED_LATE.add(_name(work))
    return work


def is_synced_late(work: Callable[..., Any]) -> bool:
    """Whether a function was declared by :func:`synced_late`; arguments that are bound to it do not matter."""
    return _name(work) in _SYNCED_LATE


def bound(work: Callable[..., Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function and the arguments that ``functools.partial`` has bound to it."""
    return (work.func, work.args) if isinstance(work, partial) else (work, ())


def _name(work: Callable[..., Any]) -> str:
    function, _ = bound(work)
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"


def perform(work: Callable[[Task], Result], task: Task) -> Result:
    """Do ``work`` on one task in this process; every executor calls it where the task runs.

    Workers get our packages as files, without the entry points of an installed package. So the loader of snappy-java's
    library is given to logcore here.
    """
    from logcore.records.snappy_encoder import use_library
    from spark_jobs.engine.snappy_library import load_snappy_java

    use_library(load_snappy_java)
    return work(task)
