"""The schemas that are known, by family, type number and name. Texts are parsed on first use."""

from __future__ import annotations

from enum import StrEnum
from functools import cache

from logcore.messages.schema import MessagePurpose, MessageSchema
from logcore.messages.schema_text import parse_schemas
from logcore.messages.schemas import (
    cluster_metadata,
    consumer_offsets,
    quorum_files,
    share_group_state,
    shared_parts,
    storage_files,
    transaction_state,
)


class MessageFamily(StrEnum):
    """A set of messages whose type numbers differ. The values are the names of the modules with their schemas."""

    CONSUMER_OFFSETS = "consumer_offsets"
    TRANSACTION_STATE = "transaction_state"
    SHARE_GROUP_STATE = "share_group_state"
    CLUSTER_METADATA = "cluster_metadata"
    STORAGE_FILES = "storage_files"
    QUORUM_FILES = "quorum_files"
    SHARED_PARTS = "shared_parts"


_TEXTS = {
    MessageFamily.CONSUMER_OFFSETS: consumer_offsets.SCHEMAS,
    MessageFamily.TRANSACTION_STATE: transaction_state.SCHEMAS,
    MessageFamily.SHARE_GROUP_STATE: share_group_state.SCHEMAS,
    MessageFamily.CLUSTER_METADATA: cluster_metadata.SCHEMAS,
    MessageFamily.STORAGE_FILES: storage_files.SCHEMAS,
    MessageFamily.QUORUM_FILES: quorum_files.SCHEMAS,
    MessageFamily.SHARED_PARTS: shared_parts.SCHEMAS,
}


@cache
def messages_of(family: MessageFamily) -> tuple[MessageSchema, ...]:
    """Return all messages of a family, ordered by kind, type number and name."""
    return parse_schemas(_TEXTS[family])


def message_of_type(family: MessageFamily, kind: MessagePurpose, type_number: int) -> MessageSchema | None:
    """Return the message of a kind with this type number; None if there is none."""
    return _by_type(family).get((kind, type_number))


def message_named(family: MessageFamily, name: str) -> MessageSchema:
    """Return the message with the name of Kafka's class.

    Raises:
        KeyError: There is none.
    """
    return _by_name(family)[name]


@cache
def _by_type(family: MessageFamily) -> dict[tuple[MessagePurpose, int], MessageSchema]:
    numbered = [schema for schema in messages_of(family) if schema.type_number is not None]
    return {(schema.kind, schema.type_number or 0): schema for schema in numbered}


@cache
def _by_name(family: MessageFamily) -> dict[str, MessageSchema]:
    return {schema.name: schema for schema in messages_of(family)}
