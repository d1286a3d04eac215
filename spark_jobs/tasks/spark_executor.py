"""Independent tasks on Spark's workers: one JSON value in, one JSON value out, in task order.

Jobs describe their work as small frozen tasks and get small results back; bytes go from the worker to files, never
through the driver. Only DataFrame operations are used, so the same code runs on Spark Connect.

A Spark task costs some milliseconds, and every one of them is sent the descriptions of all: so small tasks share one,
and many are sent in waves. Ten thousand small logs are a few hundred Spark tasks, and the driver never holds more than
a wave's descriptions twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.tasks.executor import Values, Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESULT_SCHEMA = pa.schema([pa.field("position", pa.int64()), pa.field("result", pa.string())])

SHARED_BYTES = 16 << 20
"""Tasks share a Spark task while they read no more than this together."""
SHARED_TASKS = 100
WAVE_CHARACTERS = 4 << 20
"""Descriptions sent with one Spark job, as JSON text."""


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """Runs tasks on the workers of a Spark session."""

    session: SparkSession

    def run(self, tasks: Sequence[Values], work: Work, sizes: Sequence[int] | None = None) -> list[Values]:
        """As :meth:`spark_jobs.tasks.executor.Executor.run`; the work is sent by name."""
        texts = [json.dumps(task) for task in tasks]
        results: list[Values] = []
        for wave in waves(shared(len(tasks), sizes), texts):
            results += _run(self.session, [[texts[position] for position in group] for group in wave], work)
        return results


def shared(count: int, sizes: Sequence[int] | None) -> list[range]:
    """Tasks 0 … ``count`` in groups of neighbours, a Spark task each."""
    if sizes is None:
        return [range(at, at + 1) for at in range(count)]
    groups: list[range] = []
    room = -1
    for at, size in enumerate(sizes):
        if size > room or len(groups[-1]) == SHARED_TASKS:
            groups.append(range(at, at))
            room = SHARED_BYTES
        groups[-1] = range(groups[-1].start, at + 1)
        room -= size
    return groups


def waves(groups: Sequence[range], texts: Sequence[str]) -> Iterator[list[range]]:
    """The groups cut where their descriptions become too much for one Spark job."""
    wave: list[range] = []
    characters = 0
    for group in groups:
        more = sum(len(texts[at]) for at in group)
        if wave and characters + more > WAVE_CHARACTERS:
            yield wave
            wave, characters = [], 0
        wave.append(group)
        characters += more
    if wave:
        yield wave


def _run(spark: SparkSession, groups: Sequence[Sequence[str]], work: Work) -> list[Values]:
    def run(chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for chunk in chunks:
            for position in chunk.column("id").to_pylist():
                done = json.dumps([work(json.loads(text)) for text in groups[position]])
                yield pa.RecordBatch.from_pylist([{"position": position, "result": done}], RESULT_SCHEMA)

    # One number and one partition for each group: no shuffle, and never two that wait for one another.
    numbers = spark.range(0, len(groups), 1, len(groups))
    rows = numbers.mapInArrow(run, "position long, result string").collect()
    return [result for row in sorted(rows, key=lambda row: row["position"]) for result in json.loads(row["result"])]
