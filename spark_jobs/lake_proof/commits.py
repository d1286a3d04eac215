"""The log of a table: its versions without a hole, each commit file whole and once, checkpoints that say the same.

Commits in front of the newest checkpoint may be gone, because Delta removes them when they are old. What is kept is
looked at all the same: version by version without a hole, and replayed against each checkpoint where the log begins at
version 0.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from spark_jobs.lake.delta.live_files import LOG_DIRECTORY
from spark_jobs.lake.delta.tables import table_uri
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.storage import StoredFile
from spark_jobs.lake_proof.proof import DataUnreadable, LakeFinding, Proof, Thing, finding, readable
from spark_jobs.lake_proof.state import OpenedTable, StateTables, way_out

_COMMIT = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
LAST_CHECKPOINT = "_last_checkpoint"

_OUR_LIBRARY = "delta-rs"
"""Makes tables and columns for us in commits that have no run id; lakes of earlier versions have such ones."""


@dataclass(slots=True)
class TableLog:
    """What the kept part of a table's log says."""

    name: str
    digests: dict[str, str] = field(default_factory=dict)
    """Row digest by path, as the commit that added the file recorded it."""
    contents: dict[str, str] = field(default_factory=dict)
    """Digest of the bytes by path, likewise."""
    ours: set[str] = field(default_factory=set)
    """Files that a commit with a run id added."""
    findings: list[LakeFinding] = field(default_factory=list)


@dataclass(slots=True)
class _Replayed:
    """The state that commits from version 0 on come to."""

    files: dict[str, int] = field(default_factory=dict)
    """Size by path, as the log writes paths."""
    versions: dict[str, int] = field(default_factory=dict)

    def take(self, action: Mapping[str, Any]) -> None:
        if "add" in action:
            self.files[action["add"]["path"]] = action["add"]["size"]
        elif "remove" in action:
            self.files.pop(action["remove"]["path"], None)
        elif "txn" in action:
            self.versions[action["txn"]["appId"]] = action["txn"]["version"]


def table_things(state: StateTables) -> Iterator[Thing]:
    """The log of every table that is there."""
    for name, opened in sorted(state.tables.items()):
        files = _log_files(state.lake, name)
        identity = json.dumps([opened.version, [[f.path, f.size, f.modified_ms] for f in files]])
        recorded = json.dumps(state.recorded.get(name, {}), sort_keys=True)
        yield Thing(
            name=f"table/{name}",
            identity=hashlib.sha256(f"{identity}\n{recorded}".encode()).hexdigest(),
            size=sum(file.size for file in files),
            prove=partial(_prove, state, name),
        )


def _prove(state: StateTables, name: str) -> Proof:
    return Proof(list(read_table_log(state, name).findings))


def read_table_log(state: StateTables, name: str) -> TableLog:
    """Read every commit file and checkpoint that is kept."""
    known = state.table_logs.get(name)
    if known is None:
        known = state.table_logs[name] = _Reader(state, state.tables[name]).read()
    return known


def _log_files(lake: str, name: str) -> list[StoredFile]:
    root = storage.join(table_uri(lake, name), LOG_DIRECTORY)
    return sorted(storage.files_below(root), key=lambda file: file.path)


