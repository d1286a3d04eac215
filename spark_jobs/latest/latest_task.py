"""A task of ``latest``: new rows of ``records`` of one log, and the files of its table, become changed files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    spec = task.spec
    files = TypedFiles(topic_table(task.lake, LATEST, task.span.topic).uri, spec, task.compression, FILE_BYTES)
    try:
        return _written(task, files, spec)
    except (JobError, OSError) as error:
        return LatestResult(error=said(error) if isinstance(error, OSError) else str(error))
    finally:
        files.abandon()


def _written(task: LatestTask, files: TypedFiles, spec: TableSpec) -> LatestResult:
    counts, removed = NewestCounts(), []
    with NewestKeys(task.keys_in_memory) as newest:
        add_keys(newest, published_rows(task.lake, task.published, task.span, KEY_COLUMNS), counts)
        chosen, stays = _chosen(task, newest, spec)
    kept = _kept(task.held, [staying is None or bool(staying.all()) for staying in stays], counts.rows)
    for file, staying, is_kept in zip(task.held, stays, kept, strict=True):
        if is_kept:
            files.end_log()
            continue
        removed.append(file)
        for batch in _staying(task, file, spec, staying):
            files.write(batch)
    moved = files.rows
    new = chosen_rows(
        published_rows(task.lake, task.published, task.span),
        chosen,
        latest_spec(task.span.topic),
        counts,
        keeps_tombstones=task.keeps_tombstones,
    )
    values = None if task.values is None else DecodedValues(task.lake, task.span, task.values)
    for batch in new:
        files.write(batch if values is None else values.added_to(batch))
    files.end_log()
    return LatestResult(tuple(files.written), tuple(removed), counts, files.rows - moved, moved)


def _chosen(task: LatestTask, newest: NewestKeys, spec: TableSpec) -> tuple[OffsetSet, list[_Staying | None]]:
    """Return the newest offsets, and for each file which of its rows stay: those whose keys no new row has.

    Args:
        task: Has the files.
        newest: The keys of the new rows. If they did not fit into one map, the keys of the files are added.
        spec: The table.
    """
    if not newest.spilled:
        stays = _staying_rows(task, newest, spec)
        return newest.newest(), stays
    for file in task.held:
        rows = _rows(task, file, spec, ("offset", written_key(spec)))
        add_keys(newest, (batch.rename_columns(["offset", "key"]) for batch in rows), NewestCounts())
    chosen = newest.newest()
    return chosen, [
        _joined([chosen.has(np.asarray(batch["offset"])) for batch in _rows(task, file, spec, ("offset",))])
        for file in task.held
    ]


def _staying_rows(task: LatestTask, newest: NewestKeys, spec: TableSpec) -> list[_Staying | None]:
    """Return which rows of each file stay; None: all of them.

    A log has one row for each key. So files are read from the newest one on until each new key has been found. Keys
    that are new to the table are in none of them: then all files are read.
    """
    stays: list[_Staying | None] = []
    left, key = newest.keys, written_key(spec)
    for file in reversed(task.held):
        if left <= 0:
            stays.append(None)
            continue
        staying = _joined([~newest.added(batch[key]) for batch in _rows(task, file, spec, (key,))])
        left -= len(staying) - int(np.count_nonzero(staying))
        stays.append(staying)
    return stays[::-1]


def _kept(held: Sequence[LiveFile], unchanged: Sequence[bool], new_rows: int) -> list[bool]:
    """Which files stay: those without an outdated row, but for small ones at the end, which are joined."""
    kept = list(unchanged)
    joined = new_rows
    for at in range(len(held) - 1, -1, -1):
        if held[at].rows > 2 * joined or held[at].size > FILE_BYTES // 4:
            break
        kept[at] = False
        joined += held[at].rows
    return kept


def _staying(task: LatestTask, file: LiveFile, spec: TableSpec, staying: _Staying | None) -> Iterator[pa.RecordBatch]:
    """Rows of a file that stay. Columns that have the value of the log in all rows are not read.

    Raises:
        TableUnreadable: The file is missing or damaged.
    """
    schema = spec.schema.remove_metadata()
    of_log = {"log_id": task.span.log_id, "partition": task.span.partition}
    alike = {name: value for name, value in of_log.items() if file.nulls.get(name) == 0 and file.only(name) == value}
    at = 0
    for batch in _rows(task, file, spec, [name for name in schema.names if name not in alike]):
        rows = batch if staying is None else batch.filter(pa.array(staying[at : at + batch.num_rows]))
        at += batch.num_rows
        same = {name: pa.repeat(pa.scalar(value, schema.field(name).type), len(rows)) for name, value in alike.items()}
        yield pa.RecordBatch.from_arrays(
            [same[name] if name in same else rows[name] for name in schema.names], schema=schema
        )


def _rows(task: LatestTask, file: LiveFile, spec: TableSpec, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows of a file of the table.

    Raises:
        TableUnreadable: It is missing or damaged.
    """
    table = topic_table(task.lake, LATEST, task.span.topic)
    schema = pa.schema([spec.schema.field(name) for name in columns]).remove_metadata()
    for batch in table.batches(file, columns, _KEYS if "value" not in columns else _BATCH_ROWS):
        with table.reading():
            rows = [batch[each.name].cast(each.type) for each in schema]
        yield pa.RecordBatch.from_arrays(rows, names=schema.names)


def _joined(parts: Sequence[npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)
