"""Parquet files of a Delta table, written by workers and committed by the driver.

A worker writes to a name of its own, syncs the file and its directory, and returns what a commit needs to know
(:class:`~spark_jobs.lake.store.written_file.WrittenFile`). A file that no commit names is an orphan: harmless, listed
by ``tidy_archive``.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from logcore.storage.files import written_in
from spark_jobs.lake.delta.files.row_digest import RowDigest, of_bytes
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.written_file import WrittenFile, new_file_name
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.policies.compression import DEFAULT, Compression

ROW_GROUP_ROWS = 65_536
"""Rows of a row group. A point look-up decodes one group; with fewer rows the footer grows more than that saves."""
ROW_GROUP_BYTES = 32 << 20
"""Uncompressed bytes of a row group, however few its rows are: a worker keeps one group in memory."""

COPIED_BYTES = 1 << 20
"""A row group of at most so many bytes is copied into one piece, because each piece costs 0.3 ms."""


class TableFileWriter(pq.ParquetWriter):
    """A writer that raises its first error. Arrow's own raises another one when it is closed after that."""

    def __exit__(self, *raised: Any, **_: Any) -> Literal[False]:
        """Close the file."""
        try:
            super().__exit__()
        except RuntimeError:
            if not raised or raised[0] is None:
                raise
        return False


def write_file(
    root: str,
    spec: TableSpec,
    chunks: Iterable[pa.RecordBatch],
    partition_values: Mapping[str, str],
    is_proven: Callable[[], bool] = lambda: True,
    compression: Compression = DEFAULT,
) -> WrittenFile | None:
    """Write rows as one Parquet file below ``root``; return None if there were no rows.

    Args:
        root: Directory of the Delta table.
        chunks: Rows with the table's columns. Columns that partition the table are left out of the file. A column that
            a chunk lacks is null in its rows.
        partition_values: The table partition of every row in the file.
        is_proven: Called after all rows; returns whether they are known to be ours. Rows of another engine get no
            digest: it would claim a proof for rows that were never compared.
        compression: How bytes are compressed. Row digests do not depend on it.

    Raises:
        OSError: The file can't be written. An unfinished file is removed, and was never visible in its place.
    """
    filled = (chunk for chunk in chunks if chunk.num_rows)
    first = next(filled, None)
    if first is None:
        return None
    with OpenFile(root, spec, first, partition_values, compression) as file:
        for chunk in itertools.chain([first], filled):
            file.write(chunk)
        return file.finish(is_proven)


class OpenFile(contextlib.ExitStack):
    """One Parquet file of a table while it is written. It is removed if its block fails."""

    def __init__(
        self,
        root: str,
        spec: TableSpec,
        first: pa.RecordBatch,
        partition_values: Mapping[str, str],
        compression: Compression,
    ) -> None:
        """Open it; arguments as of :func:`write_file`. The columns of ``first`` decide which text is a dictionary."""
        super().__init__()
        self._spec, self._partition_values = spec, dict(partition_values)
        # Delta's own separator: these are names in a table, also on systems with another directory separator
        folders = [storage.folder_name(f"{k}={v}") for k, v in partition_values.items()]  # the commit has it, whole
        self._path = "/".join((*folders, new_file_name()))
        schema = _schema_of(first, spec)
        self._groups, self._digest = RowGroups(schema), RowDigest(_declared(spec))
        self._footers: list[pq.FileMetaData] = []
        self.size = 0
        """Bytes in memory of the row groups that are written."""
        with contextlib.ExitStack() as stack:
            self._local = stack.enter_context(storage.writing(storage.join(root, self._path)))
            self._writer = stack.enter_context(
                TableFileWriter(self._local, schema, metadata_collector=self._footers, **layout(spec, compression))
            )
            self.push(stack.pop_all())

    def write(self, chunk: pa.RecordBatch) -> None:
        """Add rows."""
        self._write(self._groups.add(chunk))

    def _write(self, groups: Iterable[pa.Table]) -> None:
        for group in groups:
            if group.nbytes <= COPIED_BYTES:
                group = group.combine_chunks()
            with written_in(os.path.dirname(self._local)):
                self._writer.write_table(group, row_group_size=ROW_GROUP_ROWS)
            self.size += group.nbytes
            for batch in group.to_batches():
                self._digest.update(batch)

    def finish(self, is_proven: Callable[[], bool] = lambda: True) -> WrittenFile:
        """Write the rest, and place the file."""
        self._write(self._groups.rest())
        proven = self._spec.name in TABLES and is_proven()
        if proven:
            self._writer.add_key_value_metadata(self._digest.footer())
        with written_in(os.path.dirname(self._local)):
            self._writer.close()
        status, content = os.stat(self._local), of_bytes(self._local)
        self.close()
        return WrittenFile(
            path=self._path,
            size=status.st_size,
            partition_values=self._partition_values,
            statistics=statistics(self._footers[0], self._spec),
            modified_ms=status.st_mtime_ns // 1_000_000,
            rows=self._digest.rows,
            digest=self._digest.hexdigest() if proven else None,
            content=content,
        )


def _declared(spec: TableSpec) -> pa.Schema:
    """Return the columns that the digest of a file covers: ours, without those of the run and those of a user.

    A file of a topic's table has no digest: ``verify`` compares its rows with those of ``records``.
    """
    return TABLES[spec.name].content_schema if spec.name in TABLES else pa.schema([])


