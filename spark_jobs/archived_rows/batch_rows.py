"""Rows of ``batches`` of one small segment, as bytes that a task returns in place of a file.

A Parquet file costs milliseconds and some kilobytes, however few rows it has. So the rows of small segments return to
the driver, which writes those of many segments into one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from logcore.columns.checking.fact_runs import FACT_COLUMNS
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.table_specs import BATCHES

SMALL_ROWS = 512
"""A segment with more rows has a file of its own."""
STREAMED = (*FACT_COLUMNS, "delete_horizon_ms")
"""Columns that the readers of batches get."""
OF_SEGMENT = ("segment_id", "log", "topic", "log_id", "partition")
"""Columns that have one value in all rows of a segment."""
_OWN = pa.schema([field for field in BATCHES if field.name not in OF_SEGMENT])
_WORDS = ("segment_id", "verdict", "control_type")
"""Columns that the readers of batches get as dictionaries."""


@dataclass(frozen=True, slots=True)
class BatchRows:
    """The rows of one segment."""

    segment_id: str
    content: bytes
    """An Arrow record batch message, without the columns of OF_SEGMENT."""

    @classmethod
    def of(cls, segment: Segment, chunks: Sequence[pa.RecordBatch]) -> BatchRows:
        """Pack rows of the table; there is at least one."""
        rows = pa.Table.from_batches(chunks).select(_OWN.names).combine_chunks()
        return cls(segment.segment_id, rows.to_batches()[0].serialize().to_pybytes())

    def table_rows(self, segment: Segment) -> pa.RecordBatch:
        """The rows with all columns of the table."""
        own = self._own()
        arrays = [
            own.column(field.name)
            if field.name not in OF_SEGMENT
            else pa.repeat(pa.scalar(getattr(segment, field.name), field.type), own.num_rows)
            for field in BATCHES
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=BATCHES)

    def facts(self) -> pa.RecordBatch:
        """The rows with the columns STREAMED, as the readers of files get them."""
        own = self._own()
        columns: dict[str, pa.Array[Any]] = {name: own.column(name) for name in STREAMED if name != "segment_id"}
        columns["segment_id"] = pa.repeat(pa.scalar(self.segment_id, pa.string()), own.num_rows)
        for name in _WORDS:
            columns[name] = columns[name].dictionary_encode()
        return pa.RecordBatch.from_pydict(columns)

    def _own(self) -> pa.RecordBatch:
        return pa.ipc.read_record_batch(pa.py_buffer(self.content), _OWN)


def few_rows(chunks: Iterable[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], bool]:
    """Take chunks from an iterator until they have more than SMALL_ROWS rows.

    Returns:
        The chunks, and whether these are all.
    """
    taken: list[pa.RecordBatch] = []
    rows = 0
    for chunk in chunks:
        taken.append(chunk)
        rows += chunk.num_rows
        if rows > SMALL_ROWS:
            return taken, False
    return taken, True
