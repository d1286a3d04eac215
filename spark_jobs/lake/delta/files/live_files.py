"""The data files of a table: those that its latest version names, and those that are only on disk.

This module lists a table's directory, reads what the log records about its files, and opens a file. The calling job
reads the content. ``commits`` and ``optimize`` make changes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from spark_jobs.lake.delta.tables.delta_location import LOG_DIRECTORY
from spark_jobs.lake.delta.tables.delta_log import History, read_history
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot, open_table, reading, table_uri
from spark_jobs.lake.store import storage

BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file that the latest version names, with the fields of its add action."""

    path: str
    """Path relative to the table, as on disk."""
    size: int
    rows: int
    """Number of rows; -1 if the action does not count them."""
    partition_values: Mapping[str, str]
    least: Mapping[str, Any]
    """Least value by column, if there are statistics."""
    greatest: Mapping[str, Any]
    nulls: Mapping[str, int] = field(default_factory=dict)
    """Number of nulls by column, if there are statistics."""

    @property
    def partition(self) -> int | None:
        """The one partition of all its rows; None: several, or unknown."""
        partition: int | None = self.only("partition")
        return partition

    @property
    def min_offset(self) -> int | None:
        """Least offset of a file of records."""
        return self.least.get("offset")

    @property
    def max_offset(self) -> int | None:
        """Greatest offset of a file of records."""
        return self.greatest.get("offset")

    @property
    def log_id(self) -> str | None:
        """The one log id of all its rows, in tables that keep statistics of it; None as for ``partition``."""
        log_id: str | None = self.only("log_id")
        return log_id

    @property
    def log(self) -> str | None:
        """The one log of all its rows; None as for ``partition``."""
        return None if self.log_id is None or self.partition is None else f"{self.log_id}/{self.partition}"

    def may_hold(self, column: str, value: Any) -> bool:
        """Return whether a row of the file can have this value; True if there are no statistics."""
        if column not in self.least or column not in self.greatest:
            return True
        return bool(self.least[column] <= value <= self.greatest[column])

    def may_have(self, log_id: str, partition: int, start: int | None = None, end: int | None = None) -> bool:
        """Return whether the file can have rows of a log whose offsets are in [start, end); None: no bound."""
        return (
            self.may_hold("partition", partition)
            and self.may_hold("log_id", log_id)
            and (start is None or self.may_reach("offset", start))
            and (end is None or self.min_offset is None or self.min_offset < end)
        )

    def may_reach(self, column: str, value: Any) -> bool:
        """Return whether a row of the file can have this value or a greater one."""
        return bool(column not in self.greatest or self.greatest[column] >= value)

    def only(self, column: str) -> Any:
        """Return the one value of a column in all rows; None if there are several, or nothing is known."""
        value = self.least.get(column)
        return value if value is not None and value == self.greatest.get(column) else None

    def log_in_statistics(self, log_ids: Mapping[tuple[str, int], Sequence[str]]) -> tuple[str, int] | None:
        """Return log id and partition of all rows, if the statistics give them, the offsets and the number of rows.

        Args:
            log_ids: Incarnations by topic and partition. If there is only one, a file without log id in its statistics
                belongs to it.
        """
        partition = self.partition
        if partition is None or self.min_offset is None or self.max_offset is None or self.rows < 0:
            return None
        log_id = self.log_id
        if log_id is None and "log_id" not in self.least:
            known = log_ids.get((self.partition_values.get("topic", ""), partition), ())
            log_id = known[0] if len(known) == 1 else None
        return None if log_id is None else (log_id, partition)

    def mixes(self, column: str) -> bool:
        """Return whether rows can differ in a column: neither have all the same value nor are all null."""
        nulls = self.nulls.get(column)
        return nulls != self.rows and (nulls != 0 or self.only(column) is None)


@dataclass(frozen=True, slots=True)
class IdleFile:
    """A file that the latest version does not name."""

    path: str
    """Path relative to the table, as on disk."""
    size: int
    since_ms: int
    """Time of the commit that removed it; if no commit removed it, time when it was written."""
    was_live: bool
    """Whether an earlier version names it; otherwise a failed task left it, or it is not committed yet."""


