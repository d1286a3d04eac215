"""What the last run saw of each table (``tables.json``), and the cheap checks that compare the lake with it.

The file is only a memory: without it the next run checks everything. A check costs one listing of each table and one of
the archive and opens no data file. So harm that leaves size and time of a file unchanged is only found by ``loglake
verify LAKE``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from deltalake import DeltaTable

from logcore.logs.model.findings import Finding, found
from spark_jobs.lake.delta import delta_log
from spark_jobs.lake.delta.delta_log import Commit
from spark_jobs.lake.delta.live_files import LiveFile, live_files
from spark_jobs.lake.delta.tables import TABLES, latest_snapshot, read_rows, reading, table_uri
from spark_jobs.lake.errors import TableUnreadable
from spark_jobs.lake.store import storage

STATE_FILE = "tables.json"
VERSION = 1
"""Version of the file's format; a file of another version is ignored."""
FINDINGS_A_TABLE = 20
"""At most this many files or commits of a table, or files of the archive, are named; the rest is counted."""

_JOINED = "merged"
"""Why a slice was retired that was joined. Nothing needs its file, and a watch leaves very many."""

COMMITS_KEPT = 1000
"""Number of commits of a table whose digest is recorded."""

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
    """By path: when the store last changed each file of the archive (epoch milliseconds), on an object store."""

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
                continue
            files = _files_of(lake, name, table)
        except TableUnreadable:
            continue
        now = _state_of(lake, name, table, files)
        tables[name] = replace(now, commits=_commits_of(lake, name, now, before.tables.get(name)))
        live = {file.path for file in files}
        known = {**before.foreign.get(name, {}), **(foreign or {}).get(name, {})}
        kept = {path: answer for path, answer in known.items() if path in live}
        if kept:
            answers[name] = kept
    archive = _archive_times(lake) if storage.is_remote(lake) else {}
    if (tables, answers, archive) == (before.tables, before.foreign, before.archive):
        return before
    state = TablesFile(run_id, as_of_ms, tables, answers, archive)
    content = {
        "version": VERSION,
        "run_id": run_id,
        "as_of_ms": as_of_ms,
        "tables": {name: asdict(table) for name, table in tables.items()},
        "foreign": answers,
        "archive": archive,
    }
    storage.put(storage.join(lake, STATE_FILE), json.dumps(content, indent=1, sort_keys=True).encode())
    return state


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


def unchecked_files(lake: str, name: str) -> list[LiveFile]:
    """Return live files, by path, whose rows were not compared with the archive since the last run.

    If a file that differed is gone, its rows may now be in any file of another engine: all of those count.

    Raises:
        TableUnreadable: The table or a commit of it is damaged.
        StorageError: The object store failed.
    """
    state = read_state(lake)
    answers = state.foreign.get(name, {})
    commits = _commits_since(lake, name, state.since(name)).kept
    table = latest_snapshot(lake, name) if commits else None
    if table is None:
        return []
    live = {file.path: file for file in _files_of(lake, name, table)}
    has_moved = any(answer != "equal" and path not in live for path, answer in answers.items())
    paths = {path for commit in commits for path in commit.unproven}
    if has_moved:
        paths |= {file.path for commit in commits if not commit.is_ours for file in commit.added}
    return [live[path] for path in sorted(paths & live.keys()) if path not in answers]


def foreign_commits(lake: str, name: str, since_version: int) -> list[Commit]:
    """Return commits of other programs after a version of a table, oldest first, as far back as its log is kept.

    Raises:
        TableUnreadable: A commit is damaged.
        StorageError: The object store failed.
    """
    return _commits_since(lake, name, since_version).foreign


@dataclass(frozen=True, slots=True)
class _CommitsSince:
    """The commits after a version of a table."""

    kept: tuple[Commit, ...]
    """Those that the table's log keeps, the latest first."""
    missing_to: int | None
    """The latest version whose commit the log does not keep; None: it keeps all."""

    @property
    def foreign(self) -> list[Commit]:
        """Commits of other programs, oldest first."""
        return [commit for commit in self.kept if not commit.is_ours][::-1]


def _commits_since(lake: str, name: str, since_version: int) -> _CommitsSince:
    newest = delta_log.newest_version(lake, name)
    kept: list[Commit] = []
    for version in range(newest if newest is not None else -1, since_version, -1):
        commit = delta_log.read_commit(lake, name, version)
        if commit is None:
            return _CommitsSince(tuple(kept), version)
        kept.append(commit)
    return _CommitsSince(tuple(kept), None)


