"""Groups, their members and committed offsets, from the records of one partition of `__consumer_offsets`.

It is what a coordinator has after it has loaded the partition. Commits inside a transaction count when its marker says
COMMIT, and only if they are later in the log than what is there. A record without a value deletes at once, also commits
of open transactions. A group exists from its first commit on, also one of a transaction that is open or was aborted. It
ends with the tombstone of the group, and not with those of its offsets. Groups of type `Streams` and regular
expressions of subscriptions are read and not interpreted.

State, as a broker computes it:

    Classic     Empty without members, else Stable
    Consumer    Empty without members; Assigning if the target assignment is of an earlier epoch; Reconciling if a
                member has not reached it; else Stable
    Share       Empty without members, else Stable

Source: org.apache.kafka.coordinator.group GroupMetadataManager, OffsetMetadataManager; ConsumerGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from logcore.messages.framing import ASSIGNMENT, CONSUMER_PROTOCOL, read_protocol
from logcore.messages.kafka_json import uuid_text
from logcore.messages.reader import ReadMessage, UnreadMessage
from logcore.topics.internal_topics import InternalTopic, record_messages

_COMMITS = (0, 1)
_CLASSIC_GROUP = 2
_EPOCHS = {3: "Consumer", 11: "Share"}
_MEMBERS = (5, 10)
_TARGET_EPOCHS = (6, 12)
_TARGETS = (7, 13)
_CURRENT = (8, 14)
_STREAMS_GROUP = 17
_READ = (*_COMMITS, _CLASSIC_GROUP, *_EPOCHS, *_MEMBERS, *_TARGET_EPOCHS, *_TARGETS, *_CURRENT)
_NOT_NEEDED = (4, 15)
"""Types whose records say nothing that a state needs: partition counts of topics, and the progress of share groups."""
_STABLE_MEMBER = 0


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The latest commit of a group for a topic partition.

    Attributes:
        offset: The committed offset.
        leader_epoch: None if the commit has none.
        metadata: The committer's text.
        commit_time_ms: When it was committed, in epoch milliseconds.
        record_offset: Offset of the record in `__consumer_offsets`.
    """

    offset: int
    leader_epoch: int | None
    metadata: str
    commit_time_ms: int
    record_offset: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group.

    Attributes:
        assignment: Partitions by topic; a topic whose name is unknown has its id.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: Mapping[str, tuple[int, ...]]

    @property
    def columns(self) -> dict[str, Any]:
        """What says who it is, by the names of outputs and tables."""
        return {name: getattr(self, name) for name in ("member_id", "instance_id", "client_id", "host")}


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group.

    Attributes:
        kind: `Classic`, `Consumer`, `Share` or `Streams`; `ZooKeeper` for old consumers, which no coordinator knew.
        state: As a broker describes it; None for `Streams`.
        epoch: Generation of a classic group, epoch of any other; None if there are only offsets.
        protocol_type: Of a classic group with metadata.
        assignor: The protocol of a classic group, or the assignor that most members of a consumer group name. None if
            none is named; a broker then uses its own default.
        offsets: Commits by topic and partition.
    """

    group: str
    kind: str
    state: str | None
    epoch: int | None
    protocol_type: str | None
    assignor: str | None
    members: tuple[GroupMember, ...]
    offsets: Mapping[tuple[str, int], CommittedOffset]

    @property
    def columns(self) -> dict[str, Any]:
        """What says how it is, by the names of outputs and tables."""
        names = ("state", "epoch", "protocol_type", "assignor")
        return {"type": self.kind} | {name: getattr(self, name) for name in names}


@dataclass(slots=True)
class _Group:
    kind: str | None = None
    epoch: int = 0
    classic: ReadMessage | None = None
    target_epoch: int = 0
    members: dict[str, dict[str, Any]] = field(default_factory=dict)
    current: dict[str, dict[str, Any]] = field(default_factory=dict)
    offsets: dict[tuple[str, int], CommittedOffset] = field(default_factory=dict)
    has_committed: bool = False

    @property
    def is_known(self) -> bool:
        return self.kind is not None or self.classic is not None or self.has_committed


_Place = tuple[str, tuple[str, int]]
"""Group, then topic and partition."""


class GroupStates:
    """The groups of a partition. Records are added in the order of their offsets."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._pending: dict[int, dict[_Place, CommittedOffset]] = {}
        self.not_interpreted: Counter[int] = Counter()
        """Records by type number whose type is not interpreted."""

    def add(
        self, offset: int, key: bytes | None, value: bytes | None, transaction_of: int | None = None
    ) -> tuple[UnreadMessage, ...]:
        """Add a record.

        Args:
            offset: Its offset.
            key: Its key.
            value: Its value.
            transaction_of: The producer id of its transaction; None if it is in none.

        Returns:
            What could not be read. The record then changes nothing.
        """
        messages = record_messages(InternalTopic.CONSUMER_OFFSETS, key, value)
        if messages.unread or messages.key is None or not isinstance(messages.key.message, ReadMessage):
            return messages.unread
        kind, names = messages.key.type_number or 0, messages.key.message.fields
        read = None if messages.value is None else messages.value.message
        content = read if isinstance(read, ReadMessage) else None
        if kind in _COMMITS:
            self._commit(offset, names, content, transaction_of)
        elif kind in _READ:
            self._group_record(kind, names, content)
        elif kind not in _NOT_NEEDED:
            self.not_interpreted[kind] += 1
            if kind == _STREAMS_GROUP:
                self._of(str(names["groupId"])).kind = None if content is None else "Streams"
        return ()

    def end_transaction(self, producer_id: int, is_committed: bool) -> None:
        """Apply a marker: the commits of the producer's transaction count, or are dropped."""
        for (group, partition), commit in self._pending.pop(producer_id, {}).items():
            if not is_committed:
                continue
            offsets = self._of(group).offsets
            present = offsets.get(partition)
            if present is None or present.record_offset < commit.record_offset:
                offsets[partition] = commit

    def groups(self, topic_names: Mapping[str, str]) -> tuple[GroupState, ...]:
        """Return all groups, ordered by name.

        Args:
            topic_names: Names of topics by id, as far as known.
        """
        known = ((name, group) for name, group in sorted(self._groups.items()) if group.is_known)
        return tuple(_state(name, group, topic_names) for name, group in known)

    def _of(self, group: str) -> _Group:
        return self._groups.setdefault(group, _Group())

    def _commit(self, offset: int, names: dict[str, Any], value: ReadMessage | None, producer_id: int | None) -> None:
        partition = (names["topic"], names["partition"])
        commit = None
        if value is not None:
            fields: dict[str, Any] = value.fields
            epoch = fields.get("leaderEpoch", -1)
            time_ms = fields["commitTimestamp"]
            commit = CommittedOffset(
                fields["offset"], None if epoch < 0 else epoch, fields["metadata"], time_ms, offset
            )
        self._keep(names["group"], partition, commit, producer_id)

    def _keep(
        self, group: str, partition: tuple[str, int], commit: CommittedOffset | None, producer_id: int | None
    ) -> None:
        """Keep a commit, in a transaction when that ends; None removes what is kept."""
        if commit is None:
            self._of(group).offsets.pop(partition, None)
            for pending in self._pending.values():
                pending.pop((group, partition), None)
            return
        self._of(group).has_committed = True
        if producer_id is not None:
            self._pending.setdefault(producer_id, {})[group, partition] = commit
        else:
            self._of(group).offsets[partition] = commit

    def _group_record(self, kind: int, names: dict[str, Any], value: ReadMessage | None) -> None:
        group = self._of(names["group"] if kind == _CLASSIC_GROUP else names["groupId"])
        fields: dict[str, Any] | None = None if value is None else value.fields
        if value is None and kind in (_CLASSIC_GROUP, *_EPOCHS):
            group.has_committed = bool(group.offsets)
        if kind == _CLASSIC_GROUP:
            group.classic = value
        elif kind in _EPOCHS:
            group.kind = None if fields is None else _EPOCHS[kind]
            group.epoch = 0 if fields is None else fields["epoch"]
        elif kind in _TARGET_EPOCHS:
            group.target_epoch = 0 if fields is None else fields["assignmentEpoch"]
        elif kind in _MEMBERS:
            _set(group.members, names["memberId"], fields)
        elif kind in _CURRENT:
            _set(group.current, names["memberId"], fields)


