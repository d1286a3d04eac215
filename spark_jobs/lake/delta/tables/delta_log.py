"""A table's own history: the files in its ``_delta_log``, and what each commit added and removed.

This module knows the names and the content of those files; no other module does. The meaning of rows is in ``lineage``,
commits are made in ``commits``, and ``lake_verification`` checks whether a log is complete. ``deltalake`` shows the
description of a commit, but not its files and application ids.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.lake.delta.tables.delta_location import LOG_DIRECTORY
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot, reading, table_uri
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.storage import StoredFile

_COMMIT = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
_LAST_CHECKPOINT = "_last_checkpoint"

Action = dict[str, Any]
"""One line of a commit: its kind and its fields."""


VERSIONS_KEPT_MS = 2 * 86_400_000
"""For so long `optimize` keeps whole versions of a table, in an older checkpoint for each hour, however many commits
follow.
"""


EXPIRED = "expired/"
"""Prefix of application ids: a commit that has one only removes rows that have expired. The rest is the log key."""


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files of a table's log."""

    commits: Mapping[int, StoredFile]
    """Commit files by version."""
    checkpoints: Mapping[int, StoredFile]
    """Checkpoints in one part, by version."""
    last_checkpoint: StoredFile | None
    """The file that names the latest checkpoint."""

    @property
    def all(self) -> tuple[StoredFile, ...]:
        """All files, by path."""
        last = () if self.last_checkpoint is None else (self.last_checkpoint,)
        files = (*self.commits.values(), *self.checkpoints.values(), *last)
        return tuple(sorted(files, key=lambda file: file.path))


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A data file that a commit added."""

    path: str
    """Relative to the table."""
    size: int
    rows: int | None
    """Number of rows in its statistics."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of a table."""

    version: int
    timestamp_ms: int | None
    operation: str | None
    run_id: str | None
    data_change: bool
    """False if files were only rewritten with the same rows."""
    added: tuple[AddedFile, ...]
    removed: tuple[str, ...]
    """Paths, relative to the table."""
    application_ids: Mapping[str, int]
    """Versions of application ids that the commit recorded, the frontiers among them."""
    digests: Mapping[str, str]
    """Row digests of the added files, by path; empty for a commit that is not ours."""
    unproven: tuple[str, ...]
    """Paths of files whose rows were never compared with the archive. Another engine wrote them with changed data, or
    one of our commits copied such rows into a file without a digest."""
    engine: str | None
    """The program that wrote it, as recorded in the commit."""
    contents: Mapping[str, str] = field(default_factory=dict)
    """Digests of the bytes of the added files, by path; empty for a commit that is not ours."""
    longest_wait_ms: int = 0
    """The longest time from the writing of an added file to this commit."""

    @property
    def is_expiry(self) -> bool:
        """Whether it only removes rows that have expired; tables that follow this one lose them too."""
        return any(name.startswith(EXPIRED) for name in self.application_ids)

    @property
    def is_ours(self) -> bool:
        """Whether it has a run id, as all our commits have."""
        return self.run_id is not None


@dataclass(frozen=True, slots=True)
class History:
    """The history in a table's log, as far back as it is kept."""

    removed_ms: Mapping[str, int]
    """When a file was last removed (epoch milliseconds), by path."""
    longest_wait_ms: int
    """The longest time from the writing of a file to its commit."""
    version: int
    """The latest commit that was read; -1: none."""


def log_folder(lake: str, name: str) -> str:
    """Return the folder of a table's log."""
    return storage.join(table_uri(lake, name), LOG_DIRECTORY)


def commit_file(lake: str, name: str, version: int) -> str:
    """Return the path of a commit file."""
    return storage.join(log_folder(lake, name), f"{version:020d}.json")


def log_files(lake: str, name: str) -> LogFiles:
    """Return the files of a table's log; none for a table that was never created."""
    commits: dict[int, StoredFile] = {}
    checkpoints: dict[int, StoredFile] = {}
    last = None
    for file in storage.files_below(log_folder(lake, name)):
        base = posixpath.basename(file.path)
        if commit := _COMMIT.fullmatch(base):
            commits[int(commit[1])] = file
        elif checkpoint := _CHECKPOINT.fullmatch(base):
            checkpoints[int(checkpoint[1])] = file
        elif base == _LAST_CHECKPOINT:
            last = file
    return LogFiles(commits, checkpoints, last)


