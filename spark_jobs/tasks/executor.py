"""What runs the tasks of a job: worker processes of this machine, or Spark. Jobs know this interface alone.

A task is a small frozen dataclass and its result another: bytes go from the worker to files, never through the driver.
How they travel is the executor's business; both have to be picklable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


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


def run_tasks(
    executor: Executor | None,
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    sizes: Sequence[int] | None = None,
) -> list[Result]:
    """As :meth:`Executor.run`; without an executor the tasks run in this process, one after another."""
    return [perform(work, task) for task in tasks] if executor is None else executor.run(work, tasks, sizes)


def perform(work: Callable[[Task], Result], task: Task) -> Result:
    """Do ``work`` on one task in this process; every executor calls it where the task runs.

    Workers get our packages as files, without the entry points of an installed package. So the loader of snappy-java's
    library is given to logcore here.
    """
    from logcore.records.snappy_encoder import use_library
    from spark_jobs.machine.snappy_library import load_snappy_java

    use_library(load_snappy_java)
    return work(task)
