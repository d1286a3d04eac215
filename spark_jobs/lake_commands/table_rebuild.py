"""A table made again from its rows as Delta's own reader sees them, without the features that other engines put on it.

    read     all columns of one version by Spark: deletion vectors, mapped names, widened types        (workers)
    order    by log and offset, over ranges of about 128 MiB                                          (workers)
    write    one file a range and log, by the writer of all our tables                                (workers)
    commit   every file and every application id of the old table, the frontiers among them           (driver)

Belongs here: making the new table in a folder of its own. How it takes the old one's place: ``lake.table_swap``. Which
tables are made again in this way, and which by the next run: ``lake_commands.repair``.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Schema

from spark_jobs.lake.delta import commits, delta_log
from spark_jobs.lake.delta.commits import Guard, WrittenFile
from spark_jobs.lake.delta.live_files import live_files
from spark_jobs.lake.delta.parquet_files import write_file
from spark_jobs.lake.delta.tables import TABLES, TableSpec, ensure_table, open_table, table_uri
from spark_jobs.lake.errors import JobError, OutputMismatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RANGE_BYTES = 128 << 20
BATCH_ROWS, BATCH_BYTES = "1000", "33554432"
"""Spark gives a worker so much at a time: values of a megabyte each are no reason to hold ten thousand of them."""

ORDER = dict.fromkeys(("records", "records_uncommitted"), ("topic", "partition", "log_id", "offset"))
"""Columns that rows are ordered by; other tables: by those that plans filter by."""
OF_ONE_FILE = dict.fromkeys(("records", "records_uncommitted"), ("topic", "partition", "log_id"))
"""Columns that are the same in all rows of a file."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was made."""

    version: int
    """Of the old table, that was read."""
    rows: int
    files: int
    extra: tuple[str, ...]
    """Columns of the users', carried over."""
    missing: tuple[str, ...]
    """Columns of ours that the old table does not have: null in the new one."""


