"""Records of internal topics that are damaged, unknown or secret."""

from __future__ import annotations

import base64
import json
import struct

import pytest

from logcore.topics.decoded_records import decode_record
from logcore.topics.internal_topics import InternalTopic, internal_topic
from logcore.topics.secrets import is_secret_setting

OFFSETS = InternalTopic.CONSUMER_OFFSETS
METADATA = InternalTopic.CLUSTER_METADATA
SECRET = b"s3cr3t-salt-and-key"


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def compact(value: bytes) -> bytes:
    return bytes([len(value) + 1]) + value


def group_value(subscription: bytes, protocol: str = "consumer") -> bytes:
    member = text("m1") + text("client") + text("host") + struct.pack(">i", 100)
    member += struct.pack(">i", len(subscription)) + subscription + struct.pack(">i", 0)
    return (
        struct.pack(">h", 0)
        + text(protocol)
        + struct.pack(">i", 1)
        + text("range")
        + text("m1")
        + (struct.pack(">i", 1) + member)
    )


GROUP_KEY = struct.pack(">h", 2) + text("g")
SUBSCRIPTION = struct.pack(">h", 0) + struct.pack(">i", 1) + text("orders") + struct.pack(">i", -1)


def subscription_of(value: bytes) -> object:
    decoded = decode_record(OFFSETS, GROUP_KEY, value)
    assert decoded.value is not None
    return decoded.value["data"]["members"][0]["subscription"]


def test_a_subscription_of_consumers_is_decoded_too() -> None:
    assert subscription_of(group_value(SUBSCRIPTION)) == {"topics": ["orders"], "userData": None}


def test_a_subscription_of_a_later_version_is_read_as_the_latest_known_one() -> None:
    later = struct.pack(">h", 9) + SUBSCRIPTION[2:] + struct.pack(">iih", 0, 7, -1) + b"more"
    shown = subscription_of(group_value(later))
    assert isinstance(shown, dict)
    assert (shown["topics"], shown["generationId"], shown["rackId"]) == (["orders"], 7, None)


@pytest.mark.parametrize("content", [b"", b"\0", SUBSCRIPTION[:9]])
def test_a_damaged_subscription_stays_bytes(content: bytes) -> None:
    assert subscription_of(group_value(content)) == base64.b64encode(content).decode()


def test_a_subscription_of_another_protocol_stays_bytes() -> None:
    assert subscription_of(group_value(SUBSCRIPTION, "connect")) == base64.b64encode(SUBSCRIPTION).decode()


def test_a_value_that_is_cut_is_shown_as_bytes_with_the_reason() -> None:
    value = group_value(SUBSCRIPTION)[:-7]
    decoded = decode_record(OFFSETS, GROUP_KEY, value)
    assert decoded.key == {"type": "2", "data": {"group": "g"}}
    assert decoded.value is not None
    assert decoded.value["unread"]["reason"] == "TRUNCATED"
    assert base64.b64decode(decoded.value["unread"]["raw"]) == value
    assert len(decoded.problems) == 1


def test_a_key_of_an_unknown_type_keeps_its_bytes() -> None:
    key = struct.pack(">h", 9) + text("g")
    decoded = decode_record(OFFSETS, key, b"value")
    assert decoded.key is not None
    assert decoded.key["type"] == "9"
    assert decoded.key["unread"]["reason"] == "UNKNOWN_TYPE"
    assert base64.b64decode(decoded.key["unread"]["raw"]) == key
    assert len(decoded.problems) == 2


def test_a_record_without_key_or_value_is_a_value_too() -> None:
    decoded = decode_record(OFFSETS, None, None)
    assert decoded.value is None
    assert [problem.reason for problem in decoded.problems] == ["FRAME"]
    tombstone = decode_record(OFFSETS, GROUP_KEY, None)
    assert (tombstone.key, tombstone.value, tombstone.problems) == ({"type": "2", "data": {"group": "g"}}, None, ())


SCRAM = b"\1\x0b\0" + compact(b"alice") + b"\1" + compact(SECRET) * 3 + struct.pack(">i", 4096) + b"\0"
TOKEN_ID = b"s3cr3t-token"
TOKEN = b"\1\x0a\0" + compact(b"o") + compact(b"r") + b"\1" + struct.pack(">qqq", 1, 2, 3) + compact(TOKEN_ID) + b"\0"
PASSWORD = b"\1\4\0\4" + compact(b"1") + compact(b"ssl.keystore.password") + compact(SECRET) + b"\0"


@pytest.mark.parametrize("value", [SCRAM, TOKEN, PASSWORD])
@pytest.mark.parametrize("damage", ["none", "cut", "unknown version", "unknown type", "broken frame", "more bytes"])
def test_no_secret_of_a_record_is_shown_whatever_its_bytes(value: bytes, damage: str) -> None:
    given = {
        "none": value,
        "cut": value[:-2],
        "unknown version": value[:2] + b"\x63" + value[3:],
        "unknown type": value[:1] + b"\x63" + value[2:],
        "broken frame": b"\2" + value[1:],
        "more bytes": value + b"x",
    }[damage]
    decoded = decode_record(METADATA, None, given)
    shown = json.dumps(decoded.value) + repr(decoded.problems) + repr(decoded)
    for secret in (SECRET, TOKEN_ID):
        for start in range(3):
            assert base64.b64encode(secret[start : start + 9]).decode() not in shown
        assert secret.decode() not in shown
    assert bool(decoded.problems) == (damage != "none")
    if damage == "none":
        assert "(redacted)" in shown


def test_a_setting_that_is_no_secret_is_shown() -> None:
    value = b"\1\4\0\2" + compact(b"orders") + compact(b"retention.ms") + compact(b"1000") + b"\0"
    decoded = decode_record(METADATA, None, value)
    data = {"resourceType": 2, "resourceName": "orders", "name": "retention.ms", "value": "1000"}
    assert decoded.value == {"type": "CONFIG_RECORD", "version": 0, "data": data}


def test_bytes_of_a_known_record_without_secrets_are_shown() -> None:
    value = b"\1\2\0" + compact(b"orders") + bytes(range(16)) + b"\0more"
    decoded = decode_record(METADATA, None, value)
    assert decoded.value is not None
    assert (decoded.value["type"], decoded.value["unread"]["reason"]) == ("2", "TRAILING_BYTES")
    assert base64.b64decode(decoded.value["unread"]["raw"]) == value


@pytest.mark.parametrize(
    "name",
    [
        "ssl.key.password", "sasl.jaas.config", "ssl.keystore.key", "delegation.token.secret.key", "rsa.private.key",
        "azure.account.key", "storage.connection.string", "pem.passphrase", "AWS.Secret.Access.Key", "api.key",
        "s3.access.key.id",
    ],
)  # fmt: skip
def test_settings_whose_names_say_secret_are_secret(name: str) -> None:
    assert is_secret_setting(name)


@pytest.mark.parametrize("name", ["retention.ms", "message.key.codec", "cleanup.policy", "ssl.keystore.type"])
def test_ordinary_settings_are_no_secret(name: str) -> None:
    assert not is_secret_setting(name)


def test_only_the_names_of_internal_topics_are_internal() -> None:
    assert internal_topic("__consumer_offsets") is OFFSETS
    assert internal_topic("orders") is None
    assert internal_topic("__internal") is None
