"""Rows that a change of a table keeps: which files lose rows, and what is left of those files.

This module finds and reads them. ``commits`` makes the commit that removes such files and adds one with the rows that
stay.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.lake.delta.files.live_files import LiveFile, read_batches
from spark_jobs.lake.delta.tables.snapshots import reading
from spark_jobs.lake.table_spec import TableSpec


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A live file of which some rows are removed."""

    file: LiveFile
    left: Mapping[str | None, int]
    """Number of rows that stay, by their value of the column that separates files; one entry if there is none."""

    @property
    def rows_left(self) -> int:
        """Number of rows that stay."""
        return sum(self.left.values())


class Matching:
    """Rows of a table whose ``column`` has one of ``values``."""

    def __init__(self, lake: str, spec: TableSpec, column: str, values: Iterable[str]) -> None:
        self._lake = lake
        self._spec = spec
        self._column = column
        self._values = sorted(set(values))
        self._wanted = pa.array(self._values, spec.schema.field(column).type)

    def shrunk(self, files: Sequence[LiveFile]) -> list[Shrunk]:
        """Return files that have such rows.

        Raises:
            TableUnreadable: A file that may have some is missing or damaged.
        """
        found = []
        for file in files:
            if self._may_hold(file):
                shrunk = Shrunk(file, self._count(file))
                if shrunk.rows_left < file.rows or file.rows < 0:
                    found.append(shrunk)
        return found

    def left(self, files: Sequence[Shrunk], separated: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the other rows of these files, in their order, with the columns of a file of the table.

        Args:
            separated: Only rows with this value of the column that separates files.
        """
        column = self._spec.separated_by
        for each in files:
            if each.left.get(separated):
                with reading(self._lake, self._spec.name, each.file.path):
                    for batch in read_batches(self._lake, self._spec.name, each.file.path):
                        declared = as_declared(batch, self._spec.file_schema)
                        kept = declared.filter(self._stays(declared.column(self._column)))
                        yield kept if column is None else kept.filter(has_value(kept.column(column), separated))

    def _may_hold(self, file: LiveFile) -> bool:
        if self._column in self._spec.partition_by:
            return file.partition_values.get(self._column) in self._values
        least, greatest = file.least.get(self._column), file.greatest.get(self._column)
        if least is None or greatest is None:
            return True
        at = bisect_left(self._values, least)
        return at < len(self._values) and self._values[at] <= greatest

    def _count(self, file: LiveFile) -> Mapping[str | None, int]:
        """Count the rows that stay, by their value of the column that separates files."""
        if self._column in self._spec.partition_by:
            return {}
        separating = self._spec.separated_by
        counts: Counter[str | None] = Counter()
        names = [self._column] if separating is None else [self._column, separating]
        with reading(self._lake, self._spec.name, file.path):
            for batch in read_batches(self._lake, self._spec.name, file.path, names):
                stays = self._stays(batch.column(self._column))
                if separating is None:
                    counts[None] += pc.sum(stays).as_py() or 0
                    continue
                is_there = separating in batch.schema.names
                values = batch.column(separating) if is_there else pa.nulls(batch.num_rows, pa.string())
                of_value: Any = pc.value_counts(values.cast(pa.string()).filter(stays))
                for each in of_value.to_pylist():
                    counts[each["values"]] += each["counts"]
        return counts

    def _stays(self, column: pa.Array[Any]) -> pa.Array[Any]:
        return pc.invert(pc.is_in(column.cast(self._wanted.type), self._wanted))


def as_declared(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows with these columns and types; a column that the batch lacks is null."""
    names = set(batch.schema.names)
    columns = [
        batch.column(field.name).cast(field.type) if field.name in names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def has_value(column: pa.Array[Any] | pa.ChunkedArray[Any], value: str | None) -> Any:
    """Return which rows have a value, or are null if it is None."""
    return pc.is_null(column) if value is None else pc.is_in(column, pa.array([value], column.type))


def by_file(rows: pa.Table, spec: TableSpec) -> dict[str, tuple[Mapping[str, str], pa.Table]]:
    """Group rows by the file that they belong in: by table partition, and by the column that separates files."""
    if not rows.num_rows:
        return {}
    columns = [*spec.partition_by, *([] if spec.separated_by is None else [spec.separated_by])]
    if not columns:
        return {key_of({}): ({}, rows)}
    groups = rows.select(columns).group_by(columns).aggregate([]).to_pylist()
    found: dict[str, tuple[Mapping[str, str], pa.Table]] = {}
    for values in groups:
        chosen = rows
        for name, value in values.items():
            chosen = chosen.filter(has_value(chosen.column(name), value))
        separated = None if spec.separated_by is None else values.pop(spec.separated_by)
        found[key_of(values, separated)] = (values, chosen)
    return found


def key_of(partition_values: Mapping[str, str], separated: str | None = None) -> str:
    """Return a name for a table partition, or for the rows of it that have one value of the column that separates."""
    return json.dumps([dict(partition_values), separated], sort_keys=True)
