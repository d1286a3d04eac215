"""The state of a cluster from its nodes in ZooKeeper."""

import json

import pytest

from logcore.topics.cluster_states import ClusterState
from logcore.zookeeper.kafka_nodes import UnreadNodes, chroots, cluster_state
from logcore.zookeeper.old_consumers import old_groups
from logcore.zookeeper.snapshots import ZooKeeperNode, read_snapshot
from tests.zookeeper_files import as_json, node, small_cluster, snapshot

ID = "0123456789abcdefghijkl"


def nodes_of(*packed: bytes) -> dict[str, ZooKeeperNode]:
    return read_snapshot(snapshot(*packed)).nodes


def state_of(*packed: bytes, chroot: str = "", unread: int = 0) -> ClusterState:
    found = UnreadNodes()
    state = cluster_state(nodes_of(*packed), chroot, found)
    assert found.count == unread, found
    return state


def test_a_topic_has_its_partitions_with_leaders_and_settings_without_secrets() -> None:
    state = state_of(*small_cluster())
    (topic,) = state.topics.values()
    assert topic.fields == {"topic": "orders", "topic_id": None}
    (partitions,) = state.partitions.values()
    shown = ("leader", "leader_epoch", "partition_epoch", "replicas", "isr")
    assert [partitions[0].fields[name] for name in shown] == [7, 3, 4, [7, 8], [7]]
    assert [partitions[1].fields[name] for name in shown] == [-1, -1, -1, [8, 7], []]
    assert partitions[0].offset == 7
    assert state.settings_of(2, "orders") == {"retention.ms": "5", "x.password": "(redacted)"}


def test_brokers_controller_and_cluster_id_are_those_of_the_nodes() -> None:
    state = state_of(*small_cluster())
    assert state.controller is not None
    assert state.cluster is not None
    assert (state.controller.fields, state.cluster.fields) == ({"broker": 7}, {"cluster_id": ID})
    assert state.brokers[7].fields["end_points"] == [{"name": "PLAINTEXT", "host": "h7", "port": 9092}]
    assert (state.brokers[7].fields["epoch"], state.brokers[7].fields["rack"]) == (5, "r")


def test_a_broker_of_kafka_0_8_has_a_host_and_a_port() -> None:
    state = state_of(node("/brokers/ids/3", as_json(host="old", port=9, version=1, jmx_port=-1)))
    assert state.brokers[3].fields["end_points"] == [{"name": "PLAINTEXT", "host": "old", "port": 9}]


def test_a_topic_of_kafka_2_8_has_its_id_and_the_replicas_that_come_and_go() -> None:
    fields = as_json(
        version=3, partitions={"0": [1, 2, 3]}, topic_id=ID, adding_replicas={"0": [3]}, removing_replicas={"0": [1]}
    )
    state = state_of(node("/brokers/topics/t", fields))
    assert state.topics[ID].fields == {"topic": "t", "topic_id": ID}
    partition = state.partitions[ID][0].fields
    assert (partition["adding_replicas"], partition["removing_replicas"]) == ([3], [1])


def test_features_producer_ids_and_settings_of_brokers_are_as_in_krafts_metadata() -> None:
    state = state_of(
        node(
            "/feature", as_json(version=2, status=1, features={"f": {"min_version_level": 1, "max_version_level": 4}})
        ),
        node("/latest_producer_id_block", as_json(version=1, broker=1, block_start="0", block_end="999")),
        node("/config/brokers/<default>", as_json(version=1, config={"a": "b"})),
        node("/config/users/bob", as_json(version=1, config={"SCRAM-SHA-256": "salt=secret"})),
        node("/kafka-acl/Topic/t", as_json(version=1, acls=[])),
    )
    assert state.features["f"].fields == {"name": "f", "level": 4}
    assert state.producer_ids is not None
    assert state.producer_ids.fields == {"next_producer_id": 1000}
    assert state.settings_of(4, "") == {"a": "b"}
    assert dict(state.not_interpreted) == {"/config/users": 1, "/kafka-acl": 1}


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/brokers/topics/t", "{"),
        ("/brokers/topics/t", "[" * 200_000),
        ("/brokers/topics/t", "[1]"),
        ("/brokers/topics/t", '{"partitions":{"x":[1]}}'),
        ("/brokers/topics/t", '{"partitions":{"4294967296":[1]}}'),
        ("/brokers/topics/t", '{"partitions":{"0":[99999999999]}}'),
        ("/brokers/topics/t", '{"partitions":[],"topic_id":"/short"}'),
        ("/brokers/topics/t/partitions/0/state", '{"leader":1,"leader_epoch":1,"isr":[1]}'),
        ("/brokers/ids/1", "{}"),
        ("/brokers/ids/x", '{"host":"h","port":1}'),
        ("/brokers/ids/1", '{"endpoints":["h:9"]}'),
        ("/config/topics/t", '{"config":{"a":1}}'),
        ("/controller", '{"brokerid":"1"}'),
        ("/controller", '{"brokerid":' + "9" * 5_000 + "}"),
        ("/cluster/id", None),
        ("/feature", '{"features":{"a":3}}'),
        ("/latest_producer_id_block", '{"block_end":"-1"}'),
    ],
)
def test_a_node_that_is_not_as_kafka_writes_it_is_counted_and_the_others_count(path: str, data: str | None) -> None:
    state = state_of(node(path, data), node("/brokers/topics/good", as_json(partitions={"0": [1]})), unread=1)
    assert [row.fields["topic"] for row in state.topics.values()] == ["good"]


