"""Which files of a table's log may go, by the number of commits.

Delta removes commits by age, 30 days by default. A table with a commit a second would have 2.6 million of them by then,
and each program that opens it lists them all, however young the last checkpoint is. On a local disk this took 2 ms with
1,000 commits, 10 ms with 10,000, and 208 ms with 86,400, a day. So only the latest commits are kept, by their number. A
checkpoint that is at least as old as all of them stays too, so every version from there on can be read.

Some older checkpoints of a table stay too. Each of them is a whole version of the table, which says what was there at
its time.

Some commits stay however many there are, and all later ones with them:

- A commit that no run has seen. Another program may have made it, and the next run looks for that.
- A commit of a file that waited long for it. The age at which files are removed depends on the longest wait.
- A damaged commit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping

from spark_jobs.errors import TableUnreadable
from spark_jobs.lake.delta.state import tables_file
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.snapshots import open_table
from spark_jobs.lake.store import deletion, disk_sync, storage
from spark_jobs.lake.store.storage import StoredFile

KEPT_COMMITS = 1_000
KEPT_COMMITS_OF_RECORDS = 10_000
"""Streams read the tables of records commit by commit, and may rest for a while: 2.8 hours at a commit a second."""
RETENTION_PROPERTIES = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
"""Where a user has set one of them, commits are removed by their age alone."""
LEAST_VACUUM_MS = 7 * 86_400_000
"""Least age at which a file is removed. For as long, each checkpoint says when a file left the table."""

UNSEEN_MS = 86_400_000
"""After so long without a run, Delta's own cleanup by age waits for the next run."""

CHECKPOINTS_MS = delta_log.VERSIONS_KEPT_MS
CHECKPOINT_EVERY_MS = 3_600_000
"""An older checkpoint in each hour of two days."""


def drop_commits(lake: str, name: str, now_ms: int, kept: int | None = None) -> int:
    """Remove the oldest files of a table's log.

    They are removed in the order of their versions, so that the log has no hole if this is interrupted. An object store
    removes a thousand with one request; what is left of these lies before a checkpoint too.

    Args:
        lake: The lake.
        name: The table.
        now_ms: Clock of the lake's store, epoch milliseconds.
        kept: Commits that stay in any case; None: as many as fit the table.

    Returns:
        The number of removed commits.
    """
    if kept is None:
        kept = KEPT_COMMITS_OF_RECORDS if name.startswith("records") else KEPT_COMMITS
    files = delta_log.log_files(lake, name)
    if len(files.commits) <= kept:
        return 0
    table = open_table(lake, name)
    if table is None or any(each in table.metadata().configuration for each in RETENTION_PROPERTIES):
        return 0
    seen = tables_file.read_state(lake).since(name)
    latest = table.version() - kept if seen < 0 else min(table.version() - kept, seen + 1)
    base = max((version for version in files.checkpoints if version <= latest), default=-1)
    in_order = sorted(files.commits)
    needed = _first_needed(lake, name, in_order[: bisect_left(in_order, base)], seen)
    if needed is not None:
        base = max((version for version in files.checkpoints if version <= needed), default=-1)
    if base < 0:
        return 0
    if not storage.is_remote(lake):
        disk_sync.sync(files.checkpoints[base].path)  # deltalake has not
        disk_sync.sync(delta_log.log_folder(lake, name))
    gone = [version for version in in_order if version < base]
    deletion.delete_files([files.commits[version].path for version in gone])
    deletion.delete_files([file.path for file in _needless(files.checkpoints, base, now_ms)])
    return len(gone)


def has_old_unseen(lake: str, name: str, now_ms: int) -> bool:
    """Return whether the log has commits of more than a day ago that no run has seen."""
    seen = tables_file.read_state(lake).since(name)
    commits = delta_log.log_files(lake, name).commits
    return any(version > seen and now_ms - file.placed_ms > UNSEEN_MS for version, file in commits.items())


def _first_needed(lake: str, name: str, versions: Iterable[int], seen: int) -> int | None:
    """The first of these versions whose commit has to stay; None: no one has to."""
    for version in versions:
        try:
            commit = delta_log.read_commit(lake, name, version)
        except TableUnreadable:
            return version
        if commit is None:
            continue
        is_unseen = seen < version and (not commit.is_ours or commit.unproven)
        if is_unseen or 2 * commit.longest_wait_ms > LEAST_VACUUM_MS:
            return version
    return None


def _needless(checkpoints: Mapping[int, StoredFile], base: int, now_ms: int) -> Iterator[StoredFile]:
    """Checkpoints before the base, without the latest one of each hour of two days."""
    hours: set[int] = set()
    for version in sorted(checkpoints, reverse=True):
        file = checkpoints[version]
        hour = file.placed_ms // CHECKPOINT_EVERY_MS
        if version < base and (hour in hours or now_ms - file.placed_ms > CHECKPOINTS_MS):
            yield file
        hours.add(hour)
