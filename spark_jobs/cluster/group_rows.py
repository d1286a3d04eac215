"""Rows of the groups in `__consumer_offsets`, with their offsets, members and lag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from logcore.errors import LogError
from logcore.library.offset_lookup import lookup_log
from logcore.logs.lookup import LATEST, list_offsets
from logcore.logs.model import readable_end
from logcore.logs.model.findings import found
from logcore.logs.model.sources import SourceLog
from logcore.reading.internal_topics.cluster_metadata import Moment
from logcore.reading.internal_topics.consumer_groups import FoundGroup, read_groups
from logcore.reading.notes import Notes
from logcore.reading.read_options import ReadRules
from logcore.segments.filenames import MAX_OFFSET
from logcore.topics.internal_topics import InternalTopic
from spark_jobs.cluster.internal_sources import ClusterLogs, Row, standing, time_of

GroupRows = dict[str, list[Row]]
"""Rows by table."""


def group_rows(
    cluster: ClusterLogs, open_transactions: Mapping[tuple[str, int], int | None], notes: Notes
) -> GroupRows:
    """Read all groups of a cluster.

    Args:
        cluster: The cluster.
        open_transactions: First offset of the oldest open transaction by topic partition, for the logs in the lake;
            None: there is none.
        notes: Gets the findings.
    """
    rows: GroupRows = {"cluster_groups": [], "cluster_group_members": [], "cluster_group_offsets": []}
    groups = read_groups(cluster.of(InternalTopic.CONSUMER_OFFSETS), cluster.logs, notes, Moment(), ReadRules())
    logs = {(log.topic_partition.topic, log.topic_partition.partition): log for log in cluster.logs}
    ends: dict[tuple[str, int], int | None] = {}
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
        for partition in state.offsets:
            if partition not in ends:
                ends[partition] = _log_end(logs.get(partition), notes)
        rows["cluster_group_offsets"] += _offsets(group, place, logs, ends, open_transactions, notes)
    return rows


def _offsets(
    group: FoundGroup,
    place: Row,
    logs: Mapping[tuple[str, int], SourceLog],
    ends: Mapping[tuple[str, int], int | None],
    open_transactions: Mapping[tuple[str, int], int | None],
    notes: Notes,
) -> Iterator[Row]:
    for (topic, partition), commit in sorted(group.state.offsets.items()):
        log, log_end = logs.get((topic, partition)), ends[topic, partition]
        end = stable = None
        if log is not None and log_end is not None:
            end = readable_end.high_watermark(
                log.high_watermark, log_start_offset=log.log_start_offset, log_end_offset=log_end
            )
            if (topic, partition) in open_transactions:
                stable = min(end, _or_end(open_transactions[topic, partition], end))
            if commit.offset > log_end:
                message = (
                    f"Group {group.state.group} has committed offset {commit.offset} of {topic}-{partition}, whose log "
                    f"ends at {log_end}."
                )
                notes.say(found("commit-beyond-log-end", message, start_offset=log_end, end_offset=commit.offset))
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


def _log_end(log: SourceLog | None, notes: Notes) -> int | None:
    """The offset after the last batch of a log; None if the source has no log, or it cannot be read."""
    if log is None:
        return None
    try:
        return list_offsets(lookup_log(log, LATEST, MAX_OFFSET, notes), LATEST).offset
    except LogError:
        return None  # the job `ingest` reports it


def first_open(rows: Sequence[Mapping[str, object]]) -> dict[tuple[str, int], int]:
    """Return the first offset of the oldest open transaction by topic partition, from rows of `transactions`."""
    oldest: dict[tuple[str, int], int] = {}
    for row in rows:
        place = str(row["topic"]), int(str(row["partition"]))
        offset = int(str(row["first_offset"]))
        oldest[place] = min(offset, oldest.get(place, offset))
    return oldest
