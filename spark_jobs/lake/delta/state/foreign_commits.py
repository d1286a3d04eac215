"""Commits that other programs made since the last run, and the files whose rows they may have changed."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.lake.delta.files.live_files import LiveFile, files_of
from spark_jobs.lake.delta.state.tables_file import read_state
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.delta_log import Commit
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot


def unchecked_files(lake: str, name: str) -> list[LiveFile]:
    """Return live files, by path, whose rows were not compared with the archive since the last run.

    If a file that differed is gone, its rows may now be in any file of another engine: all of those count.

    Raises:
        TableUnreadable: The table or a commit of it is damaged.
        StorageError: The object store failed.
    """
    state = read_state(lake)
    answers = state.foreign.get(name, {})
    commits = commits_since(lake, name, state.since(name)).kept
    table = latest_snapshot(lake, name) if commits else None
    if table is None:
        return []
    live = {file.path: file for file in files_of(lake, name, table)}
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
    return commits_since(lake, name, since_version).foreign


@dataclass(frozen=True, slots=True)
class CommitsSince:
    """The commits after a version of a table."""

    kept: tuple[Commit, ...]
    """Those that the table's log keeps, the latest first."""
    missing_to: int | None
    """The latest version whose commit the log does not keep; None: it keeps all."""

    @property
    def foreign(self) -> list[Commit]:
        """Commits of other programs, oldest first."""
        return [commit for commit in self.kept if not commit.is_ours][::-1]


def commits_since(lake: str, name: str, since_version: int) -> CommitsSince:
    """Return the commits after a version of a table, as far as its log keeps them.

    Raises:
        TableUnreadable: A commit is damaged.
        StorageError: The object store failed.
    """
    newest = delta_log.newest_version(lake, name)
    kept: list[Commit] = []
    for version in range(newest if newest is not None else -1, since_version, -1):
        commit = delta_log.read_commit(lake, name, version)
        if commit is None:
            return CommitsSince(tuple(kept), version)
        kept.append(commit)
    return CommitsSince(tuple(kept), None)
