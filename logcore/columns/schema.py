"""The schema of the `records` table: the one list of its columns, their order and their types.

topic to headers are the columns of Spark's Kafka source, with its types. Belongs here: names and types; filling them is
the engines' work.
"""

import pyarrow as pa

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

RECORDS_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        # null where there is none (-1), and where the table's range of years 1 to 9999 ends; timestamp_ms keeps it
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        # null where a record has none, as Spark's Kafka source says it
        pa.field("headers", pa.list_(HEADER_TYPE)),
        pa.field("timestamp_ms", pa.int64()),
        # null where the batch has none (-1)
        pa.field("leader_epoch", pa.int32()),
        pa.field("log_id", pa.string()),
        pa.field("segment_id", pa.string()),
        # of the record's batch, in bytes from the segment's start
        pa.field("position", pa.int64()),
        # every name of the record's headers, only where one of them is not UTF-8
        pa.field("header_keys_raw", pa.list_(pa.binary())),
    ]
)

MIN_TIMESTAMP_MS = -62_135_596_800_000
"""0001-01-01T00:00:00Z"""
MAX_TIMESTAMP_MS = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z"""
