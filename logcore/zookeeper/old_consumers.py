"""The groups of old consumers, which kept their members, owners of partitions and offsets in ZooKeeper.

    /consumers/G/ids/M            a member; goes with its session
    /consumers/G/owners/T/P       the thread that reads a partition: the name of a member, `-`, a number; goes too
    /consumers/G/offsets/T/P      the committed offset, as decimal text

Source: kafka.consumer.ZookeeperConsumerConnector (1.1); kafka.zk ZkData ConsumerOffset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from logcore.texts import java_text
from logcore.topics.group_states import CommittedOffset, GroupMember, GroupState
from logcore.zookeeper.kafka_nodes import OFFSETS_END, NodeUnread, UnreadNodes, decimal
from logcore.zookeeper.snapshots import ZooKeeperNode

KIND = "ZooKeeper"
"""The type of these groups."""


@dataclass(slots=True)
class _Group:
    members: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    owners: list[tuple[str, str, int]] = field(default_factory=list)
    offsets: dict[tuple[str, int], CommittedOffset] = field(default_factory=dict)


def old_groups(nodes: Mapping[str, ZooKeeperNode], chroot: str, unread: UnreadNodes) -> tuple[GroupState, ...]:
    """Return the groups, ordered by name.

    Args:
        nodes: By path.
        chroot: Where the nodes of the cluster are.
        unread: Gets the nodes that could not be read.
    """
    groups: dict[str, _Group] = {}
    below = f"{chroot}/consumers/"
    for path, node in nodes.items():
        if not path.startswith(below):
            continue
        name, *parts = path[len(below) :].split("/")
        group = groups.get(name) or groups.setdefault(name, _Group())
        try:
            _add(group, parts, node)
        except NodeUnread as why:
            unread.add(path, node, str(why))
    return tuple(_state(name, group) for name, group in sorted(groups.items()))


def _add(group: _Group, parts: list[str], node: ZooKeeperNode) -> None:
    match parts:
        case ["ids", member]:
            group.members[member] = {}
        case ["owners", topic, partition]:
            group.owners.append((java_text(node.data or b""), topic, decimal(partition)))
        case ["offsets", topic, partition]:
            offset = decimal(java_text(node.data or b""), OFFSETS_END)
            group.offsets[topic, decimal(partition)] = CommittedOffset(offset, None, "", node.changed_ms, node.changed)


def _state(name: str, group: _Group) -> GroupState:
    """The group. A partition whose owner is no member is assigned to nobody."""
    for owner, topic, partition in group.owners:
        assigned = group.members.get(owner.rpartition("-")[0])
        if assigned is not None:
            assigned.setdefault(topic, []).append(partition)
    members = tuple(
        GroupMember(member, None, "", "", {topic: tuple(sorted(owned)) for topic, owned in assigned.items()})
        for member, assigned in sorted(group.members.items())
    )
    return GroupState(name, KIND, "Stable" if members else "Empty", None, None, None, members, group.offsets)
