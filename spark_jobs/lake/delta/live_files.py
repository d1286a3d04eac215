"""The data files of a table: those that its newest version names, and those that are only on disk.

Belongs here: what lies in a table's directory, what its log says of it, and opening one of its files; what is read of
that is the job's that asks. Does not: changing either (``commits``, ``optimize``).
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from spark_jobs.lake.delta.tables import open_table, reading, table_uri
from spark_jobs.lake.store import storage

LOG_DIRECTORY = "_delta_log"


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file that the newest version names, with what its add action says."""

    path: str
    """Relative to the table, as on disk."""
    size: int
    rows: int
    """-1 where the action does not count them."""
    partition_values: Mapping[str, str]
    least: Mapping[str, Any]
    """Least value by column, where there are statistics."""
    greatest: Mapping[str, Any]

    @property
    def partition(self) -> int | None:
        """The one partition that all its rows are of; None: of several, or it does not tell."""
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
        """The same of the log id, in tables that keep statistics of it."""
        log_id: str | None = self.only("log_id")
        return log_id

    def may_hold(self, column: str, value: Any) -> bool:
        """Whether a row of the file can have this value; what nothing is known of can."""
        if column not in self.least or column not in self.greatest:
            return True
        return bool(self.least[column] <= value <= self.greatest[column])

    def may_reach(self, column: str, value: Any) -> bool:
        """Whether a row of the file can have this value or a greater one."""
        return bool(column not in self.greatest or self.greatest[column] >= value)

    def only(self, column: str) -> Any:
        """The one value that a column has in all rows; None where there are several, or nothing is known."""
        value = self.least.get(column)
        return value if value is not None and value == self.greatest.get(column) else None


@dataclass(frozen=True, slots=True)
class IdleFile:
    """A file that the newest version does not name."""

    path: str
    """Relative to the table, as on disk."""
    size: int
    since_ms: int
    """When the commit that removed it was made; of one that no commit removed, when it was written."""
    was_live: bool
    """Whether an earlier version names it; otherwise it is left over from a task that failed, or not committed yet."""


def live_files(table: DeltaTable) -> list[LiveFile]:
    """Files of the version that ``table`` stands at, by path."""
    actions = pa.table(table.get_add_actions()).to_pylist()
    files = [
        LiveFile(
            path=unquote(action["path"]),  # the table tells it escaped
            size=action["size_bytes"],
            rows=-1 if action.get("num_records") is None else action["num_records"],
            partition_values=action.get("partition") or {},
            least=_known(action.get("min")),
            greatest=_known(action.get("max")),
        )
        for action in actions
    ]
    return sorted(files, key=lambda file: file.path)


def newest_files(lake: str, name: str) -> list[LiveFile]:
    """Files of the newest version of table ``name``, by path; none where it was never created. Raises
    TableUnreadable."""
    table = open_table(lake, name)
    if table is None:
        return []
    with reading(lake, name):
        return live_files(table)


class ByLog:
    """Files by the log whose rows they may hold: most hold one log's, some, after tables were optimized, several's."""

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
        """Files that may hold rows of a log."""
        yield from self._of_one.get(log, ())
        yield from (file for file in self._of_several if file.may_hold("log", log))


def open_parquet(path: str, **given: Any) -> pq.ParquetFile:
    """A file of a table, by its full path; ``given`` as pyarrow takes it."""
    root, name = posixpath.split(path)
    return pq.ParquetFile(name, filesystem=storage.arrow_filesystem(root), **given)


@dataclass(frozen=True, slots=True)
class History:
    """What a table's log tells, as far back as it is kept."""

    removed_ms: Mapping[str, int]
    """When a file was last removed (epoch milliseconds), by path."""
    longest_wait_ms: int
    """The longest that a file lay uncommitted, from when it was written to its commit."""
    version: int
    """The newest commit that was read; -1: none."""


def read_history(lake: str, name: str) -> History:
    """Every commit and checkpoint that the table's log still holds; nothing of a table that was never created."""
    removed: dict[str, int] = {}
    longest = 0
    newest = -1
    root = table_uri(lake, name)
    for file in storage.files_below(storage.join(root, LOG_DIRECTORY)):
        within = storage.relative(file.path, root)
        if file.path.endswith(".checkpoint.parquet"):
            # A checkpoint remembers removals whose commits are gone.
            with reading(lake, name, within), storage.arrow_filesystem(root).open_input_file(within) as content:
                column = pq.ParquetFile(content).read(["remove"]).column("remove")
            actions = [{"remove": remove} for remove in column.to_pylist() if remove is not None]
        elif file.path.endswith(".json"):
            with reading(lake, name, within):
                actions = [json.loads(line) for line in storage.read(file.path).splitlines() if line.strip()]
            said = posixpath.basename(file.path).removesuffix(".json")
            newest = max(newest, int(said) if said.isdecimal() else -1)
        else:
            continue
        infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
        # What a RESTORE adds is as old as it is because it was live before, not because it waited.
        committed = max((info.get("timestamp", 0) for info in infos if info.get("operation") != "RESTORE"), default=0)
        for action in actions:
            if "remove" in action:
                gone, at = unquote(action["remove"]["path"]), action["remove"].get("deletionTimestamp") or 0
                removed[gone] = max(at, removed.get(gone, at))
            elif "add" in action and committed:
                longest = max(longest, committed - action["add"].get("modificationTime", committed))
    return History(removed, longest, newest)


def idle_files(lake: str, name: str, history: History) -> list[IdleFile]:
    """Files in the table's directory that its newest version does not name, oldest first; none without the table.

    What an earlier version names counts from its removal, which the table's log keeps for as long as the log itself is
    kept; behind that only the file's own time is left.
    """
    # The directory first: a file that is written and committed in between is then not seen, instead of seen as idle.
    root = table_uri(lake, name)
    on_disk = [(storage.relative(file.path, root), file) for file in storage.files_below(root)]
    table = open_table(lake, name)
    if table is None:
        return []
    live = {file.path for file in live_files(table)}
    if table.version() > history.version:  # or what was removed since would count from when it was written
        history = read_history(lake, name)
    idle = []
    for path, file in on_disk:
        if path not in live and not path.startswith(f"{LOG_DIRECTORY}/"):
            since = history.removed_ms.get(path, file.modified_ms)
            idle.append(IdleFile(path, file.size, since, path in history.removed_ms))
    return sorted(idle, key=lambda file: (file.since_ms, file.path))


def commits_since_checkpoint(lake: str, table: DeltaTable, name: str) -> int:
    """Versions behind the newest checkpoint; all of them where there is none."""
    try:
        said = json.loads(storage.read(storage.join(table_uri(lake, name), LOG_DIRECTORY, "_last_checkpoint")))
        return table.version() - int(said["version"])
    except (FileNotFoundError, ValueError, KeyError):
        return table.version() + 1


def _known(bounds: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {column: value for column, value in (bounds or {}).items() if value is not None}
