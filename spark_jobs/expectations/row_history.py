"""Tallies of the newest rows of a topic and of the rows before them: kinds of keys, and nulls of decoded columns.

The newest rows are those that were published last. All of them are read, and of the rows before them the newest files,
so that the cost does not grow with the table. Each file is read once, by a task of a worker. Tallies have no content of
a record.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.expectations.key_kinds import KINDS, kind_codes
from spark_jobs.expectations.share_change import TalliedPlace, Tally
from spark_jobs.lake.delta.files.file_contents import FileUnreadable, batches_of, by_log, integers, opened
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.store import storage

HISTORY_ROWS = 262_144
"""Files of earlier rows are read until they have so many."""
HISTORY_FILES = 100
"""At most so many of them."""
CHUNK_ROWS = 8192
_COORDINATES = ("partition", "log_id", "offset", "published_at")
_PUBLISHED = "published_at"

Bits = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HistoryTask:
    """A file to read."""

    path: str
    size: int
    """Bytes of the file."""
    since: datetime.datetime
    """Rows that were published then or later are the newest."""
    columns: tuple[str, ...]
    """Columns whose nulls are counted; none: the file is of ``records``, and kinds of keys are counted."""


@dataclass(frozen=True, slots=True)
class FileTallies:
    """What was counted in a file."""

    tallies: Mapping[str, Tally]
    """By kind of key, or by column, such as ``value.price``."""
    problem: str | None = None
    """Why it could not be read."""


def tasks_of(root: str, files: Sequence[LiveFile], columns: Sequence[str] = ()) -> list[HistoryTask]:
    """Return what has to be read of a table; nothing if all its rows were published at once, or if it has none.

    Args:
        root: Directory of the table.
        files: Its live files. Those without statistics of ``published_at`` are left out, as everywhere.
        columns: Columns whose nulls are counted; none: kinds of keys are counted.
    """
    known = [file for file in files if _PUBLISHED in file.greatest]
    if not known:
        return []
    since: datetime.datetime = max(file.greatest[_PUBLISHED] for file in known)
    newest = [file for file in known if file.greatest[_PUBLISHED] >= since]
    before = sorted(
        (file for file in known if file.greatest[_PUBLISHED] < since),
        key=lambda file: (file.greatest[_PUBLISHED], file.path),
        reverse=True,
    )
    rows, chosen = 0, []
    for file in before[:HISTORY_FILES]:
        if rows >= HISTORY_ROWS:
            break
        chosen.append(file)
        rows += max(file.rows, 0)
    if not chosen and all(file.least.get(_PUBLISHED) == since for file in newest):
        return []
    return [HistoryTask(storage.join(root, file.path), file.size, since, tuple(columns)) for file in (*newest, *chosen)]


def count_file(task: HistoryTask) -> FileTallies:
    """Read a file and count; never raise for what is in it."""
    found: dict[str, Tally] = {}
    name = task.path.rpartition("/")[2]
    try:
        with opened(task.path, name, read_dictionary=["log_id"]) as file:
            held = set(file.schema_arrow.names)
            columns = [each for each in (*_COORDINATES, *(task.columns or ("key",))) if each in held]
            if not held.issuperset(_COORDINATES):
                return FileTallies({})
            for chunk in batches_of(file, task.path, name, CHUNK_ROWS, columns=columns):
                _count(chunk, task, found)
    except (FileUnreadable, OSError) as error:
        return FileTallies({}, f"{name}: {error}")
    except (pa.ArrowException, ValueError, KeyError, TypeError, AttributeError):  # a file of another engine
        return FileTallies({}, f"{name}: its columns are not those of the table")
    return FileTallies(found)


def together(parts: Sequence[FileTallies]) -> FileTallies:
    """Return the tallies of several files, with the first problem."""
    found: dict[str, Tally] = {}
    for part in parts:
        for name, tally in part.tallies.items():
            found[name] = found.get(name, Tally()).plus(tally)
    return FileTallies(found, next((part.problem for part in parts if part.problem is not None), None))


def _count(chunk: pa.RecordBatch, task: HistoryTask, found: dict[str, Tally]) -> None:
    if not chunk.num_rows:
        return
    published: Any = chunk.column(_PUBLISHED)
    newest = np.asarray(pc.greater_equal(published, pa.scalar(task.since, published.type)).fill_null(False))
    for name, rows, is_true in _facts(chunk, task):
        tally = Tally(
            newest=int(np.count_nonzero(rows & newest)),
            newest_true=int(np.count_nonzero(rows & newest & is_true)),
            earlier=int(np.count_nonzero(rows & ~newest)),
            earlier_true=int(np.count_nonzero(rows & ~newest & is_true)),
            first_true=_first(chunk, rows & newest & is_true),
            first_false=_first(chunk, rows & newest & ~is_true),
        )
        found[name] = found.get(name, Tally()).plus(tally)


def _facts(chunk: pa.RecordBatch, task: HistoryTask) -> Iterator[tuple[str, Bits, Bits]]:
    """Yield what is counted: its name, the rows that it is about, and those of which it is true."""
    every = np.ones(chunk.num_rows, dtype=bool)
    if task.columns:
        for name in task.columns:
            if name in chunk.schema.names:
                yield from _nulls(name, chunk.column(name), every)
        return
    codes = kind_codes(chunk.column("key"))
    for at, kind in enumerate(KINDS):
        yield kind, every, codes == at


def _nulls(name: str, column: pa.Array[Any], rows: Bits) -> Iterator[tuple[str, Bits, Bits]]:
    """Yield a column and the fields below it. A field is about rows whose struct is not null; elements of lists and
    maps are not looked at.
    """
    is_null = np.asarray(column.is_null())
    yield name, rows, is_null
    if pa.types.is_struct(column.type):
        for at in range(column.type.num_fields):
            field: Any = column.field(at)  # type: ignore[attr-defined]
            yield from _nulls(f"{name}.{column.type.field(at).name}", field, rows & ~is_null)


def _first(chunk: pa.RecordBatch, chosen: Bits) -> TalliedPlace | None:
    """Return the first of the chosen rows by partition, log and offset."""
    if not chosen.any():
        return None
    offsets = integers(chunk, "offset")
    places = [
        TalliedPlace(partition, log_id, int(offsets[mine[chosen[mine]]].min()))
        for (log_id, partition), mine in by_log(chunk)
        if chosen[mine].any()
    ]
    return min(places)