def newest_commit_name(lake: str, name: str) -> str:
    """Return the name of a local table's latest commit file; empty if there is none.

    The log is listed only if the file that was the latest at the last look is gone. A round looks some seventy times,
    and the time of a listing grows with the number of commits.
    """
    folder = log_folder(lake, name)
    newest = _newest_commits.get(folder, -1)
    if newest < 0 or not os.path.lexists(commit_file(lake, name, newest)):
        try:
            names = os.listdir(folder)
        except OSError:
            return ""
        newest = max((int(found[1]) for each in names if (found := _COMMIT.fullmatch(each))), default=-1)
    while os.path.lexists(commit_file(lake, name, newest + 1)):
        newest += 1
    _newest_commits[folder] = newest
    return "" if newest < 0 else f"{newest:020d}.json"


_newest_commits: dict[str, int] = {}
"""By folder of a table's log: the latest commit at the last look."""


def read_content(lake: str, name: str, version: int) -> bytes | None:
    """Return the bytes of a commit file; None if the log no longer keeps it, or does not have it yet."""
    try:
        return storage.read(commit_file(lake, name, version))
    except FileNotFoundError:
        return None


def actions_in(content: bytes) -> list[Action]:
    """Return the actions of a commit file.

    Raises:
        ValueError: It is damaged.
    """
    return [json.loads(line) for line in content.splitlines() if line.strip()]


def read_checkpoint(lake: str, name: str, version: int, kind: str | None = None) -> dict[str, list[Action]]:
    """Return the actions of a checkpoint by kind, all or those of one kind. Pages are compared with their checksums.

    Raises:
        OSError: It is missing.
        KeyError: It is damaged.
        pyarrow.ArrowException: It is damaged.
    """
    path = f"{LOG_DIRECTORY}/{version:020d}.checkpoint.parquet"
    with storage.arrow_filesystem(table_uri(lake, name)).open_input_file(path) as file:
        rows = pq.ParquetFile(file, page_checksum_verification=True).read(None if kind is None else [kind])
    kinds = rows.column_names if kind is None else [kind]
    return {each: rows[each].drop_null().to_pylist() for each in kinds}  # type: ignore[misc]


def newest_version(lake: str, name: str) -> int | None:
    """Return the latest version of the table; None if it was never created."""
    table = latest_snapshot(lake, name)
    return None if table is None else table.version()


def read_commit(lake: str, name: str, version: int) -> Commit | None:
    """Read one commit; None if the table's log no longer keeps it, or does not have it yet."""
    lines = _lines(lake, name, version)
    return None if lines is None else _parsed(lake, name, version, lines)


def read_history(lake: str, name: str) -> History:
    """Read every commit and checkpoint in the table's log; nothing for a table that was never created."""
    removed: dict[str, int] = {}
    longest = 0
    files = log_files(lake, name)
    for version in files.checkpoints:
        # A checkpoint keeps removals whose commits are deleted.
        with reading(lake, name, f"{LOG_DIRECTORY}/{version:020d}.checkpoint.parquet"):
            for remove in read_checkpoint(lake, name, version, "remove")["remove"]:
                _note_removal(removed, remove)
    for version, file in files.commits.items():
        with reading(lake, name, f"{LOG_DIRECTORY}/{version:020d}.json"):
            actions = actions_in(storage.read(file.path))
        for action in actions:
            if "remove" in action:
                _note_removal(removed, action["remove"])
        longest = max(longest, _longest_wait(actions))
    return History(removed, longest, max(files.commits, default=-1))


def _longest_wait(actions: list[Action]) -> int:
    infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
    # Files that a RESTORE adds are old because they were live before, not because they waited.
    committed = max((info.get("timestamp") or 0 for info in infos if info.get("operation") != "RESTORE"), default=0)
    written = [action["add"].get("modificationTime", committed) for action in actions if "add" in action]
    return max([0, *(committed - at for at in written)]) if committed else 0


def _note_removal(removed: dict[str, int], remove: Action) -> None:
    gone, at = unquote(remove["path"]), remove.get("deletionTimestamp") or 0
    removed[gone] = max(at, removed.get(gone, at))


def commits_since_checkpoint(lake: str, name: str, version: int) -> int:
    """Return the number of versions after the latest checkpoint, up to ``version``; all if there is no checkpoint."""
    checkpoint = _last_checkpoint(lake, name)
    return version - (-1 if checkpoint is None else checkpoint)


def commit_that_added(lake: str, name: str, path: str, newest: int) -> Commit | None:
    """Return the latest commit up to version ``newest`` that added this file; None if the log does not keep it."""
    base = path.rpartition("/")[2]
    for version, lines in _back_from(lake, name, newest):
        # Cheaper than to parse a commit of ten thousand files. No name of a data file is part of another one.
        if any(base in line and line.startswith('{"add"') for line in lines):
            commit = _parsed(lake, name, version, lines)
            if any(added.path == path for added in commit.added):
                return commit
    return None


