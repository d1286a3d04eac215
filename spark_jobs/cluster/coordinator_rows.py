"""Rows of transactional ids from `__transaction_state`, and of remote segments from `__remote_log_metadata`."""

from __future__ import annotations

from typing import Any

from logcore.logs.model.findings import found
from logcore.logs.model.sources import SourceLog
from logcore.messages.reader import ReadMessage
from logcore.reading.internal_topics.internal_logs import internal_records
from logcore.reading.notes import Notes
from logcore.reading.read_options import ReadRules
from logcore.reading.remote_metadata import segment_states
from logcore.reading.visible_offsets import visible_high_watermark
from logcore.topics.internal_topics import InternalTopic, record_messages
from spark_jobs.cluster.internal_sources import ClusterLogs, Row, standing, time_of

_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""By Kafka's number (org.apache.kafka.coordinator.transaction TransactionState)."""


def transactional_rows(cluster: ClusterLogs, log: SourceLog, notes: Notes) -> list[Row]:
    """Return a row for each transactional id: a record without a value removes it.

    Args:
        cluster: The cluster.
        log: A log of `__transaction_state`.
        notes: Gets the findings.
    """
    latest: dict[str, Row] = {}
    producer_ids: dict[str, set[int]] = {}  # also of states before the transactional id expired
    for entry in internal_records(log, notes, end=visible_high_watermark(log, ReadRules().high_watermark)):
        if entry.is_control:
            continue
        offset = entry.offset
        messages = record_messages(InternalTopic.TRANSACTION_STATE, entry.key, entry.value)
        for unread in messages.unread:
            message = f"{log.topic_partition}, offset {offset}: {unread.detail}. The record does not count."
            notes.say(found("message-not-read", message, start_offset=offset, end_offset=offset + 1))
        key = None if messages.key is None else messages.key.message
        value = None if messages.value is None else messages.value.message
        if not isinstance(key, ReadMessage) or (value is not None and not isinstance(value, ReadMessage)):
            continue
        name = str(key.fields["transactionalId"])
        if value is None:
            latest.pop(name, None)
        else:
            place = cluster.place(log) | {"standing": standing(log), "record_offset": offset}
            latest[name] = place | _transaction(name, value.fields)
            producer_ids.setdefault(name, set()).update(_producer_ids(value.fields))
    return [
        row | {"other_producer_ids": sorted(producer_ids[name] - {row["producer_id"]})} for name, row in latest.items()
    ]


def _producer_ids(fields: dict[str, Any]) -> set[int]:
    """All producer ids of a state: since KIP-890 it also names the previous and, as long as it ends, the next one."""
    names = ("producerId", "previousProducerId", "nextProducerId")
    return {fields[name] for name in names if fields.get(name, -1) >= 0}


def _transaction(name: str, fields: dict[str, Any]) -> Row:
    number = fields["transactionStatus"]
    return {
        "transactional_id": name,
        "producer_id": fields["producerId"],
        "producer_epoch": fields["producerEpoch"],
        "timeout_ms": fields["transactionTimeoutMs"],
        "state": _STATES[number] if 0 <= number < len(_STATES) else str(number),
        "partitions": [
            f"{entry['topic']}-{partition}"
            for entry in sorted(fields["transactionPartitions"] or (), key=lambda entry: str(entry["topic"]))
            for partition in sorted(entry["partitionIds"])
        ],
        "last_update_time": time_of(fields["transactionLastUpdateTimestampMs"]),
        "start_time": time_of(fields["transactionStartTimestampMs"]),
    }


def remote_rows(cluster: ClusterLogs, log: SourceLog, notes: Notes) -> list[Row]:
    """Return a row for each remote segment.

    Args:
        cluster: The cluster.
        log: A log of `__remote_log_metadata`: all records of a topic partition are in one.
        notes: Gets the findings.
    """
    states = segment_states((log,), notes)
    return [
        cluster.place(log)
        | {
            "topic": segment.topic_partition.topic,
            "topic_id": segment.topic_id,
            "partition": segment.topic_partition.partition,
            "segment_id": segment.segment_id,
            "start_offset": segment.start_offset,
            "end_offset": segment.end_offset + 1,
            "size": segment.size,
            "state": segment.state.kafka_name,
            "max_timestamp": segment.max_timestamp_ms,
            "event_time": time_of(segment.event_timestamp_ms),
            "broker": segment.broker_id,
            "standing": standing(log),
        }
        for segment in (() if states is None else states.segments.values())
    ]
