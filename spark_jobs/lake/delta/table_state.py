"""What the last run saw of each table (``tables.json``), and the cheap checks that compare the lake with it.

The file is a memory, never a truth: without it the next run looks again at all that there is. A check costs one listing
of each table and one of the archive and opens no data file, so harm that leaves size and time of a file as they were is
found by ``loglake verify LAKE`` alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from deltalake import DeltaTable

from logcore.logs.model.findings import Finding, found
from spark_jobs.lake.delta import delta_log
from spark_jobs.lake.delta.delta_log import Commit
from spark_jobs.lake.delta.live_files import LOG_DIRECTORY, LiveFile, live_files
from spark_jobs.lake.delta.tables import TABLES, open_table, read_rows, reading, table_uri
from spark_jobs.lake.errors import TableUnreadable
from spark_jobs.lake.store import storage

STATE_FILE = "tables.json"
VERSION = 1
"""Of the form of the file; one of another version counts as not there."""
FINDINGS_A_TABLE = 20
"""So many files or commits of a table, or files of the archive, are named one by one; the rest is counted."""

COMMITS_KEPT = 1000
"""Of so many commits of a table the digest is recorded."""

Proof = str | list[list[Any]]
"""``equal``, ``not provable: ...``, or ``[[log, start, end, what], ...]``: how a file of another engine compares."""


@dataclass(frozen=True, slots=True)
class TableState:
    """A table at the end of a run."""

    version: int
    rows: int
    """As the statistics of its files count them; -1 where a file has none."""
    files: int
    bytes: int
    table_id: str | None = None
    """Delta's own: a table that was lost and made again has another."""
    commits: Mapping[str, str] = field(default_factory=dict)
    """Digest of every commit's file that the table's log keeps, by version; as it was first seen."""


@dataclass(frozen=True, slots=True)
class TablesFile:
    """What ``tables.json`` says; nothing where it is not there or can't be understood."""

    run_id: str | None = None
    as_of_ms: int | None = None
    tables: Mapping[str, TableState] = field(default_factory=dict)
    foreign: Mapping[str, Mapping[str, Proof]] = field(default_factory=dict)
    """By table and path: how live files that other engines wrote compare with the archive."""
    archive: Mapping[str, int] = field(default_factory=dict)
    """By path: when the store last changed each file of the archive (epoch milliseconds), on an object store."""

    def since(self, name: str) -> int:
        """The recorded version of a table; -1 where none is."""
        return self.tables[name].version if name in self.tables else -1


def read_state(lake: str) -> TablesFile:
    """What the last run recorded. Raises StorageError."""
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
    lake: str, run_id: str, as_of_ms: int, foreign: Mapping[str, Mapping[str, Proof]] | None = None
) -> TablesFile:
    """Record the tables as they are now; where nothing has changed, the file stays as it is.

    Args:
        foreign: new answers on files of other engines, by table and path; earlier ones on live files are kept.

    Raises:
        StorageError: the object store did not answer as it should.
        OSError: the file can't be written.
    """
    before = read_state(lake)
    tables: dict[str, TableState] = {}
    answers: dict[str, dict[str, Proof]] = {}
    for name in TABLES:
        try:
            table = open_table(lake, name)
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
    """Forget what was recorded of tables that were made again on purpose: they did not lose commits.

    Raises:
        StorageError: the object store did not answer as it should.
        OSError: the file can't be written.
    """
    path = storage.join(lake, STATE_FILE)
    try:
        content = json.loads(storage.read(path))
        kept = {name: state for name, state in content["tables"].items() if name not in set(names)}
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return  # nothing is recorded, or nothing that counts
    if kept != content["tables"]:
        storage.put(path, json.dumps(content | {"tables": kept}, indent=1, sort_keys=True).encode())


def unproven_files(lake: str, name: str) -> list[LiveFile]:
    """Live files, by path, whose rows nobody has compared with the archive since the last run.

    If a file that differed is gone, its rows may now be in any file of another engine: all of those count.

    Raises:
        TableUnreadable: the table or a commit of it is damaged.
        StorageError: the object store did not answer as it should.
    """
    state = read_state(lake)
    answers = state.foreign.get(name, {})
    commits = list(_commits_since(lake, name, state.since(name)))
    table = open_table(lake, name) if commits else None
    if table is None:
        return []
    live = {file.path: file for file in _files_of(lake, name, table)}
    has_moved = any(answer != "equal" and path not in live for path, answer in answers.items())
    paths = {path for commit in commits for path in commit.unproven}
    if has_moved:
        paths |= {file.path for commit in commits if not _is_ours(commit) for file in commit.added}
    return [live[path] for path in sorted(paths & live.keys()) if path not in answers]


