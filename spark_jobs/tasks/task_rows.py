"""The tasks of a job as rows of a DataFrame, and the one function that does them on Spark's workers.

Columns say what a task reads, in types that Spark knows. The task itself, and its result, are a pickle each: they
travel between the driver and its own workers, which pickle functions in the same way. Files of a lake are never
unpickled.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from spark_jobs.reads import reads
from spark_jobs.tasks.executor import Task, perform, second_try
from spark_jobs.tasks.task_groups import cut, shared

_COLUMNS: dict[str, pa.DataType] = {
    "position": pa.int64(),
    "job": pa.string(),
    "what": pa.string(),
    "path": pa.string(),
    "start": pa.int64(),
    "end": pa.int64(),
    "size": pa.int64(),
    "part": pa.int32(),
    "task": pa.binary(),
}
TASK_SCHEMA = pa.schema(_COLUMNS)
"""A row is a task; ``part`` is the Spark task that does it."""
RESULT_SCHEMA = pa.schema([("position", pa.int64()), ("result", pa.binary())])  # type: ignore[arg-type]
RESULT_COLUMNS = "position long, result binary"


CHUNK_BYTES = 4 << 20
"""Bytes of the rows that Spark sends to a worker in one message; it refuses more than `spark.rpc.message.maxSize`."""
CHUNK_ROWS = 10_000
WAVE_BYTES = 128 << 20
"""Bytes of the tasks of one Spark job: the driver and its JVM hold them several times."""
WAVE_TASKS = 10_000
"""Tasks of one Spark job: the driver holds their results, which `spark.driver.maxResultSize` limits."""


def task_waves(
    job: str, tasks: Sequence[Task], sizes: Sequence[int] | None, least: int
) -> Iterator[tuple[pa.Table, int]]:
    """The tasks in order, as a :func:`task_table` for each Spark job."""
    start = 0
    for pickled in cut(map(pickle.dumps, tasks), len, WAVE_BYTES, WAVE_TASKS):
        wave = slice(start, start + len(pickled))
        yield _table(job, tasks[wave], pickled, None if sizes is None else sizes[wave], least)
        start = wave.stop


def task_table(job: str, tasks: Sequence[Task], sizes: Sequence[int] | None, least: int) -> tuple[pa.Table, int]:
    """The tasks as rows, and the number of their parts.

    Parts have about equal bytes, and the largest come first: so no long one is left at the end. Spark makes a partition
    of each chunk of the table.

    Args:
        job: name of the job.
        tasks: its tasks.
        sizes: bytes that each reads; None: not known.
        least: number of parts that there should be, if there are so many tasks.
    """
    return _table(job, tasks, [pickle.dumps(task) for task in tasks], sizes, least)


def _table(
    job: str, tasks: Sequence[Task], pickled: Sequence[bytes], sizes: Sequence[int] | None, least: int
) -> tuple[pa.Table, int]:
    groups = shared(len(tasks), sizes, least)
    if sizes is not None:
        groups.sort(key=lambda group: -sum(sizes[at] for at in group))
    parts = [0] * len(tasks)
    for part, group in enumerate(groups):
        parts[group.start : group.stop] = [part] * len(group)
    known = [None] * len(tasks) if sizes is None else sizes
    rows = ((at, job, *reads(task), known[at], parts[at], pickled[at]) for at, task in enumerate(tasks))
    chunks = [
        pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for values, field in zip(zip(*chunk, strict=True), TASK_SCHEMA, strict=True)],
            schema=TASK_SCHEMA,
        )
        for chunk in cut(rows, lambda row: len(row[-1]), CHUNK_BYTES, CHUNK_ROWS)
    ]
    return pa.Table.from_batches(chunks, TASK_SCHEMA), len(groups)


def perform_rows(work: bytes, chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do tasks on a worker: rows of :data:`TASK_SCHEMA` in, rows of :data:`RESULT_SCHEMA` out.

    Args:
        work: the pickled function of the tasks: its importable name, and what is bound to it.
        chunks: the tasks of this part.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    is_retried = context is not None and context.attemptNumber() > 0
    function: Callable[[Any], Any] = pickle.loads(work)
    for chunk in chunks:
        tasks = (pickle.loads(task.as_buffer()) for task in chunk.column("task"))
        results = [pickle.dumps(perform(function, second_try(task) if is_retried else task)) for task in tasks]
        yield pa.RecordBatch.from_arrays(
            [chunk.column("position"), pa.array(results, pa.binary())], schema=RESULT_SCHEMA
        )


def results_of(table: pa.Table) -> list[Any]:
    """The results in the order of their tasks."""
    return [pickle.loads(result.as_buffer()) for result in table.sort_by("position").column("result")]
