"""Values of a message as the JSON that Kafka's tools print.

Bytes are base64, a uuid is base64 for addresses without padding. Numbers that JSON does not have are the texts `NaN`,
`Infinity` and `-Infinity`. Tagged fields that equal their default, and tagged
fields that the schema does not have, are left out.

Source: generated classes `…JsonConverter`, org.apache.kafka.common Uuid.toString.
"""

from __future__ import annotations

import base64
import math
from typing import Any
from uuid import UUID

from logcore.messages.reader import ArrayLayout, ReadMessage, StructLayout, TypeLayout, Value, message_layout


def message_json(message: ReadMessage) -> dict[str, Any]:
    """Return the fields of a message as values for `json.dumps`."""
    return _struct(message_layout(message.schema, message.version), message.fields)


def uuid_text(value: UUID) -> str:
    """Return a uuid as Kafka writes it, such as `AAAAAAAAAAAAAAAAAAAAAQ`."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def number_json(value: float) -> float | str:
    """Return a float64 as Kafka writes it: as a number, or as text if JSON has no such number."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _struct(layout: StructLayout, values: dict[str, Value]) -> dict[str, Any]:
    found = {field.name: _value(field.type, values.get(field.name, field.default)) for field in layout.fields}
    for field in layout.tagged.values():
        if field.name in values and values[field.name] != field.default:
            found[field.name] = _value(field.type, values[field.name])
    return found


def _value(layout: TypeLayout, value: Value) -> Any:
    if isinstance(value, dict) and isinstance(layout, StructLayout):
        return _struct(layout, value)
    if isinstance(value, list) and isinstance(layout, ArrayLayout):
        return [_value(layout.element, element) for element in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, UUID):
        return uuid_text(value)
    if isinstance(value, float):
        return number_json(value)
    return value
