"""Which fields of internal records are secrets. Their values never leave this folder.

SCRAM credentials, the keys of delegation tokens, and settings whose names Kafka marks as passwords. The bytes of a
message that could not be read are withheld too if it may hold one of these, or if its type is unknown.

Source: org.apache.kafka.image.node.printer MetadataNodeRedactionCriteria,
org.apache.kafka.metadata.util RecordRedactor.
"""

from __future__ import annotations

from typing import Any

from logcore.messages.known_messages import MessageFamily, message_of_type
from logcore.messages.message_schema import MessagePurpose

REDACTED = "(redacted)"
_FIELDS = {
    "UserScramCredentialRecord": ("salt", "storedKey", "serverKey", "iterations"),
    "DelegationTokenRecord": ("tokenId", "hmac"),
    "RemoveDelegationTokenRecord": ("tokenId",),
}
_TYPES_WITH_SECRETS = (4, 10, 11, 26)
"""Type numbers of metadata records that may hold one: Config, DelegationToken, UserScramCredential,
RemoveDelegationToken."""
_SETTINGS = (
    "password", "passphrase", "secret", "jaas.config", "keystore.key", "credential", "token", "private.key",
    "access.key", "account.key", "api.key", "connection.string",
)  # fmt: skip


def redacted_fields(message_name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a message as JSON, without secrets.

    Args:
        message_name: Name of Kafka's class.
        fields: As `logcore.messages.kafka_json` gives them.
    """
    hidden = _FIELDS.get(message_name, ())
    shown = {name: REDACTED if name in hidden else value for name, value in fields.items()}
    if message_name == "ConfigRecord" and shown["value"] is not None and is_secret_setting(shown["name"]):
        shown["value"] = REDACTED
    return shown


def is_secret_setting(name: str) -> bool:
    """Whether the value of a setting of a broker or a topic is a secret, by its name."""
    return any(part in name.lower() for part in _SETTINGS)


def may_show_bytes(is_metadata: bool, type_number: int | None) -> bool:
    """Whether the bytes of a message that could not be read hold no secret.

    Args:
        is_metadata: Whether it is a record of the cluster's metadata.
        type_number: Its type; None if even that could not be read.
    """
    if not is_metadata:
        return True
    if type_number is None or type_number in _TYPES_WITH_SECRETS:
        return False
    return message_of_type(MessageFamily.CLUSTER_METADATA, MessagePurpose.METADATA, type_number) is not None