def rebuild(spark: SparkSession, lake: str, name: str, folder: str, run_id: str) -> Rebuilt:
    """Make table ``name`` of ``lake`` again, in ``folder``, which is a lake of its own.

    Raises:
        JobError: a column has another type than ours, or rows do not say which log they are of.
        OutputMismatch: another number of rows was written than read.
    """
    table = open_table(lake, name)
    if table is None:
        raise JobError(f"Table {name} is not there; nothing to make again.")
    version = table.version()
    place = table_uri(lake, name)
    uri = place.replace("s3://", "s3a://", 1)
    frame = spark.read.format("delta").option("versionAsOf", version).load(uri)
    spec, missing = _spec_of(name, frame)
    frame = _as_declared(frame, spec, missing)
    order = [column for column in ORDER.get(name, spec.statistics) if column not in missing]
    _refuse_rows_of_nobody(name, frame, order)
    size = sum(file.size for file in live_files(table))
    written = _write(spark, frame, folder, spec, order, max(1, -(-size // RANGE_BYTES)))
    rows, due = sum(file.rows for file in written), frame.count()
    if rows != due:
        raise OutputMismatch(f"Table {name}: {rows} rows were written where version {version} has {due}.")
    made = ensure_table(folder, name)
    extra = [field for field in spec.schema if field.name not in TABLES[name].schema.names]
    if extra:
        made.alter.add_columns(list(Schema.from_arrow(pa.schema(extra)).fields))
    guards = [Guard(app, None, at) for app, at in sorted(_application_ids(lake, name, table).items())]
    commits.add_files(folder, name, written, run_id, guards)
    return Rebuilt(version, rows, len(written), tuple(field.name for field in extra), tuple(missing))


def _application_ids(lake: str, name: str, table: DeltaTable) -> dict[str, int]:
    known = delta_log.recorded_versions(lake, name, table.version())
    if known is not None:
        return known
    # A checkpoint of another form, as newer features bring them: asked one by one.
    from spark_jobs.lake.segments import archive

    logs = archive.read_logs(lake)
    ids = [f"{prefix}/{log}" for prefix in (name, "segments", "expectations") for log in logs]
    ids += [f"{name}/{log}/tail" for log in logs]
    return {app: at for app in ids if (at := table.transaction_version(app)) is not None}


def _spec_of(name: str, frame: DataFrame) -> tuple[TableSpec, list[str]]:
    """The table's columns with the users' behind them, and which of ours are not there."""
    from pyspark.sql.pandas.types import to_arrow_schema

    spec = TABLES[name]
    theirs = to_arrow_schema(frame.schema, timezone="UTC")
    extra = [field.with_nullable(True) for field in theirs if field.name not in spec.schema.names]
    missing = [column for column in spec.schema.names if column not in theirs.names]
    needed = [column for column in ORDER.get(name, ()) if column in missing]
    if needed:
        raise JobError(f"Table {name} has lost the column {needed[0]}, and its rows can't be told apart without it.")
    return replace(spec, schema=pa.schema([*spec.schema, *extra])), missing


def _as_declared(frame: DataFrame, spec: TableSpec, missing: Sequence[str]) -> DataFrame:
    """The rows with our types; a widened value that does not fit into ours ends the job."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = []
    for field in from_arrow_schema(TABLES[spec.name].schema).fields:
        kind = field.dataType
        if field.name in missing:
            columns.append(F.lit(None).cast(kind).alias(field.name))
        elif frame.schema[field.name].dataType != kind:
            columns.append(F.col(f"`{field.name}`").cast(kind).alias(field.name))
        else:
            columns.append(F.col(f"`{field.name}`"))
    ours = set(TABLES[spec.name].schema.names)
    return frame.select(*columns, *(F.col(f"`{name}`") for name in spec.schema.names if name not in ours))


def _refuse_rows_of_nobody(name: str, frame: DataFrame, order: Sequence[str]) -> None:
    if name not in ORDER:
        return
    condition = " OR ".join(f"`{column}` IS NULL" for column in order)
    count = frame.where(condition).count()
    if count:
        raise JobError(f"Table {name}: {count} rows do not say which log they are of. Delete them: WHERE {condition}.")


def _write(
    spark: SparkSession, frame: DataFrame, folder: str, spec: TableSpec, order: Sequence[str], ranges: int
) -> list[WrittenFile]:
    root, of_one_file = table_uri(folder, spec.name), OF_ONE_FILE.get(spec.name, ())
    # Rows of records can be compared with the archive, so they need no trust. Those of a state table are taken as they
    # are: whoever rebuilds it says that they are right.
    is_proven = spec.name not in OF_ONE_FILE

    def run(chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for key, group in itertools.groupby(_parts(chunks, of_one_file), key=lambda part: part[0]):
            values = dict(zip(of_one_file, key, strict=True))
            place = {column: str(values[column]) for column in spec.partition_by}
            file = write_file(root, spec, (rows for _, rows in group), place, partial(bool, is_proven))
            if file is not None:
                yield pa.RecordBatch.from_pylist([{"file": json.dumps(asdict(file))}])

    settings = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": BATCH_ROWS,
        "spark.sql.execution.arrow.maxBytesPerBatch": BATCH_BYTES,
    }
    before = {setting: spark.conf.get(setting, None) for setting in settings}
    for setting, value in settings.items():
        spark.conf.set(setting, value)
    try:
        ordered = frame.repartitionByRange(ranges, *order).sortWithinPartitions(*order)
        found = ordered.mapInArrow(run, "file string").collect()
    finally:
        for setting, known in before.items():
            if known is None:
                spark.conf.unset(setting)
            else:
                spark.conf.set(setting, known)
    return [WrittenFile(**json.loads(row["file"])) for row in found]


def _parts(
    chunks: Iterator[pa.RecordBatch], columns: Sequence[str]
) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """Rows cut where one of the columns changes, with its values."""
    for chunk in chunks:
        if not chunk.num_rows:
            continue
        changes = pa.array([False] * (chunk.num_rows - 1), pa.bool_())
        for column in columns:
            values = chunk.column(column)
            changes = pc.or_(changes, pc.not_equal(values[1:], values[:-1]))
        cuts = [0, *(at + 1 for at in pc.indices_nonzero(changes).to_pylist()), chunk.num_rows]
        for start, end in itertools.pairwise(cuts):
            part = chunk.slice(start, end - start)
            yield tuple(part.column(column)[0].as_py() for column in columns), part