def _set(values: dict[Any, Any], key: object, value: object | None) -> None:
    """Set a value; None removes it."""
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _state(name: str, group: _Group, topic_names: Mapping[str, str]) -> GroupState:
    if group.kind == "Streams":
        return GroupState(name, "Streams", None, None, None, None, (), dict(group.offsets))
    if group.kind is not None:
        members = tuple(_member(group, member, topic_names) for member in sorted(group.members))
        state, assignor = _state_of(group), _assignor(group)
        return GroupState(name, group.kind, state, group.epoch, None, assignor, members, dict(group.offsets))
    if group.classic is None:
        return GroupState(name, "Classic", "Empty", None, None, None, (), dict(group.offsets))
    fields: dict[str, Any] = group.classic.fields
    is_consumer = fields["protocolType"] == CONSUMER_PROTOCOL
    members = tuple(_classic_member(member, is_consumer) for member in fields["members"])
    return GroupState(
        name,
        "Classic",
        "Stable" if members else "Empty",
        fields["generation"],
        fields["protocolType"],
        fields["protocol"],
        tuple(sorted(members, key=lambda member: member.member_id)),
        dict(group.offsets),
    )


def _state_of(group: _Group) -> str:
    if not group.members:
        return "Empty"
    if group.kind == "Share":
        return "Stable"
    if group.epoch > group.target_epoch:
        return "Assigning"
    for member in group.members:
        current = group.current.get(member)
        reached = current is not None and current["state"] == _STABLE_MEMBER
        if current is None or not reached or current["memberEpoch"] != group.target_epoch:
            return "Reconciling"
    return "Stable"


def _assignor(group: _Group) -> str | None:
    named = Counter(member["serverAssignor"] for member in group.members.values() if member.get("serverAssignor"))
    return named.most_common(1)[0][0] if named else None


def _member(group: _Group, member_id: str, topic_names: Mapping[str, str]) -> GroupMember:
    """A member with the partitions that it has. Until it gives one up, no other member gets that."""
    fields, current = group.members[member_id], group.current.get(member_id, {})
    held: dict[str, list[int]] = {}
    for entry in (*current.get("assignedPartitions", ()), *current.get("partitionsPendingRevocation", ())):
        topic_id: UUID = entry["topicId"]
        text = uuid_text(topic_id)
        held.setdefault(topic_names.get(text, text), []).extend(entry["partitions"])
    assigned = {topic: tuple(sorted(partitions)) for topic, partitions in held.items()}
    return GroupMember(member_id, fields.get("instanceId"), fields["clientId"], fields["clientHost"], assigned)


def _classic_member(fields: dict[str, Any], is_consumer: bool) -> GroupMember:
    message = read_protocol(ASSIGNMENT, fields["assignment"]) if is_consumer else None
    entries: Any = () if message is None else message.fields["assignedPartitions"]
    assigned = {entry["topic"]: tuple(sorted(entry["partitions"])) for entry in entries}
    instance_id = fields.get("groupInstanceId")
    return GroupMember(fields["memberId"], instance_id, fields["clientId"], fields["clientHost"], assigned)
