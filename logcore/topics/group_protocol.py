"""What consumers put into the metadata of classic groups: subscriptions and assignments.

    int16 version · ConsumerProtocolSubscription or ConsumerProtocolAssignment of that version

A version above the known ones is read as the highest known one, because later versions only add fields. Other protocol
types (`connect`) have other bytes, which stay bytes.

Source: org.apache.kafka.clients.consumer.internals ConsumerProtocol.
"""

from __future__ import annotations

import struct

from logcore.messages.known_messages import MessageFamily, message_named
from logcore.messages.reader import ReadMessage, read_message

CONSUMER_PROTOCOL = "consumer"
SUBSCRIPTION = "ConsumerProtocolSubscription"
ASSIGNMENT = "ConsumerProtocolAssignment"

_SHORT = struct.Struct(">h")


def read_protocol(name: str, content: bytes) -> ReadMessage | None:
    """Read a subscription or an assignment.

    Args:
        name: `SUBSCRIPTION` or `ASSIGNMENT`.
        content: The bytes in the group's metadata.

    Returns:
        None if the bytes are another protocol's, or damaged.
    """
    if len(content) < _SHORT.size:
        return None
    (version,) = _SHORT.unpack_from(content)
    schema = message_named(MessageFamily.SHARED_PARTS, name)
    message = read_message(schema, min(version, schema.versions.highest), content[_SHORT.size :])
    return message if isinstance(message, ReadMessage) else None
