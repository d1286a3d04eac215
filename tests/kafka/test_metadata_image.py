"""Random records of the metadata: our state of the cluster is the image that Kafka's own classes make of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest

from logcore.messages.known_messages import MessageFamily, message_named
from logcore.messages.reader import ReadMessage
from logcore.topics.cluster_states import RESOURCES, ClusterState
from tests import sampling
from tests.daemons import WAIT_SECONDS
from tests.kafka import distribution
from tests.kafka.operated_cluster import classes
from tests.message_writer import write_framed

pytestmark = [pytest.mark.kafka, pytest.mark.long]

CLUSTERS, RECORDS = 200, 60
BROKERS = (1, 2, 3, 4)
SETTINGS = {2: ("retention.ms", "cleanup.policy", "segment.bytes"), 4: ("log.cleaner.threads",)}
FEATURES = ("group.version", "share.version", "kraft.version", "metadata.version")


class RandomCluster:
    """Records that a controller may write, in their order.

    has_directories: whether the version of its metadata knows directories. Then a change of replicas names them, as a
    controller does. Kafka 4.4 merges one that does not by the places of replicas, and we by their ids.
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._has_directories = chance.random() < 0.7
        self._topics: dict[UUID, tuple[str, int]] = {}
        self._brokers: dict[int, int] = {}
        self.values = [write_framed(self._record()) for _ in range(RECORDS)]

    def _record(self) -> ReadMessage:
        while True:
            found = self._chance.choice(self._kinds)(self)
            if found is not None:
                name, version, fields = found
                return ReadMessage(message_named(MessageFamily.CLUSTER_METADATA, name), version, fields, b"", True)

    def _uuid(self) -> UUID:
        return UUID(bytes=self._chance.randbytes(16))

    def _topic(self) -> Any:
        used = {name for name, _ in self._topics.values()}
        free = [name for name in ("a", "b", "c") if name not in used]
        if not free:
            return None
        topic_id, name = self._uuid(), self._chance.choice(free)
        self._topics[topic_id] = (name, 0)
        return "TopicRecord", 0, {"name": name, "topicId": topic_id}

    def _remove_topic(self) -> Any:
        if not self._topics or self._chance.random() < 0.7:
            return None
        topic_id = self._chance.choice(list(self._topics))
        del self._topics[topic_id]
        return "RemoveTopicRecord", 0, {"topicId": topic_id}

    def _brokers_of(self, count: int) -> list[int]:
        return self._chance.sample(BROKERS, count)

    def _partition(self) -> Any:
        if not self._topics:
            return None
        topic_id = self._chance.choice(list(self._topics))
        name, number = self._topics[topic_id]
        self._topics[topic_id] = (name, number + 1)
        fields: dict[str, Any] = {
            "partitionId": number,
            "topicId": topic_id,
            "replicas": self._brokers_of(2),
            "isr": self._brokers_of(1),
            "removingReplicas": [],
            "addingReplicas": self._brokers_of(self._chance.randrange(2)),
            "leader": self._chance.choice((-1, *BROKERS)),
            "leaderRecoveryState": self._chance.randrange(2),
            "leaderEpoch": self._chance.randrange(9),
            "partitionEpoch": self._chance.randrange(9),
        }
        if not self._has_directories:
            return "PartitionRecord", 0, fields
        fields["directories"] = [self._uuid() for _ in range(2)]
        if self._chance.random() < 0.5:
            fields |= {"eligibleLeaderReplicas": self._brokers_of(1), "lastKnownElr": self._brokers_of(1)}
            return "PartitionRecord", 2, fields
        return "PartitionRecord", 1, fields

    def _change(self) -> Any:
        known = [(topic_id, number) for topic_id, (_, count) in self._topics.items() for number in range(count)]
        if not known:
            return None
        topic_id, number = self._chance.choice(known)
        fields: dict[str, Any] = {"topicId": topic_id, "partitionId": number}
        parts: list[dict[str, Any]] = [
            {"isr": self._brokers_of(self._chance.randrange(3))},
            {"leader": self._chance.choice((-1, *BROKERS))},
            {"removingReplicas": self._brokers_of(self._chance.randrange(2))},
            {"addingReplicas": self._brokers_of(self._chance.randrange(2))},
            {"leaderRecoveryState": self._chance.randrange(2)},
        ]
        # Without directories, brokers that are new among the replicas get the same reserved id as the others.
        count = 2 if self._has_directories else self._chance.randrange(1, 4)
        replicas: dict[str, Any] = {"replicas": self._brokers_of(count)}
        if self._has_directories:
            parts.append({"directories": [self._uuid() for _ in range(self._chance.choice((0, 2, 2, 2)))]})
            parts.append({"eligibleLeaderReplicas": self._brokers_of(self._chance.randrange(2))})
            parts.append({"lastKnownElr": self._brokers_of(self._chance.randrange(2))})
            replicas["directories"] = [self._uuid() for _ in range(2)]
        for part in self._chance.sample([*parts, replicas], self._chance.randrange(4)):
            fields |= part
        return "PartitionChangeRecord", 2 if self._has_directories else 0, fields

    def _clear(self) -> Any:
        names = [name for name, _ in self._topics.values()]
        return ("ClearElrRecord", 0, {"topicName": self._chance.choice(["", *names])}) if names else None

    def _setting(self) -> Any:
        kind = self._chance.choice((2, 4))
        names = [name for name, _ in self._topics.values()] if kind == 2 else ["", "1"]
        if not names:
            return None
        value = None if self._chance.random() < 0.3 else str(self._chance.randrange(99))
        fields = {"resourceType": kind, "resourceName": self._chance.choice(names), "value": value}
        return "ConfigRecord", 0, fields | {"name": self._chance.choice(SETTINGS[kind])}

    def _feature(self) -> Any:
        name = self._chance.choice(FEATURES)
        level = self._chance.randrange(20, 26) if name == "metadata.version" else self._chance.randrange(3)
        return "FeatureLevelRecord", 0, {"name": name, "featureLevel": level}

    def _register(self) -> Any:
        number, epoch = self._chance.choice(BROKERS), self._chance.randrange(1000)
        self._brokers[number] = epoch
        point = {"name": "L", "host": "kafka-1", "port": self._chance.randrange(1, 65_536), "securityProtocol": 0}
        fields: dict[str, Any] = {
            "brokerId": number,
            "brokerEpoch": epoch,
            "incarnationId": self._uuid(),
            "endPoints": [point],
            "features": [],
            "rack": self._chance.choice((None, "r")),
            "fenced": self._chance.random() < 0.5,
        }
        version = self._chance.randrange(4)
        if version >= 1:
            fields["inControlledShutdown"] = self._chance.random() < 0.5
        if version >= 3:
            fields["logDirs"] = [self._uuid() for _ in range(self._chance.randrange(3))]
        return "RegisterBrokerRecord", version, fields

    def _change_broker(self) -> Any:
        if not self._brokers:
            return None
        number = self._chance.choice(list(self._brokers))
        epoch = self._brokers[number]
        kind = self._chance.choice(("change", "fence", "unfence", "remove"))
        if kind == "change":
            fields: dict[str, Any] = {"brokerId": number, "brokerEpoch": epoch}
            fields |= {"fenced": self._chance.choice((-1, 0, 1)), "inControlledShutdown": self._chance.randrange(2)}
            dirs = [self._uuid() for _ in range(self._chance.randrange(3))]
            return "BrokerRegistrationChangeRecord", 2, fields | {"logDirs": dirs}
        if kind == "remove":
            del self._brokers[number]
            return "UnregisterBrokerRecord", 0, {"brokerId": number, "brokerEpoch": epoch}
        return "FenceBrokerRecord" if kind == "fence" else "UnfenceBrokerRecord", 0, {"id": number, "epoch": epoch}

    _kinds = (_topic, _remove_topic, *[_partition, _change] * 3, _clear, _setting, _feature, _register, _change_broker)


