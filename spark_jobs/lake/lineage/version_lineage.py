"""The origin of a version of ``records``: its commit, and per log the offsets and the segments of its rows.

Segments are read from the rows of the files that the commit added. For files that were vacuumed since, only their
statistics are left. Keys and values of records are never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from spark_jobs.errors import JobError
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.delta_log import Commit
from spark_jobs.lake.delta.tables.snapshots import open_dataset, open_table
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.setup.identity import not_there


@dataclass(frozen=True, slots=True)
class CommittedRows:
    """Rows of a commit that came from one segment."""

    segment_id: str
    segment: Segment | None
    """None if the table ``segments`` does not have the segment that the rows name."""
    rows: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class LogRows:
    """Rows of a commit that belong to one log."""

    topic: str
    partition: int
    log_id: str
    rows: int
    start_offset: int
    end_offset: int
    """Exclusive."""
    segments: tuple[CommittedRows, ...]

    @property
    def log(self) -> str:
        """The log's key."""
        return archive.log_key(self.log_id, self.partition)


@dataclass(frozen=True, slots=True)
class VersionLineage:
    """One version of the table."""

    commit: Commit
    rows_added: int
    rows_removed: int | None
    """Number of removed rows; None if the version before can no longer be read."""
    logs: tuple[LogRows, ...]
    gone: tuple[str, ...]
    """Added files that no longer exist; ``logs`` does not include them."""


def version_lineage(lake: str, name: str, version: int) -> VersionLineage:
    """Return what a version added and removed, and where it came from.

    Raises:
        JobError: The lake, the table or the version does not exist, or the table's log no longer keeps that version.
    """
    newest = delta_log.newest_version(lake, name)
    if newest is None:
        raise not_there(lake, f"table {name}")
    if version > newest:
        raise JobError(f"The table {name} of lake {lake} is at version {newest}; there is no version {version}.")
    commit = delta_log.read_commit(lake, name, version)
    if commit is None:
        raise JobError(f"The table {name} of lake {lake} no longer keeps the log of version {version}.")
    found, gone = _group(lake, name, commit)
    segments = {s.segment_id: s for s in archive.read_segments(lake, live=False)} if found else {}
    return VersionLineage(
        commit=commit,
        rows_added=sum(added.rows or 0 for added in commit.added),
        rows_removed=_rows_before(lake, name, version, commit.removed),
        logs=_by_log(found, segments),
        gone=tuple(gone),
    )


_Found = Mapping[tuple[str, int, str, str], tuple[int, int, int]]


def _group(lake: str, name: str, commit: Commit) -> tuple[_Found, list[str]]:
    """Map (topic, partition, log id, segment) to (rows, first, last offset) of the files that the commit added."""
    import pyarrow as pa

    wanted = {added.path for added in commit.added}
    found: dict[tuple[str, int, str, str], tuple[int, int, int]] = {}
    gone: list[str] = []
    if not wanted:
        return found, gone
    table = open_table(lake, name)
    assert table is not None  # its newest version was just read
    table.load_as_version(commit.version)
    keys = ["topic", "partition", "log_id", "segment_id"]
    dataset = open_dataset(lake, name, table)
    for fragment in dataset.get_fragments():
        if fragment.path not in wanted:
            continue
        try:
            batches = fragment.to_batches(schema=dataset.schema, columns=[*keys, "offset"])
            for columns in batches:
                if not columns.num_rows:
                    continue
                grouped = (
                    pa.Table.from_batches([columns])
                    .group_by(keys)
                    .aggregate([("offset", "count"), ("offset", "min"), ("offset", "max")])
                )
                for row in grouped.to_pylist():
                    key = tuple(row[column] for column in keys)
                    rows, low, high = found.get(key, (0, row["offset_min"], row["offset_max"]))
                    found[key] = (
                        rows + row["offset_count"],
                        min(low, row["offset_min"]),
                        max(high, row["offset_max"]),
                    )
        except FileNotFoundError:
            gone.append(fragment.path)
    return found, gone


def _by_log(found: _Found, segments: Mapping[str, Segment]) -> tuple[LogRows, ...]:
    by_log: dict[tuple[str, int, str], list[CommittedRows]] = {}
    for (topic, partition, log_id, segment_id), (rows, low, high) in found.items():
        of_segment = CommittedRows(segment_id, segments.get(segment_id), rows, low, high)
        by_log.setdefault((topic, partition, log_id), []).append(of_segment)
    return tuple(
        LogRows(
            *key,
            rows=sum(s.rows for s in parts),
            start_offset=min(s.first_offset for s in parts),
            end_offset=max(s.last_offset for s in parts) + 1,
            segments=tuple(sorted(parts, key=lambda s: s.first_offset)),
        )
        for key, parts in sorted(by_log.items())
    )


def _rows_before(lake: str, name: str, version: int, removed: Iterable[str]) -> int | None:
    """Return the number of rows of the removed files, by the version before."""
    paths = set(removed)
    if not paths:
        return 0
    table = open_table(lake, name)
    try:
        assert table is not None
        table.load_as_version(version - 1)
        files = _files(table)
    except DeltaError:
        return None
    counted = [file["num_records"] for file in files if file["path"] in paths]
    return sum(counted) if len(counted) == len(paths) and None not in counted else None


def _files(table: DeltaTable) -> list[dict[str, Any]]:
    import pyarrow as pa

    files: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return files
