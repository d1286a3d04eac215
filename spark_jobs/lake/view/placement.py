"""Where the replicas of a cluster are, by the tables of a lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logcore.topics.placement import Placement, SourceDirectory, placement_of
from spark_jobs.lake.cluster import last_reading
from spark_jobs.lake.delta.tables.snapshots import read_rows


def read_placement(lake: str, directories: Sequence[SourceDirectory] | None = None) -> Placement:
    """Read where the replicas are, by the rows of `cluster_partitions` and `cluster_brokers` that are valid now.

    Args:
        lake: The lake.
        directories: The log directories at the sources; None: those that the last reading found.

    Raises:
        TableUnreadable: A table is damaged.
    """
    if directories is None:
        found = last_reading.recall(lake)
        directories = () if found is None else found.directories
    return placement_of(_now(lake, "cluster_partitions"), _now(lake, "cluster_brokers"), directories)


def _now(lake: str, table: str) -> list[Mapping[str, object]]:
    return [*read_rows(lake, table, None, [("valid_to_offset", "is_null", True)]).to_pylist()]
