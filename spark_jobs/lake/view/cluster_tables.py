"""The tables of the cluster: the internal topic that each comes from, which a lake has, and the lag of groups there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logcore.topics.internal_topics import InternalTopic
from spark_jobs.lake.cluster import last_reading
from spark_jobs.lake.delta.tables.delta_log import log_folder
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.store import storage
from spark_jobs.lake.view.registered_lakes import held_logs
from spark_jobs.outlines import ClusterOutline
from spark_jobs.policies.policies_file import Policies

FOLLOW = "follow"
"""Value of the policy `cluster`: runs write the tables."""

TABLES_OF: Mapping[InternalTopic, Sequence[str]] = {
    InternalTopic.CONSUMER_OFFSETS: (
        "cluster_offset_commits",
        "cluster_group_offsets",
        "cluster_groups",
        "cluster_group_members",
    ),
    InternalTopic.TRANSACTION_STATE: ("cluster_transactional_ids",),
    InternalTopic.CLUSTER_METADATA: (
        "cluster_topics",
        "cluster_topic_configs",
        "cluster_partitions",
        "cluster_brokers",
        "cluster_features",
    ),
    InternalTopic.REMOTE_LOG_METADATA: ("cluster_remote_segments",),
}
"""The tables that come from each topic."""


def has_internal_topics(lake: str, policies: Policies) -> bool:
    """Return whether runs write the tables: the lake has such a topic, and the policies do not say otherwise.

    Raises:
        TableUnreadable: The table ``logs`` is damaged.
    """
    if not any(row.topic in TABLES_OF for row in held_logs(lake).values()):
        return False
    return policies.lake.cluster == FOLLOW


def newest_reading(lake: str, policies: Policies) -> ClusterOutline | None:
    """Return what the newest run read of internal topics; None if runs write no tables of them, or it is not known.

    Raises:
        TableUnreadable: The table ``logs`` is damaged.
    """
    return last_reading.recall(lake) if has_internal_topics(lake, policies) else None


def cluster_tables(lake: str) -> tuple[str, ...]:
    """Return the tables of the cluster that a lake shows: all that come from a topic of which it has a table.

    Raises:
        StorageError: The object store did not answer.
    """
    return tuple(
        name
        for names in TABLES_OF.values()
        if any(storage.has_files(log_folder(lake, each)) for each in names)
        for name in names
    )


def group_lags(lake: str) -> dict[str, int]:
    """Return the lag of each group over all its partitions, offsets; the greatest first, then by name.

    The last run of the lake found it. A commit beyond the end of a log counts as no lag: it is a finding of its own,
    and takes nothing from the lag of other partitions.

    Raises:
        TableUnreadable: The table is damaged.
    """
    rows = read_rows(lake, "cluster_group_offsets", ["group", "lag"])
    lags: dict[str, int] = {}
    for group, lag in zip(rows["group"].to_pylist(), rows["lag"].to_pylist(), strict=True):
        if lag is not None:
            lags[str(group)] = lags.get(str(group), 0) + max(lag, 0)
    return dict(sorted(lags.items(), key=lambda each: (-each[1], each[0])))
