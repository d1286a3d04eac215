"""Records as Arrow columns, the plain way: the reference engine, together with the scan and the record reader.

It is the specification of a faster engine, and slow on purpose. This module converts records to columns.
`logcore.records` reads bytes, and `logcore.segments.scanning.scan` separates good batches from damage.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from logcore.columns.records_columns import HEADER_TYPE, MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, RECORDS_SCHEMA
from logcore.columns.wanted import Place
from logcore.records.model import BatchHeader, Record
from logcore.texts import java_text, utf8_text

# An encoded surrogate (CESU-8, or half of one). Java's decoder replaces its bytes together; Python's one by one.


def to_columns(
    records: Sequence[Record], place: Place, header: BatchHeader, position: int, shift: int = 0
) -> pa.RecordBatch:
    """Convert all records of one batch, with its header and its position in the buffer, to RECORDS_SCHEMA rows.

    `shift` is subtracted from their offsets.
    """
    count, epoch = len(records), header.partition_leader_epoch
    columns: dict[str, pa.Array[Any]] = {
        "topic": pa.array([place.topic] * count, pa.string()),
        "partition": pa.array([place.partition] * count, pa.int32()),
        "offset": pa.array([record.offset - shift for record in records], pa.int64()),
        "timestamp": pa.array([table_timestamp(record.timestamp) for record in records], pa.timestamp("us", tz="UTC")),
        "timestampType": pa.array([int(record.timestamp_type) for record in records], pa.int32()),
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.binary()),
        "headers": pa.array([_headers(record) for record in records], pa.list_(HEADER_TYPE)),
        "timestamp_ms": pa.array([record.timestamp for record in records], pa.int64()),
        "leader_epoch": pa.array([None if epoch < 0 else epoch] * count, pa.int32()),
        "log_id": pa.array([place.log_id] * count, pa.string()),
        "segment_id": pa.array([place.segment_id] * count, pa.string()),
        "position": pa.array([place.position_base + position] * count, pa.int64()),
        "header_keys_raw": pa.array([_raw_names(record) for record in records], pa.list_(pa.binary())),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in RECORDS_SCHEMA.names], schema=RECORDS_SCHEMA)


def table_timestamp(timestamp_ms: int) -> int | None:
    """Microseconds for the table's `timestamp`; None for -1 and for times outside of the years 1 to 9999."""
    if timestamp_ms == -1 or not MIN_TIMESTAMP_MS <= timestamp_ms <= MAX_TIMESTAMP_MS:
        return None
    return timestamp_ms * 1000


def _headers(record: Record) -> list[dict[str, str | bytes | None]] | None:
    if not record.headers:
        return None
    return [{"key": java_text(name), "value": value} for name, value in record.headers]


def _raw_names(record: Record) -> list[bytes] | None:
    if all(utf8_text(name) is not None for name, _ in record.headers):
        return None
    return [name for name, _ in record.headers]