class RowGroups:
    """Rows cut into row groups. Chunks may have any number of rows. Nothing is copied."""

    def __init__(self, schema: pa.Schema) -> None:
        """Groups get the columns of ``schema``; one that a chunk lacks is null."""
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._size = 0

    def add(self, chunk: pa.RecordBatch) -> Iterator[pa.Table]:
        """Add rows; yield the groups that are full."""
        left = _with_columns(chunk, self._schema)
        if left.schema != self._schema:
            left = left.cast(self._schema)
        while left.num_rows:
            part = left.slice(0, ROW_GROUP_ROWS - self._rows)
            left = left.slice(part.num_rows)
            self._waiting.append(part)
            self._rows, self._size = self._rows + part.num_rows, self._size + part.nbytes
            if self._rows == ROW_GROUP_ROWS or self._size >= ROW_GROUP_BYTES:
                yield from self.rest()

    def rest(self) -> Iterator[pa.Table]:
        """Yield the rows that wait, if there are any, as one group."""
        waiting, self._waiting, self._rows, self._size = self._waiting, [], 0, 0
        if waiting:
            yield pa.Table.from_batches(waiting, self._schema)


def row_groups(chunks: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of all chunks cut into row groups, see :class:`RowGroups`."""
    groups = RowGroups(schema)
    for chunk in chunks:
        yield from groups.add(chunk)
    yield from groups.rest()


def _with_columns(chunk: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the chunk with the columns of the file, in their order."""
    lacking = [field for field in schema if field.name not in chunk.schema.names]
    for field in lacking:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        chunk = chunk.append_column(field.name, pa.nulls(chunk.num_rows, kind))
    return chunk.select(schema.names)


def _schema_of(chunk: pa.RecordBatch, spec: TableSpec) -> pa.Schema:
    """Return the columns of the file: the table's, but dictionaries of text stay dictionaries when written."""
    encoded = {field.name for field in chunk.schema if pa.types.is_dictionary(field.type)}
    return pa.schema(
        [
            field.with_type(pa.dictionary(pa.int32(), field.type)) if field.name in encoded else field
            for field in spec.file_schema
        ]
    )


@lru_cache(maxsize=128)
def layout(spec: TableSpec, compression: Compression = DEFAULT) -> Mapping[str, Any]:
    """Return how columns are encoded. Encoding is most of the work of publishing, so each kind gets the cheapest one:
    ascending numbers as differences, which a compressor cannot improve; repeated words as a dictionary; bytes
    unchanged and compressed by the codec of the policy. Words in a table of a topic are values of its records: they
    are compressed too.
    """
    schema = spec.file_schema
    rising = [f.name for f in schema if pa.types.is_int64(f.type) or pa.types.is_timestamp(f.type)]
    columns = [leaf for field in schema for leaf in leaves(field.name, field.type)]
    if spec.name in TABLES:
        repeated = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_int32(f.type)]
        unpacked = {*rising, *repeated}
    else:
        repeated = [leaf for leaf, kind in columns if pa.types.is_string(kind) or leaf == "partition"]
        unpacked = {*rising}
    level = compression.writer_level
    return {
        "compression": {leaf: "none" if leaf in unpacked else compression.codec for leaf, _ in columns},
        "compression_level": None if level is None else {leaf: level for leaf, _ in columns if leaf not in unpacked},
        "use_dictionary": repeated,
        "column_encoding": dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
        "write_statistics": [name for name in spec.statistics if name in schema.names],
        "store_schema": False,
        "write_page_checksum": True,
    }


def leaves(path: str, kind: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """Return the Parquet columns of a field: path and type."""
    if pa.types.is_list(kind):
        return leaves(f"{path}.list.element", kind.value_type)
    if pa.types.is_map(kind):
        return [*leaves(f"{path}.key_value.key", kind.key_type), *leaves(f"{path}.key_value.value", kind.item_type)]
    if pa.types.is_struct(kind):
        return [leaf for field in kind for leaf in leaves(f"{path}.{field.name}", field.type)]
    return [(path, kind)]


def statistics(metadata: pq.FileMetaData, spec: TableSpec) -> str:
    """Return Delta's statistics JSON from a Parquet footer, without a second pass over the rows."""
    columns = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    least: dict[str, object] = {}
    greatest: dict[str, object] = {}
    nulls: dict[str, int] = {}
    for name in spec.statistics:
        if name not in columns:
            continue
        stated = [group.column(columns[name]).statistics for group in groups]
        found = [s for s in stated if s is not None]
        if len(found) < len(stated):
            continue
        if all(s.has_null_count for s in found):  # type: ignore[attr-defined]
            nulls[name] = sum(s.null_count for s in found)  # type: ignore[misc]
        ranged = [s for s in found if s.has_min_max]
        if len(ranged) == len([s for s in found if s.num_values]) and ranged:
            least[name] = _plain(min(s.min for s in ranged))  # type: ignore[type-var]
            greatest[name] = _plain(max(s.max for s in ranged), up=True)  # type: ignore[type-var]
    return json.dumps({"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls})


def _plain(value: object, up: bool = False) -> object:
    """Convert to JSON. Delta keeps milliseconds, so a maximum is rounded up: it must not exclude its own row."""
    if not isinstance(value, datetime.datetime):
        return value
    if up and value.microsecond % 1000:
        with contextlib.suppress(OverflowError):  # the last millisecond of the year 9999 stays as it is
            value += datetime.timedelta(milliseconds=1)
    return value.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
