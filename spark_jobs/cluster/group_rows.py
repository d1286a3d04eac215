"""Rows of the groups in `__consumer_offsets`, with their offsets, members and lag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from logcore.logs.model.sources import SourceLog
from logcore.reading.internal_topics.consumer_groups import FoundGroup
from logcore.reading.internal_topics.log_ends import LogEnds
from logcore.reading.read_options import Notes
from logcore.topics.group_states import GroupStates
from spark_jobs.cluster.internal_sources import ClusterLogs, Row, standing, time_of

GroupRows = dict[str, list[Row]]
"""Rows by table."""


def group_rows(
    cluster: ClusterLogs,
    states: Iterable[tuple[SourceLog, GroupStates]],
    open_transactions: Mapping[tuple[str, int], int | None],
    notes: Notes,
) -> GroupRows:
    """Make the rows of all groups of a cluster.

    Args:
        cluster: The cluster.
        states: Its logs of `__consumer_offsets`, and what they say.
        open_transactions: First offset of the oldest open transaction by topic partition, for the logs in the lake;
            None: there is none.
        notes: Gets the findings.
    """
    rows: GroupRows = {"cluster_groups": [], "cluster_group_members": [], "cluster_group_offsets": []}
    names = {log.topic_id: log.topic_partition.topic for log in cluster.logs if log.topic_id is not None}
    groups = (FoundGroup(log, group) for log, of_log in states for group in of_log.groups(names))
    ends = LogEnds(cluster.logs)
    for group in groups:
        place = cluster.place(group.log) | {"group": group.state.group, "standing": standing(group.log)}
        state = group.state
        rows["cluster_groups"].append(
            place
            | {
                "type": state.kind,
                "state": state.state,
                "epoch": state.epoch,
                "protocol_type": state.protocol_type,
                "assignor": state.assignor,
                "members": len(state.members),
            }
        )
        rows["cluster_group_members"] += [
            place
            | {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "assignment": [
                    f"{topic}-{number}" for topic, numbers in sorted(member.assignment.items()) for number in numbers
                ],
            }
            for member in state.members
        ]
        rows["cluster_group_offsets"] += _offsets(group, place, ends, open_transactions, notes)
    return rows


def _offsets(
    group: FoundGroup,
    place: Row,
    ends: LogEnds,
    open_transactions: Mapping[tuple[str, int], int | None],
    notes: Notes,
) -> Iterator[Row]:
    for (topic, partition), commit in sorted(group.state.offsets.items()):
        beyond = ends.commit_beyond(group.state.group, topic, partition, commit.offset)
        if beyond is not None:
            notes.say(beyond)
        end, stable = ends.high_watermark(topic, partition), None
        if end is not None and (topic, partition) in open_transactions:
            stable = min(end, _or_end(open_transactions[topic, partition], end))
        yield place | {
            "topic": topic,
            "partition": partition,
            "committed_offset": commit.offset,
            "leader_epoch": commit.leader_epoch,
            "metadata": commit.metadata,
            "commit_time": time_of(commit.commit_time_ms),
            "record_offset": commit.record_offset,
            "high_watermark": end,
            "last_stable_offset": stable,
            "lag": None if end is None else end - commit.offset,
            "lag_read_committed": None if stable is None else stable - commit.offset,
        }


def _or_end(offset: int | None, end: int) -> int:
    return end if offset is None else offset


def first_open(rows: Sequence[Mapping[str, object]]) -> dict[tuple[str, int], int]:
    """Return the first offset of the oldest open transaction by topic partition, from rows of `transactions`."""
    oldest: dict[tuple[str, int], int] = {}
    for row in rows:
        place = str(row["topic"]), int(str(row["partition"]))
        offset = int(str(row["first_offset"]))
        oldest[place] = min(offset, oldest.get(place, offset))
    return oldest
