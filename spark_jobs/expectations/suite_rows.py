"""Rows of a published range for the suites of users: of ``records``, and of the decoded table of a topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa
import pyarrow.dataset as ds

from spark_jobs.lake.decoded.topic_tables import DECODED, topic_table
from spark_jobs.lake.delta.tables.snapshots import open_table
from spark_jobs.lake.delta.tables.table_rows import open_dataset

CHUNK_ROWS = 100_000


class PublishedRange(Protocol):
    """A range of a log in ``records``."""

    @property
    def log(self) -> str:
        """Log key."""

    @property
    def topic(self) -> str:
        """Topic of the log."""

    @property
    def log_id(self) -> str:
        """Identity of the topic's incarnation."""

    @property
    def partition(self) -> int:
        """Partition of the log."""

    @property
    def start_offset(self) -> int:
        """First offset."""

    @property
    def end_offset(self) -> int:
        """Offset after the last."""


def chunks_of(lake: str, each: PublishedRange) -> Iterator[pa.Table]:
    """Yield the published rows of a range, at most :data:`CHUNK_ROWS` at a time."""
    table = open_table(lake, "records")
    if table is None:
        return
    rows = open_dataset(lake, "records", table)
    yield from _joined(rows, _within(each) & (ds.field("topic") == each.topic))


def decoded_chunks_of(lake: str, each: PublishedRange) -> Iterator[pa.Table]:
    """Yield the decoded rows of a range in the same way. Fields of structs are columns such as ``value.price``.

    Raises:
        TableUnreadable: The decoded table is damaged.
    """
    place = topic_table(lake, DECODED, each.topic)
    table = place.open()
    if table is None:
        return
    with place.reading():
        rows = open_dataset(lake, place.name, table)
        for chunk in _joined(rows, _within(each)):
            while any(pa.types.is_struct(field.type) for field in chunk.schema):
                chunk = chunk.flatten()
            yield chunk


def _within(each: PublishedRange) -> ds.Expression:
    offset = ds.field("offset")
    return (
        (ds.field("partition") == each.partition)
        & (ds.field("log_id") == each.log_id)
        & (offset >= each.start_offset)
        & (offset < each.end_offset)
    )


def _joined(source: ds.Dataset, chosen: ds.Expression) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in source.to_batches(filter=chosen, batch_size=CHUNK_ROWS):
        if rows and rows + batch.num_rows > CHUNK_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
        if batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
    if waiting:
        yield pa.Table.from_batches(waiting)
