"""Readers made from the schemas read the same as the generic reader, or leave the message to it."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest

from logcore.messages.framing import metadata_json, read_key, read_metadata, read_value
from logcore.messages.kafka_json import message_json
from logcore.messages.known_messages import MessageFamily, message_named, messages_of
from logcore.messages.message_schema import MessagePurpose, MessageSchema
from logcore.messages.reader import UNKNOWN_TAGS, ReadMessage, UnreadMessage, UnreadReason, read_message
from logcore.messages.straight_readers import LONGEST_BYTES, json_reader, read_straight
from tests.message_bytes import PackedMessage, packed_uvarint
from tests.unit.logcore.messages.test_every_schema import VERSIONS, mutated

SEED = 20260902
MUTANTS = int(os.environ.get("LOGLAKE_TEST_MESSAGES", "10000"))
BEFORE = b"\x01\x7f"
"""Bytes before a message, as a frame has them."""
WITH_TAGGED_STRUCTS = {"ConsumerGroupMemberMetadataValue"}


def read_straight_json(schema: MessageSchema, version: int, data: bytes, at: int = 0) -> dict[str, Any] | None:
    reader = json_reader(schema, version)
    assert reader is not None
    return reader(data, at)


def names_in(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(names_in, value.values()))
    return set().union(*map(names_in, value)) if isinstance(value, list) else set()


@pytest.mark.parametrize(
    ("schema", "version"), VERSIONS, ids=[f"{schema.name}-{version}" for schema, version in VERSIONS]
)
def test_every_message_of_every_version_is_read(schema: MessageSchema, version: int) -> None:
    chance = random.Random(f"{SEED} {schema.name} {version}")
    for _ in range(20):
        packed = PackedMessage(schema, version, chance)
        message = read_straight(schema, version, BEFORE + packed.content, len(BEFORE))
        assert isinstance(message, ReadMessage)
        assert message_json(message) == packed.shown
        shown = read_straight_json(schema, version, BEFORE + packed.content, len(BEFORE))
        if schema.name not in WITH_TAGGED_STRUCTS or shown is not None:
            assert json.dumps(shown) == json.dumps(message_json(message))


@pytest.mark.long
def test_damaged_messages_are_read_as_the_generic_reader_reads_them_or_left_to_it() -> None:
    chance = random.Random(SEED)
    read = shown = 0
    for number in range(MUTANTS):
        schema, version = VERSIONS[number % len(VERSIONS)]
        data = mutated(PackedMessage(schema, version, chance, unknown_tags=number % 3 == 0).content, chance)
        generic = read_message(schema, version, data)
        straight = read_straight(schema, version, BEFORE + data, len(BEFORE))
        if straight is not None:
            assert repr(straight) == repr(generic), "as text: NaN is equal to nothing"
            read += 1
        as_json = read_straight_json(schema, version, BEFORE + data, len(BEFORE))
        if as_json is not None:
            assert isinstance(generic, ReadMessage)
            assert generic.left == b""
            assert generic.is_exact
            assert json.dumps(as_json) == json.dumps(message_json(generic))
            shown += 1
    assert MUTANTS / 20 < shown <= read < MUTANTS * 9 / 10


def test_one_message_of_each_schema_is_read_after_a_change_of_each_byte() -> None:
    chance = random.Random(SEED + 1)
    for schema, version in VERSIONS[::4]:
        whole = PackedMessage(schema, version, chance).content[:200]
        for place in range(len(whole)):
            data = bytearray(whole)
            data[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
            straight = read_straight(schema, version, bytes(data))
            assert straight in (None, read_message(schema, version, bytes(data)))


@pytest.mark.parametrize(
    "content",
    [
        packed_uvarint(2) + b"a" + bytes(16) + b"\1\x0a\0",  # an unknown tagged field
        packed_uvarint(2) + b"\xff" + bytes(16) + b"\0",  # text that is not UTF-8
        b"\x82\0" + b"a" + bytes(16) + b"\0",  # a length with more bytes than needed
        b"\0" + bytes(16) + b"\0",  # null, where it is not allowed
        packed_uvarint(2) + b"a" + bytes(15),  # too short
        packed_uvarint(LONGEST_BYTES) + b"a" * (LONGEST_BYTES - 1) + bytes(16) + b"\0",  # long
    ],
)
def test_a_doubt_is_left_to_the_generic_reader(content: bytes) -> None:
    schema = message_named(MessageFamily.CLUSTER_METADATA, "TopicRecord")
    assert read_straight(schema, 0, content) is None
    assert read_straight_json(schema, 0, content) is None
    framed = b"\1\2\0" + content
    message = read_metadata(MessageFamily.CLUSTER_METADATA, framed).message
    generic = read_message(schema, 0, content)
    if isinstance(generic, UnreadMessage):
        assert message == UnreadMessage(generic.reason, generic.detail, framed)
        assert metadata_json(MessageFamily.CLUSTER_METADATA, framed) == message
    else:
        assert message == generic
        assert metadata_json(MessageFamily.CLUSTER_METADATA, framed) == ("TopicRecord", message_json(generic))


def test_a_version_that_does_not_exist_is_left_to_the_generic_reader() -> None:
    schema = message_named(MessageFamily.CLUSTER_METADATA, "TopicRecord")
    for version in (-1, 1, 99):
        assert read_straight(schema, version, b"") is None
        assert json_reader(schema, version) is None


def test_bytes_after_a_record_of_metadata_are_refused_and_after_others_are_left() -> None:
    topic = packed_uvarint(2) + b"a" + bytes(16) + b"\0"
    refused = metadata_json(MessageFamily.CLUSTER_METADATA, b"\1\2\0" + topic + b"x")
    assert isinstance(refused, UnreadMessage)
    assert refused.reason is UnreadReason.TRAILING_BYTES
    key = read_key(MessageFamily.CONSUMER_OFFSETS, b"\0\2\0\1gx").message
    assert isinstance(key, ReadMessage)
    assert (key.fields, key.left) == ({"group": "g"}, b"x")


@pytest.mark.parametrize("family", [MessageFamily.CONSUMER_OFFSETS, MessageFamily.CLUSTER_METADATA])
def test_framed_messages_are_read_as_by_the_generic_reader(family: MessageFamily) -> None:
    chance = random.Random(SEED + 2)
    for schema in messages_of(family):
        for version in range(schema.versions.lowest, schema.versions.highest + 1):
            number = schema.type_number
            content = PackedMessage(schema, version, chance).content
            if schema.kind is MessagePurpose.METADATA and number is not None:
                frame = b"\1" + packed_uvarint(number) + packed_uvarint(version)
                message = read_metadata(family, frame + content).message
                shown = metadata_json(family, frame + content)
                assert isinstance(message, ReadMessage)
                assert shown == (schema.name, message_json(message))
            elif schema.kind is MessagePurpose.VALUE and number is not None:
                message = read_value(family, number, version.to_bytes(2, "big") + content).message
            else:
                continue
            assert message == read_message(schema, version, content)
            assert isinstance(message, ReadMessage)
            assert UNKNOWN_TAGS not in names_in(message.fields)


CHANGE = b"\0\0\0\7" + bytes(range(16))
"""Partition and topic id of a PartitionChangeRecord."""
LEADER, ISR = b"\1\4" + bytes([0, 0, 0, 2]), b"\0\5\2\0\0\0\2"


def test_tagged_fields_in_an_other_order_are_left_to_the_generic_reader() -> None:
    schema = message_named(MessageFamily.CLUSTER_METADATA, "PartitionChangeRecord")
    message = read_straight(schema, 1, CHANGE + b"\2" + ISR + LEADER)
    assert message is not None
    assert (message.fields["leader"], message.fields["isr"]) == (2, [2])
    for tags in (LEADER + ISR, LEADER + LEADER):
        assert read_straight(schema, 1, CHANGE + b"\2" + tags) is None
        generic = read_message(schema, 1, CHANGE + b"\2" + tags)
        assert isinstance(generic, ReadMessage)
        assert not generic.is_exact


def test_a_tagged_field_that_equals_its_default_is_not_in_the_json() -> None:
    schema = message_named(MessageFamily.CLUSTER_METADATA, "PartitionChangeRecord")
    data = CHANGE + b"\1\1\4" + (-2).to_bytes(4, "big", signed=True)
    assert read_straight_json(schema, 1, data) == {"partitionId": 7, "topicId": "AAECAwQFBgcICQoLDA0ODw"}
    message = read_straight(schema, 1, data)
    assert message is not None
    assert message.fields["leader"] == -2
