"""Commits of ``records`` since a topic was followed: whether they changed rows that were read already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_jobs.lake.delta.files.live_files import LiveFile, live_files
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.delta_log import Commit
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot, reading
from spark_jobs.lake.store.storage import folder_name


class RecordsHistory:
    """One version of ``records``. Each commit before it is read once, for all topics of a plan."""

    def __init__(self, lake: str, version: int, files: Sequence[LiveFile]) -> None:
        self.version = version
        self.files = files
        self._lake = lake
        self._by_path = {file.path: file for file in files}
        self._read: dict[int, Commit | None] = {}

    @classmethod
    def of(cls, lake: str) -> RecordsHistory:
        """Return the history at the latest version.

        Raises:
            TableUnreadable: The table is damaged.
        """
        table = latest_snapshot(lake, "records")
        with reading(lake, "records"):
            files = [] if table is None else live_files(table)
        return cls(lake, -1 if table is None else table.version(), files)

    def rewritten(
        self, topic: str, since: int | None, frontiers: Mapping[tuple[str, int], int]
    ) -> tuple[str | None, str | None]:
        """Return why rows below the frontiers of a topic are no longer those that were read.

        Args:
            since: Version of ``records`` that was read; None: none.
            frontiers: Next offset to read, by log id and partition.

        Returns:
            What a commit did to rows of the topic, and what could not be checked; None: nothing.
        """
        folder = folder_name(f"topic={topic}") + "/"
        for version in range(self.version, self.version if since is None else since, -1):
            commit = self._commit(version)
            if commit is None:
                gone = f"the commits of records after version {since} are gone"
                return None, f"{gone}: replaced rows would not be noticed"
            if not commit.data_change or commit.is_expiry:
                continue
            if any(path.startswith(folder) for path in commit.removed):
                return f"version {version} of records replaced or removed rows of it", None
            added = (file.path for file in commit.added if file.path.startswith(folder))
            if any(self._is_below(path, frontiers) for path in added):
                return f"version {version} of records added rows of it below offsets that were read", None
        return None, None

    def bytes_of(self, topic: str) -> int:
        """Return the bytes of the files of a topic."""
        return sum(file.size for file in self.files if file.partition_values["topic"] == topic)

    def _commit(self, version: int) -> Commit | None:
        if version not in self._read:
            self._read[version] = delta_log.read_commit(self._lake, "records", version)
        return self._read[version]

    def _is_below(self, path: str, frontiers: Mapping[tuple[str, int], int]) -> bool:
        file = self._by_path.get(path)
        if file is None or file.min_offset is None or file.log_id is None or file.partition is None:
            return False  # merged since, or of another engine: only the number of rows can show it
        return file.min_offset < frontiers.get((file.log_id, file.partition), 0)
