"""What pages show of the tables of the cluster: figures, which Dagster plots over time, and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

from pipelines.metadata.values import Metadata, table_value
from spark_jobs.lake.view.cluster.group_lag import group_lags
from spark_jobs.lake.view.cluster.placement import NO_LEADER, NOT_PREFERRED, UNDER_REPLICATED, read_placement
from spark_jobs.lake.view.lake_state import LakeState

MOST_GROUPS = 8
"""Groups with a figure of their own at most: those with the greatest lag."""


def _of_partitions(state: LakeState) -> Metadata:
    placement = read_placement(state.lake)
    brokers = [
        [each.broker, each.rack, each.state, each.replicas, each.leaders, each.preferred, each.out_of_sync]
        for each in placement.brokers
    ]
    columns = ["broker", "rack", "state", "replicas", "leaders", "preferred", "out of sync"]
    problems = [
        [
            each.topic_partition,
            each.problem,
            each.leader,
            ", ".join(map(str, each.replicas)),
            ", ".join(map(str, each.isr)),
        ]
        for each in placement.problems
    ]
    directories = [
        [each.broker, each.directory, each.replicas, each.found, each.bytes, each.path]
        for each in placement.directories
    ]
    return {
        "partitions": placement.partitions,
        "partitions without leader": placement.count(NO_LEADER),
        "partitions under-replicated": placement.count(UNDER_REPLICATED),
        "partitions not led by the preferred leader": placement.count(NOT_PREFERRED),
        "placement": table_value(columns, brokers),
        "log directories": table_value(
            ["broker", "directory", "replicas", "topic partitions found", "bytes", "path"], directories
        ),
        **(
            {"need attention": table_value(["topic partition", "problem", "leader", "replicas", "isr"], problems)}
            if problems
            else {}
        ),
    }


def _of_group_offsets(state: LakeState) -> Metadata:
    lags = group_lags(state.lake)
    shown = {f"lag of {group}": lag for group, lag in islice(lags.items(), MOST_GROUPS)}
    return {"lag of all groups": sum(lags.values()), **shown}


CLUSTER_FIGURES: Mapping[str, Callable[[LakeState], Metadata]] = {
    "cluster_partitions": _of_partitions,
    "cluster_group_offsets": _of_group_offsets,
}
"""By table; others have no figures of their own."""
