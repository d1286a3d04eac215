"""The error of a schema that cannot be used, and what every schema's columns must be like."""

from __future__ import annotations

import pyarrow as pa

from logcore.texts import sentences
from logcore.values.limits import DEEPEST_VALUE, MOST_COLUMNS

_RENAME = "Rename it in the schema, or decode as bytes."


class InvalidSchemaError(Exception):
    """A schema is invalid, or it describes values that have no columns.

    Attributes:
        message: What is wrong, with names of the schema.
        place: Where in the schema: a path such as `items.price`; empty for the whole.
        advice: What a person can do.
    """

    def __init__(self, message: str, *, place: str = "", advice: str = "Correct the schema.") -> None:
        super().__init__(sentences([f"{place}: {message}" if place else message, advice]))
        self.message = message
        self.place = place
        self.advice = advice


def check_name(name: str, place: str) -> None:
    """Refuse a name that a table or SQL can't have. Arrow would end it at NUL, and find no value.

    Args:
        place: Path of what it is in.

    Raises:
        InvalidSchemaError: The name is empty, or has NUL or half of a surrogate pair.
    """
    if not name:
        raise InvalidSchemaError("A field with an empty name has no column.", place=place, advice=_RENAME)
    if name != comment_of(name):
        raise InvalidSchemaError("A name has NUL or half of a surrogate pair.", place=place, advice=_RENAME)


def comment_of(text: str) -> str:
    """Return what a schema says about a field as a table can hold it: `?` for NUL and half of a surrogate pair."""
    return text.replace("\0", "?").encode("utf-8", "replace").decode()


def check_columns(arrow_type: pa.DataType) -> None:
    """Refuse types that no table can hold: with too many fields or levels, or with names that differ by case only.

    Raises:
        InvalidSchemaError: Names the place.
    """
    left = MOST_COLUMNS
    waiting = [(arrow_type, "", 0)]
    while waiting:
        inner, place, depth = waiting.pop()
        if pa.types.is_struct(inner):
            fields = [inner.field(at) for at in range(inner.num_fields)]
            _check_names(fields, place)
        elif pa.types.is_map(inner) or pa.types.is_list(inner):
            fields = [pa.field("value", inner.item_type if pa.types.is_map(inner) else inner.value_type)]
        else:
            continue
        left -= len(fields)
        if left < 0:
            raise InvalidSchemaError(
                f"The schema has more than {MOST_COLUMNS} fields.", advice="Decode as bytes, or with a smaller schema."
            )
        if depth >= DEEPEST_VALUE:
            raise InvalidSchemaError(f"The schema has more than {DEEPEST_VALUE} levels.", place=place[:200])
        is_struct = pa.types.is_struct(inner)
        for field in fields:
            name = f"{place}.{field.name}".lstrip(".") if is_struct else place
            waiting.append((field.type, name, depth + 1))


def _check_names(fields: list[pa.Field[pa.DataType]], place: str) -> None:
    seen: dict[str, str] = {}
    for field in fields:
        other = seen.setdefault(field.name.lower(), field.name)
        if other != field.name:
            raise InvalidSchemaError(
                f"The fields {other} and {field.name} differ by case only; tables cannot have both.",
                place=place,
                advice="Decode as bytes, or rename a field in the schema.",
            )