def cheap_check(lake: str) -> tuple[Finding, ...]:
    """Compare tables and archive with the records of the last run and with their own logs.

    Raises:
        StorageError: The object store failed.
    """
    state = read_state(lake)
    findings: list[Finding] = []
    for name in TABLES:
        try:
            findings += _check_table(lake, name, state)
        except TableUnreadable as error:
            findings.append(found("table-went-back", str(error), file=table_uri(lake, name)))
    findings += _check_archive(lake, state)
    return tuple(findings)


def check_archive(lake: str) -> tuple[Finding, ...]:
    """The part of :func:`cheap_check` that is about files of the archive."""
    return tuple(_check_archive(lake, read_state(lake)))


def _files_of(lake: str, name: str, table: DeltaTable) -> list[LiveFile]:
    with reading(lake, name):
        return live_files(table)


def _state_of(lake: str, name: str, table: DeltaTable, files: Sequence[LiveFile]) -> TableState:
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
        if last is not None and _digest_of_commit(lake, name, before.version) in (None, last):
            known = before.commits
    commits: dict[str, str] = {}
    for version in range(now.version, max(now.version - COMMITS_KEPT, -1), -1):
        digest = known.get(str(version)) or _digest_of_commit(lake, name, version)
        if digest is None:
            break  # cleaned up, and all before it
        commits[str(version)] = digest
    return commits


def _digest_of_commit(lake: str, name: str, version: int) -> str | None:
    """Return the digest of a commit file; None if the table's log no longer keeps it."""
    content = delta_log.read_content(lake, name, version)
    return None if content is None else hashlib.sha256(content).hexdigest()


def _check_table(lake: str, name: str, state: TablesFile) -> Iterator[Finding]:
    before = state.tables.get(name)
    uri = table_uri(lake, name)
    table = latest_snapshot(lake, name)
    if table is None:
        if before is not None:
            yield found(
                "table-missing",
                f"table {name}: it was at version {before.version} with {before.rows} rows after the run "
                f"{state.run_id}, and is gone",
                file=uri,
            )
        return
    files = _files_of(lake, name, table)
    if before is not None:
        yield from _compared(lake, name, before, _state_of(lake, name, table, files))
    yield from _foreign(lake, name, state.since(name))
    yield from _files_on_disk(lake, name, files)


def _compared(lake: str, name: str, before: TableState, now: TableState) -> Iterator[Finding]:
    uri = table_uri(lake, name)
    version = now.version
    if before.table_id is not None and before.table_id != now.table_id:
        message = (
            f"table {name}: the table of version {before.version} was lost, and another one was created in its place"
        )
        yield found("table-missing", message, file=uri)
        return
    if version < before.version:
        message = f"table {name}: it is at version {version} and was at {before.version}: commits were lost"
        yield found("table-went-back", message, file=uri)
        return
    digest, recorded = _digest_of_commit(lake, name, before.version), before.commits.get(str(before.version))
    if digest is not None and recorded is not None and digest != recorded:
        message = f"table {name}: version {before.version} is another commit than it was: its history was replaced"
        yield found("table-went-back", message, file=uri)
    elif version == before.version and (now.rows, now.files, now.bytes) != (before.rows, before.files, before.bytes):
        yield found(
            "table-went-back",
            f"table {name}: version {version} has {now.rows} rows in {now.files} files ({now.bytes} bytes) and "
            f"had {before.rows} in {before.files} ({before.bytes} bytes)",
            file=uri,
        )


def _foreign(lake: str, name: str, since: int) -> Iterator[Finding]:
    since_then = _commits_since(lake, name, since)
    commits = since_then.foreign
    if since >= 0 and since_then.missing_to is not None:
        yield found(
            "commits-not-kept",
            f"table {name}: the commits of versions {since + 1} to {since_then.missing_to} are gone from its log. "
            "No run has seen them, so another program may have changed rows.",
            file=table_uri(lake, name),
        )
    for commit in commits[:FINDINGS_A_TABLE]:
        what = "rows may have changed" if commit.data_change else "no rows changed"
        yield found(
            "foreign-commit",
            f"table {name}: version {commit.version} is a commit {commit.operation or 'without a name'} of "
            f"{commit.engine or 'an unknown program'}; {what}",
            file=table_uri(lake, name),
        )
    if len(commits) > FINDINGS_A_TABLE:
        more = len(commits) - FINDINGS_A_TABLE
        yield found(
            "foreign-commit", f"table {name}: {more} more commits of other programs", file=table_uri(lake, name)
        )


def _present(root: str, paths: Iterable[str], listed: str) -> dict[str, storage.StoredFile]:
    """Return those files that are there, by path relative to ``root``.

    On a local disk each is looked up: in a watched lake many more files are there that no row names any more. Of an
    object store the directory ``listed`` is listed.
    """
    if storage.is_remote(root):
        return {storage.relative(file.path, root): file for file in storage.files_below(listed)}
    present: dict[str, storage.StoredFile] = {}
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError):
            present[path] = storage.stat(storage.join(root, path))
    return present


