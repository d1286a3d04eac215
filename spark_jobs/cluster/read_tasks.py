"""The tasks of the job: each reads one internal log, without the tables of the lake, and makes its rows.

What a task returns is compared with the tables later, in one process. A log of `__consumer_offsets` has two tasks:
commits are read from where the table ends, and groups from the beginning. Usual commits become rows
in columns, all others one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logcore.columns.records_columns import MAX_TIMESTAMP_MS
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SourceLog
from logcore.messages.reader import ReadMessage
from logcore.reading.internal_topics.cluster_metadata import Moment
from logcore.reading.internal_topics.consumer_groups import group_states
from logcore.reading.internal_topics.internal_logs import internal_records
from logcore.reading.internal_topics.record_blocks import RecordBlock, bytes_of, record_blocks
from logcore.reading.read_options import Notes, OffsetRange, ReadRules
from logcore.reading.remote_metadata import segment_states
from logcore.reading.visible_offsets import visible_high_watermark, visible_window
from logcore.storage.discovery import shown
from logcore.topics.commit_columns import CommitColumns, commit_columns
from logcore.topics.internal_topics import InternalTopic, record_messages
from spark_jobs.cluster.internal_sources import NOT_READ, ClusterLogs, Row, standing, time_of
from spark_jobs.cluster.metadata_rows import metadata_rows
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.reads import Reads


class Subject(StrEnum):
    """What is read from an internal log."""

    COMMITS = "commits"
    GROUPS = "groups"
    TRANSACTIONAL_IDS = "transactional ids"
    REMOTE_SEGMENTS = "remote segments"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class ReadTask:
    """An internal log to read.

    Attributes:
        subject: What of it.
        cluster: Its cluster, as rows name it.
        log: The log.
        start: The first offset of commits.
    """

    subject: Subject
    cluster: str
    log: SourceLog
    start: int = 0

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(str(self.log.topic_partition), self.log.directory, self.start)

    @property
    def size(self) -> int:
        """Bytes of the segments that it reads."""
        first = max((each.base_offset for each in self.log.segments if each.base_offset <= self.start), default=0)
        return sum(each.size for each in self.log.segments if each.base_offset >= first)


@dataclass(frozen=True, slots=True)
class ReadLog:
    """What a task read: the value that its reader returns, and the findings."""

    value: Any
    findings: tuple[Finding, ...]


def read_log(task: ReadTask) -> ReadLog:
    """Read an internal log. Runs in a worker."""
    notes = Notes()
    value = _READERS[task.subject](ClusterLogs(task.cluster, (task.log,)), task, notes)
    return ReadLog(value, tuple(notes.findings))


_READERS: Mapping[Subject, Callable[[ClusterLogs, ReadTask, Notes], Any]] = MappingProxyType(
    {
        Subject.COMMITS: lambda cluster, task, notes: read_commits(cluster, task.log, task.start, notes),
        Subject.GROUPS: lambda _, task, notes: group_states(task.log, notes, Moment(), ReadRules()),
        Subject.TRANSACTIONAL_IDS: lambda cluster, task, notes: transactional_rows(cluster, task.log, notes),
        Subject.REMOTE_SEGMENTS: lambda cluster, task, notes: remote_rows(cluster, task.log, notes),
        Subject.METADATA: lambda cluster, task, notes: metadata_rows(cluster, task.log, notes),
    }
)


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


COMMITS = "cluster_offset_commits"
_OFFSET_KEYS = (0, 1)
"""Types of keys of commits."""
_COMMITTED = ReadRules(isolation_level="read_committed")


@dataclass(frozen=True, slots=True)
class ReadCommits:
    """Commits of one log.

    Attributes:
        rows: Of the schema of the table, in the order of their offsets.
        end: The offset after the last one that was read.
        gap: The offset at which the first bytes begin that could not be read; None: all were read.
    """

    rows: pa.Table
    end: int
    gap: int | None


def read_commits(cluster: ClusterLogs, log: SourceLog, frontier: int, notes: Notes) -> ReadCommits:
    """Read the commits from a frontier to the last stable offset, without those of aborted transactions.

    Args:
        cluster: The cluster of the log.
        log: A log of `__consumer_offsets`.
        frontier: The first offset.
        notes: Gets the findings. It has none yet.
    """
    window = visible_window(log, _COMMITTED)
    place = cluster.place(log) | {"standing": standing(log)}
    progress = [frontier]
    blocks = record_blocks(
        log,
        notes,
        frontier,
        window.end,
        visible=window.ranges(OffsetRange(frontier)),
        control=False,
        progress=progress,
    )
    schema = TABLES[COMMITS].schema
    rows = [part for block in blocks for part in _rows(block, place, schema)]
    end = max(frontier, min(max(progress), window.end))
    return ReadCommits(pa.Table.from_batches(rows, schema), end, _gap(log, notes))


def _gap(log: SourceLog, notes: Notes) -> int | None:
    """The offset at which the first bytes begin that could not be read: damage, or a segment."""
    starts = [finding.start_offset for finding in notes.findings if finding.start_offset is not None]
    files = {finding.file for finding in notes.findings if finding.rule in NOT_READ}
    starts += [segment.base_offset for segment in log.segments if shown(segment.path) in files]
    return min([*starts, *log.unreadable], default=None)


def _rows(block: RecordBlock, place: Row, schema: pa.Schema) -> list[pa.RecordBatch]:
    """The rows of a block's commits, in their order."""
    keys, values = block.rows.column("key"), block.rows.column("value")
    columns = commit_columns(keys, values)
    usual = _usual(columns, block, place, schema)
    others = np.flatnonzero(~columns.is_read)
    if not len(others):
        return [usual] if usual.num_rows else []
    picked = pa.array(others, pa.int64())
    offsets = block.rows.column("offset").to_numpy()[others].tolist()
    transactional = block.is_transactional[others].tolist()
    rows = [
        place | {"record_offset": offset, "is_transactional": flag} | row
        for offset, flag, key, value in zip(
            offsets, transactional, bytes_of(keys.take(picked)), bytes_of(values.take(picked)), strict=True
        )
        if (row := _commit(key, value)) is not None
    ]
    if not rows:
        return [usual] if usual.num_rows else []
    plain = [{name: row.get(name) for name in schema.names} for row in rows]
    single = pa.RecordBatch.from_pylist(plain, schema=schema)
    both = pa.Table.from_batches([usual, single]).sort_by("record_offset").combine_chunks()
    return both.to_batches()


