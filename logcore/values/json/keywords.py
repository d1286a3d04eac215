"""What the keywords of one JSON Schema say about the shape of values, without what it refers to."""

from __future__ import annotations

from collections.abc import Mapping

from logcore.values.json.text import ExactNumber

CHOICES = ("oneOf", "anyOf")
_NAMES_OF_TYPES: Mapping[type, str] = {
    bool: "boolean", int: "integer", ExactNumber: "number", str: "string", type(None): "null",
}  # fmt: skip
_WITH_PARTS = frozenset({"object", "array"})


def listed(schema: Mapping[str, object], keyword: str) -> list[object]:
    """Return the content of a keyword if it is a list, or else no items."""
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def is_null(schema: object) -> bool:
    """Whether a choice allows null alone. It may have a title."""
    if not isinstance(schema, dict):
        return False
    return schema.get("type", _types_of_symbols(schema)) in ("null", ["null"])


def says_shape(schema: object) -> bool:
    """Whether a schema says what a value is and what its parts are, and does not only limit it."""
    if not isinstance(schema, dict):
        return False
    if _says_parts(schema) or schema.get("enum") or "const" in schema:
        return True
    kind = schema.get("type")
    named = [name for name in kind if name != "null"] or kind if isinstance(kind, list) else [kind]
    if any(each not in (None, *_WITH_PARTS) for each in named):
        return True
    return any(says_shape(each) for keyword in ("allOf", *CHOICES) for each in listed(schema, keyword))


def says_type(schema: object) -> bool:
    """Whether a schema says a shape, or at least `object` or `array`."""
    if not isinstance(schema, dict):
        return False
    if says_shape(schema) or schema.get("type") is not None:
        return True
    return any(says_type(each) for keyword in ("allOf", *CHOICES) for each in listed(schema, keyword))


def decides(schema: object) -> bool:
    """Whether a schema decides the shape where others hold too: it does more than list symbols or several types."""
    if not isinstance(schema, dict) or _says_parts(schema):
        return True
    kind = schema.get("type")
    if kind is not None:
        named = {str(name) for name in (kind if isinstance(kind, list) else [kind])} - {"null"}
        return len(named) < 2 or named <= _WITH_PARTS
    inner = [each for keyword in ("allOf", *CHOICES) for each in listed(schema, keyword)]
    return any(decides(each) for each in inner if says_type(each) and not is_null(each))


def implied_types(schema: Mapping[str, object]) -> list[str]:
    """Types of a schema that does not name them."""
    if "properties" in schema or isinstance(schema.get("additionalProperties"), dict):
        return ["object"]
    return ["array"] if has_items(schema) else _types_of_symbols(schema)


def has_items(schema: Mapping[str, object]) -> bool:
    """Whether something is known of the items of an array."""
    return schema.get("items") not in (None, True, False, {})


def _says_parts(schema: Mapping[str, object]) -> bool:
    return (
        bool(schema.get("$ref") or schema.get("properties"))
        or has_items(schema)
        or isinstance(schema.get("additionalProperties"), dict)
    )


def _types_of_symbols(schema: Mapping[str, object]) -> list[str]:
    """Types of the values that `enum` or `const` lists."""
    symbols = [schema["const"]] if "const" in schema else listed(schema, "enum")
    names = {_NAMES_OF_TYPES.get(type(symbol), "") for symbol in symbols}
    if "number" in names:
        names.discard("integer")
    return [] if "" in names else sorted(names)
