"""Rebuild a table from its rows, as Delta's own reader sees them, without the features that other engines added.

    read     all columns of one version by Spark: deletion vectors, mapped names, widened types        (workers)
    order    by log and offset, over ranges of about 128 MiB                                          (workers)
    write    one file per range and log, by the writer of all our tables                               (workers)
    commit   every file and every application id of the old table, the frontiers among them           (driver)

The new table is written in a folder of its own, and then replaces the old table. ``repair`` decides which
tables are rebuilt in this way, and which by the next run.

    1  the new table is written in ``tables/.<name>-rebuilding``, a lake of its own
    2  ``ready.json`` is written beside it: the new table is complete, and readers of the table wait for 3 and 4
    3  the old one is renamed to ``tables/.<name>-before-<n>``, where it is kept
    4  the new one is renamed to its place; the folder is deleted

A process can be killed at any moment. If it ends in step 1, the next attempt deletes what is left. After step 2 the
next attempt continues.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Schema

from spark_jobs.errors import ConcurrentChange, JobError, OutputMismatch
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.files.live_files import live_files
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.delta_location import LOG_DIRECTORY
from spark_jobs.lake.delta.tables.snapshots import READY_FILE, open_table, rebuilding_folder, table_uri
from spark_jobs.lake.delta.tables.table_creation import ensure_table
from spark_jobs.lake.store import disk_sync, mapped_file, storage
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import RECORD_TABLES, TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


RANGE_BYTES = 128 << 20
BATCH_ROWS, BATCH_BYTES = "1000", "33554432"
"""Rows that Spark passes to a worker at a time. With values of a megabyte each, ten thousand rows would be too many."""

ORDER = dict.fromkeys(RECORD_TABLES, ("topic", "partition", "log_id", "offset"))
"""Columns that order the rows; other tables: the columns that plans filter by."""
OF_ONE_FILE = dict.fromkeys(RECORD_TABLES, ("topic", "partition", "log_id"))
"""Columns with the same value in all rows of a file."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The rebuilt table."""

    version: int
    """Version of the old table that was read."""
    rows: int
    files: int
    extra: tuple[str, ...]
    """Columns that users added; they are kept."""
    missing: tuple[str, ...]
    """Our columns that the old table does not have: null in the new one."""


def rebuild(spark: SparkSession, lake: str, name: str, folder: str, run_id: str) -> Rebuilt:
    """Rebuild table ``name`` of ``lake`` in ``folder``, which is a lake of its own.

    Raises:
        JobError: A column has another type than ours, or rows do not name their log.
        OutputMismatch: The number of written rows is not the number of read rows.
    """
    table = open_table(lake, name)
    if table is None:
        raise JobError(f"Table {name} does not exist; there is nothing to rebuild.")
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
    # A checkpoint of another form, as newer features write them: look up the ids one by one.
    from spark_jobs.lake.segments import archive

    logs = archive.read_logs(lake)
    ids = [f"{prefix}/{log}" for prefix in (name, "segments", "expectations") for log in logs]
    ids += [f"{name}/{log}/tail" for log in logs] + [f"{delta_log.EXPIRED}{log}" for log in logs]
    return {app: at for app in ids if (at := table.transaction_version(app)) is not None}


def _spec_of(name: str, frame: DataFrame) -> tuple[TableSpec, list[str]]:
    """The table's columns followed by the users', and which of ours are missing."""
    from pyspark.sql.pandas.types import to_arrow_schema

    spec = TABLES[name]
    theirs = to_arrow_schema(frame.schema, timezone="UTC")
    extra = [field.with_nullable(True) for field in theirs if field.name not in spec.schema.names]
    missing = [column for column in spec.schema.names if column not in theirs.names]
    needed = [column for column in ORDER.get(name, ()) if column in missing]
    if needed:
        raise JobError(f"Table {name} has lost the column {needed[0]}, and its rows can't be distinguished without it.")
    return replace(spec, schema=pa.schema([*spec.schema, *extra])), missing


def _as_declared(frame: DataFrame, spec: TableSpec, missing: Sequence[str]) -> DataFrame:
    """The rows with our types; a widened value that does not fit into our type ends the job."""
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
        raise JobError(f"Table {name}: {count} rows do not name their log. Delete them: WHERE {condition}.")


def _write(
    spark: SparkSession, frame: DataFrame, folder: str, spec: TableSpec, order: Sequence[str], ranges: int
) -> list[WrittenFile]:
    root, of_one_file = table_uri(folder, spec.name), OF_ONE_FILE.get(spec.name, ())
    # Rows of records can be compared with the archive, so they need no trust. Rows of a state table are copied as they
    # are: the user who rebuilds it vouches for them.
    is_proven = spec.name not in OF_ONE_FILE

    def run(chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for key, group in itertools.groupby(_parts(chunks, of_one_file), key=lambda part: part[0]):
            values = dict(zip(of_one_file, key, strict=True))
            place = {column: str(values[column]) for column in spec.partition_by}
            file = write_file(root, spec, (rows for _, rows in group), place, partial(bool, is_proven))
            if file is not None:
                yield pa.RecordBatch.from_pylist([{"file": pickle.dumps(file)}])

    settings = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": BATCH_ROWS,
        "spark.sql.execution.arrow.maxBytesPerBatch": BATCH_BYTES,
    }
    before = {setting: spark.conf.get(setting, None) for setting in settings}
    for setting, value in settings.items():
        spark.conf.set(setting, value)
    try:
        ordered = frame.repartitionByRange(ranges, *order).sortWithinPartitions(*order)
        found = ordered.mapInArrow(run, "file binary").collect()
    finally:
        for setting, known in before.items():
            if known is None:
                spark.conf.unset(setting)
            else:
                spark.conf.set(setting, known)
    return [pickle.loads(row["file"]) for row in found]


