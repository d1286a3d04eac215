"""Rows of files that other engines joined, rewritten as files of one log each, in offset order.

Runs in a worker. A window of rows is read from all files, sorted and written before the next window is read. A window
that is too large is read again in halves, so memory does not grow with the files. Each new file is read back. If its
offsets differ from those of the old files, nothing is committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.lake.delta.files import row_digest
from spark_jobs.lake.delta.files.file_contents import (
    CHUNK_ROWS,
    COLUMNS,
    FileUnreadable,
    Integers,
    batches_of,
    by_log,
    integers,
    opened,
    read_contents,
)
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.table_location import table_uri
from spark_jobs.lake.setup.compression import DEFAULT, Compression
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.written_file import WriteResult, WrittenFile
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.row_files.file_order import OutputRange
from spark_jobs.row_files.merged_file import NotMergeable, as_declared, discard, rows_at_a_time
from spark_jobs.row_files.table_columns import with_columns

WINDOW_FILE_BYTES = 32 << 20
"""Initial size of a window, in bytes of the old files."""
WINDOW_BYTES = 128 << 20
"""Maximum bytes of a window's rows in Arrow; a larger window is read in halves."""


@dataclass(frozen=True, slots=True)
class OrderTask:
    """Outputs of one table partition, and the additional columns to copy."""

    lake: str
    table: str
    topic: str
    outputs: tuple[OutputRange, ...]
    extra: str
    compression: Compression = DEFAULT


@dataclass(frozen=True, slots=True)
class _Slice:
    """Offsets [start, end) of one output of the task."""

    number: int
    log_id: str
    partition: int
    start: int
    end: int


def order_files(task: OrderTask) -> WriteResult:
    """Write the outputs of a task, each as one file."""
    root, spec = table_uri(task.lake, task.table), with_columns(task.table, task.extra)
    written: list[WrittenFile] = []
    try:
        for number, rows in groupby(_rows_in_order(task, spec), key=lambda each: each[0]):
            proven = row_digest.are_recorded(root, task.outputs[number].paths)
            place = {"topic": task.topic}
            file = write_file(root, spec, (batch for _, batch in rows), place, partial(bool, proven), task.compression)
            if file is not None:
                written.append(file)
                _prove(task, task.outputs[number], file)
        if len(written) != len(task.outputs):
            raise NotMergeable(f"the files hold rows of {len(written)} of {len(task.outputs)} ranges")
    except (NotMergeable, FileUnreadable, OSError, pa.ArrowException) as error:
        discard(root, [file.path for file in written])
        if isinstance(error, FileUnreadable) and error.path not in [file.path for file in written]:
            return WriteResult(error=str(error), lost=error.path)
        return WriteResult(error=str(error))
    return WriteResult(tuple(written))


def _prove(task: OrderTask, output: OutputRange, file: WrittenFile) -> None:
    """Check the new file against the old ones.

    Raises:
        NotMergeable: The new file does not have exactly the rows of the old files, by log and offset.
    """
    held = read_contents(task.lake, task.table, file.path)
    offsets = held.logs.get((output.log_id, output.partition))
    if offsets is None or not held.is_ordered or held.rows != output.rows or offsets.digest() != output.digest:
        raise NotMergeable(
            f"{held.rows} rows were written of offsets [{output.start}, {output.end}) of "
            f"{output.log_id}/{output.partition} where the old files have {output.rows}, or at other offsets"
        )


def _rows_in_order(task: OrderTask, spec: TableSpec) -> Iterator[tuple[int, pa.RecordBatch]]:
    """All rows, each batch with the number of its output."""
    window: list[_Slice] = []
    size = 0
    for number, output in enumerate(task.outputs):
        for start, end, part in _small_enough(output):
            if window and size + part > WINDOW_FILE_BYTES:
                yield from _window(task, spec, window)
                window, size = [], 0
            window.append(_Slice(number, output.log_id, output.partition, start, end))
            size += part
    if window:
        yield from _window(task, spec, window)