def test_half_of_a_surrogate_pair_is_replaced_in_all_texts() -> None:
    state = state_of(
        node("/cluster/id", r'{"id":"\ud800"}'),
        node("/brokers/ids/9", r'{"endpoints":["PLAINTEXT://\uDC00:1"],"rack":"\ud83d\ude00 \ud800\u001b\ud800"}'),
        node("/config/topics/t", r'{"config":{"\udfff":"\\ud800"}}'),
    )
    assert state.cluster is not None
    assert state.cluster.fields == {"cluster_id": "\ufffd"}
    assert state.brokers[9].fields["end_points"] == [{"name": "PLAINTEXT", "host": "\ufffd", "port": 1}]
    assert state.brokers[9].fields["rack"] == "\U0001f600 \ufffd\x1b\ufffd"
    assert state.settings_of(2, "t") == {"\ufffd": r"\ud800"}


def test_a_topic_named_like_the_id_of_another_keeps_its_own_partitions() -> None:
    state = state_of(
        node("/brokers/topics/t", as_json(partitions={"0": [1]}, topic_id=ID)),
        node(f"/brokers/topics/{ID}", as_json(partitions={"0": [2], "1": [2]})),
    )
    assert sorted(len(rows) for rows in state.partitions.values()) == [1, 2]


def test_clusters_of_several_chroots_are_listed_the_one_with_most_topics_first() -> None:
    packed = [
        node("/few/brokers/ids"),
        node("/many/kafka/brokers/topics"),
        *(node(f"/many/kafka/brokers/topics/t{number}", as_json(partitions={})) for number in range(3)),
        node("/few/brokers/topics/only", as_json(partitions={})),
        node("/elsewhere/consumers"),
    ]
    assert chroots(nodes_of(*packed)) == ["/many/kafka", "/few"]
    assert [row.fields["topic"] for row in state_of(*packed, chroot="/few").topics.values()] == ["only"]
    assert chroots(nodes_of(node("/consumers"))) == [""]


def test_a_cluster_does_not_get_the_nodes_of_one_whose_chroot_begins_with_the_same_letters() -> None:
    packed = [
        node("/kafka/brokers/topics/a", as_json(partitions={"0": [7]})),
        node("/kafka2/brokers/topics/c", as_json(partitions={"0": [9]})),
        node("/kafka2/brokers/ids/9", as_json(host="h", port=9)),
        node("/kafka2/cluster/id", as_json(id="9" * 22)),
    ]
    state = state_of(*packed, chroot="/kafka")
    assert [row.fields["topic"] for row in state.topics.values()] == ["a"]
    assert (state.brokers, state.cluster) == ({}, None)


def test_an_old_group_has_members_owners_as_assignment_and_offsets() -> None:
    extra = (
        node("/consumers/g/owners/orders/1", "somebody-else-0"),
        node("/consumers/g/offsets/orders/1", "x"),
        node("/consumers/empty/offsets/orders/0", str(2**63 - 1)),
    )
    unread = UnreadNodes()
    groups = old_groups(nodes_of(*small_cluster(), *extra), "", unread)
    assert [(group.group, group.kind, group.state) for group in groups] == [
        ("empty", "ZooKeeper", "Empty"),
        ("g", "ZooKeeper", "Stable"),
    ]
    (member,) = groups[1].members
    assert (member.member_id, member.assignment) == ("g_h-1-ab", {"orders": (0,)})
    commit = groups[1].offsets["orders", 0]
    assert (commit.offset, commit.commit_time_ms, commit.record_offset) == (42, 8_000, 8)
    assert ("orders", 1) not in groups[1].offsets
    assert unread.count == 1
    assert json.dumps(groups[0].offsets["orders", 0].offset) == "9223372036854775807"
