"""Independent tasks on Spark's workers: a DataFrame of tasks in, a DataFrame of results out.

A row is a task. Spark's shuffle brings it to the Spark task that does it, so no
function and no plan grows with the number of tasks. A Spark task costs some milliseconds, so small tasks share one.
Very many tasks are several Spark jobs, one after the other.

In a shuffle, blocks are rows of a DataFrame, and Spark moves each to its part.

Columns say what a task reads, in types that Spark knows. The task itself, and its result, are a pickle each: they
travel between the driver and its own workers, which pickle functions in the same way. Files of a lake are never
unpickled.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.engine.executor import Result, Task, bound, perform, second_try
from spark_jobs.engine.shuffle import STOPPED, Block, Shuffle, finished, in_order, or_stopped
from spark_jobs.engine.task_groups import cut, shared
from spark_jobs.errors import JobError
from spark_jobs.reads import reads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
        """As :meth:`spark_jobs.engine.executor.Executor.run`.

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
        """As :meth:`spark_jobs.engine.shuffle.ShufflingExecutor.shuffle`.

        Raises:
            JobError: As :meth:`run`.
        """
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


COLUMNS = "part int, at long, content binary"
SCHEMA = pa.schema([pa.field("part", pa.int32()), pa.field("at", pa.int64()), pa.field("content", pa.binary())])  # type: ignore[arg-type]
_GIVEN = STOPPED + 1
"""Place of the block that has the task of a last step: before all blocks that a step emits."""

Step = Callable[[list[Block]], Iterable[Block]]
"""What a part of a step does with its blocks."""


def run_shuffle(spark: SparkSession, tasks: pa.Table, parts: int, shuffle: Shuffle) -> list[Any]:
    """As :meth:`spark_jobs.engine.shuffle.ShufflingExecutor.shuffle`.

    Args:
        spark: The session.
        tasks: The tasks of the first step as rows (`task_rows.TASK_SCHEMA`).
        parts: The number of their parts.
        shuffle: What moves.
    """
    first = spark.createDataFrame(tasks).selectExpr("part", "position AS at", "task AS content")
    given = [Block(part, _GIVEN, pickle.dumps(task)) for part, task in enumerate(shuffle.last)]
    through, last = shuffle.through, len(shuffle.last)
    following = last if through is None else through.parts
    moved = _step(first, parts, partial(_emit, shuffle.emit, following))
    if through is not None:
        moved = _step(moved, through.parts, partial(_reduce, through.reduce, last))
    # One row and one part for each task, also for one without a block.
    done = _step(moved.unionByName(_rows(spark, given)), last, partial(_finish, shuffle.finish)).toArrow()
    results = dict(zip(done.column("part").to_pylist(), done.column("content"), strict=True))
    return [pickle.loads(results[part].as_buffer()) for part in range(last)]


def _rows(spark: SparkSession, blocks: Iterable[Block]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_batches(_batches(blocks), SCHEMA))


def _step(blocks: DataFrame, parts: int, step: Step) -> DataFrame:
    return blocks.repartitionById(parts, "part").mapInArrow(partial(_of_part, step), COLUMNS)


def _of_part(step: Step, chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows are of one part, as parts and Spark's partitions are the same."""
    blocks = [
        Block(row["part"], row["at"], memoryview(content.as_buffer()))
        for chunk in chunks
        for row, content in zip(chunk.select(["part", "at"]).to_pylist(), chunk.column("content"), strict=True)
    ]
    if blocks:
        yield from _batches(perform(step, blocks))


def _batches(blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
    return map(_batch, cut(blocks, lambda block: len(block.content), CHUNK_BYTES, CHUNK_ROWS))


def _batch(blocks: list[Block]) -> pa.RecordBatch:
    rows = [{"part": each.part, "at": each.at, "content": each.content} for each in blocks]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _emit(emit: Callable[[Any, None], Iterator[Block]], following: int, tasks: list[Block]) -> Iterator[Block]:
    for block in tasks:
        task = pickle.loads(block.content)
        yield from or_stopped(partial(emit, task, None), following)


def _reduce(reduce: Callable[..., Iterator[Block]], following: int, blocks: list[Block]) -> Iterator[Block]:
    part = blocks[0].part
    return or_stopped(lambda: reduce(part, in_order(blocks)), following)


def _finish(finish: Callable[..., Any], blocks: list[Block]) -> Iterator[Block]:
    task = next(pickle.loads(block.content) for block in blocks if block.at == _GIVEN)
    result = finished(finish, task, [block for block in blocks if block.at != _GIVEN])
    yield Block(blocks[0].part, 0, pickle.dumps(result))


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
