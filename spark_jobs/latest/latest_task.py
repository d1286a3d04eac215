"""A task of ``latest``: new rows of ``records`` of one log, and the files of its table, become changed files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logcore.storage.objects.answers import said
from spark_jobs.errors import JobError
from spark_jobs.lake.decoded.topic_tables import LATEST, latest_spec, topic_table, written_key
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.latest.decoded_values import DecodedFiles, DecodedValues
from spark_jobs.policies.compression import Compression
from spark_jobs.reads import Reads
from spark_jobs.row_files.newest.newest_keys import NewestKeys
from spark_jobs.row_files.newest.newest_rows import KEY_COLUMNS, NewestCounts, add_keys, chosen_rows
from spark_jobs.row_files.newest.offset_set import OffsetSet
from spark_jobs.row_files.published_rows import Span, published_rows
from spark_jobs.row_files.typed_files import TypedFiles
from spark_jobs.tasks.executor import synced_late

FILE_BYTES = 8 << 20
"""Bytes of rows in memory of a file: a changed key costs the rewriting of one."""
_BATCH_ROWS, _KEYS = 8192, 65_536
"""Rows that are read at once, and keys."""
_Staying = npt.NDArray[np.bool_]
"""Which rows of a file stay."""


@dataclass(frozen=True, slots=True)
class LatestTask:
    """Offsets of a log that are added to its rows in ``latest/<topic>``."""

    lake: str
    span: Span
    published: tuple[LiveFile, ...]
    """Files of ``records`` that may have rows of the span."""
    held: tuple[LiveFile, ...]
    """Files of the table with rows of the log, in the order of offsets; none if the table is written again."""
    keeps_tombstones: bool
    compression: Compression
    keys_in_memory: int
    spread_bytes: int
    """With more bytes of new rows, many tasks do the work of this one: see :attr:`is_large`."""
    values: DecodedFiles | None = None
    """Where decoded keys and values are; None: the topic is not decoded."""

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return self.span.reads

    @property
    def spec(self) -> TableSpec:
        """The columns of the table."""
        return latest_spec(self.span.topic, None if self.values is None else self.values.columns)

    @property
    def size(self) -> int:
        """Bytes that the task reads."""
        decoded = () if self.values is None else (*self.values.decoded, *self.values.undecoded)
        return max(1, sum(file.size for file in (*self.published, *self.held, *decoded)))

    @property
    def new_rows(self) -> int:
        """The number of new rows, or a few more."""
        span = self.span.end - self.span.start
        return min(span, sum(file.rows if file.rows >= 0 else span for file in self.published))

    @property
    def most_keys(self) -> int:
        """The number of keys of the log, or more."""
        return self.new_rows + sum(file.rows for file in self.held)

    @property
    def is_large(self) -> bool:
        """Whether new rows have many bytes, or may have more keys than one map has room for."""
        of_span = sum(self.span.part_of(file)[2] for file in self.published)
        return of_span > self.spread_bytes or self.new_rows > self.keys_in_memory

    def of(self, held: tuple[LiveFile, ...], start: int, end: int) -> LatestTask:
        """Return the task of some files of the table, and of new rows between two offsets."""
        span = replace(self.span, start=start, end=end)
        published = tuple(file for file in self.published if span.may_be_in(file))
        values = None if self.values is None else self.values.of(span)
        return replace(self, span=span, published=published, held=held, values=values)


@dataclass(frozen=True, slots=True)
class LatestResult:
    """What a task wrote, or why it wrote nothing."""

    written: tuple[WrittenFile, ...] = ()
    removed: tuple[LiveFile, ...] = ()
    counts: NewestCounts | None = None
    rows_written: int = 0
    """New rows of the table."""
    rows_moved: int = 0
    """Rows that were written again unchanged."""
    error: str | None = None


@synced_late
def latest_rows(task: LatestTask) -> LatestResult:
    """Write what changes in one log; never raise for what is in a table."""
    try:
        with NewestKeys(task.keys_in_memory) as newest:
            add_keys(newest, published_rows(task.lake, task.published, task.span, KEY_COLUMNS))
            stays = None
            if newest.spilled:
                add_keys(newest, held_keys(task))
            else:
                stays = _staying_rows(task, newest)
            chosen = newest.newest()
        return written(task, chosen, stays)
    except (JobError, OSError) as error:
        return failure(error)


def failure(error: JobError | OSError) -> LatestResult:
    """Return the result of a task that ended with an error."""
    return LatestResult(error=said(error) if isinstance(error, OSError) else str(error))


def held_keys(task: LatestTask) -> Iterator[pa.RecordBatch]:
    """Yield offset and key of the rows of the table.

    Raises:
        TableUnreadable: A file is missing or damaged.
    """
    for file in task.held:
        for batch in _rows(task, file, ("offset", written_key(task.spec))):
            yield batch.rename_columns(["offset", "key"])


def written(task: LatestTask, chosen: OffsetSet, stays: Sequence[_Staying | None] | None = None) -> LatestResult:
    """Write the files that change.

    Args:
        task: What is written.
        chosen: The newest offsets.
        stays: Which rows of each file of the table stay. None: those with a chosen offset.

    Raises:
        JobError: A table is damaged.
        OSError: A file can't be written.
    """
    if stays is None:
        stays = [
            _joined([chosen.has(np.asarray(batch["offset"])) for batch in _rows(task, file, ("offset",))])
            for file in task.held
        ]
    files = TypedFiles(topic_table(task.lake, LATEST, task.span.topic).uri, task.spec, task.compression, FILE_BYTES)
    try:
        return _written(task, files, chosen, stays)
    finally:
        files.abandon()


def _written(task: LatestTask, files: TypedFiles, chosen: OffsetSet, stays: Sequence[_Staying | None]) -> LatestResult:
    counts, removed = NewestCounts(), []
    kept = _kept(task.held, [staying is None or bool(staying.all()) for staying in stays], task.new_rows)
    for file, staying, is_kept in zip(task.held, stays, kept, strict=True):
        if is_kept:
            files.end_log()
            continue
        removed.append(file)
        for batch in _staying(task, file, staying):
            files.write(batch)
    moved = files.rows
    new = chosen_rows(
        published_rows(task.lake, task.published, task.span),
        chosen,
        latest_spec(task.span.topic),
        counts,
        keeps_tombstones=task.keeps_tombstones,
    )
    values = None
    if task.values is not None and task.published:
        values = DecodedValues(task.lake, task.span, task.values)
    for batch in new:
        files.write(batch if values is None else values.added_to(batch))
    files.end_log()
    return LatestResult(tuple(files.written), tuple(removed), counts, files.rows - moved, moved)


def _staying_rows(task: LatestTask, newest: NewestKeys) -> list[_Staying | None]:
    """Return which rows of each file stay; None: all of them.

    A log has one row for each key. So files are read from the newest one on until each new key has been found. Keys
    that are new to the table are in none of them: then all files are read.
    """
    stays: list[_Staying | None] = []
    left, key = newest.keys, written_key(task.spec)
    for file in reversed(task.held):
        if left <= 0:
            stays.append(None)
            continue
        staying = _joined([~newest.added(batch[key]) for batch in _rows(task, file, (key,))])
        left -= len(staying) - int(np.count_nonzero(staying))
        stays.append(staying)
    return stays[::-1]


def is_small(file: LiveFile) -> bool:
    """Return whether a file is joined with new rows if only such files are after it."""
    return file.size <= FILE_BYTES // 4


def _kept(held: Sequence[LiveFile], unchanged: Sequence[bool], new_rows: int) -> list[bool]:
    """Which files stay: those without an outdated row, but for small ones at the end, which are joined."""
    kept = list(unchanged)
    joined = new_rows
    for at in range(len(held) - 1, -1, -1):
        if held[at].rows > 2 * joined or not is_small(held[at]):
            break
        kept[at] = False
        joined += held[at].rows
    return kept


def _staying(task: LatestTask, file: LiveFile, staying: _Staying | None) -> Iterator[pa.RecordBatch]:
    """Rows of a file that stay. Columns that have the value of the log in all rows are not read.

    Raises:
        TableUnreadable: The file is missing or damaged.
    """
    schema = task.spec.schema.remove_metadata()
    of_log = {"log_id": task.span.log_id, "partition": task.span.partition}
    alike = {name: value for name, value in of_log.items() if file.nulls.get(name) == 0 and file.only(name) == value}
    at = 0
    for batch in _rows(task, file, [name for name in schema.names if name not in alike]):
        rows = batch if staying is None else batch.filter(pa.array(staying[at : at + batch.num_rows]))
        at += batch.num_rows
        same = {name: pa.repeat(pa.scalar(value, schema.field(name).type), len(rows)) for name, value in alike.items()}
        yield pa.RecordBatch.from_arrays(
            [same[name] if name in same else rows[name] for name in schema.names], schema=schema
        )


def _rows(task: LatestTask, file: LiveFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows of a file of the table.

    Raises:
        TableUnreadable: It is missing or damaged.
    """
    table = topic_table(task.lake, LATEST, task.span.topic)
    schema = pa.schema([task.spec.schema.field(name) for name in columns]).remove_metadata()
    for batch in table.batches(file, columns, _KEYS if "value" not in columns else _BATCH_ROWS):
        with table.reading():
            rows = [batch[each.name].cast(each.type) for each in schema]
        yield pa.RecordBatch.from_arrays(rows, names=schema.names)


def _joined(parts: Sequence[npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)
