"""What the nodes of a ZooKeeper say of a Kafka cluster, as the records that KRaft's metadata would have.

Kafka writes the nodes below its chroot, which is a part of the setting `zookeeper.connect`. Access rules, quotas, SCRAM
credentials and delegation tokens are counted and not interpreted. A node that cannot be read does not count.

    /brokers/topics/T                       replicas by partition; the topic id since Kafka 2.8
    /brokers/topics/T/partitions/P/state    leader, epoch, in-sync replicas
    /brokers/ids/N                          a live broker; the broker's epoch is the transaction that created the node
    /config/{topics,brokers}/X              settings
    /controller, /cluster/id, /latest_producer_id_block, /feature

Source: kafka.zk ZkData (3.9); org.apache.kafka.metadata.migration and kafka.zk.migration (how records follow from it).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from logcore.texts import java_text, without_half_pairs
from logcore.topics.cluster_states import TOPIC_RESOURCE, ClusterState, StateRow, key_without_id
from logcore.zookeeper.snapshots import ZooKeeperNode

BROKER_RESOURCE = 4
_RESOURCES = {"topics": TOPIC_RESOURCE, "brokers": BROKER_RESOURCE}
_DEFAULT = "<default>"
_TOPIC_ID = re.compile("[A-Za-z0-9_-]{22}")
_END_POINT = re.compile(r"([^:/]+)://\[?([^\]]*?)\]?:([0-9]{1,5})")
_DECIMAL = re.compile("[0-9]{1,19}")
_PARTS_OF_TOPIC, _PARTS_OF_STATE = 4, 7
"""An empty one, `brokers`, `topics`, the topic; `partitions`, the partition, `state`."""
_INT32_END = 1 << 31
OFFSETS_END = 1 << 63
_NOTHING: list[int] = []
"""Shared by the partitions: there may be a million."""
_NO_STATE = {"leader": -1, "leaderEpoch": -1, "partitionEpoch": -1, "isr": _NOTHING}


class NodeUnread(Exception):
    """A node does not have what Kafka writes there. The text says why."""


@dataclass(slots=True)
class UnreadNodes:
    """Nodes that could not be read.

    Attributes:
        count: How many.
        first: The path of the first one, and why.
        first_changed: The earliest transaction that changed one of them; None: there is none.
    """

    count: int = 0
    first: str = ""
    first_changed: int | None = None

    def add(self, path: str, node: ZooKeeperNode, why: str) -> None:
        """Add a node."""
        self.count += 1
        if self.count == 1:
            self.first = f"{path}: {why}"
        self.first_changed = node.changed if self.first_changed is None else min(self.first_changed, node.changed)


_Records = list[tuple[str, dict[str, Any]]]
"""Name of Kafka's class, and the fields as JSON."""


def chroots(nodes: Mapping[str, ZooKeeperNode]) -> list[str]:
    """Return the chroot of each Kafka cluster, ordered by the number of its topics; empty texts for the root.

    Args:
        nodes: By path.
    """
    found: dict[str, int] = {}
    for path in nodes:
        chroot, is_below, rest = path.partition("/brokers/")
        if is_below and rest in ("ids", "topics"):
            found.setdefault(chroot, 0)
        elif rest.startswith("topics/") and rest.count("/") == 1:
            found[chroot] = found.get(chroot, 0) + 1
    if not found:  # the brokers may have another chroot than the old consumers
        found = {path.removesuffix("/consumers"): 0 for path in nodes if path.endswith("/consumers")}
    return sorted(found, key=lambda chroot: (-found[chroot], chroot))


