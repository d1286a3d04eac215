"""The log of a table: no version is missing, commit files are complete and unique, checkpoints match them.

Commits before the latest checkpoint may be missing, because Delta removes old ones. Those that are kept are checked
too: no version may be missing between them. They are replayed against each checkpoint if the log begins at version 0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from spark_jobs.lake.delta.files.row_counts import WITHOUT_PROOF, row_counts, version_before_others
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.repair_commands import rebuild_command
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import RECORD_TABLES
from spark_jobs.lake_verification.state import (
    OpenedTable,
    StateTables,
    TableLog,
    way_out,
    way_out_of_log,
)
from spark_jobs.lake_verification.verified_thing import (
    DataUnreadable,
    Thing,
    ThingResult,
    finding,
    identity_of,
    readable,
)


@dataclass(slots=True)
class _Replayed:
    """The state that results from the commits since version 0."""

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
    """Yield the log of every table that exists."""
    for name, opened in sorted(state.tables.items()):
        files = delta_log.log_files(state.lake, name).all
        stored = [(file.path, file.size, file.modified_ms) for file in files]
        yield Thing(
            name=f"table/{name}",
            identity=identity_of(opened.version, stored, state.recorded.get(name, {})),
            size=sum(file.size for file in files),
            verify=partial(ThingResult, list(read_table_log(state, name).findings)),
        )


def read_table_log(state: StateTables, name: str) -> TableLog:
    """Read every kept commit file and checkpoint."""
    known = state.table_logs.get(name)
    if known is None:
        known = state.table_logs[name] = _Reader(state, state.tables[name]).read()
    return known


class _Reader:
    """One pass over the files of a table's log."""

    def __init__(self, state: StateTables, opened: OpenedTable) -> None:
        self._state, self._opened = state, opened
        self._log = TableLog()
        self._replayed = _Replayed()
        self._seen: dict[str, int] = {}
        """Version by digest of the commit's content."""

    def read(self) -> TableLog:
        files = delta_log.log_files(self._state.lake, self._opened.name)
        commits = {version: file.path for version, file in files.commits.items()}
        checkpoints = {version: file.path for version, file in files.checkpoints.items()}
        if files.last_checkpoint is not None:
            self._pointer(files.last_checkpoint.path)
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
        self._foreign_rows()
        return self._log

    def _say(self, rule: str, message: str, **place: Any) -> None:
        name = self._opened.name
        self._log.findings.append(finding(rule, f"Table {name}: {message}", table=name, **place))

    def _damaged(self, what: str, path: str | None) -> None:
        way_out = way_out_of_log(self._state.lake, self._opened.name)
        self._say("commit-file-damaged", f"{what}. {way_out}", file=path)

    def _pointer(self, path: str) -> None:
        try:
            json.loads(storage.read(path))["version"] + 0
        except (ValueError, KeyError, TypeError) as error:
            message = f"{path} does not name a checkpoint ({error}). Delete the file: the next checkpoint writes it."
            self._say("commit-file-damaged", message, file=path)

    def _versions(self, commits: Mapping[int, str], checkpoints: Mapping[int, str]) -> None:
        """Check that all versions after the latest checkpoint exist, and that none is missing between earlier ones."""
        newest = self._opened.version
        base = max((version for version in checkpoints if version <= newest), default=-1)
        first = min([*(version for version in commits if version <= newest), base + 1])
        for version in range(first, newest + 1):
            if version not in commits:
                path = delta_log.commit_file(self._state.lake, self._opened.name, version)
                self._damaged(f"the commit file of version {version} is gone", path)
        for version in sorted(version for version in {*commits, *checkpoints} if version > newest):
            message = f"there is a file of version {version}, but the table ends at version {newest}."
            self._say("table-went-back", message, file=commits.get(version) or checkpoints[version])

    def _commit(self, version: int, path: str) -> bool:
        """Read a commit; return whether it could be read."""
        try:
            content = storage.read(path)
            actions = delta_log.actions_in(content)
            if not actions or not all(isinstance(action, dict) and len(action) == 1 for action in actions):
                raise ValueError("a line of it is not exactly one action")
            self._actions(version, path, actions)
        except FileNotFoundError:
            return False  # removed meanwhile
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._damaged(f"the commit file of version {version} cannot be read: {error!r}", path)
            return False
        digest = hashlib.sha256(content).hexdigest()
        kept = self._state.recorded.get(self._opened.name, {}).get("commits") or {}
        if kept.get(str(version), digest) != digest:
            self._damaged(f"the commit file of version {version} is not the one that the last run left", path)
        before = self._seen.setdefault(digest, version)
        if before != version:
            self._damaged(f"the commit file of version {version} repeats that of version {before}", path)
        return True

    def _actions(self, version: int, path: str, actions: list[delta_log.Action]) -> None:
        commit = delta_log.commit_of(version, actions)
        for action in actions:
            self._replayed.take(action)
        self._log.digests |= commit.digests
        self._log.contents |= commit.contents
        if not commit.is_ours:
            engine = commit.engine or "an engine that does not name itself"
            what = f"{commit.operation or 'an operation'} by {engine}"
            message = f"version {version} is a commit of another program: {what}."
            self._say("foreign-commit", message, file=path)

    def _checkpoint(self, version: int, path: str, replays: bool) -> None:
        try:
            with readable():
                actions = delta_log.read_checkpoint(self._state.lake, self._opened.name, version)
                files = {add["path"]: add["size"] for add in actions["add"]}
                versions = {txn["appId"]: txn["version"] for txn in actions["txn"]}
        except (DataUnreadable, FileNotFoundError) as error:
            self._damaged(f"the checkpoint of version {version} cannot be read: {error}", path)
            return
        if replays and (files != self._replayed.files or versions != self._replayed.versions):
            self._damaged(f"the checkpoint of version {version} does not match the commits up to it", path)

    def _foreign_rows(self) -> None:
        name = self._opened.name
        if name in (*RECORD_TABLES, "batches"):
            return  # compared with other tables
        try:
            with readable():
                written, there = row_counts(self._state.opened[name], name)
        except DataUnreadable as error:
            self._damaged(f"its rows cannot be counted: {error}", None)
            return
        if there < written:
            command = rebuild_command(self._state.lake, name)
            message = f"it has {there:,} rows, and {written:,} were written: another program removed some."
            self._say("rows-removed", f"{message} Run `{command}`, then `loglake run` again.")
        before = version_before_others(self._state.lake, name) if name in WITHOUT_PROOF else None
        if before is not None:
            message = f"another program wrote rows after version {before}, and nothing proves them."
            self._say("rows-not-ours", message)

    def _recorded(self) -> None:
        """Compare with what the last run recorded in ``tables.json``."""
        said = self._state.recorded.get(self._opened.name, {})
        version = said.get("version")
        if version is None:
            return
        repair = way_out(self._state.lake, self._opened.name)
        if version > self._opened.version:
            message = f"it is at version {self._opened.version}, the last run left it at {version}: commits were lost."
            self._say("table-went-back", f"{message} {repair}")
        elif version == self._opened.version:
            files = self._opened.files
            found = {"files": len(files), "rows": sum(f.rows for f in files), "bytes": sum(f.size for f in files)}
            other = [
                f"{found[key]} {key} instead of {said[key]}" for key in found if said.get(key) not in (None, found[key])
            ]
            if other:
                message = f"version {version} is not the one that the last run left: {', '.join(other)}. {repair}"
                self._say("table-went-back", message)
