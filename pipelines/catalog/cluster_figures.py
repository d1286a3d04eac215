"""What pages show of the tables of the cluster: figures that Dagster plots over time, tables and pictures."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping

from pipelines.metadata.lag_picture import drawn_groups, lag_picture
from pipelines.metadata.placement_picture import placement_picture
from pipelines.metadata.reporting import markdown_table
from pipelines.metadata.values import MarkdownValue, Metadata, table_value
from spark_jobs.lake.view.cluster.group_lag import lag_history, total_lag
from spark_jobs.lake.view.cluster.placement import NO_LEADER, NOT_PREFERRED, UNDER_REPLICATED, read_placement
from spark_jobs.lake.view.lake_state import LakeState


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
        "placement": _picture("Replicas by broker and log directory", placement_picture(placement), columns, brokers),
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
    history = lag_history(state.lake)
    figures: Metadata = {"lag of all groups": total_lag(state.lake)}
    if not history:
        return figures
    groups = drawn_groups(history)
    rows = [[group, history[-1].lags.get(group)] for group in groups]
    return {**figures, "lag over runs": _picture("Lag of groups", lag_picture(history), ["group", "lag"], rows)}


def _picture(text: str, svg: str, columns: list[str], rows: list[list[str | int | None]]) -> MarkdownValue:
    """A picture, and its figures as text for users who cannot see it."""
    image = base64.b64encode(svg.encode()).decode()
    return MarkdownValue(f"![{text}](data:image/svg+xml;base64,{image})\n\n" + markdown_table(columns, rows))


CLUSTER_FIGURES: Mapping[str, Callable[[LakeState], Metadata]] = {
    "cluster_partitions": _of_partitions,
    "cluster_group_offsets": _of_group_offsets,
}
"""By table; others have no figures of their own."""
