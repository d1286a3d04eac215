"""The newest row of each key among rows of a log, as rows of ``latest/<topic>``: keys are read first, then the rows.

A row without a key is the state of nothing: it is counted and left out. Keys are read twice and values once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logcore.columns.cleaning.offset_map import Offsets
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.published.published_rows import Span, published_rows
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.newest.newest_keys import KEYS_IN_MEMORY, NewestKeys, OffsetSet

KEY_COLUMNS = ("log_id", "partition", "offset", "key")


@dataclass(slots=True)
class NewestCounts:
    """What became of the rows of a log."""

    rows: int = 0
    """Rows that were read."""
    without_key: int = 0
    newest: int = 0
    """Rows that are the newest of their key."""
    tombstones: int = 0
    """Those of them that have no value."""


def add_keys(newest: NewestKeys, batches: Iterable[pa.RecordBatch]) -> None:
    """Add the keys and offsets of rows.

    Raises:
        OSError: A file of the keys can't be written.
    """
    for batch in batches:
        newest.add(*with_key(batch))


def with_key(batch: pa.RecordBatch) -> tuple[Offsets, pa.Array[Any]]:
    """Return offset and key of those rows that have a key."""
    offsets, keys = np.asarray(batch["offset"]), batch["key"]
    if keys.null_count:
        has_key = keys.is_valid()
        offsets, keys = offsets[np.asarray(has_key)], keys.filter(has_key)
    return offsets, keys


def newest_rows(
    lake: str,
    files: Sequence[LiveFile],
    span: Span,
    spec: TableSpec,
    counts: NewestCounts,
    *,
    keeps_tombstones: bool,
    keys_in_memory: int = KEYS_IN_MEMORY,
) -> Iterator[pa.RecordBatch]:
    """Yield the newest row of each key of a span, in the order of ``records``.

    Args:
        files: The live files of ``records``.
        spec: Columns of the rows.
        counts: Filled while rows are read.
        keeps_tombstones: Whether a tombstone is a row with ``is_deleted``; otherwise its key has no row.

    Raises:
        TableUnreadable: A file of ``records`` is missing or damaged.
        OSError: A file of the keys can't be written.
    """
    with NewestKeys(keys_in_memory) as newest:
        add_keys(newest, published_rows(lake, files, span, KEY_COLUMNS))
        chosen = newest.newest()
    counts.newest = len(chosen)
    yield from chosen_rows(published_rows(lake, files, span), chosen, spec, counts, keeps_tombstones=keeps_tombstones)


def chosen_rows(
    batches: Iterable[pa.RecordBatch],
    chosen: OffsetSet,
    spec: TableSpec,
    counts: NewestCounts,
    *,
    keeps_tombstones: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield those rows whose offsets were chosen, with the columns of ``spec``.

    Args:
        batches: With the columns of ``published_rows``.
        counts: What becomes of the rows is counted.
    """
    schema = spec.schema.remove_metadata()
    for batch in batches:
        counts.rows += batch.num_rows
        counts.without_key += batch["key"].null_count
        mask = chosen.has(np.asarray(batch["offset"]))
        if not mask.any():
            continue
        rows = batch if mask.all() else batch.filter(pa.array(mask))
        counts.tombstones += rows["value"].null_count
        if rows["value"].null_count and not keeps_tombstones:
            rows = rows.filter(rows["value"].is_valid())
        columns = {name: rows[name] for name in rows.schema.names} | {"is_deleted": pc.is_null(rows["value"])}
        made = pa.RecordBatch.from_arrays(
            [columns[field.name].cast(field.type) for field in schema],
            schema=schema,
        )
        if made.num_rows:
            yield made