def _usual(columns: CommitColumns, block: RecordBlock, place: Row, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of commits that were read as columns."""
    deleted, epochs, times = columns.is_deleted, columns.leader_epoch, columns.commit_time_ms
    is_time = (times >= 0) & (times <= MAX_TIMESTAMP_MS) & ~deleted
    metadata = columns.metadata
    if deleted.any():
        metadata = pc.if_else(pa.array(~deleted), metadata, pa.scalar(None, pa.string()))
    found: dict[str, Any] = {
        "group": columns.group,
        "topic": columns.topic,
        "partition": pa.array(columns.partition.astype(np.int32)),
        "committed_offset": pa.array(columns.offset, mask=deleted),
        "leader_epoch": pa.array(epochs.astype(np.int32), mask=deleted | (epochs < 0)),
        "metadata": metadata,
        "commit_time": pa.array(np.where(is_time, times, 0) * 1000, mask=~is_time).cast(pa.timestamp("us", tz="UTC")),
        "record_offset": pa.array(block.rows.column("offset").to_numpy()[columns.is_read]),
        "is_deleted": pa.array(deleted),
        "is_transactional": pa.array(block.is_transactional[columns.is_read]),
    } | {name: pa.repeat(str(text), len(deleted)) for name, text in place.items()}
    return pa.RecordBatch.from_arrays([found[name] for name in schema.names], schema=schema)


def _commit(key: bytes | None, value: bytes | None) -> Row | None:
    """What a record says of a commit or its deletion; None for other records.

    Reading the groups reports records that cannot be read.
    """
    messages = record_messages(InternalTopic.CONSUMER_OFFSETS, key, value)
    framed = messages.key
    if framed is None or framed.type_number not in _OFFSET_KEYS or not isinstance(framed.message, ReadMessage):
        return None
    read = None if messages.value is None else messages.value.message
    if read is not None and not isinstance(read, ReadMessage):
        return None
    names = framed.message.fields
    fields: Mapping[str, object] = {} if read is None else read.fields
    epoch = _whole(fields.get("leaderEpoch"))
    return {
        "group": names["group"],
        "topic": names["topic"],
        "partition": names["partition"],
        "committed_offset": fields.get("offset"),
        "leader_epoch": None if epoch is None or epoch < 0 else epoch,
        "metadata": fields.get("metadata"),
        "commit_time": time_of(_whole(fields.get("commitTimestamp"))),
        "is_deleted": read is None,
    }


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