def _parts(
    chunks: Iterator[pa.RecordBatch], columns: Sequence[str]
) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """Split rows where one of the columns changes; yield each part with its values."""
    for chunk in chunks:
        if not chunk.num_rows:
            continue
        changes = pa.array([False] * (chunk.num_rows - 1), pa.bool_())
        for column in columns:
            values = chunk.column(column)
            changes = pc.or_(changes, pc.not_equal(values[1:], values[:-1]))
        cuts = [0, *(at + 1 for at in pc.indices_nonzero(changes).to_pylist()), chunk.num_rows]  # type: ignore[operator]
        for start, end in itertools.pairwise(cuts):
            part = chunk.slice(start, end - start)
            yield tuple(part.column(column)[0].as_py() for column in columns), part


_COPIED_AT_ONCE = 1 << 30


def is_half_done(lake: str, name: str) -> bool:
    """Return whether the new table is complete and the old one was already moved."""
    return _is_ready(lake, name) and not os.path.isdir(table_uri(lake, name))


def begin(lake: str, name: str) -> str:
    """Return an empty folder for the new table, as a lake of its own; files of an earlier attempt are deleted."""
    folder = rebuilding_folder(lake, name)
    if os.path.lexists(folder):
        ready = os.path.join(folder, READY_FILE)
        if os.path.exists(ready):
            os.unlink(ready)  # first: without it the rest means nothing
            disk_sync.sync(folder)
        shutil.rmtree(folder)
    os.makedirs(folder)
    return folder


def put_in_place(lake: str, name: str, version: int) -> str:
    """Replace the old table by the new one; return where the old one is kept, relative to the lake.

    Args:
        version: Version of the old table that was read.

    Raises:
        ConcurrentChange: The old table has changed since; nothing was touched.
    """
    folder = rebuilding_folder(lake, name)
    for directory, _, names in os.walk(folder):
        for each in names:
            disk_sync.sync(os.path.join(directory, each))
        disk_sync.sync(directory)
    table = open_table(lake, name)
    if table is None or table.version() != version:
        raise ConcurrentChange(f"Table {name}: it was changed while it was read; run again.")
    kept = _free_name(lake, name)
    storage.put(os.path.join(folder, READY_FILE), json.dumps({"kept": kept}).encode())
    return finish(lake, name)


def finish(lake: str, name: str) -> str:
    """Do the steps that are left after ``ready.json``; return where the old table is kept, relative to the lake.

    Raises:
        JobError: Another table was created in its place meanwhile.
    """
    folder, place, tables = rebuilding_folder(lake, name), table_uri(lake, name), os.path.join(lake, "tables")
    kept = str(json.loads(storage.read(os.path.join(folder, READY_FILE)))["kept"])
    new, old = table_uri(folder, name), os.path.join(lake, kept)
    if os.path.isdir(new):
        if os.path.isdir(place):
            if os.path.lexists(old):
                raise JobError(
                    f"Table {name}: {place} appeared while its rebuild was interrupted. Move it away, then run again."
                )
            os.rename(place, old)
            disk_sync.sync(tables)
        os.rename(new, place)
        disk_sync.sync(tables)
    shutil.rmtree(folder)
    return kept


def step_aside(lake: str, name: str) -> str | None:
    """Move a table away; return where it is kept, relative to the lake, or None if it does not exist.

    On an object store it is copied and then deleted, oldest commits first. The rest that a killed process leaves has no
    first commit, so no reader takes it for an earlier version.
    """
    place = table_uri(lake, name)
    if not storage.is_remote(lake):
        if not os.path.isdir(place):
            return None
        kept = _free_name(lake, name)
        os.rename(place, os.path.join(lake, kept))
        disk_sync.sync(os.path.join(lake, "tables"))
        return kept
    files = [file.path for file in storage.files_below(place)]
    if not files:
        return None
    kept = _free_name(lake, name)
    for path in files:
        target = storage.join(lake, kept, storage.relative(path, place))
        with storage.writing(target) as local, mapped_file.mapped(path) as content, open(local, "xb") as copy:
            for at in range(0, len(content), _COPIED_AT_ONCE):
                copy.write(content[at : at + _COPIED_AT_ONCE])
    for path in sorted(files, key=_deleted_in_order):
        storage.delete(path)
    return kept


def _deleted_in_order(path: str) -> tuple[int, str]:
    if f"/{LOG_DIRECTORY}/" not in path:
        return 2, path
    return (1 if path.endswith(".json") and "checkpoint" not in path else 0), path


def _is_ready(lake: str, name: str) -> bool:
    return not storage.is_remote(lake) and os.path.exists(os.path.join(rebuilding_folder(lake, name), READY_FILE))


def _free_name(lake: str, name: str) -> str:
    number = 1
    while True:
        kept = f"tables/.{name}-before-{number}"
        path = storage.join(lake, *kept.split("/"))
        taken = storage.has_files(path) if storage.is_remote(lake) else os.path.lexists(path)
        if not taken:
            return kept
        number += 1
