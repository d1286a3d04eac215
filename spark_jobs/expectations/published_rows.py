"""Counts the rows of ``records`` of one log in the table's files.

Runs in a worker, one call per log. Rows are read. Statistics only select the files and row groups that can have rows of
the range. Memory is a row group, and a bitmap where offsets do not rise from row to row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from logcore.columns.schema import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from logcore.segments.side_files.time_index import NO_TIMESTAMP
from spark_jobs.lake.delta.files.file_contents import FileUnreadable, batches_of, opened
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.store.written_file import is_own_file
from spark_jobs.reads import Reads

COLUMNS = ("partition", "log_id", "offset", "timestamp", "timestamp_ms")
CHUNK_ROWS = 65_536
WINDOW_OFFSETS = 1 << 26
"""Offsets per pass of a count of distinct offsets, where they are not sorted."""


@dataclass(frozen=True, slots=True)
class CountTask:
    """A range of a log, and the files that may have rows of it, by their lowest offset."""

    log_id: str
    partition: int
    start_offset: int
    end_offset: int
    files: tuple[str, ...]

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(f"{self.log_id}/{self.partition}", None, self.start_offset, self.end_offset)


@dataclass(slots=True)
class RowCounts:
    """Counts of a range; the offsets are None where it has no row."""

    rows: int = 0
    distinct_offsets: int = 0
    min_offset: int | None = None
    max_offset: int | None = None
    non_rising_offsets: int = 0
    """Rows whose offset is not above that of the row before it in the same file."""
    unexpected_null_timestamps: int = 0
    """Rows without a timestamp whose milliseconds are a valid one."""


class ByPlace:
    """Files of ``records`` by topic and partition."""

    def __init__(self, files: Iterable[LiveFile]) -> None:
        self._files: dict[tuple[str | None, int | None], list[LiveFile]] = {}
        for file in files:
            self._files.setdefault((file.partition_values.get("topic"), file.partition), []).append(file)

    def of(self, topic: str, partition: int, log_id: str, start: int, end: int) -> tuple[LiveFile, ...]:
        """Files that may have rows of a range of a log, by their lowest offset."""
        chosen = [
            file
            for known in (partition, None)
            for file in self._files.get((topic, known), ())
            if file.may_hold("partition", partition)
            and file.may_hold("log_id", log_id)
            and file.may_reach("offset", start)
            and file.least.get("offset", start) < end
        ]
        return tuple(sorted(chosen, key=lambda file: (file.least.get("offset", -1), file.path)))


def count_rows(task: CountTask) -> RowCounts:
    """Count the rows of a range."""
    counts = RowCounts()
    rises = True
    highest = -1
    for path in task.files:
        before = -1
        for chunk in _chunks(path, task, COLUMNS):
            offsets = chunk.column("offset").to_numpy(zero_copy_only=False)
            counts.rows += len(offsets)
            falls = int((np.diff(offsets, prepend=before) <= 0).sum())
            # Only our files must have this order: other engines may use any layout.
            counts.non_rising_offsets += falls if is_own_file(path) else 0
            rises &= not falls and int(offsets[0]) > highest
            before = int(offsets[-1])
            low, high = int(offsets.min()), int(offsets.max())
            counts.min_offset = low if counts.min_offset is None else min(counts.min_offset, low)
            counts.max_offset = highest = max(highest, high)
            counts.unexpected_null_timestamps += _lost_timestamps(chunk)
    counts.distinct_offsets = counts.rows if rises else _distinct(task, counts)
    return counts


def _lost_timestamps(chunk: pa.RecordBatch) -> int:
    milliseconds = chunk.column("timestamp_ms")
    is_late_enough = pc.greater_equal(milliseconds, pa.scalar(MIN_TIMESTAMP_MS))
    fits = pc.and_(is_late_enough, pc.less_equal(milliseconds, pa.scalar(MAX_TIMESTAMP_MS)))
    could_be = pc.and_(fits, pc.not_equal(milliseconds, pa.scalar(NO_TIMESTAMP)))
    return pc.sum(pc.and_(pc.is_null(chunk.column("timestamp")), could_be)).as_py() or 0  # type: ignore[type-var]


def _distinct(task: CountTask, counts: RowCounts) -> int:
    """Number of distinct offsets, counted window by window."""
    if counts.min_offset is None or counts.max_offset is None:
        return 0
    total = 0
    for low in range(counts.min_offset, counts.max_offset + 1, WINDOW_OFFSETS):
        high = min(low + WINDOW_OFFSETS, counts.max_offset + 1)
        seen = np.zeros(high - low, dtype=bool)
        window = CountTask(task.log_id, task.partition, low, high, task.files)
        for path in task.files:
            for chunk in _chunks(path, window, ("partition", "log_id", "offset")):
                seen[chunk.column("offset").to_numpy(zero_copy_only=False) - low] = True
        total += int(seen.sum())
    return total


def _chunks(path: str, task: CountTask, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read the rows of the range in file order, never an empty chunk.

    A lost file has none: other checks report it.
    """
    name = path.rpartition("/")[2]
    with suppress(FileUnreadable), opened(path, name, read_dictionary=["log_id"]) as file:
        for i in range(file.num_row_groups):
            if not _may_matter(file.metadata.row_group(i), task):
                continue
            for chunk in batches_of(file, path, name, CHUNK_ROWS, row_groups=[i], columns=list(columns)):
                chosen = _chosen(chunk, task)
                if chosen.any():
                    yield chunk if chosen.all() else chunk.filter(pa.array(chosen))


def _may_matter(group: pq.RowGroupMetaData, task: CountTask) -> bool:
    for i in range(group.num_columns):
        column = group.column(i)
        if column.path_in_schema == "offset" and column.statistics is not None and column.statistics.has_min_max:
            return bool(column.statistics.max >= task.start_offset and column.statistics.min < task.end_offset)  # type: ignore[operator]
    return True


def _chosen(chunk: pa.RecordBatch, task: CountTask) -> npt.NDArray[np.bool_]:
    named = chunk.column("log_id")
    names = named.dictionary.to_pylist()  # type: ignore[attr-defined]
    same = np.array([*(name == task.log_id for name in names), False])  # the last: rows without a name
    offsets = chunk.column("offset").to_numpy(zero_copy_only=False)
    partitions = chunk.column("partition").to_numpy(zero_copy_only=False)
    chosen: npt.NDArray[np.bool_] = (
        same[named.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)]  # type: ignore[attr-defined]
        & (partitions == task.partition)
        & (offsets >= task.start_offset)
        & (offsets < task.end_offset)
    )
    return chosen
