"""Which logs a file of ``records`` has rows of, and their offsets; read from the file if its statistics do not show it.

Files of another engine may have rows of several logs, in any order. Three columns show which. The result is cached in
the process, because the file that a table names under a path never changes.

This module reads those columns. The comparison with the ledger, ``optimize`` and ``replace`` use the result.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.lake.delta.files.live_files import open_parquet
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.store import storage

COLUMNS = ("partition", "log_id", "offset")
CHUNK_ROWS = 65_536
REMEMBERED_BYTES = 64 << 20

Integers = npt.NDArray[np.int64]
LogKey = tuple[str, int]
"""Log id and partition."""


class FileUnreadable(Exception):
    """A file that a table names is missing, or is not a readable Parquet file; the text gives path and reason."""

    def __init__(self, path: str, reason: str, *, is_lost: bool = True) -> None:
        """``is_lost``: False if disk or store fail to read its bytes, which may be temporary."""
        super().__init__(f"the file {path} cannot be read: {reason}")
        self.path = path
        self.reason = reason
        self.is_lost = is_lost


class OffsetCounts:
    """Numbers of rows by offset, stored as the offsets where the number changes, and by how much."""

    __slots__ = ("_before", "_levels", "positions", "steps")

    def __init__(self, positions: Integers, steps: Integers) -> None:
        """``positions`` ascend, and none of ``steps`` is zero."""
        self.positions = positions
        self.steps = steps
        self._levels = np.cumsum(steps)
        self._before = np.concatenate(([0], np.cumsum(self._levels[:-1] * np.diff(positions)))).astype(np.int64)

    @classmethod
    def of(cls, offsets: Integers) -> OffsetCounts:
        """Count rows in any order."""
        rising = np.sort(offsets)
        begins = np.flatnonzero(np.diff(rising) != 1) + 1
        starts = rising[np.concatenate(([0], begins))] if len(rising) else rising
        ends = rising[np.concatenate((begins - 1, [-1]))] + 1 if len(rising) else rising
        return _normal(
            np.concatenate((starts, ends)), np.repeat(np.array([1, -1], dtype=np.int64), [len(starts), len(ends)])
        )

    @classmethod
    def together(cls, several: Iterable[OffsetCounts]) -> OffsetCounts:
        """Add several counts."""
        parts = list(several)
        empty = np.zeros(0, dtype=np.int64)
        return _normal(
            np.concatenate([empty, *(part.positions for part in parts)]),
            np.concatenate([empty, *(part.steps for part in parts)]),
        )

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self._before[-1]) if len(self.positions) else 0

    @property
    def start(self) -> int:
        """The least offset."""
        return int(self.positions[0])

    @property
    def end(self) -> int:
        """The offset after the greatest."""
        return int(self.positions[-1])

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return 4 * self.positions.nbytes

    def below(self, offset: int) -> int:
        """Return the number of rows with lower offsets."""
        at = int(np.searchsorted(self.positions, offset, side="right")) - 1
        if at < 0:
            return 0
        return int(self._before[at] + self._levels[at] * (offset - self.positions[at]))

    def stretches(self) -> Iterator[tuple[int, int]]:
        """Yield half-open ranges in which every offset has a row; they do not touch."""
        has_rows = np.concatenate(([False], self._levels > 0))
        changes = np.flatnonzero(has_rows[1:] != has_rows[:-1])
        found = self.positions[changes].tolist()
        yield from zip(found[::2], found[1::2], strict=True)


def _normal(positions: Integers, steps: Integers) -> OffsetCounts:
    order = np.argsort(positions, kind="stable")
    positions, steps = positions[order], steps[order]
    if len(positions):
        first = np.flatnonzero(np.concatenate(([True], positions[1:] != positions[:-1])))
        positions, steps = positions[first], np.add.reduceat(steps, first)
    chosen = steps != 0
    return OffsetCounts(positions[chosen], steps[chosen])


@dataclass(frozen=True, slots=True)
class FileContents:
    """The rows of a file by log."""

    logs: Mapping[LogKey, OffsetCounts]
    is_ordered: bool
    """Whether its offsets never decrease from row to row; always False for a file of several logs."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(offsets.rows for offsets in self.logs.values())


