"""The rows of ``batches`` of one log, in the order of the log, streamed from the table's files in a worker.

Rows of a file lie in the order of log, segment and position, whether the segment pass wrote it (one segment) or tables
were optimized since (several, of several logs). So the order of a log is a merge of its files; a file is opened when
the merge comes to where it may begin, and held a chunk at a time.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from logcore.columns.checking.fact_runs import FACT_COLUMNS
from spark_jobs.lake.delta.live_files import open_parquet

CHUNK_ROWS = 65_536
"""Rows that are decoded at a time."""

_Key = tuple[int, int]
"""A segment's place among the log's, and a position in it."""


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """A segment whose batches feed the log, and where its bytes lie."""

    segment_id: str
    base_offset: int
    next_offset: int
    path: str
    start: int


@dataclass(frozen=True, slots=True)
class BatchFile:
    """A file of ``batches`` that may hold rows of the log."""

    path: str
    least_base_offset: int | None
    """No row has a lower one; None: not known."""


def stream_batches(
    files: Sequence[BatchFile], segments: Sequence[SegmentPlace], resume_offset: int
) -> Iterator[pa.RecordBatch]:
    """Rows that reach ``resume_offset`` or lie above it, by (segment, position), with the columns of a batch's facts.

    Args:
        segments: those that feed the log, in offset order; rows of others are passed over.
    """
    places = {segment.segment_id: place for place, segment in enumerate(segments)}
    ends = [segment.next_offset for segment in segments]
    waiting: list[tuple[_Key, int]] = []
    readers = []
    for number, file in enumerate(files):
        # Offsets rise with the segments, so the lowest one tells the first segment that the file can have rows of.
        place = 0 if file.least_base_offset is None else bisect_left(ends, file.least_base_offset)
        heapq.heappush(waiting, ((place, -1), number))
        readers.append(_Reader(file.path, places, resume_offset))
    while waiting:
        _, number = heapq.heappop(waiting)
        reader = readers[number]
        if not reader.has_rows():
            continue
        if waiting and waiting[0][0] < reader.key:
            heapq.heappush(waiting, (reader.key, number))
            continue
        yield reader.take_until(waiting[0][0] if waiting else None)
        heapq.heappush(waiting, (reader.last_key, number))


@dataclass(slots=True)
class _Reader:
    """One file, a chunk at a time."""

    path: str
    places: Mapping[str, int]
    resume_offset: int
    last_key: _Key = (0, -1)
    """Of the last row taken."""
    _chunks: Iterator[pa.RecordBatch] | None = None
    _rows: pa.RecordBatch | None = None
    _place: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    _position: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def key(self) -> _Key:
        """Of the next row; there is one."""
        return int(self._place[0]), int(self._position[0])

    def has_rows(self) -> bool:
        """Whether a row is there to be taken; decodes the next chunk if it must."""
        if self._chunks is None:
            self._chunks = self._read()
        while self._rows is None or self._rows.num_rows == 0:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._rows = None
                return False
            self._rows = self._wanted(chunk)
        return True

    def take_until(self, limit: _Key | None) -> pa.RecordBatch:
        """The rows at hand that are not behind ``limit``; at least one is there."""
        assert self._rows is not None
        count = self._rows.num_rows
        if limit is not None and (int(self._place[-1]), int(self._position[-1])) > limit:
            place, position = limit
            before = int(np.searchsorted(self._place, place, side="left"))
            there = int(np.searchsorted(self._place, place, side="right"))
            count = before + int(np.searchsorted(self._position[before:there], position, side="right"))
        taken = self._rows.slice(0, count)
        self.last_key = int(self._place[count - 1]), int(self._position[count - 1])
        self._rows = self._rows.slice(count)
        self._place, self._position = self._place[count:], self._position[count:]
        return taken.select(FACT_COLUMNS)

    def _read(self) -> Iterator[pa.RecordBatch]:
        # Names that repeat are read as numbers: a chunk then costs little more than its offsets.
        with open_parquet(self.path, read_dictionary=["segment_id", "verdict", "control_type"]) as file:
            for i in range(file.num_row_groups):
                # One row group a call: what was read of a call's groups is held until its end.
                if self._may_matter(file.metadata.row_group(i)):
                    yield from file.iter_batches(CHUNK_ROWS, [i], columns=list(FACT_COLUMNS), use_threads=False)

    def _may_matter(self, group: pq.RowGroupMetaData) -> bool:
        """Whether a row group can have a row at or above the resume offset."""
        for i in range(group.num_columns):
            column = group.column(i)
            if column.path_in_schema in ("base_offset", "last_offset"):
                statistics = column.statistics
                if statistics is None or not statistics.has_min_max:
                    if column.path_in_schema == "last_offset":
                        continue  # nulls only: stretches, which the base offset tells of
                    return True
                if statistics.max >= self.resume_offset:
                    return True
        return False

    def _wanted(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        named = chunk.column("segment_id")
        known = np.array([self.places.get(name, -1) for name in named.dictionary.to_pylist()], dtype=np.int64)
        place = known[named.indices.to_numpy(zero_copy_only=False)]
        reach = pc.coalesce(chunk.column("last_offset"), chunk.column("base_offset")).to_numpy(zero_copy_only=False)
        chosen = (place >= 0) & (reach >= self.resume_offset)
        rows = chunk if chosen.all() else chunk.filter(pa.array(chosen))
        self._place = place[chosen]
        self._position = rows.column("position").to_numpy(zero_copy_only=False)
        same = np.diff(self._place) == 0
        falls = (np.diff(self._place) < 0) | (same & (np.diff(self._position) <= 0))
        if falls.any() or (rows.num_rows and self.key <= self.last_key):
            raise ValueError(f"rows of the table batches are not in the order of the log in {self.path}")
        return rows
