"""A shuffle on Spark's workers: blocks are rows of a DataFrame, and Spark moves each to its part."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.tasks.executor import perform
from spark_jobs.tasks.shuffle import STOPPED, Block, Shuffle, finished, in_order, or_stopped
from spark_jobs.tasks.task_groups import cut
from spark_jobs.tasks.task_rows import CHUNK_BYTES, CHUNK_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "part int, at long, content binary"
SCHEMA = pa.schema([pa.field("part", pa.int32()), pa.field("at", pa.int64()), pa.field("content", pa.binary())])  # type: ignore[arg-type]
_GIVEN = STOPPED + 1
"""Place of the block that has the task of a last step: before all blocks that a step emits."""

Step = Callable[[list[Block]], Iterable[Block]]
"""What a part of a step does with its blocks."""


def run_shuffle(spark: SparkSession, tasks: pa.Table, parts: int, shuffle: Shuffle) -> list[Any]:
    """As :meth:`spark_jobs.tasks.shuffle.ShufflingExecutor.shuffle`.

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
