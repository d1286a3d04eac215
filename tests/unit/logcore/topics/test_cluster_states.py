"""The state of a cluster follows from records of its metadata; what a transaction drops is never seen."""

from __future__ import annotations

import struct
from typing import Any

from logcore.topics.cluster_states import ClusterState

TOPIC_ID = bytes(range(16))
TOPIC_TEXT = "AAECAwQFBgcICQoLDA0ODw"
DIRECTORIES = [bytes([number]) * 16 for number in (1, 2)]
DIRECTORY_TEXTS = ["AQEBAQEBAQEBAQEBAQEBAQ", "AgICAgICAgICAgICAgICAg"]
NOT_STATED = "AAAAAAAAAAAAAAAAAAAAAA"
"""By org.apache.kafka.common DirectoryId: MIGRATING."""


def compact(value: str | None) -> bytes:
    return b"\0" if value is None else bytes([len(value) + 1]) + value.encode()


def ints(*values: int) -> bytes:
    return bytes([len(values) + 1]) + struct.pack(f">{len(values)}i", *values)


def framed(kind: int, body: bytes, version: int = 0) -> bytes:
    return bytes([1, kind, version]) + body


TOPIC = framed(2, compact("orders") + TOPIC_ID + b"\0")
REMOVE = framed(9, TOPIC_ID + b"\0")
BEGIN, END, ABORT = framed(23, b"\0"), framed(24, b"\0"), framed(25, b"\0")


def partition(number: int = 0) -> bytes:
    lists = ints(1, 2) + ints(1, 2) + ints() + ints()
    body = struct.pack(">i", number) + TOPIC_ID + lists + struct.pack(">iii", 1, 5, 8)
    return framed(3, body + b"\3" + b"".join(DIRECTORIES) + b"\0", version=1)


def change(*tags: tuple[int, bytes], version: int = 1) -> bytes:
    section = bytes([len(tags)]) + b"".join(bytes([tag, len(part)]) + part for tag, part in tags)
    return framed(5, struct.pack(">i", 0) + TOPIC_ID + section, version=version)


def setting(name: str, value: str | None, resource: str = "orders", kind: int = 2) -> bytes:
    return framed(4, bytes([kind]) + compact(resource) + compact(name) + compact(value) + b"\0")


def state(*values: bytes) -> ClusterState:
    found = ClusterState()
    for offset, value in enumerate(values):
        assert found.add(offset, 1000 + offset, value) is None
    return found


def only_partition(found: ClusterState) -> dict[str, Any]:
    (row,) = found.partitions_of(TOPIC_TEXT)
    return row.fields


def test_a_topic_has_its_partitions_and_settings_until_it_is_removed() -> None:
    found = state(TOPIC, partition(0), partition(1), setting("retention.ms", "1"), setting("cleanup.policy", "compact"))
    assert found.topics[TOPIC_TEXT].fields == {"topic": "orders", "topic_id": TOPIC_TEXT}
    assert [row.fields["partition"] for row in found.partitions_of(TOPIC_TEXT)] == [0, 1]
    assert found.settings_of(2, "orders") == {"cleanup.policy": "compact", "retention.ms": "1"}
    found.add(9, 0, setting("retention.ms", None))
    assert found.settings_of(2, "orders") == {"cleanup.policy": "compact"}
    found.add(10, 0, REMOVE)
    assert (found.topics, found.partitions, found.settings) == ({}, {}, {})


def test_partitions_and_settings_are_kept_by_topic_and_do_not_touch_those_of_others() -> None:
    other, other_text = TOPIC_ID[::-1], "Dw4NDAsKCQgHBgUEAwIBAA"
    of_other = [partition(number).replace(TOPIC_ID, other, 1) for number in (1, 0)]
    found = state(TOPIC, partition(7), framed(2, compact("other") + other + b"\0"), *of_other)
    for name in ("orders", "other"):
        found.add(9, 0, setting("retention.ms", "1", name))
    assert {owner: set(rows) for owner, rows in found.partitions.items()} == {TOPIC_TEXT: {7}, other_text: {0, 1}}
    assert {owner: set(rows) for owner, rows in found.settings.items()} == {
        (2, "orders"): {"retention.ms"},
        (2, "other"): {"retention.ms"},
    }
    assert [row.fields["partition"] for row in found.partitions_of(other_text)] == [0, 1]
    found.add(10, 0, REMOVE)
    assert (set(found.partitions), set(found.settings)) == ({other_text}, {(2, "other")})
    assert (found.partitions_of(TOPIC_TEXT), found.settings_of(2, "orders")) == ([], {})


def test_a_change_keeps_what_it_does_not_name() -> None:
    before = only_partition(state(TOPIC, partition()))
    after = only_partition(state(TOPIC, partition(), change((0, ints(2)))))
    assert after == before | {"isr": [2], "partition_epoch": 9}


def test_a_new_leader_begins_a_new_epoch_and_no_leader_is_one_too() -> None:
    for leader in (2, -1, 1):
        after = only_partition(state(TOPIC, partition(), change((1, struct.pack(">i", leader)))))
        assert (after["leader"], after["leader_epoch"], after["partition_epoch"]) == (leader, 6, 9)