def _files_on_disk(lake: str, name: str, files: Sequence[LiveFile]) -> Iterator[Finding]:
    root = table_uri(lake, name)
    listed = {path: file.size for path, file in _present(root, [file.path for file in files], root).items()}
    harmed: list[tuple[str, LiveFile, str]] = []
    for file in files:
        if file.path not in listed:
            harmed.append(("table-file-missing", file, "is not there"))
        elif listed[file.path] != file.size:
            harmed.append(("table-file-size", file, f"has {listed[file.path]} bytes and was written with {file.size}"))
    for rule, file, what in harmed[:FINDINGS_A_TABLE]:
        yield found(
            rule,
            f"table {name}: {file.path}, {max(file.rows, 0)} rows{_place(file)}, {what}; {_mended_by(lake, name)}",
            file=storage.join(root, file.path),
            start_offset=file.min_offset,
            end_offset=None if file.max_offset is None else file.max_offset + 1,
        )
    if len(harmed) > FINDINGS_A_TABLE:
        more = len(harmed) - FINDINGS_A_TABLE
        yield found(harmed[FINDINGS_A_TABLE][0], f"table {name}: {more} more files are missing or cut", file=root)


def _place(file: LiveFile) -> str:
    topic, partition = file.partition_values.get("topic"), file.partition
    if topic is None:
        return ""
    return f" of {topic}" if partition is None else f" of {topic}-{partition}"


def _mended_by(lake: str, name: str) -> str:
    if name == "records":
        return f"loglake run SOURCE --lake {lake} --replace OFFSETS writes the rows again from the archive"
    return f"loglake repair {lake} --rebuild {name} rebuilds the table"


# --- the archive ------------------------------------------------------------------------------------------------------


def _archive_times(lake: str) -> dict[str, int]:
    return {
        storage.relative(file.path, lake): file.modified_ms
        for file in storage.files_below(storage.join(lake, "archive"))
    }


def _check_archive(lake: str, state: TablesFile) -> Iterator[Finding]:
    """Compare the archive's files with ``segments``, except those that are registered at their source."""
    columns = ["segment_id", "topic", "partition", "base_offset", "next_offset", "path", "start", "size"]
    columns += ["modified_ms", "retired_ms", "deleted_ms"]
    where: list[tuple[str, str, object]] = [("deleted_ms", "is_null", True), ("retired_because", "not in", [_JOINED])]
    try:
        segments = read_rows(lake, "segments", columns, where).to_pylist()
    except TableUnreadable:
        return  # the table's own finding
    kept = [segment for segment in segments if not storage.is_absolute(segment["path"])]
    kept.sort(key=lambda segment: (segment["topic"], segment["partition"], segment["base_offset"]))
    if not kept:
        return
    root = storage.join(lake, "archive")
    listed = _present(lake, [segment["path"] for segment in kept], root)
    harmed = list(_harmed(lake, kept, listed, state))
    for rule, segment, what in harmed[:FINDINGS_A_TABLE]:
        yield found(
            rule,
            f"{segment['topic']}-{segment['partition']}: the archived segment {segment['path']} {what}",
            file=storage.join(lake, segment["path"]),
            start_offset=segment["base_offset"],
            end_offset=segment["next_offset"],
        )
    if len(harmed) > FINDINGS_A_TABLE:
        more = len(harmed) - FINDINGS_A_TABLE
        yield found(harmed[FINDINGS_A_TABLE][0], f"{more} more files of the archive are missing or changed", file=root)


def _harmed(
    lake: str,
    segments: Iterable[Mapping[str, Any]],
    listed: Mapping[str, storage.StoredFile],
    state: TablesFile,
) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    for segment in segments:
        file = listed.get(segment["path"])
        if file is None:
            # The file of a retired segment is deleted before its row records it.
            if segment["retired_ms"] is None:
                yield "archive-file-missing", segment, "is not there"
        elif file.size != segment["start"] + segment["size"]:
            yield "archive-file-changed", segment, f"has {file.size} bytes and was placed with {segment['size']}"
        else:
            # A local file has its source's time; a store sets its own, which the last run recorded.
            placed = state.archive.get(segment["path"]) if storage.is_remote(lake) else segment["modified_ms"]
            if placed is not None and file.modified_ms != placed:
                yield (
                    "archive-file-changed",
                    segment,
                    f"was changed at {file.modified_ms} and placed with the time {placed}; "
                    f"loglake verify {lake} says whether its bytes are the same",
                )