def cluster_state(nodes: Mapping[str, ZooKeeperNode], chroot: str, unread: UnreadNodes) -> ClusterState:
    """Return the state of a cluster.

    Args:
        nodes: By path.
        chroot: Where its nodes are.
        unread: Gets the nodes that could not be read.
    """
    state = ClusterState()
    topics: dict[str, tuple[str, ZooKeeperNode]] = {}
    leaders: dict[str, dict[str, tuple[str, ZooKeeperNode]]] = {}
    below = f"{chroot}/"
    for path, node in nodes.items():
        if not path.startswith(below):
            continue
        parts = path[len(chroot) :].split("/")
        if parts[1:3] == ["brokers", "topics"]:
            if len(parts) == _PARTS_OF_STATE and parts[6] == "state":
                leaders.setdefault(parts[3], {})[parts[5]] = path, node
            elif len(parts) == _PARTS_OF_TOPIC:
                topics[parts[3]] = path, node
            continue
        try:
            _add(state, parts[1:], node)
        except NodeUnread as why:
            unread.add(path, node, str(why))
    for topic, (path, node) in topics.items():
        of_topic = leaders.get(topic, {})
        try:
            assigned = _add_topic(state, topic, node)
        except NodeUnread as why:
            unread.add(path, node, str(why))
            continue
        _add_partitions(state, assigned, node, of_topic, unread)
    for of_topic in leaders.values():
        for path, node in of_topic.values():
            unread.add(path, node, "no node of the topic assigns replicas to the partition")
    return state


def _add(state: ClusterState, parts: list[str], node: ZooKeeperNode) -> None:
    records: _Records = []
    match parts:
        case ["brokers", "ids", number]:
            records = [_broker(number, _fields(node.data), node)]
        case ["config", ("topics" | "brokers") as kind, resource]:
            records = _settings(kind, resource, _fields(node.data))
        case ["controller"]:
            shown = {"broker": _number(_fields(node.data), "brokerid")}
            state.controller = StateRow(shown, node.changed, node.changed_ms)
        case ["cluster", "id"]:
            state.cluster = StateRow({"cluster_id": _text(_fields(node.data), "id")}, node.changed, node.changed_ms)
        case ["latest_producer_id_block"]:
            end = decimal(_text(_fields(node.data), "block_end"), OFFSETS_END - 1)
            records = [("ProducerIdsRecord", {"nextProducerId": end + 1})]
        case ["feature"]:
            records = _features(_fields(node.data))
        case ["config", ("clients" | "users" | "ips") as kind, _, *_] if node.data:
            state.not_interpreted[f"/config/{kind}"] += 1
        case [("kafka-acl" | "kafka-acl-extended" | "delegation_token") as kind, _, _, *_] if node.data:
            state.not_interpreted[f"/{kind}"] += 1
    for name, fields in records:
        state.apply(node.changed, node.changed_ms, name, fields)


def _add_topic(state: ClusterState, topic: str, node: ZooKeeperNode) -> dict[str, dict[str, Any]]:
    """Add a topic; returns the fields of its partitions by their numbers, without the leaders."""
    fields = _fields(node.data)
    topic_id = fields.get("topic_id")
    if topic_id is None:
        topic_id = key_without_id(topic)
    elif not isinstance(topic_id, str) or _TOPIC_ID.fullmatch(topic_id) is None:
        raise NodeUnread("the topic id is not one")
    replicas = _lists(fields, "partitions")
    adding, removing = _lists(fields, "adding_replicas"), _lists(fields, "removing_replicas")
    partitions = {
        number: {
            "topicId": topic_id,
            "partitionId": decimal(number),
            "replicas": assigned,
            "addingReplicas": adding.get(number, _NOTHING),
            "removingReplicas": removing.get(number, _NOTHING),
            "eligibleLeaderReplicas": _NOTHING,
            "lastKnownElr": _NOTHING,
        }
        for number, assigned in replicas.items()
    }
    state.apply(node.changed, node.changed_ms, "TopicRecord", {"name": topic, "topicId": topic_id})
    return partitions


def _add_partitions(
    state: ClusterState,
    assigned: dict[str, dict[str, Any]],
    topic: ZooKeeperNode,
    leaders: dict[str, tuple[str, ZooKeeperNode]],
    unread: UnreadNodes,
) -> None:
    """Add the partitions of a topic; those that never had a leader, or whose state cannot be read, without one."""
    for number, fields in assigned.items():
        node, leader = topic, _NO_STATE
        path, of_partition = leaders.pop(number, ("", None))
        if of_partition is not None:
            try:
                leader, node = _leader(of_partition.data) | {"partitionEpoch": of_partition.version}, of_partition
            except NodeUnread as why:
                unread.add(path, of_partition, str(why))
        state.apply(node.changed, node.changed_ms, "PartitionRecord", fields | leader)


