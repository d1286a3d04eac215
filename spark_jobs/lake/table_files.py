"""The data files of a table at its newest version, with what their statistics say: which files a job must open.

Belongs here: finding files without opening one, and opening one. What is read of it is the job's that asks.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.lake import storage
from spark_jobs.lake.tables import open_table, table_uri


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file of a table."""

    path: str
    """Where it can be opened."""
    size: int
    rows: int | None
    """None: its statistics do not count them."""
    partition: dict[str, str]
    """Values of the columns that the table is partitioned by."""
    least: dict[str, Any]
    greatest: dict[str, Any]
    """Smallest and greatest value by column; a column without statistics is not in them."""

    def may_hold(self, column: str, value: Any) -> bool:
        """Whether a row of the file can have this value; what nothing is known of can."""
        if column not in self.least or column not in self.greatest:
            return True
        return bool(self.least[column] <= value <= self.greatest[column])

    def may_reach(self, column: str, value: Any) -> bool:
        """Whether a row of the file can have this value or a greater one."""
        return bool(column not in self.greatest or self.greatest[column] >= value)


def data_files(lake: str, name: str, columns: Iterable[str]) -> list[DataFile]:
    """Files of table ``name`` with the statistics of some columns; none where it was never created."""
    table = open_table(lake, name)
    if table is None:
        return []
    root = table_uri(lake, name)
    actions = pa.table(table.get_add_actions(flatten=True))
    plain = {column: actions[column].to_pylist() for column in actions.column_names if _is_wanted(column, columns)}
    partitions = [column.removeprefix("partition.") for column in plain if column.startswith("partition.")]
    found = []
    for i in range(actions.num_rows):
        least, greatest = (
            {c: plain[f"{side}.{c}"][i] for c in columns if plain.get(f"{side}.{c}", _NOTHING)[i] is not None}
            for side in ("min", "max")
        )
        values = {column: plain[f"partition.{column}"][i] for column in partitions}
        path = storage.join(root, unquote(plain["path"][i]))
        found.append(DataFile(path, plain["size_bytes"][i], plain["num_records"][i], values, least, greatest))
    return found


class _Nothing:
    def __getitem__(self, _: int) -> None:
        return None


_NOTHING = _Nothing()


def _is_wanted(column: str, columns: Iterable[str]) -> bool:
    return column in ("path", "size_bytes", "num_records") or column.startswith("partition.") or column[4:] in columns


class ByLog:
    """Files by the log whose rows they may hold: most hold one log's, some, after tables were optimized, several's."""

    def __init__(self, files: Iterable[DataFile]) -> None:
        self._of_one: dict[str, list[DataFile]] = {}
        self._of_several: list[DataFile] = []
        for file in files:
            log = file.least.get("log")
            if log is not None and log == file.greatest.get("log"):
                self._of_one.setdefault(log, []).append(file)
            else:
                self._of_several.append(file)

    def of(self, log: str) -> Iterator[DataFile]:
        """Files that may hold rows of a log."""
        yield from self._of_one.get(log, ())
        yield from (file for file in self._of_several if file.may_hold("log", log))


def open_parquet(path: str, **given: Any) -> pq.ParquetFile:
    """A file of a table, by the path that :class:`DataFile` has; ``given`` as pyarrow takes it."""
    root, name = posixpath.split(path)
    return pq.ParquetFile(name, filesystem=storage.arrow_filesystem(root), **given)
