"""Offsets of the rows that ``records`` really has, read from the rows and not from statistics.

Rows are read by Delta's own reader, so rows that a deletion vector hides are missing. Offsets are kept as runs of
neighbours: a log without holes is one run, however long it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from spark_jobs.errors import JobError
from spark_jobs.groups import by_key
from spark_jobs.lake.delta.files.live_files import live_files
from spark_jobs.lake.segments.archive import LogRow

ROWS_AT_ONCE = 50_000_000
"""Topics are read together up to about this many rows. Each query has a cost, and its logs need memory."""
PARTS_HELD = 64

Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RunsOfOffsets:
    """Offsets of a log: ascending runs [starts, ends) that neither touch nor overlap."""

    starts: Array
    ends: Array

    def count(self, start: int, end: int) -> int:
        """Return how many of them are in [start, end)."""
        return sum(high - low for low, high in self.within(start, end))

    def counts(self, starts: Array, ends: Array) -> Array:
        """Return how many of them are in each range [start, end)."""
        return self._below(ends) - self._below(starts)

    def _below(self, offsets: Array) -> Array:
        """How many are below each of some other offsets."""
        sums = np.concatenate(([0], np.cumsum(self.ends - self.starts)))
        place = np.searchsorted(self.starts, offsets, side="left")
        below: Array = sums[place]
        if len(self.ends):
            below -= np.where(place > 0, np.maximum(self.ends[np.maximum(place - 1, 0)] - offsets, 0), 0)
        return below

    def within(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the runs, clipped to [start, end)."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        last = int(np.searchsorted(self.starts, end, side="left"))
        for low, high in zip(self.starts[first:last].tolist(), self.ends[first:last].tolist(), strict=True):
            yield max(low, start), min(high, end)

    def without(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of [start, end) that no run covers."""
        at = start
        for low, high in self.within(start, end):
            if low > at:
                yield at, low
            at = high
        if at < end:
            yield at, end


@dataclass(frozen=True, slots=True)
class PresentOffsets(RunsOfOffsets):
    """Offsets of a log that have a row."""

    rows: int
    """Number of rows; higher than that of offsets if some have several rows."""

    @classmethod
    def none(cls) -> PresentOffsets:
        """Return the value for no rows."""
        nothing = np.empty(0, dtype=np.int64)
        return cls(nothing, nothing, 0)

    @property
    def end(self) -> int:
        """The offset after the greatest one; 0 if there is none."""
        return int(self.ends[-1]) if len(self.ends) else 0

    @property
    def doubled(self) -> int:
        """Number of rows whose offset another row has too."""
        return self.rows - int((self.ends - self.starts).sum())


def present_offsets(table: DeltaTable | None, logs: Sequence[LogRow]) -> Iterator[tuple[LogRow, PresentOffsets]]:
    """Yield the offsets of each log that have rows in this version of ``records``, or of ``records_uncommitted``; None:
    the table does not exist.

    Raises:
        JobError: The rows cannot be read.
    """
    by_topic = by_key(sorted(logs, key=lambda row: (row.topic, row.log)), lambda log: log.topic)
    for topics in _together(table, list(by_topic)):
        found = {} if table is None else _of_topics(table, topics)
        for topic in topics:
            for log in by_topic[topic]:
                collected = found.pop((topic, log.partition, log.log_id), None)
                yield log, PresentOffsets.none() if collected is None else collected.offsets()


class _Collected:
    """Runs in order of arrival, joined from time to time."""

    def __init__(self) -> None:
        self._parts: list[tuple[Array, Array]] = []
        self._rows = 0

    def add(self, offsets: Array) -> None:
        """Add offsets of some rows, in any order."""
        self._rows += len(offsets)
        offsets = np.unique(offsets)
        breaks = np.flatnonzero(np.diff(offsets) != 1)
        starts = offsets[np.concatenate(([0], breaks + 1))]
        ends = offsets[np.concatenate((breaks, [len(offsets) - 1]))] + 1
        self._parts.append((starts, ends))
        if len(self._parts) >= PARTS_HELD:
            self._parts = [_joined(self._parts)]

    def offsets(self) -> PresentOffsets:
        """Return all offsets."""
        return PresentOffsets(*_joined(self._parts), self._rows)


def _joined(parts: Iterable[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Join runs that touch or overlap, in order."""
    several = list(parts)
    starts = np.concatenate([part[0] for part in several])
    ends = np.concatenate([part[1] for part in several])
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    begins = np.concatenate(([True], starts[1:] > ends[:-1]))
    return starts[begins], ends[np.concatenate((begins[1:], [True]))]


def _together(table: DeltaTable | None, topics: Sequence[str]) -> Iterator[list[str]]:
    rows: dict[str, int] = {}
    for file in live_files(table) if table is not None else ():
        topic = file.partition_values.get("topic", "")
        rows[topic] = rows.get(topic, 0) + max(file.rows, 0)
    some: list[str] = []
    total = 0
    for topic in topics:
        if some and total + rows.get(topic, 0) > ROWS_AT_ONCE:
            yield some
            some, total = [], 0
        some.append(topic)
        total += rows.get(topic, 0)
    if some:
        yield some


def _of_topics(table: DeltaTable, topics: Sequence[str]) -> dict[tuple[str, int, str], _Collected]:
    quoted = ", ".join("'" + topic.replace("'", "''") + "'" for topic in topics)
    sql = f'SELECT topic, "partition", log_id, "offset" FROM records WHERE topic IN ({quoted})'  # noqa: S608 - quoted
    found: dict[tuple[str, int, str], _Collected] = {}
    try:
        reader = pa.RecordBatchReader.from_stream(QueryBuilder().register("records", table).execute(sql))
        for chunk in reader:
            _collect(chunk, found)
    except (DeltaError, pa.ArrowException, OSError) as error:
        raise JobError(f"The rows of the table {table.table_uri} cannot be read: {error}.") from error
    return found


def _collect(chunk: pa.RecordBatch, found: dict[tuple[str, int, str], _Collected]) -> None:
    """Collect rows of a chunk by their log; most chunks have one log."""
    chunk = chunk.drop_null()  # rows that another engine added without a log belong to no log
    if not chunk.num_rows:
        return
    codes = np.zeros(chunk.num_rows, dtype=np.int64)
    values: list[list[object]] = []
    for name in ("topic", "partition", "log_id"):
        column = chunk.column(name)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        values.append(column.dictionary.to_pylist())  # type: ignore[attr-defined]
        codes = codes * len(values[-1]) + column.indices.to_numpy(zero_copy_only=False)  # type: ignore[attr-defined]
    offsets = chunk.column("offset").to_numpy(zero_copy_only=False)
    for code in np.unique(codes).tolist():
        rest, log_id = divmod(code, len(values[2]))
        topic, partition = divmod(rest, len(values[1]))
        key = (str(values[0][topic]), int(str(values[1][partition])), str(values[2][log_id]))
        found.setdefault(key, _Collected()).add(offsets[codes == code])
