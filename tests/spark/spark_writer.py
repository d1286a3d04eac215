"""The files of ``records`` as Spark's own Parquet writer writes them: the oracle of ours.

Workers decode and hand their rows to Spark, which writes one file a task into a staging folder of the table's directory
that no reader looks into. From there each file gets its name and place, synced, and the same commit adds it as adds the
files that workers write themselves. What is left of a run that died lies in the staging folder, under ``_``.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from logcore.errors import LogError
from spark_jobs.archived_rows.records_file import WriteTask, decoded
from spark_jobs.lake.delta.files import row_digest
from spark_jobs.lake.delta.files.parquet_files import statistics
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.store import mapped_file, storage
from spark_jobs.lake.store.written_file import WriteResult, WrittenFile, new_file_name
from spark_jobs.lake.table_specs import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "records"
STAGING = "_staging"
_PART = re.compile(r"part-(\d+)-[^/]*\.parquet$")


def write_records_with_spark(spark: SparkSession, lake: str, tasks: Sequence[WriteTask]) -> list[WriteResult]:
    """Write one file a task; results as :func:`~spark_jobs.archived_rows.records_file.write_records`, in order.

    A task whose archived bytes cannot be read gives too few rows, which shows in its count; it does not end the job.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    spec = TABLES[TABLE]
    root = table_uri(lake, TABLE)
    staging = storage.join(root, STAGING, uuid.uuid4().hex)

    def run(chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for chunk in chunks:
            for position in chunk.column("id").to_pylist():
                yield from _rows(tasks[position])

    # One number and one partition for each task, so that the number of a part says of which task it is.
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    rows = numbers.mapInArrow(run, from_arrow_schema(spec.file_schema))
    setting = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "TIMESTAMP_MICROS")  # as Delta does; the older form is of another type to its readers
    try:
        rows.write.option("compression", "zstd").parquet(_for_spark(staging))
    finally:
        if before is not None:
            spark.conf.set(setting, before)
    results = [WriteResult() for _ in tasks]
    for stored in list(storage.files_below(staging)):
        part = _PART.search(stored.path)
        if part is not None:
            results[int(part[1])] = WriteResult.of(_place(stored.path, root, tasks[int(part[1])].topic))
        storage.delete(stored.path)
    return results


def _rows(task: WriteTask) -> Iterator[pa.RecordBatch]:
    schema = TABLES[TABLE].file_schema
    try:
        for chunk in decoded(task):
            yield chunk.select(schema.names).cast(schema)
    except (LogError, OSError):
        return


def _place(path: str, root: str, topic: str) -> WrittenFile | None:
    """Give a staged file its place in the table; None if it has no rows."""
    with mapped_file.mapped(path) as content:
        metadata = pq.read_metadata(pa.BufferReader(content))
        if not metadata.num_rows:
            return None
        # Spark's footer has no place for the digest: the commit alone carries it.
        with pq.ParquetFile(pa.BufferReader(content)) as rows:
            digest = row_digest.of_rows(rows.iter_batches(), TABLES[TABLE].file_schema)
        relative = f"{storage.folder_name(f'topic={topic}')}/{new_file_name()}"
        with storage.writing(storage.join(root, relative)) as local:
            with open(local, "xb") as file:
                file.write(content)
            status = os.stat(local)
    return WrittenFile(
        path=relative,
        size=status.st_size,
        partition_values={"topic": topic},
        statistics=statistics(metadata, TABLES[TABLE]),
        modified_ms=status.st_mtime_ns // 1_000_000,
        rows=metadata.num_rows,
        digest=digest,
    )


def _for_spark(path: str) -> str:
    """A path as Spark's filesystems name it."""
    return path.replace("s3://", "s3a://", 1) if storage.is_remote(path) else f"file://{os.path.abspath(path)}"