def commit_that_passed(lake: str, name: str, application_id: str, number: int, newest: int) -> Commit | None:
    """Return the commit that moved an application id from at most ``number`` to above it; None if it is not kept."""
    found: tuple[int, list[str]] | None = None
    reached = newest + 1
    for version, lines in _back_from(lake, name, newest):
        reached = version
        recorded = [json.loads(line)["txn"] for line in lines if line.startswith('{"txn"') and application_id in line]
        moved = next((each["version"] for each in recorded if each["appId"] == application_id), None)
        if moved is None:
            continue
        if moved <= number:
            break
        found = version, lines
    else:
        if reached > 0:
            return None  # an earlier commit may have done it
    return None if found is None else _parsed(lake, name, *found)


def recorded_versions(lake: str, name: str, version: int) -> dict[str, int] | None:
    """Return the versions of all application ids that version ``version`` of a table records, read in one pass.

    ``deltalake`` looks up one id at a time, a millisecond each: too slow for ten thousand logs.

    Returns:
        None if the table's log is not of the plain kind: a checkpoint has another form, or a commit is missing.
    """
    found: dict[str, int] = {}
    checkpoint = _last_checkpoint(lake, name)
    if checkpoint is not None and checkpoint > version:
        return None
    first = 0 if checkpoint is None else checkpoint + 1
    for commit in range(version, first - 1, -1):
        lines = _lines(lake, name, commit)
        if lines is None:
            return None
        for line in lines:
            if line.startswith('{"txn"'):
                recorded = json.loads(line)["txn"]
                found.setdefault(recorded["appId"], recorded["version"])
    if checkpoint is not None:
        try:
            recorded = read_checkpoint(lake, name, checkpoint, "txn")["txn"]
        except (OSError, KeyError, pa.ArrowInvalid):
            return None
        found = {each["appId"]: each["version"] for each in recorded} | found
    return found


def _last_checkpoint(lake: str, name: str) -> int | None:
    """Return the version of the latest checkpoint; None if there is none."""
    try:
        return int(json.loads(storage.read(storage.join(log_folder(lake, name), _LAST_CHECKPOINT)))["version"])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def _back_from(lake: str, name: str, newest: int) -> Iterator[tuple[int, list[str]]]:
    for version in range(newest, -1, -1):
        lines = _lines(lake, name, version)
        if lines is None:
            return
        yield version, lines


def _lines(lake: str, name: str, version: int) -> list[str] | None:
    content = read_content(lake, name, version)
    if content is None:
        return None
    with reading(lake, name, f"{LOG_DIRECTORY}/{version:020d}.json"):
        return [line for line in content.decode().split("\n") if line.strip()]


def _parsed(lake: str, name: str, version: int, lines: list[str]) -> Commit:
    with reading(lake, name, f"{LOG_DIRECTORY}/{version:020d}.json"):
        return commit_of(version, [json.loads(line) for line in lines])


def commit_of(version: int, actions: list[Action]) -> Commit:
    """Combine the actions of a commit.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: They are not Delta actions.
    """
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    ours = _our_metadata(info)
    adds = [action["add"] for action in actions if "add" in action]
    removes = [action["remove"] for action in actions if "remove" in action]
    digests: Mapping[str, str] = ours.get("digests", {})
    data_change = any(each.get("dataChange", True) for each in (*adds, *removes))
    paths = [unquote(each["path"]) for each in adds] if ours or data_change else []
    return Commit(
        version=version,
        timestamp_ms=info.get("timestamp"),
        operation=info.get("operation"),
        run_id=ours.get("run_id"),
        data_change=data_change,
        added=tuple(AddedFile(unquote(each["path"]), each["size"], _rows(each)) for each in adds),
        removed=tuple(unquote(each["path"]) for each in removes),
        application_ids={a["txn"]["appId"]: a["txn"]["version"] for a in actions if "txn" in a},
        digests=digests,
        unproven=tuple(path for path in paths if path not in digests),
        engine=info.get("engineInfo") or info.get("clientVersion"),
        contents=ours.get("contents", {}),
        longest_wait_ms=_longest_wait(actions),
    )


def _our_metadata(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that our commits record; empty for a commit that is not ours."""
    try:
        metadata = json.loads(info["userMetadata"])
        found: dict[str, Any] = {"run_id": str(metadata["run_id"])}
        for kind in ("digests", "contents"):
            if kind in metadata:
                found[kind] = {str(path): str(digest) for path, digest in metadata[kind].items()}
        return found
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _rows(add: Mapping[str, Any]) -> int | None:
    try:
        return int(json.loads(add["stats"])["numRecords"])
    except (KeyError, TypeError, ValueError):
        return None
