"""The columns of the data source, with their types in Spark. The first seven are those of Spark's Kafka source."""

from __future__ import annotations

HEADERS = "array<struct<key:string,value:binary>>"
TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": HEADERS,
    "timestamp_ms": "bigint",
    "leader_epoch": "int",
    "log_id": "string",
    "segment_id": "string",
    "position": "bigint",
}
KAFKA_COLUMNS = tuple(TYPES)[:7]