class _Reader:
    """One pass over the files of a table's log."""

    def __init__(self, state: StateTables, opened: OpenedTable) -> None:
        self._state, self._opened = state, opened
        self._log = TableLog(opened.name)
        self._replayed = _Replayed()
        self._seen: dict[str, int] = {}
        """Version by digest of the commit's content."""

    def read(self) -> TableLog:
        commits: dict[int, str] = {}
        checkpoints: dict[int, str] = {}
        for file in _log_files(self._state.lake, self._opened.name):
            base = posixpath.basename(file.path)
            if commit := _COMMIT.fullmatch(base):
                commits[int(commit[1])] = file.path
            elif checkpoint := _CHECKPOINT.fullmatch(base):
                checkpoints[int(checkpoint[1])] = file.path
            elif base == LAST_CHECKPOINT:
                self._pointer(file.path)
        self._versions(commits, checkpoints)
        replays = 0 in commits
        for version in range(self._opened.version + 1):
            if version in commits:
                replays &= self._commit(version, commits[version])
            else:
                replays = False
            if version in checkpoints:
                self._checkpoint(version, checkpoints[version], replays)
        self._recorded()
        return self._log

    def _say(self, rule: str, message: str, **place: Any) -> None:
        name = self._opened.name
        self._log.findings.append(finding(rule, f"Table {name}: {message}", table=name, **place))

    def _pointer(self, path: str) -> None:
        try:
            json.loads(storage.read(path))["version"] + 0
        except (ValueError, KeyError, TypeError) as error:
            message = f"{path} does not name a checkpoint ({error}). Delete the file: the next checkpoint writes it."
            self._say("commit-file-damaged", message, file=path)

    def _versions(self, commits: Mapping[int, str], checkpoints: Mapping[int, str]) -> None:
        """Behind the newest checkpoint every version has to be there; in front of it there is no hole."""
        newest = self._opened.version
        base = max((version for version in checkpoints if version <= newest), default=-1)
        first = min([*(version for version in commits if version <= newest), base + 1])
        for version in range(first, newest + 1):
            if version not in commits:
                message = f"the commit file of version {version} is gone. {way_out(self._opened.name)}"
                root = table_uri(self._state.lake, self._opened.name)
                path = storage.join(root, LOG_DIRECTORY, f"{version:020d}.json")
                self._say("commit-file-damaged", message, file=path)
        for version in sorted(version for version in {*commits, *checkpoints} if version > newest):
            message = f"there is a file of version {version}, but the table ends at version {newest}."
            self._say("table-went-back", message, file=commits.get(version) or checkpoints[version])

    def _commit(self, version: int, path: str) -> bool:
        """Whether the commit could be read."""
        try:
            content = storage.read(path)
            actions = [json.loads(line) for line in content.splitlines() if line.strip()]
            if not actions or not all(isinstance(action, dict) and len(action) == 1 for action in actions):
                raise ValueError("it holds something else than one action in each line")
            self._actions(version, path, actions)
        except FileNotFoundError:
            return False  # removed meanwhile
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"the commit file of version {version} cannot be read: {error!r}. {way_out(self._opened.name)}"
            self._say("commit-file-damaged", message, file=path)
            return False
        digest = hashlib.sha256(content).hexdigest()
        kept = self._state.recorded.get(self._opened.name, {}).get("commits") or {}
        if kept.get(str(version), digest) != digest:
            message = f"the commit file of version {version} is not the one that the last run left."
            self._say("commit-file-damaged", f"{message} {way_out(self._opened.name)}", file=path)
        before = self._seen.setdefault(digest, version)
        if before != version:
            message = f"the commit file of version {version} repeats that of version {before}."
            self._say("commit-file-damaged", f"{message} {way_out(self._opened.name)}", file=path)
        return True

    def _actions(self, version: int, path: str, actions: list[dict[str, Any]]) -> None:
        info: Mapping[str, Any] = next((each["commitInfo"] for each in actions if "commitInfo" in each), {})
        said = _metadata(info)
        operation = info.get("operation")
        is_made = version == 0 and operation == "CREATE TABLE"
        engine = str(info.get("engineInfo") or info.get("clientVersion") or "an engine that does not name itself")
        is_ours = "run_id" in said or is_made or (operation == "ADD COLUMN" and engine.startswith(_OUR_LIBRARY))
        for action in actions:
            self._replayed.take(action)
            if "run_id" in said and "add" in action:
                self._log.ours.add(unquote(action["add"]["path"]))
        digests = said.get("digests")
        if isinstance(digests, dict):
            self._log.digests |= {str(name): str(digest) for name, digest in digests.items()}
        contents = said.get("contents")
        if isinstance(contents, dict):
            self._log.contents |= {str(name): str(digest) for name, digest in contents.items()}
        if not is_ours:
            message = f"version {version} is a commit of another program: {operation or 'an operation'} by {engine}."
            self._say("foreign-commit", message, file=path)

    def _checkpoint(self, version: int, path: str, replays: bool) -> None:
        root = table_uri(self._state.lake, self._opened.name)
        try:
            with (
                readable(),
                storage.arrow_filesystem(root).open_input_file(storage.relative(path, root)) as file,
            ):
                rows = pq.ParquetFile(file, page_checksum_verification=True).read()
                files = {add["path"]: add["size"] for add in rows["add"].drop_null().to_pylist()}
                versions = {txn["appId"]: txn["version"] for txn in rows["txn"].drop_null().to_pylist()}
        except (DataUnreadable, FileNotFoundError) as error:
            message = f"the checkpoint of version {version} cannot be read: {error}. {way_out(self._opened.name)}"
            self._say("commit-file-damaged", message, file=path)
            return
        if replays and (files != self._replayed.files or versions != self._replayed.versions):
            message = f"the checkpoint of version {version} is not what the commits up to it come to."
            self._say("commit-file-damaged", f"{message} {way_out(self._opened.name)}", file=path)

    def _recorded(self) -> None:
        """Compare with what the last run recorded in ``tables.json``."""
        said = self._state.recorded.get(self._opened.name, {})
        version = said.get("version")
        if version is None:
            return
        mend = way_out(self._opened.name)
        if version > self._opened.version:
            message = f"it is at version {self._opened.version}, the last run left it at {version}: commits were lost."
            self._say("table-went-back", f"{message} {mend}")
        elif version == self._opened.version:
            files = self._opened.files
            found = {"files": len(files), "rows": sum(f.rows for f in files), "bytes": sum(f.size for f in files)}
            other = [
                f"{found[key]} {key} instead of {said[key]}" for key in found if said.get(key) not in (None, found[key])
            ]
            if other:
                message = f"version {version} is not the one that the last run left: {', '.join(other)}. {mend}"
                self._say("table-went-back", message)


def _metadata(info: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        said = json.loads(info["userMetadata"])
    except (KeyError, TypeError, ValueError):  # a commit of another program
        return {}
    return said if isinstance(said, dict) else {}
