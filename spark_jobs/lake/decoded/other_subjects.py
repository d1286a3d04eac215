"""Newest rows of a topic that name a schema of another subject, by log.

A producer that writes to the wrong topic, or that registers its schemas under another name, leaves such rows. They are
in the table `undecoded/TOPIC`. Newest are the rows of the last publishing run that the topic has rows of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from logcore.values.undecodable import Reason
from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, topic_table
from spark_jobs.lake.delta.files.file_contents import batches_of, opened
from spark_jobs.lake.segments.archive import log_key
from spark_jobs.lake.store import storage

_CHUNK_ROWS = 65_536
_REASON = Reason.OTHER_SUBJECT.value
_COLUMNS = ("log_id", "partition", "offset", "published_at", "schema_id", "reason")


@dataclass(frozen=True, slots=True)
class OtherSubjectRows:
    """Rows of one log.

    Attributes:
        log: Log key.
        partition: Partition number.
        rows: Number of rows.
        offset: Of the first of them.
        schema_ids: That they name; a schema that is named by a GUID has none.
    """

    log: str
    partition: int
    rows: int
    offset: int
    schema_ids: frozenset[int]


def other_subject_rows(lake: str, topic: str) -> list[OtherSubjectRows]:
    """Return the newest rows of a topic that name a schema of another subject, by log.

    Raises:
        TableUnreadable: A table is damaged, or a file of undecoded rows cannot be read.
    """
    undecoded = topic_table(lake, UNDECODED, topic)
    bad = undecoded.files()
    times = [file.greatest.get("published_at") for file in (*topic_table(lake, DECODED, topic).files(), *bad)]
    last = max((time for time in times if time is not None), default=None)
    found: dict[str, OtherSubjectRows] = {}
    if last is None:
        return []
    with undecoded.reading():
        for file in bad:
            if file.greatest.get("published_at") == last:
                for part in _of_file(storage.join(undecoded.uri, file.path), file.path, last):
                    found[part.log] = _together(found.get(part.log), part)
    return [found[log] for log in sorted(found)]


def _of_file(full: str, path: str, last: datetime) -> Iterator[OtherSubjectRows]:
    """The rows of each chunk of a file, by log."""
    with opened(full, path) as file:
        for chunk in batches_of(file, full, path, _CHUNK_ROWS, columns=list(_COLUMNS)):
            yield from _of_chunk(chunk, last)


def _of_chunk(chunk: pa.RecordBatch, last: datetime) -> Iterator[OtherSubjectRows]:
    published: Any = chunk.column("published_at")
    reason: Any = chunk.column("reason")
    is_newest = pc.equal(published, pa.scalar(last, published.type))
    log_ids = chunk.column("log_id").cast(
        pa.string()
    )  # another engine may write a kind of text that Arrow cannot filter
    columns = {"log_id": log_ids} | {name: chunk.column(name) for name in ("partition", "offset", "schema_id")}
    rows = pa.table(columns).filter(pc.and_(is_newest, pc.equal(reason, pa.scalar(_REASON, reason.type))))
    by_log = rows.group_by(["log_id", "partition"]).aggregate(
        [("offset", "count"), ("offset", "min"), ("schema_id", "distinct")]
    )
    for row in by_log.to_pylist():
        named = frozenset(schema for schema in row["schema_id_distinct"] if schema is not None)
        log = log_key(row["log_id"], row["partition"])
        yield OtherSubjectRows(log, row["partition"], row["offset_count"], row["offset_min"], named)


def _together(before: OtherSubjectRows | None, more: OtherSubjectRows) -> OtherSubjectRows:
    if before is None:
        return more
    return OtherSubjectRows(
        more.log,
        more.partition,
        before.rows + more.rows,
        min(before.offset, more.offset),
        before.schema_ids | more.schema_ids,
    )