_remembered: OrderedDict[tuple[str, int, int], FileContents] = OrderedDict()


def read_contents(lake: str, name: str, path: str) -> FileContents:
    """Return the content of the file at ``path`` (relative to table ``name``); read once in a process.

    Raises:
        FileUnreadable: It is missing, truncated or damaged, or disk or store fail to read it.
    """
    full = storage.join(table_uri(lake, name), path)
    try:
        with unbroken(full, path):
            found = storage.stat(full)
            key = (full, found.size, found.modified_ms)
            if key not in _remembered:
                with open_parquet(full, read_dictionary=["log_id"], page_checksum_verification=True) as file:
                    _remember(key, _contents(file))
            _remembered.move_to_end(key)
            return _remembered[key]
    except OSError as error:
        raise FileUnreadable(path, _reason(error), is_lost=False) from error


@contextlib.contextmanager
def unbroken(full: str, path: str) -> Iterator[None]:
    """Turn errors of reading a table's file into ours; the block must do nothing else.

    Args:
        full: Full path of the file; ``path`` is the path in the table.

    Raises:
        FileUnreadable: The file is lost.
        OSError: Its bytes cannot be read now.
    """
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise why_unreadable(full, path, error) from error


def batches_of(file: pq.ParquetFile, full: str, path: str, rows: int, **given: Any) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most ``rows`` rows of an open file; ``given`` goes to pyarrow. Raises as :func:`unbroken`."""
    with unbroken(full, path):
        batches = file.iter_batches(rows, **given)
    while True:
        with unbroken(full, path):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


@contextlib.contextmanager
def opened(full: str, path: str, **given: Any) -> Iterator[pq.ParquetFile]:
    """Open a file; its checksums, if any, are compared during reading.  Raises as :func:`unbroken`."""
    with unbroken(full, path):
        file = open_parquet(full, page_checksum_verification=True, **given)
    with file:
        yield file


def why_unreadable(full: str, path: str, error: Exception) -> Exception:
    """Decide what ``error``, from reading a table's file, means: the file is lost, or it cannot be read now.

    Returns:
        FileUnreadable if the file is missing, or if all of its bytes can be read and are not a Parquet file. Otherwise
        the error that prevents reading its bytes.
    """
    try:
        _read_through(full)
    except FileNotFoundError as gone:
        return FileUnreadable(path, _reason(gone))
    except OSError as unanswered:
        return unanswered
    return FileUnreadable(path, _reason(error))


def _read_through(full: str) -> None:
    storage.stat(full)  # raises for an object that does not exist
    with storage.arrow_filesystem(storage.directory_of(full)).open_input_stream(posixpath.basename(full)) as stream:
        while stream.read(4 << 20):
            pass


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is not there"
    return str(error).rstrip(".") or type(error).__name__


def _remember(key: tuple[str, int, int], contents: FileContents) -> None:
    _remembered[key] = contents
    held = sum(offsets.nbytes for each in _remembered.values() for offsets in each.logs.values())
    while held > REMEMBERED_BYTES and len(_remembered) > 1:
        _, dropped = _remembered.popitem(last=False)
        held -= sum(offsets.nbytes for offsets in dropped.logs.values())


def _contents(file: pq.ParquetFile) -> FileContents:
    parts: dict[LogKey, list[OffsetCounts]] = {}
    is_ordered, reached = True, -1
    for chunk in file.iter_batches(CHUNK_ROWS, columns=list(COLUMNS), use_threads=False):
        if not chunk.num_rows:
            continue
        offsets = integers(chunk, "offset")
        is_ordered &= bool(offsets[0] >= reached and (np.diff(offsets) >= 0).all())
        reached = int(offsets[-1])
        for key, chosen in by_log(chunk):
            held = parts.setdefault(key, [])
            held.append(OffsetCounts.of(offsets[chosen]))
            if len(held) == 64:  # neighbours are joined: a log without gaps is one range, however many chunks it has
                parts[key] = [OffsetCounts.together(held)]
    logs = {key: OffsetCounts.together(held) for key, held in parts.items()}
    return FileContents(logs, is_ordered and len(logs) < 2)


def by_log(chunk: pa.RecordBatch) -> Iterator[tuple[LogKey, Integers]]:
    """Yield the logs of the rows, with positions of each log's rows. Reads ``partition`` and dictionary ``log_id``."""
    named = chunk.column("log_id")
    if not pa.types.is_dictionary(named.type):
        named = named.cast(pa.string()).dictionary_encode()
    words = named.dictionary.to_pylist()  # type: ignore[attr-defined]
    codes = named.indices.fill_null(len(words)).to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[attr-defined]
    words.append("")  # for rows without a log, which belong to no log
    keys = (codes << 32) | (integers(chunk, "partition") & 0xFFFFFFFF)
    order = np.argsort(keys, kind="stable")
    begins = np.flatnonzero(np.diff(keys[order])) + 1
    for places in np.split(order, begins):
        if len(places):
            key = int(keys[places[0]])
            partition = key & 0xFFFFFFFF
            yield (words[key >> 32] or "", partition - (1 << 32) if partition >> 31 else partition), places


