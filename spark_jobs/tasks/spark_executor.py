"""Independent tasks on Spark's workers: a DataFrame of tasks in, a DataFrame of results out.

A row is a task (:mod:`spark_jobs.tasks.task_rows`). Spark's shuffle brings it to the Spark task that does it, so no
function and no plan grows with the number of tasks. A Spark task costs some milliseconds, so small tasks share one.
Very many tasks are several Spark jobs, one after the other.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_jobs.errors import JobError
from spark_jobs.tasks.executor import Result, Task, bound
from spark_jobs.tasks.task_rows import RESULT_COLUMNS, perform_rows, results_of, task_table, task_waves

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.tasks.shuffle import Shuffle

PARTS_PER_CORE = 4
"""Spark tasks for each core, if a job has so many tasks: cores that are done early get another one."""


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """Runs tasks on the workers of a Spark session.

    Attributes:
        session: The session.
        job: Name of the job that has the tasks. Spark's pages and event logs show it as the group of its Spark jobs.
    """

    session: SparkSession
    job: str = "loglake"

    @property
    def processes(self) -> int:
        """Tasks that run at a time."""
        return int(self.session.sparkContext.defaultParallelism)

    def run(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], sizes: Sequence[int] | None = None
    ) -> list[Result]:
        """As :meth:`spark_jobs.tasks.executor.Executor.run`.

        Raises:
            JobError: Spark ended the work; the text has the first cause that Spark names.
        """
        if not tasks:
            return []
        results: list[Result] = []
        function = partial(perform_rows, pickle.dumps(work))
        with _group(self.session, self.job, work, len(tasks)):
            for table, parts in task_waves(self.job, tasks, sizes, self._least_parts):
                rows = self.session.createDataFrame(table).repartitionById(parts, "part")
                results += results_of(rows.mapInArrow(function, RESULT_COLUMNS).toArrow())
        return results

    def shuffle(self, shuffle: Shuffle) -> list[Any]:
        """As :meth:`spark_jobs.tasks.shuffle.ShufflingExecutor.shuffle`.

        Raises:
            JobError: As :meth:`run`.
        """
        from spark_jobs.tasks.spark_shuffle import run_shuffle

        table, parts = task_table(self.job, shuffle.tasks, shuffle.sizes, self._least_parts)
        with _group(self.session, self.job, shuffle.emit, len(shuffle.tasks)):
            return run_shuffle(self.session, table, parts, shuffle)

    @property
    def _least_parts(self) -> int:
        return PARTS_PER_CORE * self.processes


def _reason(error: Exception) -> str:
    """The first cause that Spark names, else the last line that is no frame of a Java stack."""
    lines = [line.strip() for line in str(error).splitlines()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    said = [line for line in lines if line and not line.startswith(("at ", "...", "Driver stacktrace"))]
    return (causes[:1] or said[-1:] or [type(error).__name__])[0]


@contextmanager
def _group(spark: SparkSession, job: str, work: Callable[..., Any], tasks: int) -> Iterator[None]:
    """Name the Spark jobs inside, and turn Spark's errors into ours."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    context = spark.sparkContext
    context.setJobGroup(job, f"{job}: {getattr(bound(work)[0], '__name__', 'tasks')}, {tasks} tasks")
    try:
        yield
    except (PySparkException, Py4JError) as error:
        # Workers handle the faults of their input; what gets here is a fault of the machine or of this program.
        raise JobError(f"Spark could not finish the job's {tasks} tasks: {_reason(error)}") from error
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]
