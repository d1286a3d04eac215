"""Rows of the commits of offsets in `__consumer_offsets`: usual ones in columns, all others one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logcore.columns.schema import MAX_TIMESTAMP_MS
from logcore.logs.model.sources import SourceLog
from logcore.messages.reader import ReadMessage
from logcore.reading.internal_topics.record_blocks import RecordBlock, bytes_of, record_blocks
from logcore.reading.notes import Notes
from logcore.reading.read_options import OffsetRange, ReadRules
from logcore.reading.visible_offsets import visible_window
from logcore.storage.discovery import shown
from logcore.topics.commit_columns import CommitColumns, commit_columns
from logcore.topics.internal_topics import InternalTopic, record_messages
from spark_jobs.cluster.internal_sources import NOT_READ, ClusterLogs, Row, standing, time_of
from spark_jobs.lake.table_specs import TABLES

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
