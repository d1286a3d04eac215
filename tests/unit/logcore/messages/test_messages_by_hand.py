"""Messages that were packed by hand, field by field, as Kafka's documentation describes them."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest

from logcore.messages.framing import read_key, read_metadata, read_value
from logcore.messages.kafka_json import message_json, uuid_text
from logcore.messages.known_messages import MessageFamily, message_named, message_of_type, messages_of
from logcore.messages.message_schema import MessagePurpose
from logcore.messages.reader import MOST_ELEMENTS, UNKNOWN_TAGS, ReadMessage, UnreadMessage, UnreadReason, read_message
from tests.message_writer import write_framed, write_message

OFFSETS = MessageFamily.CONSUMER_OFFSETS
METADATA = MessageFamily.CLUSTER_METADATA


def text(value: str) -> bytes:
    content = value.encode()
    return struct.pack(">h", len(content)) + content


def compact(value: str) -> bytes:
    content = value.encode()
    return bytes([len(content) + 1]) + content


def read(message: ReadMessage | UnreadMessage) -> ReadMessage:
    assert isinstance(message, ReadMessage), message
    return message


def unread(message: ReadMessage | UnreadMessage) -> UnreadMessage:
    assert isinstance(message, UnreadMessage), message
    return message


COMMITS = {
    0: struct.pack(">q", 42) + text("meta") + struct.pack(">q", 1000),
    1: struct.pack(">q", 42) + text("meta") + struct.pack(">qq", 1000, 2000),
    2: struct.pack(">q", 42) + text("meta") + struct.pack(">q", 1000),
    3: struct.pack(">qi", 42, 7) + text("meta") + struct.pack(">q", 1000),
    4: struct.pack(">qi", 42, 7) + compact("meta") + struct.pack(">q", 1000) + b"\1\0\x10" + bytes(range(16)),
}


@pytest.mark.parametrize("version", COMMITS)
def test_a_committed_offset_of_every_version_is_read_and_written(version: int) -> None:
    value = struct.pack(">h", version) + COMMITS[version]
    message = read(read_value(OFFSETS, 1, value).message)
    expected = {"offset": 42, "metadata": "meta", "commitTimestamp": 1000}
    expected |= {"leaderEpoch": 7} if version >= 3 else {}
    expected |= {"expireTimestamp": 2000} if version == 1 else {}
    expected |= {"topicId": UUID(bytes=bytes(range(16)))} if version == 4 else {}
    assert message.fields == expected
    assert (message.version, message.left, message.is_exact) == (version, b"", True)
    assert write_framed(message) == value


def test_the_key_of_a_commit_names_group_topic_and_partition() -> None:
    key = struct.pack(">h", 1) + text("group") + text("topic") + struct.pack(">i", 3)
    framed = read_key(OFFSETS, key)
    assert framed.type_number == 1
    assert message_json(read(framed.message)) == {"group": "group", "topic": "topic", "partition": 3}
    assert write_framed(read(framed.message)) == key


def test_fields_with_tagged_versions_alone_are_absent_from_version_0() -> None:
    body = struct.pack(">qhib", 5, 1, 60_000, 0) + struct.pack(">i", -1) + struct.pack(">qq", 7, -1)
    message = read(read_value(MessageFamily.TRANSACTION_STATE, 0, struct.pack(">h", 0) + body).message)
    assert message.left == b""
    assert "previousProducerId" not in message_json(message)
    assert message.fields["transactionPartitions"] is None


def test_an_absent_tagged_field_has_its_default() -> None:
    body = struct.pack(">qhib", 5, 1, 60_000, 0) + b"\0" + struct.pack(">qq", 7, -1) + b"\0"
    message = read(read_value(MessageFamily.TRANSACTION_STATE, 0, struct.pack(">h", 1) + body).message)
    assert message.value("previousProducerId") == -1
    assert message.value("producerId") == 5
    with pytest.raises(KeyError):
        message.value("unheard")


def test_unknown_tagged_fields_are_kept() -> None:
    value = struct.pack(">h", 4) + COMMITS[4][: -len(b"\1\0\x10") - 16] + b"\2\5\3abc\x80\1\0"
    message = read(read_value(OFFSETS, 1, value).message)
    assert message.fields[UNKNOWN_TAGS] == {"5": b"abc", "128": b""}
    assert "topicId" not in message.fields
    assert write_framed(message) == value
    assert UNKNOWN_TAGS not in message_json(message)


def test_a_struct_that_may_be_null_has_a_marker() -> None:
    schema = message_named(OFFSETS, "ConsumerGroupMemberMetadataValue")
    before = b"\0\0" + compact("client") + compact("host") + b"\1\0" + struct.pack(">i", 5) + b"\0"
    assert read(read_message(schema, 0, before + b"\1\0\1\0")).fields["classicMemberMetadata"] is None
    present = before + b"\1\0" + bytes([1 + 4 + 1 + 1]) + b"\1" + struct.pack(">i", 9) + b"\1" + b"\0"
    message = read(read_message(schema, 0, present))
    assert message.fields["classicMemberMetadata"] == {"sessionTimeoutMs": 9, "supportedProtocols": []}
    assert write_message(schema, 0, message.fields) == present


def test_a_metadata_record_has_a_frame() -> None:
    value = b"\1\2\0" + compact("orders") + bytes(range(16)) + b"\0"
    message = read(read_metadata(METADATA, value).message)
    assert message.schema.name == "TopicRecord"
    assert message_json(message) == {"name": "orders", "topicId": "AAECAwQFBgcICQoLDA0ODw"}
    assert write_framed(message) == value


def test_the_uuid_of_the_metadata_topic_has_the_text_that_kafka_prints() -> None:
    assert uuid_text(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (b"", UnreadReason.FRAME),
        (b"\0", UnreadReason.FRAME),
        (struct.pack(">h", 9) + b"secret", UnreadReason.UNKNOWN_TYPE),
        (struct.pack(">h", -1), UnreadReason.UNKNOWN_TYPE),
        (struct.pack(">h", 1), UnreadReason.TRUNCATED),
        (struct.pack(">hh", 1, -1), UnreadReason.LENGTH),
        (struct.pack(">hh", 1, 100) + b"abc", UnreadReason.TRUNCATED),
    ],
)
def test_a_key_that_cannot_be_read_keeps_its_bytes(key: bytes, reason: UnreadReason) -> None:
    message = unread(read_key(OFFSETS, key).message)
    assert (message.reason, message.raw) == (reason, key)
    assert "secret" not in repr(message)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\0", UnreadReason.FRAME),
        (struct.pack(">h", 99) + COMMITS[3], UnreadReason.UNKNOWN_VERSION),
        (struct.pack(">h", -1) + COMMITS[3], UnreadReason.UNKNOWN_VERSION),
        (struct.pack(">h", 3) + COMMITS[3][:-1], UnreadReason.TRUNCATED),
        (struct.pack(">h", 4) + COMMITS[4][:-1], UnreadReason.LENGTH),
        (struct.pack(">h", 4) + COMMITS[3][:12] + b"\xff\xff\xff\xff\xff", UnreadReason.VARINT),
        (struct.pack(">h", 4) + COMMITS[4][: -len(b"\1\0\x10") - 16] + b"\1\0\2ab", UnreadReason.TAG),
    ],
)
def test_a_value_that_cannot_be_read_keeps_its_bytes(value: bytes, reason: UnreadReason) -> None:
    message = unread(read_value(OFFSETS, 1, value).message)
    assert (message.reason, message.raw) == (reason, value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\1\2", UnreadReason.FRAME),
        (b"\0\2\0", UnreadReason.FRAME),
        (b"\1\x06\0", UnreadReason.UNKNOWN_TYPE),
        (b"\1\2\5", UnreadReason.UNKNOWN_VERSION),
        (b"\1\2\0\7or", UnreadReason.TRUNCATED),
    ],
)
def test_a_metadata_record_that_cannot_be_read_keeps_its_bytes(value: bytes, reason: UnreadReason) -> None:
    message = unread(read_metadata(METADATA, value).message)
    assert (message.reason, message.raw) == (reason, value)


def test_an_array_whose_elements_cannot_fit_is_refused_before_it_is_read() -> None:
    value = struct.pack(">h", 0) + text("consumer") + struct.pack(">i", 1) + text("p") + text("l")
    value += struct.pack(">i", 0x7FFF_FFFF) + bytes(100)
    message = unread(read_value(OFFSETS, 2, value).message)
    assert message.reason is UnreadReason.LENGTH


def test_no_message_has_more_elements_than_the_limit() -> None:
    schema = message_named(MessageFamily.SHARED_PARTS, "ConsumerProtocolAssignment")
    count = MOST_ELEMENTS
    many = struct.pack(">h", 0)[:0] + struct.pack(">i", 1) + text("t") + struct.pack(">i", count) + bytes(4 * count)
    message = unread(read_message(schema, 0, many + struct.pack(">i", -1)))
    assert message.reason is UnreadReason.LIMIT


def test_encodings_that_kafka_does_not_write_are_read_and_marked() -> None:
    longer = b"\1\2\0" + b"\x87\0" + b"orders" + bytes(range(16)) + b"\0"
    message = read(read_metadata(METADATA, longer).message)
    assert message.fields["name"] == "orders"
    assert not message.is_exact


def test_a_text_that_is_not_utf_8_is_what_java_reads() -> None:
    key = struct.pack(">h", 2) + struct.pack(">h", 3) + b"a\xff\xc3"
    message = read(read_key(OFFSETS, key).message)
    assert not message.is_exact
    assert message.fields == message_json(message) == {"group": "a\ufffd\ufffd"}


def test_bytes_after_the_message_are_returned() -> None:
    message = read(read_value(OFFSETS, 1, struct.pack(">h", 3) + COMMITS[3] + b"more").message)
    assert message.left == b"more"
    assert write_framed(message)[-4:] == b"more"


@pytest.mark.parametrize(
    "fields",
    [
        {"offset": 1 << 63},
        {"offset": "1"},
        {"metadata": None},
        {"metadata": "x" * 40_000},
        {"metadata": b"bytes"},
        {"unheard": 1},
        {UNKNOWN_TAGS: {"5": b""}},
    ],
)
def test_values_that_do_not_fit_are_the_callers_mistake(fields: dict) -> None:
    with pytest.raises(ValueError, match="OffsetCommitValue version 3"):
        write_message(message_named(OFFSETS, "OffsetCommitValue"), 3, fields)


def test_absent_fields_are_written_with_their_defaults() -> None:
    schema = message_of_type(OFFSETS, MessagePurpose.VALUE, 1)
    assert schema is not None
    assert write_message(schema, 3, {}) == struct.pack(">qihq", 0, -1, 0, 0)
    with pytest.raises(ValueError, match="has no version 9"):
        write_message(schema, 9, {})


def test_every_key_of_a_coordinator_has_a_value() -> None:
    for family in (OFFSETS, MessageFamily.TRANSACTION_STATE, MessageFamily.SHARE_GROUP_STATE):
        numbers = {
            kind: {schema.type_number for schema in messages_of(family) if schema.kind is kind}
            for kind in (MessagePurpose.KEY, MessagePurpose.VALUE)
        }
        assert numbers[MessagePurpose.KEY] == numbers[MessagePurpose.VALUE] != set()
