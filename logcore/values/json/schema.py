"""Text of a JSON Schema becomes a shape of typed columns.

Types, `properties`, `required`, `items`, `additionalProperties`, `format` date and date-time, null as a second type or
in `oneOf` and `anyOf`, choices of one shape, `allOf`, `enum` and `const` without a type, `$ref` and `description` are
understood. What has no column of its own is JSON text: a part of several types or of none, and one inside of itself.
Constraints such as `minimum` are not checked: values are decoded, not validated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from logcore.values.invalid_schema import InvalidSchemaError, check_name, comment_of
from logcore.values.json.keywords import (
    CHOICES,
    decides,
    has_items,
    implied_types,
    is_null,
    listed,
    says_shape,
    says_type,
)
from logcore.values.json.merged_shape import either_text, limited_shape, merged_shape
from logcore.values.json.references import Resource, SchemaDocuments
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
    nothing_of,
    number_of,
    text_of,
    truth_of,
)
from logcore.values.limits import DEEPEST_VALUE, MOST_COLUMNS

_SCALARS: Mapping[tuple[str, str], tuple[pa.DataType, Callable[[object], object]]] = {
    ("string", ""): (pa.string(), text_of),
    ("string", "date"): (pa.date32(), date_of),
    ("string", "date-time"): (pa.timestamp("us", tz="UTC"), moment_of),
    ("integer", ""): (pa.int64(), integer_of),
    ("number", ""): (pa.float64(), number_of),
    ("boolean", ""): (pa.bool_(), truth_of),
    ("null", ""): (pa.string(), nothing_of),
}
_CHANGES_THE_SHAPE = (
    "if", "patternProperties", "prefixItems", "additionalItems", "dependentSchemas", "$dynamicRef",
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
    reader = _Reader(SchemaDocuments(schema, references))
    main = reader.documents.main
    return reader.shape(_Place(main.schema, "", main), False, ()), reader.comments


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
        if schema is False:
            return FREE
        if not isinstance(schema, dict):
            raise InvalidSchemaError("Here must be a JSON object with a type.", place=place.path, advice=_ADVICE)
        place = _Place(schema, place.path, self.documents.resource_of(schema, place.resource))
        description = schema.get("description")
        if isinstance(description, str):
            self.comments.setdefault(place.path, comment_of(description))
        if any(schema.get(keyword, True) not in (True, False, [], {}) for keyword in _CHANGES_THE_SHAPE):
            return FREE
        shape = self._shape(place, schema, nullable, followed)
        if any(keyword in schema for keyword in (*CHOICES, "allOf", "$ref")):
            required, form = self._limits(place, set())
            return limited_shape(shape, required, _scalar("string", form))
        return shape

    def _shape(self, place: _Place, schema: dict[str, object], nullable: bool, followed: tuple[str, ...]) -> JsonShape:
        parts = self._parts(place, schema)
        if parts:
            shapes = [self.shape(place.below(each), nullable, (*followed, "allOf")) for each in parts]
            return merged_shape(shapes)
        if "$ref" in schema:
            return self._referenced(place, schema["$ref"], nullable, followed)
        for keyword in CHOICES:
            if any(map(says_type, listed(schema, keyword))):
                return self._chosen(place, keyword, listed(schema, keyword), nullable, followed)
        if not says_shape(schema):
            return _free(schema, nullable)
        name, null = self._type(schema)
        if name is None:
            return replace(FREE, nullable=nullable or null)
        return self._typed(place, schema, name, nullable or null, followed)

    def _parts(self, place: _Place, schema: Mapping[str, object]) -> list[object]:
        """Schemas that say together what is here; empty: the schema says it alone."""
        refers = "$ref" in schema
        if refers and not place.resource.combines:
            return []
        alone: list[object] = [{"$ref": schema["$ref"]}] if refers else []
        alone += [{each: schema[each]} for each in CHOICES if any(map(says_type, listed(schema, each)))]
        own = {keyword: content for keyword, content in schema.items() if keyword not in ("allOf", "$ref", *CHOICES)}
        alone += [own] if says_type(own) else []
        parts = [*(_may_be_null(each, own) for each in listed(schema, "allOf") if says_type(each)), *alone]
        return [] if len(parts) < 2 and alone else [each for each in parts if decides(each)] or parts

    def _limits(self, place: _Place, seen: set[int]) -> tuple[set[str], str]:
        """Names of required properties, and a format: of a schema and of those that hold at the same time."""
        schema = place.schema
        if not isinstance(schema, dict) or id(schema) in seen:
            return set(), ""
        seen.add(id(schema))
        resource = self.documents.resource_of(schema, place.resource)
        refers = isinstance(schema.get("$ref"), str)
        others = [_Place(each, place.path, resource) for each in listed(schema, "allOf")]
        if refers:
            found = self.documents.find(resource, schema["$ref"], place.path)
            others.append(_Place(found.schema, place.path, found.resource))
        required, form = set[str](), schema.get("format")
        if refers and not resource.combines:
            others, form = others[-1:], None
        else:
            required.update(name for name in listed(schema, "required") if isinstance(name, str))
        known = form if isinstance(form, str) and ("string", form) in _SCALARS else ""
        for each in others:
            more, its_form = self._limits(each, seen)
            required |= more
            known = known or its_form
        return required, known

    def _type(self, schema: Mapping[str, Any]) -> tuple[str | None, bool]:
        """The type other than null, unless there are several; and whether null is one of them."""
        names = schema.get("type")
        if names is None:
            names = implied_types(schema)
        listed = names if isinstance(names, list) else [names]
        others = [name for name in listed if name != "null"]
        if not others and listed == ["null"]:
            return "null", True
        return others[0] if len(others) == 1 else None, len(others) != len(listed)

    def _chosen(
        self, place: _Place, keyword: str, choices: list[object], nullable: bool, followed: tuple[str, ...]
    ) -> JsonShape:
        """The shape of all choices but null."""
        others = [choice for choice in choices if not is_null(choice)]
        nullable = nullable or len(others) != len(choices)
        comments = dict(self.comments) if len(others) > 1 else self.comments
        shapes = [self.shape(place.below(each), nullable, (*followed, keyword)) for each in others]
        self.comments = comments  # the description of one choice of several is none of the column
        if shapes and all(isinstance(shape, JsonText) for shape in shapes):
            return either_text([shape for shape in shapes if isinstance(shape, JsonText)])
        if not shapes or any(shape != shapes[0] for shape in shapes):
            return replace(FREE, nullable=nullable or any(shape.nullable for shape in shapes))
        return shapes[0]

    def _typed(
        self, place: _Place, schema: dict[str, object], name: str, nullable: bool, followed: tuple[str, ...]
    ) -> JsonShape:
        if name == "array":
            if not has_items(schema) or isinstance(schema["items"], list):
                return JsonText((name,), nullable, has_items(schema))
            return JsonList(self.shape(place.below(schema["items"]), False, (*followed, "items")), nullable)
        if name == "object":
            return self._object(place, schema, nullable, followed)
        if (name, "") not in _SCALARS:
            raise InvalidSchemaError(f"There is no type {name} in JSON Schema.", place=place.path)
        form = schema.get("format")
        return replace(_scalar(name, form if isinstance(form, str) else ""), nullable=nullable)

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
            return JsonText(("object",), nullable)
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
            return FREE
        return self.shape(_Place(found.schema, place.path, found.resource), nullable, (*followed, step))


def _may_be_null(part: object, own: Mapping[str, object]) -> object:
    """The part of an `allOf`. If it names properties and no type, it takes the null of the type beside it."""
    kind = own.get("type")
    if isinstance(kind, list) and sorted(map(str, kind)) == ["null", "object"] and isinstance(part, dict):
        return part if {"type", "$ref", "$id"} & part.keys() else {"type": kind, **part}
    return part


def _scalar(name: str, form: str) -> JsonScalar:
    kind, of = _SCALARS.get((name, form)) or _SCALARS[name, ""]
    return JsonScalar(kind, of, False)


def _free(schema: Mapping[str, object], nullable: bool) -> JsonText:
    """The shape of a part of which only the type is known, or nothing."""
    kind = schema.get("type")
    names = [str(name) for name in (kind if isinstance(kind, list) else [kind]) if name is not None]
    types = tuple(sorted(name for name in names if name != "null"))
    return JsonText(types, nullable or not types or "null" in names)
