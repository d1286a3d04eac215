"""Independent tasks spread over Spark's workers: one JSON value in, one JSON value out, in task order.

Jobs describe their work as small frozen tasks and get small results back; bytes go from the worker to files, never
through the driver. Only DataFrame operations are used, so the same code runs on Spark Connect.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESULT_SCHEMA = pa.schema([pa.field("position", pa.int64()), pa.field("result", pa.string())])


def spread(
    spark: SparkSession, tasks: Sequence[dict[str, Any]], work: Callable[[dict[str, Any]], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Run ``work`` on every task, one Spark task each, and return the results in the order of ``tasks``.

    Args:
        work: a module-level function of an importable module (workers import it by name). It handles the faults of
            its own input; an exception out of it fails the whole job.
    """
    if not tasks:
        return []

    texts = [json.dumps(task) for task in tasks]

    def run(chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for chunk in chunks:
            for position in chunk.column("id").to_pylist():
                result = json.dumps(work(json.loads(texts[position])))
                yield pa.RecordBatch.from_pylist([{"position": position, "result": result}], RESULT_SCHEMA)

    # One number and one partition for each task: no shuffle, and never two tasks that wait for one another.
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    results = numbers.mapInArrow(run, "position long, result string").collect()
    return [json.loads(row["result"]) for row in sorted(results, key=lambda row: row["position"])]
