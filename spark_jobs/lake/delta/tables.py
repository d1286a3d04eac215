"""The tables of a lake: their columns, keys and layout, and how one is created.

Every table is Delta at reader version 1, writer version 2, without deletion vectors or column mapping, so that
anything that reads Delta reads it. Statistics are kept on the columns that plans filter by.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from logcore.columns.schema import RECORDS_SCHEMA
from spark_jobs.lake.delta.delta_location import delta_uri, prepare
from spark_jobs.lake.delta.table_scan import scan
from spark_jobs.lake.errors import JobError, TableUnreadable, UsageError, said
from spark_jobs.lake.store import storage

LOG_COLUMNS = [
    pa.field("log", pa.string()),  # <log_id>/<partition>: the key that plans and predicates use
    pa.field("topic", pa.string()),
    pa.field("log_id", pa.string()),
    pa.field("partition", pa.int32()),
]

LOGS = pa.schema(
    [
        *LOG_COLUMNS,
        pa.field("incarnation", pa.int32()),
        pa.field("topic_id", pa.string()),
        pa.field("cluster", pa.string()),
        pa.field("source", pa.string()),  # the partition directory that this log is kept to
        pa.field("next_offset", pa.int64()),
        pa.field("log_start_offset", pa.int64()),  # at first ingest
        pa.field("source_log_start_offset", pa.int64()),  # as last seen
        pa.field("high_watermark", pa.int64()),  # greatest seen; null: unknown, the log end stands for it
        pa.field("leader_epochs", pa.string()),  # JSON [[epoch, start_offset], ...]
        pa.field("cleaner_checkpoint", pa.int64()),
        pa.field("gaps", pa.string()),  # JSON [[start, end, evidence], ...]: offsets that were gone before ingest
        pa.field("as_of_ms", pa.int64()),
        pa.field("stopped", pa.string()),  # rule id, null while the log grows
        pa.field("stopped_because", pa.string()),
        pa.field("stopped_file", pa.string()),  # the file it stopped at, as it was seen
    ]
)

SEGMENTS = pa.schema(
    [
        pa.field("segment_id", pa.string()),
        *LOG_COLUMNS,
        pa.field("base_offset", pa.int64()),
        pa.field("next_offset", pa.int64()),
        pa.field("path", pa.string()),  # relative to the lake, absolute where it lies at the source
        pa.field("start", pa.int64()),
        pa.field("size", pa.int64()),
        pa.field("sealed", pa.bool_()),
        pa.field("digest", pa.string()),  # sha256 of bytes [start, start + size)
        pa.field("modified_ms", pa.int64()),
        pa.field("max_timestamp", pa.int64()),
        pa.field("generation", pa.int32()),
        pa.field("origin_file", pa.string()),
        pa.field("origin_position", pa.int64()),
        pa.field("origin_base_offset", pa.int64()),
        pa.field("last_batch_base_offset", pa.int64()),
        pa.field("last_batch_epoch", pa.int32()),
        pa.field("last_batch_crc", pa.int64()),
        pa.field("last_batch_size", pa.int64()),
        pa.field("last_batch_end", pa.int64()),  # position behind it in the origin file
        pa.field("retired_ms", pa.int64()),
        pa.field("replaced_by", pa.string()),
        pa.field("retired_because", pa.string()),  # retention, compaction, cut-back, filled, merged; null while live
        pa.field("deleted_ms", pa.int64()),  # null while its files are kept
    ]
)

VALIDATIONS = pa.schema(
    [
        pa.field("segment_id", pa.string()),
        *LOG_COLUMNS,
        pa.field("base_offset", pa.int64()),
        pa.field("verdict", pa.string()),  # clean, torn, corrupt
        pa.field("rules_version", pa.int32()),
        pa.field("batches", pa.int64()),
        pa.field("records", pa.int64()),
        pa.field("control_records", pa.int64()),
        pa.field("file_bytes", pa.int64()),
        pa.field("valid_bytes", pa.int64()),
        pa.field("quarantined_bytes", pa.int64()),
        pa.field("tail_bytes", pa.int64()),
        pa.field("padding_bytes", pa.int64()),
        pa.field("findings", pa.int64()),
        pa.field("split_points", pa.string()),  # JSON [[position, base_offset], ...], about every 64 MiB
        pa.field("digest", pa.string()),
        pa.field("as_of_ms", pa.int64()),
    ]
)

BATCHES = pa.schema(
    [
        pa.field("segment_id", pa.string()),
        *LOG_COLUMNS,
        pa.field("position", pa.int64()),
        pa.field("size", pa.int64()),
        pa.field("base_offset", pa.int64()),  # of a stretch that can't be trusted: the offset expected there
        pa.field("last_offset", pa.int64()),  # null for such a stretch
        pa.field("leader_epoch", pa.int32()),
        pa.field("magic", pa.int32()),
        pa.field("crc", pa.int64()),
        pa.field("attributes", pa.int32()),
        pa.field("codec", pa.string()),
        pa.field("timestamp_type", pa.string()),
        pa.field("base_timestamp", pa.int64()),
        pa.field("max_timestamp", pa.int64()),
        pa.field("delete_horizon_ms", pa.int64()),
        pa.field("producer_id", pa.int64()),
        pa.field("producer_epoch", pa.int32()),
        pa.field("base_sequence", pa.int32()),
        pa.field("record_count", pa.int32()),
        pa.field("is_transactional", pa.bool_()),
        pa.field("is_control", pa.bool_()),
        pa.field("control_type", pa.string()),
        pa.field("verdict", pa.string()),  # ok, or the corruption reason
    ]
)

FINDINGS = pa.schema(
    [
        pa.field("finding_id", pa.string()),  # digest of rule, place and message: one thing is said once
        pa.field("run_id", pa.string()),
        pa.field("rule", pa.string()),
        pa.field("severity", pa.string()),
        pa.field("log", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("segment_id", pa.string()),
        pa.field("file", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("nbytes", pa.int64()),
        pa.field("start_offset", pa.int64()),
        pa.field("end_offset", pa.int64()),
        pa.field("message", pa.string()),
        pa.field("as_of_ms", pa.int64()),
    ]
)

QUARANTINE = pa.schema(
    [
        pa.field("segment_id", pa.string()),
        *LOG_COLUMNS,
        pa.field("position", pa.int64()),
        pa.field("size", pa.int64()),
        pa.field("expected_offset", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("message", pa.string()),
        pa.field("bytes", pa.binary()),  # at most 1 MiB a row; a longer stretch takes several rows
    ]
)

TRANSACTIONS = pa.schema(
    [
        *LOG_COLUMNS,
        pa.field("producer_id", pa.int64()),
        pa.field("producer_epoch", pa.int32()),
        pa.field("first_offset", pa.int64()),
        pa.field("last_offset", pa.int64()),
        pa.field("marker_offset", pa.int64()),
        pa.field("state", pa.string()),
    ]
)

OFFSET_LEDGER = pa.schema(
    [
        *LOG_COLUMNS,
        pa.field("start_offset", pa.int64()),
        pa.field("end_offset", pa.int64()),
        pa.field("state", pa.string()),
        pa.field("records", pa.int64()),
        pa.field("gaps", pa.int64()),
        pa.field("gap_state", pa.string()),
        pa.field("evidence", pa.string()),
        pa.field("published", pa.bool_()),
        pa.field("archived", pa.string()),  # held, retained-away, compacted-away
        pa.field("withdrawn", pa.bool_()),  # rows were deleted from `records` on purpose; null in older lakes: no
    ]
)

WITHDRAWALS = pa.schema(
    [
        *LOG_COLUMNS,
        pa.field("start_offset", pa.int64()),
        pa.field("end_offset", pa.int64()),
        pa.field("records", pa.int64()),  # published records in the range, whose rows are gone
        pa.field("table_version", pa.int64()),  # of `records`, in which they were not there any more
        pa.field("run_id", pa.string()),
        pa.field("who", pa.string()),
        pa.field("withdrawn_ms", pa.int64()),
        pa.field("reason", pa.string()),
    ]
)

RECORDS_UNCOMMITTED = RECORDS_SCHEMA.append(
    pa.field("transaction_state", pa.string())  # committed (also: in no transaction), aborted, open, unknown
)

LOG_ACTIONS = pa.schema(
    [
        pa.field("run_id", pa.string()),
        *LOG_COLUMNS,
        pa.field("segment_id", pa.string()),
        pa.field("action", pa.string()),  # retention, compaction, keep, recovery, merge, delete, delete-orphan
        pa.field("rule", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("bytes_before", pa.int64()),
        pa.field("bytes_after", pa.int64()),
        pa.field("records_before", pa.int64()),
        pa.field("records_after", pa.int64()),
        pa.field("as_of_ms", pa.int64()),
    ]
)


READY_FILE = "ready.json"
"""In the folder of a rebuild: the new table is complete."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """Columns and layout of one table."""

    name: str
    schema: pa.Schema
    statistics: tuple[str, ...]
    """Columns with minimum and maximum in the Delta log; plans filter by these."""
    partition_by: tuple[str, ...] = ()

    @property
    def file_schema(self) -> pa.Schema:
        """Columns inside a Parquet file: all but the table partition's."""
        return pa.schema([f for f in self.schema if f.name not in self.partition_by])


