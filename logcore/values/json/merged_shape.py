"""The shape of values that have several schemas at once, as `allOf` says."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import reduce

from logcore.values.json.shape import (
    FREE,
    JsonField,
    JsonList,
    JsonMap,
    JsonScalar,
    JsonShape,
    JsonStruct,
    JsonText,
    date_of,
    integer_of,
    moment_of,
    number_of,
    text_of,
)

_NARROWER = frozenset({(number_of, integer_of), (text_of, date_of), (text_of, moment_of)})
"""Each second one takes only values that the first one takes too."""


def merged_shape(shapes: Sequence[JsonShape]) -> JsonShape:
    """Return the shape that has the columns of all. Objects have the properties of each; several types become text.

    Args:
        shapes: At least one.
    """
    return reduce(_both, shapes)


def limited_shape(shape: JsonShape, required: Collection[str], text: JsonScalar) -> JsonShape:
    """Return a shape with what limits it from outside of its own schema.

    Args:
        required: Names of properties that must be there.
        text: What strings are, by a format.
    """
    if isinstance(shape, JsonStruct):
        fields = tuple(replace(each, required=each.required or each.name in required) for each in shape.fields)
        return replace(shape, fields=fields)
    if isinstance(shape, JsonScalar) and shape.of is text_of:
        return replace(text, nullable=shape.nullable)
    return shape


def either_text(shapes: Sequence[JsonText]) -> JsonText:
    """Return the JSON text that takes what one of the shapes takes."""
    types = {name for shape in shapes for name in shape.types} if all(shape.types for shape in shapes) else ()
    has_parts = any(shape.has_parts for shape in shapes)
    return JsonText(tuple(sorted(types)), any(shape.nullable for shape in shapes), has_parts)


def _both(one: JsonShape, other: JsonShape) -> JsonShape:
    nullable = one.nullable and other.nullable
    match one, other:
        case (JsonText(has_parts=True), _) | (_, JsonText(has_parts=True)):
            return replace(FREE, nullable=nullable)
        case JsonStruct(), JsonStruct():
            # Not closed: each would refuse the properties of the other.
            return JsonStruct(_fields(one, other), False, nullable)
        case JsonList(), JsonList():
            return JsonList(_both(one.item, other.item), nullable)
        case JsonMap(), JsonMap():
            return JsonMap(_both(one.value, other.value), nullable)
        case (JsonStruct(), JsonMap()) | (JsonMap(), JsonStruct()):  # as `properties` beside `additionalProperties`
            return _nullable(one if isinstance(one, JsonStruct) else other, nullable)
        case JsonScalar(), JsonScalar() if one.of is other.of or (one.of, other.of) in _NARROWER:
            return _nullable(other, nullable)
        case JsonScalar(), JsonScalar() if (other.of, one.of) in _NARROWER:
            return _nullable(one, nullable)
        case JsonText(), JsonText() if not one.types or not other.types or set(one.types) & set(other.types):
            types = set(one.types or other.types) & set(other.types or one.types)
            return JsonText(tuple(sorted(types)), nullable)
        case (JsonText(), _) if _takes(one, other):
            return _nullable(other, nullable)
        case (_, JsonText()) if _takes(other, one):
            return _nullable(one, nullable)
    return replace(FREE, nullable=nullable)


def _fields(one: JsonStruct, other: JsonStruct) -> tuple[JsonField, ...]:
    fields = {field.name: field for field in one.fields}
    for field in other.fields:
        known = fields.get(field.name)
        if known is not None:
            shape = _both(known.shape, field.shape)
            field = JsonField(field.name, shape, known.required or field.required)
        fields[field.name] = field
    return tuple(fields.values())


def _nullable(shape: JsonShape, nullable: bool) -> JsonShape:
    assert isinstance(shape, JsonStruct | JsonList | JsonMap | JsonScalar | JsonText), "there are no other shapes"
    return replace(shape, nullable=nullable)


def _takes(text: JsonText, shape: JsonShape) -> bool:
    kind = "object" if isinstance(shape, JsonStruct | JsonMap) else "array" if isinstance(shape, JsonList) else ""
    return not text.types or kind in text.types
