"""Records of logs as Arrow batches, and as values made from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from logcore.columns.records_columns import RECORDS_SCHEMA
from logcore.library.damage import OnFinding, Reports, read_lazily
from logcore.library.filters import RecordFilter
from logcore.logs.model.findings import Finding
from logcore.reading.consumer_log import ConsumerLog
from logcore.reading.read_options import Notes, OffsetRange
from logcore.reading.shown_segments import columns_of
from logcore.records.model import Record, TimestampType

LEAST_ROWS = 4096
"""Smaller batches are joined, so that a query engine does not get very many."""
MOST_JOINED = 32
"""Most batches that are joined at once. A small batch may keep the memory that was allocated for a large one."""

_RECORD_COLUMNS = ("offset", "key", "value", "headers", "timestamp_ms", "timestampType", "header_keys_raw")
_TIMESTAMP_TYPES = {int(kind): kind for kind in TimestampType}


def schema_of_columns(columns: Iterable[str] | None) -> pa.Schema:
    """Return the Arrow schema of some columns of `RECORDS_SCHEMA`.

    Args:
        columns: Their names, in the order of the schema to return; None: all.

    Raises:
        ValueError: There is no such column, a column is named twice, or none is named.
        TypeError: It is one string instead of several.
    """
    if columns is None:
        return RECORDS_SCHEMA
    if isinstance(columns, str):
        raise TypeError(f"columns is a list of names; write [{columns!r}]")
    names = list(columns)
    for name in names:
        if name not in RECORDS_SCHEMA.names:
            raise ValueError(f"records have no column {name!r}; they have {', '.join(RECORDS_SCHEMA.names)}")
    if len(set(names)) < len(names) or not names:
        raise ValueError("columns names at least one column, and each only once")
    return pa.schema([RECORDS_SCHEMA.field(name) for name in names])


def reader_of(
    logs: Sequence[ConsumerLog],
    chosen: RecordFilter,
    columns: Iterable[str] | None,
    on_finding: OnFinding | None,
    findings: Iterable[Finding],
) -> pa.RecordBatchReader:
    """Return the chosen records of logs, one log after another, as a stream that can be read once.

    Args:
        logs: The logs.
        chosen: Which visible records are wanted.
        columns: Names of `RECORDS_SCHEMA`; None: all.
        on_finding: Gets the findings; None: the first error is raised.
        findings: Findings that are reported first.

    Raises:
        ValueError: As `schema_of_columns`.
        TypeError: As `schema_of_columns`.
        DamageFound: While reading, without `on_finding`.
    """
    schema = schema_of_columns(columns)

    def batches(reports: Reports) -> Iterator[pa.RecordBatch]:
        names = tuple(schema.names)
        for log in logs:
            yield from joined(batches_of_log(log, chosen, names, reports), schema)

    return pa.RecordBatchReader.from_batches(schema, read_lazily(on_finding, findings, batches))


def batches_of_log(
    log: ConsumerLog, chosen: RecordFilter, columns: tuple[str, ...] | None, notes: Notes
) -> Iterator[pa.RecordBatch]:
    """Yield the chosen records of a log in offset order, in batches of the decoding engine's size.

    Without an upper bound of offsets each segment is read to its end, so that damage there is reported.

    Args:
        log: The log.
        chosen: Which visible records are wanted.
        columns: Names of `RECORDS_SCHEMA`; None: all. The batches have them in the order of the schema.
        notes: Gets the findings.
    """
    offsets = OffsetRange(chosen.start_offset, chosen.end_offset)
    for shows in log.choose(offsets, chosen.wanted(columns)).segments(notes):
        yield from columns_of(shows, notes)


def joined(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in fewer batches. Large batches are not copied.

    Args:
        batches: The batches.
        schema: The columns of the result, in its order.
    """
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        batch = batch.select(schema.names)
        if not held and batch.num_rows >= LEAST_ROWS:
            yield batch
            continue
        held.append(batch)
        rows += batch.num_rows
        if rows >= LEAST_ROWS or len(held) == MOST_JOINED:
            yield from _one(held, schema)
            held, rows = [], 0
    if held:
        yield from _one(held, schema)


def _one(batches: list[pa.RecordBatch], schema: pa.Schema) -> list[pa.RecordBatch]:
    if len(batches) == 1:
        return batches
    return pa.Table.from_batches(batches, schema).combine_chunks().to_batches()


def records_of_log(log: ConsumerLog, chosen: RecordFilter, notes: Notes) -> Iterator[Record]:
    """Yield the chosen records of a log as values, in offset order.

    Args:
        log: The log.
        chosen: Which visible records are wanted.
        notes: Gets the findings.
    """
    for batch in batches_of_log(log, chosen, _RECORD_COLUMNS, notes):
        yield from records_in(batch)


def records_in(batch: pa.RecordBatch) -> Iterator[Record]:
    """Yield the rows of an Arrow batch that has the columns of a record."""
    columns = (batch.column(name).to_pylist() for name in _RECORD_COLUMNS)
    for offset, key, value, headers, timestamp_ms, kind, raw_names in zip(*columns, strict=True):
        pairs: tuple[tuple[bytes, bytes | None], ...] = ()
        if headers is not None:
            names = raw_names or [header["key"].encode() for header in headers]
            pairs = tuple((name, header["value"]) for name, header in zip(names, headers, strict=True))
        yield Record(offset, timestamp_ms, _TIMESTAMP_TYPES[kind], key, value, pairs)
