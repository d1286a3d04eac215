"""Groups follow from records in the order of the log, as in a coordinator that loads them."""

from __future__ import annotations

import struct

from logcore.topics.group_states import GroupState, GroupStates

TOPIC_ID = bytes(range(16))
TOPIC_TEXT = "AAECAwQFBgcICQoLDA0ODw"


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def compact(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


def commit_key(group: str = "g", topic: str = "orders", partition: int = 0) -> bytes:
    return struct.pack(">h", 1) + text(group) + text(topic) + struct.pack(">i", partition)


def commit(offset: int, leader_epoch: int = -1) -> bytes:
    return struct.pack(">hqi", 3, offset, leader_epoch) + text("m") + struct.pack(">q", 1000)


def key(kind: int, *names: str) -> bytes:
    return struct.pack(">h", kind) + b"".join(map(text, names))


def member(assignor: str | None = None) -> bytes:
    named = b"\0" if assignor is None else compact(assignor)
    return b"\0\0" + b"\0\0" + compact("client") + compact("/host") + b"\1\0" + struct.pack(">i", 1) + named + b"\0"


def current(epoch: int, state: int = 0, pending: bytes = b"\1") -> bytes:
    return b"\0\0" + struct.pack(">iib", epoch, epoch - 1, state) + partitions(1, 0) + pending + b"\0"


def partitions(*numbers: int) -> bytes:
    """Partitions of one topic."""
    return b"\2" + TOPIC_ID + bytes([len(numbers) + 1]) + struct.pack(f">{len(numbers)}i", *numbers) + b"\0"


def epoch(value: int) -> bytes:
    return b"\0\0" + struct.pack(">i", value) + b"\0"


def states(*records: tuple[bytes, bytes | None]) -> GroupStates:
    found = GroupStates()
    for offset, (record_key, value) in enumerate(records):
        assert found.add(offset, record_key, value) == ()
    return found


def only(found: GroupStates, names: dict[str, str] | None = None) -> GroupState:
    (group,) = found.groups(names or {})
    return group


def test_the_latest_commit_counts_and_a_tombstone_removes_it() -> None:
    """The group is there until it is removed itself, as in a coordinator."""
    found = states((commit_key(), commit(1)), (commit_key(), commit(5, 7)), (commit_key(partition=1), commit(2)))
    group = only(found)
    assert (group.kind, group.state, group.epoch) == ("Classic", "Empty", None)
    assert {name: value.offset for name, value in group.offsets.items()} == {("orders", 0): 5, ("orders", 1): 2}
    assert group.offsets["orders", 0].leader_epoch == 7
    assert group.offsets["orders", 1].leader_epoch is None
    found.add(3, commit_key(), None)
    found.add(4, commit_key(partition=1), None)
    group = only(found)
    assert (group.kind, group.state, group.offsets) == ("Classic", "Empty", {})
    found.add(5, key(2, "g"), None)
    assert found.groups({}) == ()
    assert states((commit_key(), None)).groups({}) == ()


def test_a_group_is_there_from_its_first_commit_on_also_if_that_never_counts() -> None:
    found = GroupStates()
    found.add(0, commit_key(), commit(2), transaction_of=9)
    assert (only(found).state, only(found).offsets) == ("Empty", {})
    found.end_transaction(9, is_committed=False)
    assert (only(found).state, only(found).offsets) == ("Empty", {})
    found.add(1, key(2, "g"), None)
    assert found.groups({}) == ()


def test_commits_of_a_transaction_count_after_its_marker_alone() -> None:
    found = states((commit_key(), commit(1)))
    found.add(1, commit_key(), commit(2), transaction_of=9)
    assert only(found).offsets["orders", 0].offset == 1
    found.end_transaction(8, is_committed=True)
    assert only(found).offsets["orders", 0].offset == 1
    found.end_transaction(9, is_committed=True)
    assert only(found).offsets["orders", 0].offset == 2


def test_commits_of_an_aborted_transaction_do_not_count() -> None:
    found = states((commit_key(), commit(1)))
    found.add(1, commit_key(), commit(2), transaction_of=9)
    found.end_transaction(9, is_committed=False)
    found.end_transaction(9, is_committed=True)
    assert only(found).offsets["orders", 0].offset == 1


def test_a_later_commit_outside_of_a_transaction_is_not_replaced_by_its_marker() -> None:
    found = GroupStates()
    found.add(0, commit_key(), commit(2), transaction_of=9)
    found.add(1, commit_key(), commit(7))
    found.end_transaction(9, is_committed=True)
    assert only(found).offsets["orders", 0].offset == 7


NEW_GROUP = [(key(3, "g"), epoch(4)), (key(5, "g", "m"), member("range")), (key(6, "g"), epoch(4))]


def test_a_tombstone_removes_commits_of_open_transactions_too() -> None:
    found = states((commit_key(partition=1), commit(3)))
    for offset, (producer, partition) in enumerate([(7, 0), (7, 1), (8, 0)], start=1):
        found.add(offset, commit_key(partition=partition), commit(10 + offset), transaction_of=producer)
    found.add(4, commit_key(), None)
    found.add(5, commit_key(), commit(20), transaction_of=8)
    found.end_transaction(7, is_committed=True)
    assert {name: value.offset for name, value in only(found).offsets.items()} == {("orders", 1): 12}
    found.end_transaction(8, is_committed=True)
    assert {name: value.offset for name, value in only(found).offsets.items()} == {("orders", 0): 20, ("orders", 1): 12}


def test_a_tombstone_in_a_transaction_removes_at_once() -> None:
    found = states((commit_key(), commit(3)))
    found.add(1, commit_key(), None, transaction_of=7)
    assert only(found).offsets == {}


def test_a_member_of_a_consumer_group_has_its_current_assignment_with_names_of_topics() -> None:
    found = states(*NEW_GROUP, (key(8, "g", "m"), current(4)))
    group = only(found, {TOPIC_TEXT: "orders"})
    assert (group.kind, group.state, group.epoch, group.assignor) == ("Consumer", "Stable", 4, "range")
    assert group.members[0].assignment == {"orders": (0, 1)}
    assert only(found).members[0].assignment == {TOPIC_TEXT: (0, 1)}


def test_a_member_has_partitions_until_it_gives_them_up() -> None:
    """As a broker describes it: ConsumerGroupMember.asConsumerGroupDescribeMember."""
    found = states(*NEW_GROUP, (key(8, "g", "m"), current(4, state=1, pending=partitions(7, 4))))
    assert only(found, {TOPIC_TEXT: "orders"}).members[0].assignment == {"orders": (0, 1, 4, 7)}


def test_a_consumer_group_is_reconciling_until_each_member_has_reached_the_target() -> None:
    assert only(states(*NEW_GROUP)).state == "Reconciling"
    assert only(states(*NEW_GROUP, (key(8, "g", "m"), current(3)))).state == "Reconciling"
    assert only(states(*NEW_GROUP, (key(8, "g", "m"), current(4, state=1)))).state == "Reconciling"


def test_a_consumer_group_is_assigning_while_its_target_is_of_an_earlier_epoch() -> None:
    later = (key(3, "g"), epoch(5))
    assert only(states(*NEW_GROUP, (key(8, "g", "m"), current(4)), later)).state == "Assigning"


def test_a_consumer_group_without_members_is_empty_and_its_tombstone_removes_it() -> None:
    found = states(*NEW_GROUP, (key(5, "g", "m"), None))
    assert only(found).state == "Empty"
    found.add(9, key(3, "g"), None)
    assert found.groups({}) == ()


def test_a_streams_group_is_listed_and_not_interpreted() -> None:
    value = b"\0\0" + struct.pack(">iq", 1, 2) + b"\0"
    found = states((key(17, "s"), value), (key(16, "g", "regex"), b"\0\0\1" + struct.pack(">qq", 1, 2) + b"\0"))
    group = only(found)
    assert (group.group, group.kind, group.state) == ("s", "Streams", None)
    assert dict(found.not_interpreted) == {16: 1, 17: 1}


def test_a_record_that_cannot_be_read_changes_nothing_and_is_returned() -> None:
    found = states((commit_key(), commit(1)))
    (problem,) = found.add(1, commit_key(), commit(2)[:-1])
    assert problem.reason == "TRUNCATED"
    assert only(found).offsets["orders", 0].offset == 1
    assert len(found.add(2, struct.pack(">h", 99), b"")) == 2
    assert len(found.add(3, None, None)) == 1


def test_the_oldest_key_of_a_commit_counts_too() -> None:
    legacy = struct.pack(">h", 0) + commit_key()[2:]
    value = struct.pack(">hq", 0, 11) + text("") + struct.pack(">q", 1000)
    assert only(states((legacy, value))).offsets["orders", 0].offset == 11
