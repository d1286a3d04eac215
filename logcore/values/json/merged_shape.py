"""The shape of values that have several schemas at once, as `allOf` says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from logcore.values.invalid_schema import InvalidSchemaError
from logcore.values.json.shape import JsonField, JsonList, JsonMap, JsonScalar, JsonShape, JsonStruct


def merged_shape(shapes: Sequence[JsonShape], place: str) -> JsonShape:
    """Return the shape that has the columns of all. Objects have the properties of each, others must be of one type.

    Args:
        shapes: At least one.
        place: Path of the column, for errors.

    Raises:
        InvalidSchemaError: They are of different types.
    """
    merged = shapes[0]
    for shape in shapes[1:]:
        merged = _both(merged, shape, place)
    return merged


def _both(one: JsonShape, other: JsonShape, place: str) -> JsonShape:
    match one, other:
        case JsonStruct(), JsonStruct():
            # Not closed: each would refuse the properties of the other.
            return JsonStruct(_fields(one, other, place), False, one.nullable and other.nullable)
        case JsonList(), JsonList():
            return JsonList(_both(one.item, other.item, place), one.nullable and other.nullable)
        case JsonMap(), JsonMap():
            return JsonMap(_both(one.value, other.value, place), one.nullable and other.nullable)
        case JsonScalar(), JsonScalar() if replace(one, nullable=other.nullable) == other:
            return replace(one, nullable=one.nullable and other.nullable)
    raise InvalidSchemaError(
        "allOf of several types has no columns.",
        place=place,
        advice="Describe the values with one type, or decode them as string.",
    )


def _fields(one: JsonStruct, other: JsonStruct, place: str) -> tuple[JsonField, ...]:
    fields = {field.name: field for field in one.fields}
    for field in other.fields:
        known = fields.get(field.name)
        if known is not None:
            shape = _both(known.shape, field.shape, f"{place}.{field.name}".lstrip("."))
            field = JsonField(field.name, shape, known.required or field.required)
        fields[field.name] = field
    return tuple(fields.values())
