"""The rows of ``batches`` of one log in log order, streamed from the table's files in a worker.

Rows of a file are sorted by log, segment and position. This is true of files of the segment pass (one segment), and of
files that `validate` or `optimize` made of several segments of several logs. So the order of a log is a merge of its
files. A file is opened when the merge reaches its lowest possible position, and read one chunk at a time. Rows of small
segments that were just validated come with the task.
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

from logcore.remote.chunked.chunk_map import RegisteredObject
from spark_jobs.archived_rows.batch_rows import STREAMED, BatchRows
from spark_jobs.lake.delta.files.live_files import open_parquet

CHUNK_ROWS = 65_536
"""Rows decoded at a time."""

_Key = tuple[int, int]
"""Index of a segment within its log, and a position in the segment."""


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """A segment whose batches feed the log, and the location of its bytes."""

    segment_id: str
    base_offset: int
    next_offset: int
    path: str
    start: int
    registered: RegisteredObject | None = None
    """The object, if it is registered in place."""


@dataclass(frozen=True, slots=True)
class BatchFile:
    """A file of ``batches`` that may have rows of the log."""

    path: str
    least_base_offset: int | None
    """Lower bound for the base offsets of its rows; None: not known."""


def stream_batches(
    files: Sequence[BatchFile | BatchRows], segments: Sequence[SegmentPlace], resume_offset: int
) -> Iterator[pa.RecordBatch]:
    """Stream rows that end at or above ``resume_offset``, by (segment, position), with the columns STREAMED.

    Args:
        files: Where the rows are: files, or the rows of segments that have none.
        segments: Segments that feed the log, in offset order. Rows of other segments are skipped.
    """
    places = {segment.segment_id: place for place, segment in enumerate(segments)}
    ends = [segment.next_offset for segment in segments]
    waiting: list[tuple[_Key, int]] = []
    readers = []
    for number, file in enumerate(files):
        if isinstance(file, BatchRows):
            place = places.get(file.segment_id, 0)
        else:
            # Offsets rise with the segments, so the lowest offset gives the first segment that can have rows here.
            place = 0 if file.least_base_offset is None else bisect_left(ends, file.least_base_offset)
        heapq.heappush(waiting, ((place, -1), number))
        readers.append(_Reader(file, places, resume_offset))
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
    """One file, read one chunk at a time."""

    file: BatchFile | BatchRows
    places: Mapping[str, int]
    resume_offset: int
    last_key: _Key = (0, -1)
    """Key of the last row returned."""
    _chunks: Iterator[pa.RecordBatch] | None = None
    _rows: pa.RecordBatch | None = None
    _place: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    _position: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def key(self) -> _Key:
        """Key of the next row; a next row must exist."""
        return int(self._place[0]), int(self._position[0])

    def has_rows(self) -> bool:
        """Whether there is a next row. Decodes the next chunk if necessary."""
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
        """The decoded rows up to and including ``limit``; at least one exists."""
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
        return taken.select(STREAMED)

    def _read(self) -> Iterator[pa.RecordBatch]:
        if isinstance(self.file, BatchRows):
            yield self.file.facts()
            return
        # Repeated names are read as dictionary indices: a chunk then costs little more than its offsets.
        with open_parquet(self.file.path, read_dictionary=["segment_id", "verdict", "control_type"]) as file:
            for i in range(file.num_row_groups):
                # One row group per call: Arrow keeps what it read from a call's groups until the call ends.
                if self._may_matter(file.metadata.row_group(i)):
                    yield from file.iter_batches(CHUNK_ROWS, [i], columns=list(STREAMED), use_threads=False)

    def _may_matter(self, group: pq.RowGroupMetaData) -> bool:
        """Whether a row group can have a row at or above the resume offset."""
        for i in range(group.num_columns):
            column = group.column(i)
            if column.path_in_schema in ("base_offset", "last_offset"):
                statistics = column.statistics
                if statistics is None or not statistics.has_min_max:
                    if column.path_in_schema == "last_offset":
                        continue  # only nulls: quarantined ranges, for which the base offset decides
                    return True
                if statistics.max >= self.resume_offset:  # type: ignore[operator]
                    return True
        return False

    def _wanted(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        named = chunk.column("segment_id")
        known = np.array([self.places.get(name, -1) for name in named.dictionary.to_pylist()], dtype=np.int64)  # type: ignore[attr-defined]
        place = known[named.indices.to_numpy(zero_copy_only=False)]  # type: ignore[attr-defined]
        reach = pc.coalesce(chunk.column("last_offset"), chunk.column("base_offset")).to_numpy(zero_copy_only=False)
        chosen = (place >= 0) & (reach >= self.resume_offset)
        rows = chunk if chosen.all() else chunk.filter(pa.array(chosen))
        self._place = place[chosen]
        self._position = rows.column("position").to_numpy(zero_copy_only=False)
        same = np.diff(self._place) == 0
        falls = (np.diff(self._place) < 0) | (same & (np.diff(self._position) <= 0))
        if falls.any() or (rows.num_rows and self.key <= self.last_key):
            where = self.file.segment_id if isinstance(self.file, BatchRows) else self.file.path
            raise ValueError(f"rows of the table batches are not in the order of the log in {where}")
        return rows
