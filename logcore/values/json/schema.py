"""Text of a JSON Schema becomes a shape of typed columns; what has no columns is refused by name.

Types, `properties`, `required`, `items`, `additionalProperties`, `format` date and date-time, null as a second type or
in `oneOf` and `anyOf`, choices of one shape, `allOf`, `enum` and `const` without a type, `$ref` and `description` are
understood. A property of which nothing more than `object` or `array` is known is JSON text. Constraints such as
`minimum` are not checked: values are decoded, not validated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from logcore.values.invalid_schema import InvalidSchemaError, check_name, comment_of
from logcore.values.json.merged_shape import merged_shape
from logcore.values.json.references import Resource, SchemaDocuments
from logcore.values.json.shape import (
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
    nothing_of,
    number_of,
    text_of,
    truth_of,
)
from logcore.values.json.text import ExactNumber
from logcore.values.limits import DEEPEST_VALUE, MOST_COLUMNS

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
    "if", "patternProperties", "prefixItems", "additionalItems", "dependentSchemas", "$dynamicRef",
    "unevaluatedProperties",
)  # fmt: skip
_CHOICES = ("oneOf", "anyOf")
_NAMES_OF_TYPES: Mapping[type, str] = {
    bool: "boolean", int: "integer", ExactNumber: "number", str: "string", type(None): "null",
}  # fmt: skip
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
    reader = _Reader(SchemaDocuments(schema, references))
    main = reader.documents.main
    shape = reader.shape(_Place(main.schema, "", main), False, ())
    return shape, reader.comments


@dataclass(frozen=True, slots=True)
class _Place:
    """A part of a schema, the path of the column, and the resource that it is a part of."""

    schema: object
    path: str
    resource: Resource

    def below(self, schema: object, step: str = "") -> _Place:
        return _Place(schema, f"{self.path}.{step}".strip(".") if step else self.path, self.resource)


@dataclass(slots=True)
class _Reader:
    documents: SchemaDocuments
    comments: dict[str, str] = field(default_factory=dict)
    parts: int = 0

    def shape(self, place: _Place, nullable: bool, followed: tuple[str, ...]) -> JsonShape:
        self.parts += 1
        if self.parts > MOST_COLUMNS or len(followed) > DEEPEST_VALUE or place.path.count(".") > DEEPEST_VALUE:
            raise InvalidSchemaError("The schema is too large or too deep for a table.", advice=_ADVICE)
        schema: object = {} if place.schema is True else place.schema
        if not isinstance(schema, dict):
            raise InvalidSchemaError("Here must be a JSON object with a type.", place=place.path, advice=_ADVICE)
        place = _Place(schema, place.path, self.documents.resource_of(schema, place.resource))
        description = schema.get("description")
        if isinstance(description, str):
            self.comments.setdefault(place.path, comment_of(description))
        for keyword in _CHANGES_THE_SHAPE:
            if keyword in schema and schema[keyword] not in (True, False, [], {}):
                raise InvalidSchemaError(f"{keyword} has no columns.", place=place.path, advice=_ADVICE)
        parts = self._parts(place, schema)
        if parts:
            shapes = [self.shape(place.below(each), nullable, (*followed, "allOf")) for each in parts]
            return merged_shape(shapes, place.path)
        if "$ref" in schema:
            return self._referenced(place, schema["$ref"], nullable, followed)
        for keyword in _CHOICES:
            if any(map(_says_shape, _listed(schema, keyword))):
                return self._chosen(place, keyword, _listed(schema, keyword), nullable, followed)
        if place.path and not _says_shape(schema):
            return _free(schema, nullable)
        name, null = self._type(place, schema)
        return self._typed(place, schema, name, nullable or null, followed)

    def _parts(self, place: _Place, schema: Mapping[str, object]) -> list[object]:
        """Schemas that say together what is here; empty: the schema says it alone."""
        refers = "$ref" in schema
        if refers and not place.resource.combines:
            return []
        parts = [each for each in _listed(schema, "allOf") if _says_shape(each)]
        own = {keyword: content for keyword, content in schema.items() if keyword not in ("allOf", "$ref")}
        choices = {keyword: own.pop(keyword) for keyword in _CHOICES if any(map(_says_shape, _listed(own, keyword)))}
        has_properties = bool(own.get("properties"))
        if not parts and not (has_properties and (refers or choices)):
            return []
        if refers:
            parts.insert(0, {"$ref": schema["$ref"]})
        parts += [{keyword: content} for keyword, content in choices.items()]
        return [*parts, own] if has_properties else parts

    def _type(self, place: _Place, schema: Mapping[str, object]) -> tuple[str, bool]:
        names = schema.get("type")
        if names is None:
            names = "object" if "properties" in schema else _types_of_symbols(schema)
        listed = names if isinstance(names, list) else [names]
        others = [name for name in listed if name != "null"]
        if not others and listed == ["null"]:
            return "null", True
        if len(others) != 1 or not isinstance(others[0], str):
            raise InvalidSchemaError("A value needs one type, or one type and null.", place=place.path, advice=_ADVICE)
        return others[0], len(others) != len(listed)

    def _chosen(
        self, place: _Place, keyword: str, choices: list[object], nullable: bool, followed: tuple[str, ...]
    ) -> JsonShape:
        """The shape of all choices but null."""
        others = [choice for choice in choices if not _is_null(choice)]
        nullable = nullable or len(others) != len(choices)
        comments = dict(self.comments) if len(others) > 1 else self.comments
        shapes = [self.shape(place.below(each), nullable, (*followed, keyword)) for each in others]
        self.comments = comments  # the description of one choice of several is none of the column
        if not shapes or any(shape != shapes[0] for shape in shapes):
            raise InvalidSchemaError(f"{keyword} of several types has no columns.", place=place.path, advice=_ADVICE)
        return shapes[0]

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
        fields = tuple(
            JsonField(name, self.shape(place.below(inner, name), False, (*followed, "")), name in required)
            for name, inner in properties.items()
        )
        return JsonStruct(fields, more is False, nullable)

    def _referenced(self, place: _Place, target: object, nullable: bool, followed: tuple[str, ...]) -> JsonShape:
        if not isinstance(target, str):
            raise InvalidSchemaError("$ref must be a string.", place=place.path)
        found = self.documents.find(place.resource, target, place.path)
        step = f"#{id(found.schema)}"
        if step in followed:
            raise InvalidSchemaError(
                f"{target} refers to itself; such values have no columns.", place=place.path, advice=_ADVICE
            )
        return self.shape(_Place(found.schema, place.path, found.resource), nullable, (*followed, step))


def _listed(schema: Mapping[str, object], keyword: str) -> list[object]:
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def _free(schema: Mapping[str, object], nullable: bool) -> JsonText:
    """The shape of a part of which only the type is known, or nothing."""
    kind = schema.get("type")
    names = [str(name) for name in (kind if isinstance(kind, list) else [kind]) if name is not None]
    types = tuple(sorted(name for name in names if name != "null"))
    return JsonText(types, nullable or not types or "null" in names)


def _is_null(schema: object) -> bool:
    """Whether a choice allows null alone. It may have a title."""
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type", _types_of_symbols(schema))
    return kind in ("null", ["null"])


def _says_shape(schema: object) -> bool:
    """Whether a schema says what a value is, and does not only limit it."""
    if not isinstance(schema, dict):
        return False
    if any(schema.get(keyword) for keyword in ("$ref", "properties", "enum")) or "const" in schema:
        return True
    if schema.get("items") not in (None, True, False, {}):
        return True
    kind = schema.get("type")
    named = [name for name in kind if name != "null"] or kind if isinstance(kind, list) else [kind]
    if any(each not in (None, "object", "array") for each in named) or isinstance(
        schema.get("additionalProperties"), dict
    ):
        return True
    return any(_says_shape(each) for keyword in ("allOf", *_CHOICES) for each in _listed(schema, keyword))


def _types_of_symbols(schema: Mapping[str, object]) -> list[str]:
    """Types of the values that `enum` or `const` lists."""
    symbols = [schema["const"]] if "const" in schema else _listed(schema, "enum")
    names = {_NAMES_OF_TYPES.get(type(symbol), "") for symbol in symbols}
    if "number" in names:
        names.discard("integer")
    return [] if "" in names else sorted(names)
