"""What the last run saw of each table: ``tables.json``.

The file is only a memory: without it the next run checks everything.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn

from deltalake import DeltaTable

from spark_jobs.errors import TableUnreadable
from spark_jobs.lake.delta.files.live_files import LiveFile, files_of
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot, open_table, reading
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES

STATE_FILE = "tables.json"

VERSION = 1
"""Version of the file's format; a file of another version is ignored."""

COMMITS_KEPT = 1000
"""Number of commits of a table whose digest is recorded."""

_NEVER_RIGHT_MS = -1

ForeignAnswer = str | list[list[Any]]
"""A comparison of a file of another engine: ``equal``, ``not provable: ...``, or ``[[log, start, end, what], ...]``."""


@dataclass(frozen=True, slots=True)
class TableState:
    """A table at the end of a run."""

    version: int
    rows: int
    """Number of rows in the statistics of its files; -1 if a file has none."""
    files: int
    bytes: int
    table_id: str | None = None
    """Delta's table id: a table that was lost and created again has another."""
    commits: Mapping[str, str] = field(default_factory=dict)
    """Digest of every commit file that the table's log keeps, by version, as first seen."""


@dataclass(frozen=True, slots=True)
class TablesFile:
    """The content of ``tables.json``; empty if it is missing or can't be parsed."""

    run_id: str | None = None
    as_of_ms: int | None = None
    tables: Mapping[str, TableState] = field(default_factory=dict)
    foreign: Mapping[str, Mapping[str, ForeignAnswer]] = field(default_factory=dict)
    """By table and path: comparison of live files of other engines with the archive."""
    archive: Mapping[str, int] = field(default_factory=dict)
    """By path: the time of each file of the archive (epoch milliseconds) when its bytes were last known to be right. Of
    a local lake, only of files with another time than in ``segments``."""

    def since(self, name: str) -> int:
        """Return the recorded version of a table; -1 if there is none."""
        return self.tables[name].version if name in self.tables else -1


def read_state(lake: str) -> TablesFile:
    """Read what the last run recorded.

    Raises:
        StorageError: The object store failed.
    """
    try:
        content = json.loads(storage.read(storage.join(lake, STATE_FILE)))
        if content["version"] != VERSION:
            return TablesFile()
        return TablesFile(
            run_id=content["run_id"],
            as_of_ms=content["as_of_ms"],
            tables={name: TableState(**table) for name, table in content["tables"].items()},
            foreign={name: dict(files) for name, files in content.get("foreign", {}).items()},
            archive=dict(content.get("archive", {})),
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return TablesFile()


def refuse_lost(lake: str, *names: str) -> None:
    """Refuse a lake that has lost one of these tables. To a reader it is like a table that was never made.

    Raises:
        TableUnreadable: An earlier run saw a table, and it is gone.
        StorageError: The object store failed.
    """
    seen = read_state(lake).tables
    for name in names:
        if name in seen and open_table(lake, name) is None:
            refuse_gone(lake, name)


def refuse_gone(lake: str, name: str) -> NoReturn:
    """Raise the error of a table that is gone.

    Raises:
        TableUnreadable: Always.
    """
    with reading(lake, name):
        raise FileNotFoundError("it is gone; an earlier run saw it")


def record_state(
    lake: str, run_id: str, as_of_ms: int, foreign: Mapping[str, Mapping[str, ForeignAnswer]] | None = None
) -> TablesFile:
    """Record the tables as they are now; if nothing has changed, the file is not written.

    Args:
        foreign: New comparisons of files of other engines, by table and path; earlier ones on live files are kept.

    Raises:
        StorageError: The object store failed.
        OSError: The file can't be written.
    """
    before = read_state(lake)
    tables: dict[str, TableState] = {}
    answers: dict[str, dict[str, ForeignAnswer]] = {}
    for name in TABLES:
        try:
            table = latest_snapshot(lake, name)
            if table is None:
                if name in before.tables:
                    tables[name] = before.tables[name]  # it is gone: the next run says so again
                continue
            files = files_of(lake, name, table)
        except TableUnreadable:
            continue
        now = state_of(lake, name, table, files)
        tables[name] = replace(now, commits=_commits_of(lake, name, now, before.tables.get(name)))
        live = {file.path for file in files}
        known = {**before.foreign.get(name, {}), **(foreign or {}).get(name, {})}
        kept = {path: answer for path, answer in known.items() if path in live}
        if kept:
            answers[name] = kept
    if (tables, answers) == (before.tables, before.foreign):
        return before
    state = TablesFile(run_id, as_of_ms, tables, answers, before.archive)
    _write(lake, state)
    return state


def record_archive(lake: str, times: Mapping[str, int]) -> None:
    """Record times of archived files whose bytes are right; if nothing has changed, the file is not written.

    Raises:
        StorageError: The object store failed.
        OSError: The file can't be written.
    """
    before = read_state(lake)
    if times != before.archive:
        _write(lake, replace(before, archive=times))


def doubt_archive(lake: str, paths: Iterable[str]) -> None:
    """Record that the bytes of archived files may be wrong: the next check reads them, whatever their times are.

    Raises:
        StorageError: The object store failed.
        OSError: The file can't be written.
    """
    record_archive(lake, {**read_state(lake).archive, **dict.fromkeys(paths, _NEVER_RIGHT_MS)})


def _write(lake: str, state: TablesFile) -> None:
    content = json.dumps(asdict(state) | {"version": VERSION}, indent=1, sort_keys=True)
    storage.put(storage.join(lake, STATE_FILE), content.encode())


def forget(lake: str, names: Iterable[str]) -> None:
    """Delete the records about tables that were rebuilt on purpose: they did not lose commits.

    Raises:
        StorageError: The object store failed.
        OSError: The file can't be written.
    """
    path = storage.join(lake, STATE_FILE)
    try:
        content = json.loads(storage.read(path))
        kept = {name: state for name, state in content["tables"].items() if name not in set(names)}
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return  # nothing valid is recorded
    if kept != content["tables"]:
        storage.put(path, json.dumps(content | {"tables": kept}, indent=1, sort_keys=True).encode())


def state_of(lake: str, name: str, table: DeltaTable, files: Sequence[LiveFile]) -> TableState:
    """Return what is to be recorded of a table with these files, without its commits."""
    rows = -1 if any(file.rows < 0 for file in files) else sum(file.rows for file in files)
    return TableState(
        version=table.version(),
        rows=rows,
        files=len(files),
        bytes=sum(file.size for file in files),
        table_id=str(table.metadata().id),
    )


def _commits_of(lake: str, name: str, now: TableState, before: TableState | None) -> dict[str, str]:
    """Return digests of the commits that the table's log keeps. Digests of earlier runs are kept, unless the table has
    another history now.
    """
    known: Mapping[str, str] = {}
    if before is not None and before.table_id == now.table_id and before.version <= now.version:
        last = before.commits.get(str(before.version))
        if last is not None and digest_of_commit(lake, name, before.version) in (None, last):
            known = before.commits
    commits: dict[str, str] = {}
    for version in range(now.version, max(now.version - COMMITS_KEPT, -1), -1):
        digest = known.get(str(version)) or digest_of_commit(lake, name, version)
        if digest is None:
            break  # cleaned up, and all before it
        commits[str(version)] = digest
    return commits


def digest_of_commit(lake: str, name: str, version: int) -> str | None:
    """Return the digest of a commit file; None if the table's log no longer keeps it."""
    content = delta_log.read_content(lake, name, version)
    return None if content is None else hashlib.sha256(content).hexdigest()
