"""The state of a cluster from the records of `__cluster_metadata`: topics, partitions, settings, brokers, features.

Records between BeginTransaction and EndTransaction count at the end, and not at all after AbortTransaction. Access
rules, quotas, SCRAM credentials, delegation tokens and the migration from ZooKeeper are read and not interpreted.

Source: org.apache.kafka.image MetadataDelta, TopicsDelta, ClusterDelta, ConfigurationsDelta, FeaturesDelta;
org.apache.kafka.metadata PartitionRegistration.merge; KIP-866 and KIP-868 (transactions).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from logcore.messages.framing import metadata_json
from logcore.messages.known_messages import MessageFamily, message_named
from logcore.messages.reader import ReadMessage, UnreadMessage, read_message
from logcore.topics.secrets import redacted_fields

TOPIC_RESOURCE = 2
RESOURCES = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}
"""What a setting is for, by Kafka's number."""
KRAFT_VERSION = "kraft.version"

_NOT_STATED = "A" * 22
"""A directory of a cluster whose metadata had no directories yet (org.apache.kafka.common DirectoryId: MIGRATING)."""
_NO_LEADER_CHANGE = -2
_NO_CHANGE = -1


class StateRow(NamedTuple):
    """What is known of one thing, and the record that said it last. There may be millions in the history of a cluster.

    Attributes:
        fields: As JSON, without secrets.
        offset: Of the record; of the last record of a snapshot for what the snapshot says.
        timestamp_ms: Of the record.
    """

    fields: dict[str, Any]
    offset: int
    timestamp_ms: int


_Record = tuple[int, int, str, dict[str, Any]]
"""Offset, time, name of the message, and its fields as JSON."""


class ClusterState:
    """The state after the records that were added, in the order of their offsets.

    Attributes:
        topics: By topic id, or the key of a topic without one.
        partitions: By topic id, then by partition. A topic without any is left out.
        settings: By resource type and resource name, then by name of the setting.
        brokers: By id.
        features: By name.
        producer_ids: The end of the latest block of producer ids; None without one.
        controller: The broker that is the controller; None if it is not stated, as in KRaft's metadata.
        cluster: The id of the cluster; None if it is not stated, as in KRaft's metadata.
        not_interpreted: Records by the name of their class.
        is_in_transaction: Whether a transaction has begun and not ended.
    """

    def __init__(self) -> None:
        self.topics: dict[str, StateRow] = {}
        self.partitions: dict[str, dict[int, StateRow]] = {}
        self.settings: dict[tuple[int, str], dict[str, StateRow]] = {}
        self.brokers: dict[int, StateRow] = {}
        self.features: dict[str, StateRow] = {}
        self.producer_ids: StateRow | None = None
        self.controller: StateRow | None = None
        self.cluster: StateRow | None = None
        self.not_interpreted: Counter[str] = Counter()
        self._pending: list[_Record] | None = None

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._pending is not None

    def add(self, offset: int, timestamp_ms: int, value: bytes) -> UnreadMessage | None:
        """Add a record.

        Returns:
            What could not be read, and why. The record then changes nothing.
        """
        message = metadata_json(MessageFamily.CLUSTER_METADATA, value)
        if isinstance(message, UnreadMessage):
            return message
        name, fields = message
        if name == "BeginTransactionRecord":
            self._pending = []
        elif name == "AbortTransactionRecord":
            self._pending = None
        elif name == "EndTransactionRecord":
            pending, self._pending = self._pending or [], None
            for record in pending:
                self.apply(*record)
        elif self._pending is not None:
            self._pending.append((offset, timestamp_ms, name, fields))
        else:
            self.apply(offset, timestamp_ms, name, fields)
        return None

    def apply(self, offset: int, timestamp_ms: int, name: str, fields: dict[str, Any]) -> None:
        """Apply a record, whatever transaction is open.

        Args:
            offset: Of the record.
            timestamp_ms: Of the record.
            name: Name of Kafka's class.
            fields: As JSON.
        """
        handler = _HANDLERS.get(name)
        if handler is None:
            self.not_interpreted[name] += 1
            return
        handler(self, fields, lambda shown: StateRow(shown, offset, timestamp_ms))

    def add_kraft_version(self, offset: int, timestamp_ms: int, value: bytes) -> None:
        """Add a control record with the version of KRaft. One that cannot be read changes nothing."""
        schema = message_named(MessageFamily.SHARED_PARTS, "KRaftVersionRecord")
        message = read_message(schema, 0, value)
        if isinstance(message, ReadMessage):
            fields = {"name": KRAFT_VERSION, "level": message.fields["kRaftVersion"]}
            self.features[KRAFT_VERSION] = StateRow(fields, offset, timestamp_ms)

    def settings_of(self, resource_type: int, resource: str) -> dict[str, str]:
        """Return the settings of a resource by name."""
        rows = self.settings.get((resource_type, resource), {})
        return {name: rows[name].fields["value"] for name in sorted(rows)}

    def partitions_of(self, topic_id: str) -> list[StateRow]:
        """Return the partitions of a topic in their order."""
        rows = self.partitions.get(topic_id, {})
        return [rows[partition] for partition in sorted(rows)]


