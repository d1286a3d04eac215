"""The lag of groups over time, as the runs of a lake found it: a version of `cluster_group_offsets` is one run.

Versions whose files `optimize` has removed are no longer known. A commit beyond the end of a log counts as no lag: it
is a finding of its own, and takes nothing from the lag of other partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_jobs.lake.delta.tables.delta_log import newest_version, read_commit
from spark_jobs.lake.delta.tables.snapshots import open_version
from spark_jobs.lake.delta.tables.table_location import reading
from spark_jobs.lake.delta.tables.table_rows import open_dataset, read_rows
from spark_jobs.lake.delta.tables.table_scan import scan
from spark_jobs.lake.errors import TableUnreadable

TABLE = "cluster_group_offsets"
MOST_VERSIONS = 48
"""Versions that are read at most, the latest ones."""


@dataclass(frozen=True, slots=True)
class FoundLag:
    """What a run found.

    Attributes:
        time_ms: When, epoch milliseconds.
        lags: The lag of each group over all its partitions, offsets.
    """

    time_ms: int
    lags: Mapping[str, int]


def lag_history(lake: str, most: int = MOST_VERSIONS) -> tuple[FoundLag, ...]:
    """Return what the latest runs found, the oldest first.

    Args:
        lake: The lake.
        most: Versions to read at most.

    Raises:
        TableUnreadable: The log of the table is damaged.
        StorageError: The object store failed.
    """
    newest = newest_version(lake, TABLE)
    found: list[FoundLag] = []
    for version in range(-1 if newest is None else newest, 0, -1):  # version 0 creates the table
        commit = read_commit(lake, TABLE, version)
        if commit is None or len(found) == most:
            break
        if commit.timestamp_ms is None or not commit.data_change:
            continue
        try:
            found.append(FoundLag(commit.timestamp_ms, _lags(lake, version)))
        except TableUnreadable:
            break
    return tuple(reversed(found))


def total_lag(lake: str) -> int:
    """Return the lag of all groups together, offsets.

    Raises:
        TableUnreadable: The table is damaged.
    """
    lags = read_rows(lake, TABLE, ["lag"])["lag"].to_pylist()
    return sum(max(lag, 0) for lag in lags if lag is not None)


def _lags(lake: str, version: int) -> dict[str, int]:
    table = open_version(lake, TABLE, version)
    lags: dict[str, int] = {}
    if table is None:
        return lags
    with reading(lake, TABLE):
        for batch in scan(open_dataset(lake, TABLE, table), ["group", "lag"]):
            for group, lag in zip(batch["group"].to_pylist(), batch["lag"].to_pylist(), strict=True):
                if lag is not None:
                    lags[str(group)] = lags.get(str(group), 0) + max(lag, 0)
    return lags
