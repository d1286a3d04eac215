"""Packs commits of offsets, and reads them with the generic reader."""

from __future__ import annotations

import struct
from typing import NamedTuple

from logcore.messages.reader import ReadMessage
from logcore.topics.internal_topics import InternalTopic, record_messages

TEXTS = ("", "a", "group-1", "größe", "\N{GRINNING FACE}" * 40, "x" * 200)


class OffsetCommit(NamedTuple):
    """A commit as its record has it; the leader epoch is -1 if there is none."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_time_ms: int


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def key(group: str, topic: str, partition: int, kind: int = 1) -> bytes:
    return struct.pack(">h", kind) + text(group) + text(topic) + struct.pack(">i", partition)


def value(version: int, offset: int, epoch: int, metadata: str, time_ms: int, tags: bytes = b"\x00") -> bytes:
    start = struct.pack(">hqi", version, offset, epoch)
    if version == 3:
        return start + text(metadata) + struct.pack(">q", time_ms)
    length = len(metadata.encode()) + 1
    varint = bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7])
    return start + varint + metadata.encode() + struct.pack(">q", time_ms) + tags


def generic(of_key: bytes, of_value: bytes) -> OffsetCommit | None:
    """The same from the generic reader; None where it reads no commit."""
    found = record_messages(InternalTopic.CONSUMER_OFFSETS, of_key, of_value)
    if found.unread or found.key is None or found.value is None or found.key.type_number not in (0, 1):
        return None
    assert isinstance(found.key.message, ReadMessage)
    assert isinstance(found.value.message, ReadMessage)
    names, fields = found.key.message.fields, found.value.message.fields
    return OffsetCommit(
        names["group"], names["topic"], names["partition"],
        fields["offset"], fields.get("leaderEpoch", -1), fields["metadata"], fields["commitTimestamp"],
    )  # fmt: skip