def may_meet(group: pq.RowGroupMetaData, **bounds: tuple[int, int]) -> bool:
    """Return whether a row group can have rows whose values are in half-open ranges, by column."""
    for at in range(group.num_columns):
        column = group.column(at)
        said = column.statistics if column.path_in_schema in bounds else None
        if said is not None and said.has_min_max:
            start, end = bounds[column.path_in_schema]
            if said.min >= end or said.max < start:  # type: ignore[operator]
                return False
    return True


def of_log(rows: pa.RecordBatch, key: LogKey) -> pa.RecordBatch:
    """Return the rows of a log."""
    log_id, partition = key
    has_id = np.asarray(pc.equal(rows["log_id"].cast(pa.string()), pa.scalar(log_id)).fill_null(False))
    inside = has_id & (np.asarray(rows["partition"]) == partition)
    return rows if inside.all() else rows.filter(pa.array(inside))


def within(rows: pa.RecordBatch, key: LogKey, start: int, end: int) -> pa.RecordBatch:
    """Return the rows of a log with offsets in ``[start, end)``."""
    chosen = of_log(rows, key)
    offsets = np.asarray(chosen["offset"])
    inside = (offsets >= start) & (offsets < end)
    return chosen if inside.all() else chosen.filter(pa.array(inside))


def in_offset_order(
    read: Callable[[pa.Schema], Iterator[pa.RecordBatch]], schema: pa.Schema, *, is_ordered: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a log so that their offsets rise. They are in memory at once only if another writer left them
    in another order.

    Args:
        read: Reads the rows again each time, with these columns.
        schema: The columns.
        is_ordered: Whether their order is known to be right.
    """
    if is_ordered or _rises(read(pa.schema([schema.field(name) for name in COLUMNS]))):
        yield from read(schema)
    else:
        rows = pa.Table.from_batches(read(schema), schema)
        yield from rows.sort_by("offset").to_batches(max_chunksize=CHUNK_ROWS)


def _rises(chunks: Iterator[pa.RecordBatch]) -> bool:
    reached = -1
    for chunk in chunks:
        offsets = integers(chunk, "offset")
        if len(offsets) and (offsets[0] <= reached or (np.diff(offsets) <= 0).any()):
            return False
        reached = int(offsets[-1]) if len(offsets) else reached
    return True


def integers(chunk: pa.RecordBatch, column: str) -> Integers:
    """Return a column of numbers; -1 for nulls."""
    found: Integers = chunk.column(column).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return found