_Row = Callable[[dict[str, Any]], StateRow]


def key_without_id(topic: str) -> str:
    """Return the key of a topic without an id: it is of a cluster before Kafka 2.8."""
    return f"/{topic}"


def _shown_id(topic_id: str) -> str | None:
    return None if topic_id.startswith("/") else topic_id


def _topic(state: ClusterState, fields: dict[str, Any], row: _Row) -> None:
    state.topics[fields["topicId"]] = row({"topic": fields["name"], "topic_id": _shown_id(fields["topicId"])})


def _remove_topic(state: ClusterState, fields: dict[str, Any], row: _Row) -> None:
    topic_id = fields["topicId"]
    removed = state.topics.pop(topic_id, None)
    state.partitions.pop(topic_id, None)
    if removed is not None:
        state.settings.pop((TOPIC_RESOURCE, removed.fields["topic"]), None)


def _partition(state: ClusterState, fields: dict[str, Any], row: _Row) -> None:
    state.partitions.setdefault(fields["topicId"], {})[fields["partitionId"]] = row(
        {
            "topic_id": _shown_id(fields["topicId"]),
            "partition": fields["partitionId"],
            "leader": fields["leader"],
            "leader_epoch": fields["leaderEpoch"],
            "partition_epoch": fields["partitionEpoch"],
            "replicas": fields["replicas"],
            "isr": fields["isr"],
            "removing_replicas": fields["removingReplicas"],
            "adding_replicas": fields["addingReplicas"],
            "directories": fields.get("directories") or [_NOT_STATED] * len(fields["replicas"]),
            "leader_recovery_state": fields.get("leaderRecoveryState", 0),
            "eligible_leader_replicas": fields.get("eligibleLeaderReplicas") or [],
            "last_known_elr": fields.get("lastKnownElr") or [],
        }
    )


_CHANGES = {
    "isr": "isr",
    "replicas": "replicas",
    "removingReplicas": "removing_replicas",
    "addingReplicas": "adding_replicas",
    "eligibleLeaderReplicas": "eligible_leader_replicas",
    "lastKnownElr": "last_known_elr",
}
"""Lists of a PartitionChangeRecord, which are null if they do not change."""


def _partition_change(state: ClusterState, fields: dict[str, Any], row: _Row) -> None:
    rows, number = state.partitions.get(fields["topicId"], {}), fields["partitionId"]
    before = rows.get(number)
    if before is None:
        return
    after = dict(before.fields)
    for name, value in fields.items():
        shown = _CHANGES.get(name)
        if shown is not None and value is not None:
            after[shown] = value
    replicas, directories = fields.get("replicas"), fields.get("directories")
    if replicas is not None:
        known = dict(zip(before.fields["replicas"], before.fields["directories"], strict=False))
        after["directories"] = [known.get(replica, _NOT_STATED) for replica in replicas]
    if directories is not None:
        after["directories"] = directories or [_NOT_STATED] * len(after["replicas"])
    leader = fields.get("leader", _NO_LEADER_CHANGE)
    if leader != _NO_LEADER_CHANGE:
        after["leader"] = leader
        after["leader_epoch"] += 1
    recovery = fields.get("leaderRecoveryState", _NO_CHANGE)
    if recovery != _NO_CHANGE:
        after["leader_recovery_state"] = recovery
    after["partition_epoch"] += 1
    rows[number] = row(after)