def foreign_commits(lake: str, name: str, since_version: int) -> list[Commit]:
    """Commits of other programs after a version of a table, oldest first, as far back as its log is kept.

    Raises:
        TableUnreadable: a commit is damaged.
        StorageError: the object store did not answer as it should.
    """
    return [commit for commit in _commits_since(lake, name, since_version) if not _is_ours(commit)][::-1]


def _commits_since(lake: str, name: str, since_version: int) -> Iterator[Commit]:
    """Commits after a version, the newest first."""
    newest = delta_log.newest_version(lake, name)
    for version in range(newest if newest is not None else -1, since_version, -1):
        commit = delta_log.read_commit(lake, name, version)
        if commit is None:
            break  # cleaned up, and all before it
        yield commit


def cheap_check(lake: str) -> tuple[Finding, ...]:
    """Compare tables and archive with what the last run recorded and with what their own logs name.

    Raises:
        StorageError: the object store did not answer as it should.
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


def _is_ours(commit: Commit) -> bool:
    """Ours carry a run id; lakes of earlier versions were begun, and got new columns, without one."""
    made = commit.version == 0 and commit.operation == "CREATE TABLE" and not commit.added
    grown = commit.operation == "ADD COLUMN" and commit.engine is not None and commit.engine.startswith("delta-rs")
    return commit.run_id is not None or made or (grown and not commit.added and not commit.removed)


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
    """Digests of the commits that the table's log keeps. What was seen before stays as it was seen, unless the table
    has another history now."""
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
    """None where the table's log does not keep the commit any more."""
    try:
        content = storage.read(storage.join(table_uri(lake, name), LOG_DIRECTORY, f"{version:020d}.json"))
    except FileNotFoundError:
        return None
    return hashlib.sha256(content).hexdigest()


def _check_table(lake: str, name: str, state: TablesFile) -> Iterator[Finding]:
    before = state.tables.get(name)
    uri = table_uri(lake, name)
    table = open_table(lake, name)
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
        message = f"table {name}: the table of version {before.version} was lost, and another one was made in its place"
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
    commits = foreign_commits(lake, name, since)
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


def _files_on_disk(lake: str, name: str, files: Sequence[LiveFile]) -> Iterator[Finding]:
    root = table_uri(lake, name)
    listed = {storage.relative(file.path, root): file.size for file in storage.files_below(root)}
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
    return f"loglake repair {lake} --rebuild {name} makes the table again"


# --- the archive ------------------------------------------------------------------------------------------------------


def _archive_times(lake: str) -> dict[str, int]:
    return {
        storage.relative(file.path, lake): file.modified_ms
        for file in storage.files_below(storage.join(lake, "archive"))
    }


def _check_archive(lake: str, state: TablesFile) -> Iterator[Finding]:
    """The archive's files against ``segments``; those registered at their source are the source's matter."""
    columns = ["segment_id", "topic", "partition", "base_offset", "next_offset", "path", "start", "size"]
    columns += ["modified_ms", "retired_ms", "deleted_ms"]
    try:
        segments = read_rows(lake, "segments", columns, [("deleted_ms", "is_null", True)]).to_pylist()
    except TableUnreadable:
        return  # the table's own finding
    kept = [segment for segment in segments if not storage.is_absolute(segment["path"])]
    kept.sort(key=lambda segment: (segment["topic"], segment["partition"], segment["base_offset"]))
    if not kept:
        return
    root = storage.join(lake, "archive")
    listed = {storage.relative(file.path, lake): file for file in storage.files_below(root)}
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
            # The file of a retired segment goes before its row says so.
            if segment["retired_ms"] is None:
                yield "archive-file-missing", segment, "is not there"
        elif file.size != segment["start"] + segment["size"]:
            yield "archive-file-changed", segment, f"has {file.size} bytes and was placed with {segment['size']}"
        else:
            # A local file keeps its source's time; a store counts its own, which the last run recorded.
            placed = state.archive.get(segment["path"]) if storage.is_remote(lake) else segment["modified_ms"]
            if placed is not None and file.modified_ms != placed:
                yield (
                    "archive-file-changed",
                    segment,
                    f"was changed at {file.modified_ms} and placed with the time {placed}; "
                    f"loglake verify {lake} says whether its bytes are the same",
                )
