"""Commits read straight from their bytes equal what the generic reader reads, also from damaged bytes."""

from __future__ import annotations

import random
import struct
import tracemalloc

import pytest

from logcore.messages.reader import ReadMessage
from logcore.topics.group_states import OffsetCommit, read_commit
from logcore.topics.internal_topics import InternalTopic, record_messages

TEXTS = ("", "a", "group-1", "größe", "\N{GRINNING FACE}" * 40, "x" * 200)


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


@pytest.mark.parametrize("version", [3, 4])
def test_a_commit_has_the_values_that_were_packed(version: int) -> None:
    for metadata in ("", "größe"):
        packed = value(version, 1 << 40, 7, metadata, 1_700_000_000_000)
        found = read_commit(key("g", "orders", 3), packed)
        assert found == OffsetCommit("g", "orders", 3, 1 << 40, 7, metadata, 1_700_000_000_000)


def test_a_topic_id_after_the_commit_is_skipped() -> None:
    packed = value(4, 5, -1, "", 9, b"\x01\x00\x10" + bytes(range(16)))
    assert read_commit(key("g", "t", 0), packed) == OffsetCommit("g", "t", 0, 5, -1, "", 9)


@pytest.mark.parametrize(
    ("of_key", "of_value"),
    [
        (key("g", "t", 0, 2), value(3, 1, 1, "", 1)),
        (key("g", "t", 0, 0), value(3, 1, 1, "", 1)),
        (key("g", "t", 0) + b"x", value(3, 1, 1, "", 1)),
        (key("g", "t", 0)[:-1], value(3, 1, 1, "", 1)),
        (b"", value(3, 1, 1, "", 1)),
        (key("g", "t", 0), b""),
        (key("g", "t", 0), value(3, 1, 1, "", 1) + b"x"),
        (key("g", "t", 0), struct.pack(">hq", 2, 1) + text("") + struct.pack(">q", 1)),
        (key("g", "t", 0), value(4, 1, 1, "x" * 200, 1)),
        (key("g", "t", 0), value(4, 1, 1, "", 1, b"\x01\x05\x00")),
        (key("g", "t", 0), struct.pack(">hqi", 3, 1, 1) + b"\x00\x01\xff" + struct.pack(">q", 1)),
    ],
)
def test_every_other_form_is_left_to_the_generic_reader(of_key: bytes, of_value: bytes) -> None:
    assert read_commit(of_key, of_value) is None


@pytest.mark.parametrize("kind", [1, 2])
def test_long_keys_and_other_keys_are_not_remembered(kind: int) -> None:
    def read_many(length: int) -> int:
        for number in range(300):
            read_commit(key(f"{number:0{length}}", "t", 0, kind), value(3, 1, 1, "", 1))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = read_many(8)
        assert read_many(30_000) - before < 1 << 20
    finally:
        tracemalloc.stop()
    assert read_commit(key("g" * 30_000, "t", 0), value(3, 1, 1, "", 1)) is not None


def test_what_is_read_equals_the_generic_reader_on_whole_and_damaged_bytes() -> None:
    chance = random.Random(20)
    read = damaged_but_read = 0
    for _ in range(20_000):
        parts = [
            key(chance.choice(TEXTS), chance.choice(TEXTS), chance.randrange(100), chance.choice([0, 1, 1, 1, 2])),
            value(
                chance.choice([3, 4]), chance.randrange(1 << 40), chance.randrange(-1, 9), chance.choice(TEXTS),
                chance.randrange(1 << 41), chance.choice([b"\x00", b"\x01\x00\x10" + bytes(16)]),
            ),
        ]  # fmt: skip
        is_damaged = chance.random() < 0.5
        if is_damaged:
            at = chance.randrange(2)
            body = bytearray(parts[at])
            place = chance.randrange(len(body))
            if chance.random() < 0.5:
                body[place] = chance.randrange(256)
            else:
                del body[place:]
            parts[at] = bytes(body)
        found = read_commit(*parts)
        if found is None:
            assert is_damaged or generic(*parts) is None or len(parts[1]) > 120
        else:
            assert found == generic(*parts)
            read += 1
            damaged_but_read += is_damaged
    assert read > 5_000
    assert damaged_but_read > 1_000