def test_a_replica_that_stays_keeps_its_directory() -> None:
    after = only_partition(state(TOPIC, partition(), change((2, ints(3, 1)))))
    assert (after["replicas"], after["directories"]) == ([3, 1], [NOT_STATED, DIRECTORY_TEXTS[0]])
    named = change((2, ints(3)), (8, b"\2" + DIRECTORIES[1]))
    assert only_partition(state(TOPIC, partition(), named))["directories"] == [DIRECTORY_TEXTS[1]]


def test_a_change_to_no_directories_leaves_them_unstated() -> None:
    after = only_partition(state(TOPIC, partition(), change((8, b"\1"))))
    assert after["directories"] == [NOT_STATED, NOT_STATED]


def test_a_partition_that_loses_its_eligible_leaders_has_changed_and_no_other_has() -> None:
    found = state(TOPIC, partition(0), partition(1), change((6, ints(1)), version=2))
    found.add(9, 0, framed(28, compact("orders") + b"\0"))
    rows = found.partitions_of(TOPIC_TEXT)
    assert [(row.fields["partition_epoch"], row.offset) for row in rows] == [(10, 9), (8, 2)]


def test_a_level_of_kraft_version_in_a_record_of_features_does_not_count() -> None:
    levels = (("kraft.version", 1), ("group.version", 1))
    records = [framed(12, compact(name) + struct.pack(">h", level) + b"\0") for name, level in levels]
    assert set(state(*records).features) == {"group.version"}


def test_eligible_leaders_are_cleared_for_one_topic_or_for_all() -> None:
    eligible = change((6, ints(1)), (7, ints(2)), version=2)
    found = state(TOPIC, partition(), eligible)
    assert only_partition(found)["eligible_leader_replicas"] == [1]
    found.add(3, 0, framed(28, compact("other") + b"\0"))
    assert only_partition(found)["eligible_leader_replicas"] == [1]
    found.add(4, 0, framed(28, compact("") + b"\0"))
    assert (only_partition(found)["eligible_leader_replicas"], only_partition(found)["last_known_elr"]) == ([], [])


def test_records_of_a_transaction_count_at_its_end() -> None:
    found = state(BEGIN, TOPIC, partition())
    assert (found.topics, found.is_in_transaction) == ({}, True)
    found.add(3, 0, END)
    assert (set(found.topics), found.is_in_transaction) == ({TOPIC_TEXT}, False)
    assert found.topics[TOPIC_TEXT].offset == 1


def test_records_of_an_aborted_transaction_never_count() -> None:
    found = state(TOPIC, BEGIN, REMOVE, ABORT, setting("retention.ms", "1"))
    assert set(found.topics) == {TOPIC_TEXT}
    assert found.settings_of(2, "orders") == {"retention.ms": "1"}
    found.add(9, 0, END)
    assert set(found.topics) == {TOPIC_TEXT}


def test_a_feature_of_level_0_is_removed() -> None:
    level = [framed(12, compact("group.version") + struct.pack(">h", number) + b"\0") for number in (0, 1)]
    assert state(level[1]).features["group.version"].fields == {"name": "group.version", "level": 1}
    assert state(level[1], level[0]).features == {}


def broker(fenced: bool) -> bytes:
    body = struct.pack(">i", 4) + TOPIC_ID + struct.pack(">q", 7) + b"\2" + compact("PLAINTEXT") + compact("host")
    body += struct.pack(">Hh", 9092, 0) + b"\0" + b"\1" + compact("rack") + bytes([fenced])
    return framed(0, body + b"\0")


def test_a_broker_is_fenced_and_unfenced_by_old_and_new_records() -> None:
    moved = struct.pack(">iq", 4, 7)
    for fence, unfence in (
        (framed(7, moved + b"\0"), framed(8, moved + b"\0")),
        (framed(17, moved + b"\1\0\1\1"), framed(17, moved + b"\1\0\1\xff")),
    ):
        assert state(broker(True), unfence).brokers[4].fields["is_fenced"] is False
        assert state(broker(False), fence).brokers[4].fields["is_fenced"] is True
    assert state(broker(True), framed(1, moved + b"\0")).brokers == {}


def test_a_change_of_something_unknown_changes_nothing() -> None:
    found = state(change((0, ints(2))), REMOVE, framed(7, struct.pack(">iq", 4, 7) + b"\0"))
    assert (found.topics, found.partitions, found.brokers) == ({}, {}, {})


def test_a_password_is_not_in_the_state() -> None:
    found = state(setting("ssl.key.password", "s3cr3t", "1", 4), setting("sasl.jaas.config", "s3cr3t", "", 4))
    assert {row.fields["value"] for rows in found.settings.values() for row in rows.values()} == {"(redacted)"}


def test_records_that_have_no_place_in_the_state_are_counted() -> None:
    scram = framed(11, compact("alice") + b"\1" + compact("salt") * 3 + struct.pack(">i", 4096) + b"\0")
    found = state(scram, scram, framed(20, b"\0"))
    assert dict(found.not_interpreted) == {"UserScramCredentialRecord": 2}


def test_a_record_that_cannot_be_read_changes_nothing_and_is_returned() -> None:
    found = state(TOPIC)
    removal = REMOVE + b"x"
    for value, reason in (
        (TOPIC[:-1], "TRUNCATED"), (framed(6, b""), "UNKNOWN_TYPE"), (b"", "FRAME"), (removal, "TRAILING_BYTES")
    ):  # fmt: skip
        problem = found.add(1, 0, value)
        assert problem is not None
        assert problem.reason == reason
    assert set(found.topics) == {TOPIC_TEXT}