@lru_cache(maxsize=1 << 14)
def _leader(data: bytes | None) -> dict[str, Any]:
    """What the state of a partition says. Of a million partitions most say the same as many others."""
    fields = _fields(data)
    return {
        "leader": _number(fields, "leader"),
        "leaderEpoch": _number(fields, "leader_epoch"),
        "isr": _list(fields.get("isr")),
        "leaderRecoveryState": _number(fields, "leader_recovery_state", 0),
    }


def _broker(number: str, fields: dict[str, Any], node: ZooKeeperNode) -> tuple[str, dict[str, Any]]:
    points = []
    stated, rack = fields.get("endpoints") or [], fields.get("rack")
    for point in stated if isinstance(stated, list) else ():
        parsed = _END_POINT.fullmatch(point) if isinstance(point, str) else None
        if parsed is None:
            raise NodeUnread("an end point is not one")
        points.append({"name": parsed[1], "host": parsed[2], "port": int(parsed[3])})
    if not points:  # before Kafka 0.9
        points = [{"name": "PLAINTEXT", "host": _text(fields, "host"), "port": _number(fields, "port")}]
    return "RegisterBrokerRecord", {
        "brokerId": decimal(number),
        "brokerEpoch": node.created,
        "incarnationId": None,
        "endPoints": points,
        "rack": rack if isinstance(rack, str) else None,
        "fenced": False,
    }


def _settings(kind: str, resource: str, fields: dict[str, Any]) -> _Records:
    values = fields.get("config", {})
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise NodeUnread("the settings are not texts by name")
    place = {"resourceType": _RESOURCES[kind], "resourceName": "" if resource == _DEFAULT else resource}
    return [("ConfigRecord", place | {"name": name, "value": value}) for name, value in values.items()]


def _features(fields: dict[str, Any]) -> _Records:
    features = fields.get("features", {})
    if not isinstance(features, dict) or not all(isinstance(levels, dict) for levels in features.values()):
        raise NodeUnread("the features are not levels by name")
    return [
        ("FeatureLevelRecord", {"name": name, "featureLevel": _number(levels, "max_version_level")})
        for name, levels in features.items()
    ]


def _fields(data: bytes | None) -> dict[str, Any]:
    """The JSON object that a node has. Also the old consumers write such nodes."""
    try:
        fields = json.loads(java_text(data or b""))
        if b"\\u" in (data or b""):  # only an escape can write half of a surrogate pair
            fields = json.loads(without_half_pairs(json.dumps(fields, ensure_ascii=False)))
    except (ValueError, RecursionError):
        raise NodeUnread("it is no JSON") from None
    if not isinstance(fields, dict):
        raise NodeUnread("it is no JSON object")
    return fields


def _number(fields: dict[str, Any], name: str, default: int | None = None) -> int:
    value = fields.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not -_INT32_END <= value < _INT32_END:
        raise NodeUnread(f"{name} is no number of 32 bits")
    return value


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise NodeUnread(f"{name} is no text")
    return value


def decimal(text: str, end: int = _INT32_END) -> int:
    """Read a number that is not negative.

    Args:
        text: Its decimal digits.
        end: The number is below it.

    Raises:
        NodeUnread: It is no such number.
    """
    if _DECIMAL.fullmatch(text) is None or int(text) >= end:
        raise NodeUnread("a number is not one, or too great")
    return int(text)


def _list(value: object) -> list[int]:
    if not isinstance(value, list) or not all(type(each) is int and -1 <= each < _INT32_END for each in value):
        raise NodeUnread("a list of brokers is not one")
    return value


def _lists(fields: dict[str, Any], name: str) -> dict[str, list[int]]:
    lists = fields.get(name) or {}
    if not isinstance(lists, dict):
        raise NodeUnread(f"{name} has no lists by partition")
    return {number: _list(value) for number, value in lists.items()}