def _small_enough(output: OutputRange) -> Iterator[tuple[int, int, int]]:
    """The output's offsets in equal ranges, each with its estimated bytes."""
    count = min(-(-output.size // WINDOW_FILE_BYTES) or 1, output.end - output.start)
    bounds = [output.start + (output.end - output.start) * i // count for i in range(count + 1)]
    for at in range(count):
        yield bounds[at], bounds[at + 1], output.size // count


def _window(task: OrderTask, spec: TableSpec, slices: Sequence[_Slice]) -> Iterator[tuple[int, pa.RecordBatch]]:
    can_be_cut = len(slices) > 1 or slices[0].end - slices[0].start > 1
    read = _read(task, spec, slices, WINDOW_BYTES if can_be_cut else None)
    if read is None:
        for half in _halves(slices):
            yield from _window(task, spec, half)
        return
    rows, places = read
    if not rows.num_rows:
        return
    order = np.lexsort((_column(rows, "offset"), places))
    rows = rows.take(pa.array(order, pa.int64()))
    places = places[order]
    begins = np.concatenate(([0], np.flatnonzero(np.diff(places)) + 1, [len(places)]))
    for first, last in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
        number = slices[int(places[first])].number
        for batch in rows.slice(first, last - first).to_batches():
            yield number, batch


def _halves(slices: Sequence[_Slice]) -> tuple[Sequence[_Slice], Sequence[_Slice]]:
    if len(slices) > 1:
        return slices[: len(slices) // 2], slices[len(slices) // 2 :]
    [one] = slices
    middle = (one.start + one.end) // 2
    return (
        [_Slice(one.number, one.log_id, one.partition, one.start, middle)],
        [_Slice(one.number, one.log_id, one.partition, middle, one.end)],
    )


def _read(
    task: OrderTask, spec: TableSpec, slices: Sequence[_Slice], most_bytes: int | None
) -> tuple[pa.Table, Integers] | None:
    """Rows of the slices, and the slice of each row; None where they take more than ``most_bytes``."""
    schema = spec.file_schema
    batches: list[pa.RecordBatch] = []
    places: list[Integers] = []
    size = 0
    for path in sorted({path for each in slices for path in task.outputs[each.number].paths}):
        for batch, of_slice in _matching(task, schema, path, slices):
            batches.append(batch)
            places.append(of_slice)
            size += batch.nbytes
            if most_bytes is not None and size > most_bytes:
                return None
    return pa.Table.from_batches(batches, schema), np.concatenate([np.zeros(0, dtype=np.int64), *places])


def _matching(
    task: OrderTask, schema: pa.Schema, path: str, slices: Sequence[_Slice]
) -> Iterator[tuple[pa.RecordBatch, Integers]]:
    by_key: dict[tuple[str, int], list[tuple[int, _Slice]]] = {}
    for number, each in enumerate(slices):
        by_key.setdefault((each.log_id, each.partition), []).append((number, each))
    least, end = min(each.start for each in slices), max(each.end for each in slices)
    full = storage.join(table_uri(task.lake, task.table), path)
    with opened(full, path) as file:
        for group in range(file.num_row_groups):
            if not _may_meet(file.metadata.row_group(group), least, end):
                continue
            of_row: list[Integers] = []
            for chunk in batches_of(file, full, path, CHUNK_ROWS, row_groups=[group], columns=list(COLUMNS)):
                of_row.append(np.full(chunk.num_rows, -1, dtype=np.int64))
                offsets = integers(chunk, "offset")
                for key, rows in by_log(chunk):
                    for number, each in by_key.get(key, ()):
                        chosen = rows[(offsets[rows] >= each.start) & (offsets[rows] < each.end)]
                        of_row[-1][chosen] = number
            places = np.concatenate([np.zeros(0, dtype=np.int64), *of_row])
            if (places < 0).all():
                continue
            at = 0
            few = rows_at_a_time(file.metadata.row_group(group))
            for batch in batches_of(file, full, path, few, row_groups=[group]):
                mine = places[at : at + batch.num_rows]
                at += batch.num_rows
                if (mine >= 0).any():
                    # Convert to the declared types first: the types of some writers cannot be filtered.
                    yield as_declared(batch, schema).filter(pa.array(mine >= 0)), mine[mine >= 0]


def _may_meet(group: pq.RowGroupMetaData, start: int, end: int) -> bool:
    for at in range(group.num_columns):
        column = group.column(at)
        if column.path_in_schema == "offset" and column.statistics is not None and column.statistics.has_min_max:
            return bool(column.statistics.max >= start and column.statistics.min < end)  # type: ignore[operator]
    return True


def _column(rows: pa.Table, name: str) -> Integers:
    found: Integers = rows.column(name).fill_null(-1).to_numpy().astype(np.int64)  # type: ignore[arg-type]
    return found
