"""Text of a JSON Schema becomes a shape of typed columns; what has no columns is refused by name.

Types, `properties`, `required`, `items`, `additionalProperties`, `format` date and date-time, null as a second type or
in `oneOf` and `anyOf`, `$ref` and `description` are understood. Constraints such as `minimum` are not checked:
values are decoded, not validated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from logcore.values.invalid_schema import InvalidSchemaError, check_name, comment_of
from logcore.values.json.shape import (
    JsonField,
    JsonList,
    JsonMap,
    JsonScalar,
    JsonShape,
    JsonStruct,
    date_of,
    integer_of,
    moment_of,
    nothing_of,
    number_of,
    text_of,
    truth_of,
)
from logcore.values.json.text import parse_json
from logcore.values.limits import DEEPEST_VALUE, LARGEST_SCHEMA, MOST_COLUMNS
from logcore.values.undecodable import Undecodable

_SCALARS: Mapping[tuple[str, str], tuple[pa.DataType, Callable[[object], object]]] = {
    ("string", ""): (pa.string(), text_of),
    ("string", "date"): (pa.date32(), date_of),
    ("string", "date-time"): (pa.timestamp("us", tz="UTC"), moment_of),
    ("integer", ""): (pa.int64(), integer_of),
    ("number", ""): (pa.float64(), number_of),
    ("boolean", ""): (pa.bool_(), truth_of),
    ("null", ""): (pa.null(), nothing_of),
}
_CHANGES_THE_SHAPE = (
    "allOf", "not", "if", "patternProperties", "prefixItems", "additionalItems", "dependentSchemas", "$dynamicRef",
    "unevaluatedProperties",
)  # fmt: skip
_ADVICE = "Describe the values with types, properties and items alone, or decode them as string."


def json_shape(schema: str, references: Mapping[str, str]) -> tuple[JsonShape, dict[str, str]]:
    """Read the text of a JSON Schema.

    Args:
        schema: The text.
        references: Texts of other schemas by the name that `$ref` uses.

    Returns:
        The shape, and the descriptions by path.

    Raises:
        InvalidSchemaError: The text is invalid, or it allows values that have no columns.
    """
    document = schema_document(schema)
    reader = _Reader(references)
    shape = reader.shape(_Place(document, "", document), False, ())
    return shape, reader.comments


def schema_document(text: str) -> object:
    """Parse the text of a schema as strictly as a value.

    Raises:
        InvalidSchemaError: It is no JSON.
    """
    if len(text) > LARGEST_SCHEMA:
        raise InvalidSchemaError(f"The schema has more than {LARGEST_SCHEMA} characters.")
    try:
        return parse_json(text.encode())
    except Undecodable as failure:
        raise InvalidSchemaError(f"The schema is no JSON text: {failure}.") from None
    except UnicodeEncodeError:
        raise InvalidSchemaError("The schema is no text in Unicode.") from None


@dataclass(frozen=True, slots=True)
class _Place:
    """A part of a schema, the path of the column, and the document in which `#` begins."""

    schema: object
    path: str
    root: object

    def below(self, schema: object, step: str = "") -> _Place:
        return _Place(schema, f"{self.path}.{step}".strip(".") if step else self.path, self.root)


@dataclass(slots=True)
class _Reader:
    references: Mapping[str, str]
    comments: dict[str, str] = field(default_factory=dict)
    documents: dict[str, object] = field(default_factory=dict)
    parts: int = 0

    def shape(self, place: _Place, nullable: bool, followed: tuple[str, ...]) -> JsonShape:
        self.parts += 1
        if self.parts > MOST_COLUMNS or len(followed) > DEEPEST_VALUE or place.path.count(".") > DEEPEST_VALUE:
            raise InvalidSchemaError("The schema is too large or too deep for a table.", advice=_ADVICE)
        schema = place.schema
        if not isinstance(schema, dict):
            raise InvalidSchemaError("Here must be a JSON object with a type.", place=place.path, advice=_ADVICE)
        description = schema.get("description")
        if isinstance(description, str):
            self.comments.setdefault(place.path, comment_of(description))
        for keyword in _CHANGES_THE_SHAPE:
            if keyword in schema and schema[keyword] not in (True, False, [], {}):
                raise InvalidSchemaError(f"{keyword} has no columns.", place=place.path, advice=_ADVICE)
        if "$ref" in schema:
            return self._referenced(place, schema["$ref"], nullable, followed)
        for keyword in ("oneOf", "anyOf"):
            if keyword in schema:
                inner, null = self._chosen(place, keyword, schema[keyword])
                return self.shape(place.below(inner), nullable or null, (*followed, keyword))
        name, null = self._type(place, schema)
        return self._typed(place, schema, name, nullable or null, followed)

    def _type(self, place: _Place, schema: dict[str, object]) -> tuple[str, bool]:
        names = schema.get("type")
        if names is None and "properties" in schema:
            names = "object"
        listed = names if isinstance(names, list) else [names]
        others = [name for name in listed if name != "null"]
        if not others and listed == ["null"]:
            return "null", True
        if len(others) != 1 or not isinstance(others[0], str):
            raise InvalidSchemaError("A value needs one type, or one type and null.", place=place.path, advice=_ADVICE)
        return others[0], len(others) != len(listed)

    def _chosen(self, place: _Place, keyword: str, choices: object) -> tuple[object, bool]:
        if isinstance(choices, list):
            others = [choice for choice in choices if choice != {"type": "null"}]
            if len(others) == 1:
                return others[0], len(others) != len(choices)
        raise InvalidSchemaError(f"{keyword} of several types has no columns.", place=place.path, advice=_ADVICE)

    def _typed(
        self, place: _Place, schema: dict[str, object], name: str, nullable: bool, followed: tuple[str, ...]
    ) -> JsonShape:
        if name == "array":
            items = schema.get("items")
            return JsonList(self.shape(place.below(items), False, (*followed, "items")), nullable)
        if name == "object":
            return self._object(place, schema, nullable, followed)
        form = schema.get("format")
        scalar = _SCALARS.get((name, form if isinstance(form, str) else "")) or _SCALARS.get((name, ""))
        if scalar is None:
            raise InvalidSchemaError(f"There is no type {name} in JSON Schema.", place=place.path)
        return JsonScalar(*scalar, nullable)

    def _object(self, place: _Place, schema: dict[str, object], nullable: bool, followed: tuple[str, ...]) -> JsonShape:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        more = schema.get("additionalProperties", True)
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise InvalidSchemaError("properties must be an object, required an array.", place=place.path)
        if not all(isinstance(name, str) for name in required):
            raise InvalidSchemaError("required must be an array of names.", place=place.path)
        for name in properties:
            check_name(name, place.path)
        if not properties and isinstance(more, dict) and more:
            return JsonMap(self.shape(place.below(more), False, (*followed, "additionalProperties")), nullable)
        if not properties:
            raise InvalidSchemaError(
                "An object needs properties, or additionalProperties with a type.", place=place.path, advice=_ADVICE
            )
        if missing := [name for name in required if name not in properties]:
            raise InvalidSchemaError(f"{missing[0]} is required and is no property.", place=place.path)
        fields = tuple(
            JsonField(name, self.shape(place.below(inner, name), False, (*followed, "")), name in required)
            for name, inner in properties.items()
        )
        return JsonStruct(fields, more is False, nullable)

    def _referenced(self, place: _Place, target: object, nullable: bool, followed: tuple[str, ...]) -> JsonShape:
        if not isinstance(target, str):
            raise InvalidSchemaError("$ref must be a string.", place=place.path)
        name, _, pointer = target.partition("#")
        root = place.root
        if name:
            if name not in self.references:
                raise InvalidSchemaError(
                    f"The referenced schema {name} is unknown.", place=place.path, advice="Add it to the references."
                )
            if name not in self.documents:
                self.documents[name] = schema_document(self.references[name])
            root = self.documents[name]
        step = f"{name or id(place.root)}#{pointer}"
        if step in followed:
            raise InvalidSchemaError(
                f"{target} refers to itself; such values have no columns.", place=place.path, advice=_ADVICE
            )
        inner: object = root
        for part in pointer.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(inner, dict) or part not in inner:
                raise InvalidSchemaError(f"{target} leads nowhere.", place=place.path)
            inner = inner[part]
        return self.shape(_Place(inner, place.path, root), nullable, (*followed, step))