TABLES: Mapping[str, TableSpec] = {
    spec.name: spec
    for spec in (
        TableSpec("logs", LOGS, ("log",)),
        TableSpec("segments", SEGMENTS, ("segment_id", "log", "base_offset", "retired_ms")),
        TableSpec("validations", VALIDATIONS, ("segment_id", "log")),
        TableSpec("batches", BATCHES, ("segment_id", "log", "base_offset", "last_offset")),
        TableSpec("findings", FINDINGS, ("finding_id", "log", "segment_id")),
        TableSpec("quarantine", QUARANTINE, ("segment_id", "log", "position")),
        TableSpec("transactions", TRANSACTIONS, ("log", "first_offset")),
        TableSpec("offset_ledger", OFFSET_LEDGER, ("log", "start_offset")),
        # log_id too: which log a file is of is told by its statistics alone, for tails and for merges
        TableSpec("records", RECORDS_SCHEMA, ("partition", "offset", "timestamp", "log_id"), ("topic",)),
        TableSpec(
            "records_uncommitted", RECORDS_UNCOMMITTED, ("partition", "offset", "timestamp", "log_id"), ("topic",)
        ),
        TableSpec("log_actions", LOG_ACTIONS, ("log", "segment_id")),
        TableSpec("withdrawals", WITHDRAWALS, ("log", "start_offset")),
    )
}


