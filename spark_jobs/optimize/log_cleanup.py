"""Which files of a table's log may go, by the number of commits.

Delta removes commits by age, 30 days by default. A table with a commit a second would have 2.6 million of them by then,
and each program that opens it lists them all, however young the last checkpoint is. On a local disk this took 2 ms with
1,000 commits, 10 ms with 10,000, and 208 ms with 86,400, a day. So only the latest commits are kept, by their number. A
checkpoint that is at least as old as all of them stays too, so every version from there on can be read.

Some older checkpoints of a table stay too. Each of them is a whole version of the table, which says what was there at
its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spark_jobs.lake.delta import delta_log
from spark_jobs.lake.delta.tables import open_table
from spark_jobs.lake.store import disk_sync, storage
from spark_jobs.lake.store.storage import StoredFile

KEPT_COMMITS = 1_000
KEPT_COMMITS_OF_RECORDS = 10_000
"""Streams read the tables of records commit by commit, and may rest for a while: 2.8 hours at a commit a second."""
RETENTION_PROPERTY = "delta.logRetentionDuration"
"""Where a user has set it, commits are removed by their age alone."""

CHECKPOINTS_MS = 2 * 86_400_000
CHECKPOINT_EVERY_MS = 3_600_000
"""An older checkpoint in each hour of two days."""


def drop_commits(lake: str, name: str, now_ms: int, kept: int | None = None) -> int:
    """Remove the oldest files of a table's log.

    They are removed in the order of their versions, so that the log has no hole if this is interrupted.

    Args:
        lake: The lake.
        name: The table.
        now_ms: Clock of the lake's store, epoch milliseconds.
        kept: Commits that stay in any case; None: as many as fit the table.

    Returns:
        The number of removed commits.
    """
    table = open_table(lake, name)
    if table is None or RETENTION_PROPERTY in table.metadata().configuration:
        return 0
    files = delta_log.log_files(lake, name)
    if kept is None:
        kept = KEPT_COMMITS_OF_RECORDS if name.startswith("records") else KEPT_COMMITS
    base = max((version for version in files.checkpoints if version <= table.version() - kept), default=None)
    if base is None:
        return 0
    if not storage.is_remote(lake):
        disk_sync.sync(files.checkpoints[base].path)  # deltalake has not
        disk_sync.sync(delta_log.log_folder(lake, name))
    gone = [version for version in sorted(files.commits) if version < base]
    for version in gone:
        storage.delete(files.commits[version].path)
    for file in _needless(files.checkpoints, base, now_ms):
        storage.delete(file.path)
    return len(gone)


def _needless(checkpoints: Mapping[int, StoredFile], base: int, now_ms: int) -> Iterator[StoredFile]:
    """Checkpoints before the base, without the latest one of each hour of two days."""
    hours: set[int] = set()
    for version in sorted(checkpoints, reverse=True):
        file = checkpoints[version]
        hour = file.placed_ms // CHECKPOINT_EVERY_MS
        if version < base and (hour in hours or now_ms - file.placed_ms > CHECKPOINTS_MS):
            yield file
        hours.add(hour)
