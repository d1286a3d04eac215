"""Independent tasks on Spark's workers: one pickled task in, one pickled result out, in task order.

Spark pickles the function that a worker runs, so tasks and results travel in the same way and under the same trust:
between the driver and its own workers. Files of a lake are never unpickled. Only DataFrame operations are used, so the
same code runs on Spark Connect.

A Spark task costs some milliseconds, and each is sent the tasks of all: so small tasks share one, and many are sent in
waves. Ten thousand small logs are a few hundred Spark tasks, and the driver never holds more than a wave's tasks twice.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.errors import JobError
from spark_jobs.tasks.executor import Result, Task, perform, second_try
from spark_jobs.tasks.task_groups import shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESULT_SCHEMA = pa.schema([pa.field("position", pa.int64()), pa.field("results", pa.binary())])  # type: ignore[arg-type]

WAVE_BYTES = 4 << 20
"""Pickled tasks sent with one Spark job."""


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """Runs tasks on the workers of a Spark session."""

    session: SparkSession

    def run(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], sizes: Sequence[int] | None = None
    ) -> list[Result]:
        """As :meth:`spark_jobs.tasks.executor.Executor.run`.

        Raises:
            JobError: Spark ended the work; the text has the last line of its reason.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        pickled = [pickle.dumps(task) for task in tasks]
        results: list[Result] = []
        try:
            for wave in waves(shared(len(tasks), sizes), pickled):
                results += _run(self.session, work, [[pickled[position] for position in group] for group in wave])
        except (PySparkException, Py4JError) as error:
            # Workers handle the faults of their input; what gets here is a fault of the machine or of this program.
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise JobError(f"Spark could not finish the job's {len(tasks)} tasks: {lines[-1]}") from error
        return results


def waves(groups: Sequence[range], pickled: Sequence[bytes]) -> Iterator[list[range]]:
    """The groups cut where their tasks become too much for one Spark job."""
    wave: list[range] = []
    size = 0
    for group in groups:
        more = sum(len(pickled[at]) for at in group)
        if wave and size + more > WAVE_BYTES:
            yield wave
            wave, size = [], 0
        wave.append(group)
        size += more
    if wave:
        yield wave


def _run(spark: SparkSession, work: Callable[[Task], Result], groups: Sequence[Sequence[bytes]]) -> list[Result]:
    def run(chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        prepared = second_try if context is not None and context.attemptNumber() > 0 else _as_it_is
        for chunk in chunks:
            for position in chunk.column("id").to_pylist():
                done = pickle.dumps([perform(work, prepared(pickle.loads(task))) for task in groups[position]])  # type: ignore[index]
                yield pa.RecordBatch.from_pylist([{"position": position, "results": done}], RESULT_SCHEMA)

    # One number and one partition for each group: no shuffle, and never two that wait for one another.
    numbers = spark.range(0, len(groups), 1, len(groups))
    rows = numbers.mapInArrow(run, "position long, results binary").collect()
    return [result for row in sorted(rows, key=lambda row: row["position"]) for result in pickle.loads(row["results"])]


def _as_it_is(task: Task) -> Task:
    return task