def commas(values: list[Any]) -> str:
    return ",".join(map(str, values))


def lines(state: ClusterState) -> Iterator[str]:
    """The state in the words of `Image.java`."""
    for topic_id, topic in sorted(state.topics.items(), key=lambda each: each[1].fields["topic"]):
        yield f"topic {topic.fields['topic']} {topic_id}"
        for row in state.partitions_of(topic_id):
            found = row.fields
            lists = [commas(found[name]) for name in ("replicas", "isr", "removing_replicas", "adding_replicas")]
            eligible = [commas(found[name]) for name in ("eligible_leader_replicas", "last_known_elr")]
            numbers = [found[name] for name in ("partition", "leader", "leader_epoch", "partition_epoch")]
            recovery = found["leader_recovery_state"]
            words = ["partition", topic_id, *numbers, *lists, commas(found["directories"]), recovery, *eligible]
            yield " ".join(map(str, words))
    kinds = {name: number for number, name in RESOURCES.items()}
    yield from sorted(
        f"setting {kinds[row.fields['resource_type']]} {row.fields['resource']} {name} {row.fields['value']}"
        for rows in state.settings.values()
        for name, row in rows.items()
    )
    for number, row in sorted(state.brokers.items()):
        found = row.fields
        points = commas(sorted(f"{each['name']}//{each['host']}:{each['port']}" for each in found["end_points"]))
        words = [number, found["epoch"], found["incarnation_id"], points, found["rack"] or "-"]
        words += [str(found[name]).lower() for name in ("is_fenced", "is_in_controlled_shutdown")]
        yield " ".join(["broker", *map(str, words), commas(sorted(found["log_dirs"]))])
    levels = {name: row.fields["level"] for name, row in state.features.items()}
    last = [("metadata.version", levels.pop("metadata.version"))] if "metadata.version" in levels else []
    yield from (f"feature {name} {level}" for name, level in (*sorted(levels.items()), *last))


def test_the_state_of_random_clusters_is_kafkas_own_image() -> None:
    try:
        command = distribution.command("Image", version=distribution.NEWEST_BROKER, classes=classes())
    except distribution.Unavailable as missing:
        pytest.skip(f"Kafka cannot be run here: {missing}")
    chance = sampling.chance("metadata images")
    clusters = [RandomCluster(chance).values for _ in range(CLUSTERS)]
    asked = "".join("".join(f"{value.hex()}\n" for value in values) + "\n" for values in clusters)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    images = done.stdout.split("\n\n") if done.stdout else []
    assert len(images) == CLUSTERS + 1
    for values, image in zip(clusters, images, strict=False):
        state = ClusterState()
        for offset, value in enumerate(values):
            assert state.add(offset, 0, value) is None
        assert list(lines(state)) == [line for line in image.split("\n") if line]