_BY_US = CommitProperties(custom_metadata={"userMetadata": json.dumps({"run_id": "tables"})})
"""What tells the commits by which a table is made, and gets new columns, from those of other programs."""


def table_uri(lake: str, name: str) -> str:
    """Where table ``name`` of ``lake`` lies."""
    return storage.join(lake, "tables", TABLES[name].name)


def rebuilding_folder(lake: str, name: str) -> str:
    """Where ``loglake repair --rebuild`` makes a table again, as a lake of its own, before it takes its place."""
    return storage.join(lake, "tables", f".{name}-rebuilding")


def _refuse_half_swapped(lake: str, name: str) -> None:
    """Between two renames of a rebuild the table is not in its place: whoever takes it for one that was never made
    publishes everything again.

    Raises:
        JobError: a rebuild was ended there.
    """
    if not storage.is_remote(lake) and os.path.exists(os.path.join(rebuilding_folder(lake, name), READY_FILE)):
        raise JobError(
            f"Table {name}: a rebuild of it was interrupted when the new table was about to take its place. Finish it: "
            f"loglake repair {lake} --rebuild {name} --apply."
        )


@contextmanager
def reading(lake: str, name: str, path: str | None = None) -> Iterator[None]:
    """Errors of Arrow and Delta while table ``name`` is read become ours.

    Args:
        path: the file that is read, relative to the table, where it is known.

    Raises:
        TableUnreadable: the table, or a file of it, is missing or damaged.
        StorageError: the object store did not answer as it should.
    """
    uri = table_uri(lake, name)
    try:
        with storage.answers(uri):
            yield
    except (JobError, UsageError):  # the address of a store is not a damaged table
        raise
    except (pa.ArrowException, DeltaError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        where = uri if path is None else storage.join(uri, path)
        raise TableUnreadable(
            f"Table {name}: {where} can't be read ({said(error)[:300]}) To make the table again: "
            f"loglake repair {lake} --rebuild {name}"
        ) from error


def open_table(lake: str, name: str) -> DeltaTable | None:
    """The table at its newest version, or None where it was never created.

    Raises:
        TableUnreadable: the table's log is damaged.
        StorageError: the object store did not answer as it should.
    """
    uri = table_uri(lake, name)
    with reading(lake, name):
        try:
            return DeltaTable(delta_uri(uri), storage_options=storage.delta_options(uri))
        except TableNotFoundError:
            _refuse_half_swapped(lake, name)
            return None


def spec_of(name: str, table: DeltaTable) -> TableSpec:
    """Columns and layout of a table as it is: ours, then the columns that its user added, which are nullable."""
    spec = TABLES[name]
    added = [
        field.with_nullable(True).remove_metadata()
        for field in _schema_of(table)
        if field.name not in spec.schema.names
    ]
    return replace(spec, schema=pa.schema([*spec.schema, *added]))


def _schema_of(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def ensure_table(lake: str, name: str) -> DeltaTable:
    """The table, created empty if it is not there; columns that came to it after it was made are added.

    Raises:
        TableUnreadable: it is there, and its log is damaged.
    """
    spec = TABLES[name]
    uri = table_uri(lake, name)
    if not storage.is_remote(lake) and not os.path.isdir(uri):
        _refuse_half_swapped(lake, name)
    prepare(uri)
    table = open_table(lake, name) or DeltaTable.create(
        delta_uri(uri),
        schema=spec.schema,
        mode="ignore",
        partition_by=list(spec.partition_by),
        storage_options=storage.delta_options(lake),
        configuration={
            "delta.enableDeletionVectors": "false",
            "delta.checkpointPolicy": "classic",
            "delta.dataSkippingStatsColumns": ",".join(spec.statistics),
        },
        commit_properties=_BY_US,
    )
    there = {field.name for field in table.schema().fields}
    later = [field for field in Schema.from_arrow(spec.schema).fields if field.name not in there]
    if later:
        table.alter.add_columns(later, commit_properties=_BY_US)
    return table


def open_dataset(lake: str, name: str, table: DeltaTable) -> ds.Dataset:
    """The table's files as an Arrow dataset, read through Arrow's own filesystem.

    Delta's default is a filesystem in Python: Arrow's threads may still be closing files through it when the
    interpreter ends, and then the process dies instead of ending with its exit code.
    """
    return table.to_pyarrow_dataset(filesystem=storage.arrow_filesystem(table_uri(lake, name)))


def read_rows(
    lake: str, name: str, columns: list[str] | None = None, where: Sequence[tuple[str, str, object]] | None = None
) -> pa.Table:
    """Rows of a table as Arrow, empty with the table's columns where it was never created.

    Args:
        where: ANDed conditions ``(column, operator, value)`` as ``pyarrow.dataset`` filters.

    Raises:
        TableUnreadable: a file of the table is missing or damaged, or a column is of another type than ours.
        StorageError: the object store did not answer as it should.
    """
    spec = TABLES[name]
    schema = spec.schema if columns is None else pa.schema([spec.schema.field(c) for c in columns])
    table = open_table(lake, name)
    if table is None:
        return schema.empty_table()
    condition = None
    for column, operator, value in where or ():
        term = _term(spec, column, operator, value)
        condition = term if condition is None else condition & term
    with reading(lake, name):
        dataset = open_dataset(lake, name, table)
        there = [column for column in schema.names if column in dataset.schema.names]
        taken = pa.schema([dataset.schema.field(column) for column in there])
        rows = pa.Table.from_batches(scan(dataset, there, condition), taken)
        for field in schema:
            if field.name not in there:  # a table made before it had this column
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        return rows.select(schema.names).cast(schema)


def _term(spec: TableSpec, column: str, operator: str, value: Any) -> ds.Expression:
    field = ds.field(column)
    if operator == "in":  # typed, because an empty list has no type of its own
        return field.isin(pa.array(value, spec.schema.field(column).type))
    if operator == "is_null":
        return field.is_null() if value else field.is_valid()
    comparison: ds.Expression = {"==": field.__eq__, ">=": field.__ge__, "<": field.__lt__}[operator](value)
    return comparison