def live_files(table: DeltaTable) -> list[LiveFile]:
    """Return the files of the version of ``table``, by path."""
    actions = pa.table(table.get_add_actions()).to_pylist()
    files = [
        LiveFile(
            path=unquote(action["path"]),  # the table gives it escaped
            size=action["size_bytes"],
            rows=-1 if action.get("num_records") is None else action["num_records"],
            partition_values=action.get("partition") or {},
            least=_known(action.get("min")),
            greatest=_known(action.get("max")),
            nulls=_known(action.get("null_count")),
        )
        for action in actions
    ]
    return sorted(files, key=lambda file: file.path)


def newest_files(lake: str, name: str) -> list[LiveFile]:
    """Return the files of the latest version of table ``name``, by path; none if it was never created.

    Raises:
        TableUnreadable: The table is damaged.
    """
    table = latest_snapshot(lake, name)
    return [] if table is None else files_of(lake, name, table)


def files_of(lake: str, name: str, table: DeltaTable) -> list[LiveFile]:
    """Return the files of table ``name``, which was opened, by path.

    Raises:
        TableUnreadable: The table is damaged.
    """
    with reading(lake, name):
        return live_files(table)


class ByLog:
    """Files by the logs whose rows they may have: most have one log, some have several after OPTIMIZE."""

    def __init__(self, files: Iterable[LiveFile]) -> None:
        self._of_one: dict[str, list[LiveFile]] = {}
        self._of_several: list[LiveFile] = []
        for file in files:
            log = file.only("log")
            if log is not None:
                self._of_one.setdefault(log, []).append(file)
            else:
                self._of_several.append(file)

    def of(self, log: str) -> Iterator[LiveFile]:
        """Yield files that may have rows of a log."""
        yield from self._of_one.get(log, ())
        yield from (file for file in self._of_several if file.may_hold("log", log))


def read_batches(
    lake: str, name: str, path: str, columns: Sequence[str] | None = None, most_rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file of table ``name``, in batches. Pages are compared with their checksums.

    Other engines write texts and bytes as views. They are plain texts and bytes here: Arrow can't filter views.

    Args:
        columns: None: all.

    Raises:
        TableUnreadable: The file is missing or damaged.
    """
    full, chosen = storage.join(table_uri(lake, name), path), None if columns is None else list(columns)
    with reading(lake, name, path), open_parquet(full, page_checksum_verification=True) as parquet:
        for batch in parquet.iter_batches(most_rows, columns=chosen, use_threads=False):
            types = [_without_views(field.type) for field in batch.schema]
            if types == batch.schema.types:
                yield batch
            else:
                columns_now = [column.cast(kind) for column, kind in zip(batch.columns, types, strict=True)]
                fields = [field.with_type(kind) for field, kind in zip(batch.schema, types, strict=True)]
                yield pa.RecordBatch.from_arrays(columns_now, schema=pa.schema(fields))


def _without_views(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_views(kind.value_type)))
    if pa.types.is_map(kind):
        key, item = _without_views(kind.key_type), _without_views(kind.item_type)
        return kind if (key, item) == (kind.key_type, kind.item_type) else pa.map_(key, item)
    return kind


def open_parquet(path: str, **given: Any) -> pq.ParquetFile:
    """Open a file of a table by its full path; ``given`` goes to pyarrow."""
    root, name = posixpath.split(path)
    return pq.ParquetFile(name, filesystem=storage.arrow_filesystem(root), **given)


def idle_files(lake: str, name: str, history: History) -> list[IdleFile]:
    """Return files in the table's directory that its latest version does not name, oldest first; none without a table.

    The age of a file that an earlier version names counts from its removal, as long as the table's log keeps it. After
    that only the file's own time is left.
    """
    # List the directory first. Then a file that is written and committed meanwhile is missed, not taken for idle.
    root = table_uri(lake, name)
    on_disk = [(storage.relative(file.path, root), file) for file in storage.files_below(root)]
    table = open_table(lake, name)
    if table is None:
        return []
    live = {file.path for file in live_files(table)}
    if table.version() > history.version:  # otherwise files removed since would count from their writing
        history = read_history(lake, name)
    idle = []
    for path, file in on_disk:
        if path not in live and not path.startswith(f"{LOG_DIRECTORY}/"):
            since = history.removed_ms.get(path, file.modified_ms)
            idle.append(IdleFile(path, file.size, since, path in history.removed_ms))
    return sorted(idle, key=lambda file: (file.since_ms, file.path))


def _known(bounds: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {column: value for column, value in (bounds or {}).items() if value is not None}
