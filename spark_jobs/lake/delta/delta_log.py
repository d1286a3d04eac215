"""A table's own history: what each commit added and removed, as its JSON file in ``_delta_log`` says it.

Belongs here: reading those files. Does not: what rows mean (``lineage``) and how a commit is made (``commits``).
``deltalake`` shows what a commit says of itself, but not the files and application ids in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.lake.delta.tables import open_table, reading, table_uri
from spark_jobs.lake.store import storage


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A data file that a commit added."""

    path: str
    """Relative to the table."""
    size: int
    rows: int | None
    """As its statistics count them."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of a table."""

    version: int
    timestamp_ms: int | None
    operation: str | None
    run_id: str | None
    data_change: bool
    """False where files were only written anew, with the same rows."""
    added: tuple[AddedFile, ...]
    removed: tuple[str, ...]
    """Paths, relative to the table."""
    application_ids: Mapping[str, int]
    """Versions of application ids that the commit recorded, the frontiers among them."""
    digests: Mapping[str, str]
    """Row digests of the files that it added, by path; none of a commit that is not ours."""
    unproven: tuple[str, ...]
    """Paths of files whose rows nobody has compared with the archive. Another engine wrote them with changed data, or
    one of our commits copied such rows into a file without a digest."""
    engine: str | None
    """Who wrote it, as the commit says."""


def newest_version(lake: str, name: str) -> int | None:
    """Version of the table as it stands now; None where it was never created."""
    table = open_table(lake, name)
    return None if table is None else table.version()


def read_commit(lake: str, name: str, version: int) -> Commit | None:
    """One commit; None where the table's log does not keep it any more, or does not have it yet."""
    lines = _lines(lake, name, version)
    return None if lines is None else _parsed(lake, name, version, lines)


def commit_that_added(lake: str, name: str, path: str, newest: int) -> Commit | None:
    """The newest commit, from version ``newest`` down, that added this file; None where the log does not keep it."""
    base = path.rpartition("/")[2]
    for version, lines in _back_from(lake, name, newest):
        # Cheaper than to parse a commit of ten thousand files: names of data files are never part of one another.
        if any(base in line and line.startswith('{"add"') for line in lines):
            commit = _parsed(lake, name, version, lines)
            if any(added.path == path for added in commit.added):
                return commit
    return None


def commit_that_passed(lake: str, name: str, application_id: str, number: int, newest: int) -> Commit | None:
    """The commit that moved an application id from at or below ``number`` to above it; None where it is not kept."""
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
    """Versions of all application ids that version ``version`` of a table records, read in one pass.

    ``deltalake`` looks up one id at a time, a millisecond each: too long for ten thousand logs.

    Returns:
        None where the table's log is not of the plain kind: a checkpoint of another form, a commit that is gone.
    """
    found: dict[str, int] = {}
    checkpoint = _last_checkpoint(lake, name)
    if checkpoint is not None and checkpoint[0] > version:
        return None
    first = 0 if checkpoint is None else checkpoint[0] + 1
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
            with storage.arrow_filesystem(table_uri(lake, name)).open_input_file(f"_delta_log/{checkpoint[1]}") as file:
                recorded = pq.read_table(file, columns=["txn"])["txn"].drop_null().to_pylist()
        except (OSError, KeyError, pa.ArrowInvalid):
            return None
        found = {each["appId"]: each["version"] for each in recorded} | found
    return found


def _last_checkpoint(lake: str, name: str) -> tuple[int, str] | None:
    """Version and file name of the newest checkpoint; None where there is none."""
    try:
        said = json.loads(storage.read(storage.join(table_uri(lake, name), "_delta_log", "_last_checkpoint")))
    except (FileNotFoundError, ValueError):
        return None
    version = int(said["version"])
    # One in several parts is not looked for under this name, and so is not found.
    return version, f"{version:020d}.checkpoint.parquet"


def _back_from(lake: str, name: str, newest: int) -> Iterator[tuple[int, list[str]]]:
    for version in range(newest, -1, -1):
        lines = _lines(lake, name, version)
        if lines is None:
            return
        yield version, lines


def _lines(lake: str, name: str, version: int) -> list[str] | None:
    path = storage.join(table_uri(lake, name), "_delta_log", f"{version:020d}.json")
    try:
        content = storage.read(path)
    except FileNotFoundError:
        return None
    return [line for line in content.decode().split("\n") if line.strip()]


def _parsed(lake: str, name: str, version: int, lines: list[str]) -> Commit:
    with reading(lake, name, f"_delta_log/{version:020d}.json"):
        return _commit(version, [json.loads(line) for line in lines])


def _commit(version: int, actions: list[dict[str, Any]]) -> Commit:
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    ours = _our_metadata(info)
    adds = [action["add"] for action in actions if "add" in action]
    removes = [action["remove"] for action in actions if "remove" in action]
    digests: Mapping[str, str] | None = ours.get("digests")
    data_change = any(each.get("dataChange", True) for each in (*adds, *removes))

    def is_unproven(path: str) -> bool:
        if not ours:
            return data_change
        return digests is not None and path not in digests  # earlier versions of Loglake recorded no digests

    return Commit(
        version=version,
        timestamp_ms=info.get("timestamp"),
        operation=info.get("operation"),
        run_id=ours.get("run_id"),
        data_change=data_change,
        added=tuple(AddedFile(unquote(each["path"]), each["size"], _rows(each)) for each in adds),
        removed=tuple(unquote(each["path"]) for each in removes),
        application_ids={a["txn"]["appId"]: a["txn"]["version"] for a in actions if "txn" in a},
        digests=digests or {},
        unproven=tuple(path for path in (unquote(each["path"]) for each in adds) if is_unproven(path)),
        engine=info.get("engineInfo") or info.get("clientVersion"),
    )


def _our_metadata(info: Mapping[str, Any]) -> dict[str, Any]:
    """What our commits say of themselves; nothing of a commit that is not ours."""
    try:
        metadata = json.loads(info["userMetadata"])
        found = {"run_id": str(metadata["run_id"])}
        if "digests" not in metadata:
            return found
        return found | {"digests": {str(path): str(digest) for path, digest in metadata["digests"].items()}}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _rows(add: Mapping[str, Any]) -> int | None:
    try:
        return int(json.loads(add["stats"])["numRecords"])
    except (KeyError, TypeError, ValueError):
        return None
