"""The columns of the `records` table: the only list of their names, order, types and meanings.

The columns topic to headers are those of Spark's Kafka source, with its types. The engines fill the columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. `meaning`: a phrase for readers, with the unit of a number and when it is null."""

    name: str
    type: pa.DataType
    meaning: str


def schema_of(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of these columns, all of them nullable."""
    return pa.schema([pa.field(column.name, column.type) for column in columns])


HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

RECORDS_COLUMNS = (
    Column("topic", pa.string(), "topic name"),
    Column("partition", pa.int32(), "partition number"),
    Column("offset", pa.int64(), "offset in the log"),
    Column(
        "timestamp",
        pa.timestamp("us", tz="UTC"),
        "record time in UTC; null where it is -1 or outside the years 1 to 9999, and `timestamp_ms` keeps it",
    ),
    Column("timestampType", pa.int32(), "-1 none, 0 set by the producer, 1 set by the broker"),
    Column("key", pa.binary(), "key as written; null where there is none"),
    Column("value", pa.binary(), "value as written; null for a tombstone"),
    Column("headers", pa.list_(HEADER_TYPE), "record headers in their order; null where there are none"),
    Column("timestamp_ms", pa.int64(), "record time as written, epoch milliseconds"),
    Column("leader_epoch", pa.int32(), "leader epoch of the record's batch; null where it has none (-1)"),
    Column("log_id", pa.string(), "topic id and incarnation; offsets are unique within a log only"),
    Column("segment_id", pa.string(), "archived segment that the record was read from"),
    Column("position", pa.int64(), "position of the record's batch, bytes from the segment's start"),
    Column(
        "header_keys_raw",
        pa.list_(pa.binary()),
        "names of all headers of the record as bytes; null unless one of them is not UTF-8",
    ),
)

RECORDS_SCHEMA = schema_of(RECORDS_COLUMNS)

MIN_TIMESTAMP_MS = -62_135_596_800_000
"""0001-01-01T00:00:00Z"""
MAX_TIMESTAMP_MS = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z"""