def _clear_elr(state: ClusterState, fields: dict[str, Any], row: _Row) -> None:
    named = fields["topicName"]
    for topic_id in [each for each, topic in state.topics.items() if named in ("", topic.fields["topic"])]:
        rows = state.partitions.get(topic_id, {})
        for partition, before in list(rows.items()):
            fields = before.fields
            if fields["eligible_leader_replicas"] or fields["last_known_elr"]:
                epoch = fields["partition_epoch"] + 1
                cleared = {"eligible_leader_replicas": [], "last_known_elr": [], "partition_epoch": epoch}
                rows[partition] = row(fields | cleared)


def _setting(state: ClusterState, fields: dict[str, Any], row: _Row) -> None:
    resource = fields["resourceType"], fields["resourceName"]
    if fields["value"] is None:
        rows = state.settings.get(resource, {})
        rows.pop(fields["name"], None)
        if not rows:
            state.settings.pop(resource, None)
        return
    shown = redacted_fields("ConfigRecord", fields)
    kind = RESOURCES.get(fields["resourceType"], str(fields["resourceType"]))
    state.settings.setdefault(resource, {})[fields["name"]] = row(
        {"resource_type": kind, "resource": shown["resourceName"], "name": shown["name"], "value": shown["value"]}
    )


def _feature(state: ClusterState, fields: dict[str, Any], row: _Row) -> None:
    if fields["name"] == KRAFT_VERSION:  # only a control record says it
        return
    if fields["featureLevel"] == 0:
        state.features.pop(fields["name"], None)
    else:
        state.features[fields["name"]] = row({"name": fields["name"], "level": fields["featureLevel"]})


def _register_broker(state: ClusterState, fields: dict[str, Any], row: _Row) -> None:
    state.brokers[fields["brokerId"]] = row(
        {
            "broker": fields["brokerId"],
            "epoch": fields["brokerEpoch"],
            "incarnation_id": fields["incarnationId"],
            "end_points": [
                {"name": point["name"], "host": point["host"], "port": point["port"]} for point in fields["endPoints"]
            ],
            "rack": fields["rack"],
            "is_fenced": fields["fenced"],
            "is_in_controlled_shutdown": fields.get("inControlledShutdown", False),
            "log_dirs": fields.get("logDirs", []),
        }
    )


def _unregister_broker(state: ClusterState, fields: dict[str, Any], row: _Row) -> None:
    state.brokers.pop(fields["brokerId"], None)


def _change_broker(state: ClusterState, fields: dict[str, Any], row: _Row) -> None:
    before = state.brokers.get(fields["brokerId"])
    if before is None:
        return
    after = dict(before.fields)
    if fields.get("fenced", 0):
        after["is_fenced"] = fields["fenced"] > 0
    if fields.get("inControlledShutdown", 0):
        after["is_in_controlled_shutdown"] = True
    if fields.get("logDirs"):
        after["log_dirs"] = fields["logDirs"]
    state.brokers[fields["brokerId"]] = row(after)


def _fence_broker(state: ClusterState, fields: dict[str, Any], row: _Row, *, is_fenced: bool) -> None:
    before = state.brokers.get(fields["id"])
    if before is not None:
        state.brokers[fields["id"]] = row(before.fields | {"is_fenced": is_fenced})


def _producer_ids(state: ClusterState, fields: dict[str, Any], row: _Row) -> None:
    # A snapshot has neither the broker of the latest block nor its epoch.
    state.producer_ids = row({"next_producer_id": fields["nextProducerId"]})


def _nothing(state: ClusterState, fields: dict[str, Any], row: _Row) -> None:
    """Do nothing: the record says nothing about the state."""


_HANDLERS: dict[str, Callable[[ClusterState, dict[str, Any], _Row], None]] = {
    "TopicRecord": _topic,
    "RemoveTopicRecord": _remove_topic,
    "PartitionRecord": _partition,
    "PartitionChangeRecord": _partition_change,
    "ClearElrRecord": _clear_elr,
    "ConfigRecord": _setting,
    "FeatureLevelRecord": _feature,
    "RegisterBrokerRecord": _register_broker,
    "UnregisterBrokerRecord": _unregister_broker,
    "BrokerRegistrationChangeRecord": _change_broker,
    "FenceBrokerRecord": partial(_fence_broker, is_fenced=True),
    "UnfenceBrokerRecord": partial(_fence_broker, is_fenced=False),
    "ProducerIdsRecord": _producer_ids,
    "NoOpRecord": _nothing,
}
