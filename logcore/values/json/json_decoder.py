"""The decoder of JSON values whose shape a JSON Schema gives.

Text of a JSON Schema becomes a shape of typed columns.

Types, `properties`, `required`, `items`, `additionalProperties`, `format` date and date-time, null as a second type or
in `oneOf` and `anyOf`, choices of one shape, `allOf`, `enum` and `const` without a type, `$ref` and `description` are
understood. What has no column of its own is JSON text: a part of several types or of none, and one inside of itself.
Constraints such as `minimum` are not checked: values are decoded, not validated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.columns.kernels.parsing.parsing_frames import FIELD_NAME, FIELD_SIZE, MOST_FIELDS, NodeKind
from logcore.values.blocks.decoded_block import decode_block
from logcore.values.blocks.program import Node, Program, ProgramBuilder, UnknownToKernel
from logcore.values.column import DecodedBlock
from logcore.values.form import ValueColumn
from logcore.values.invalid_schema import InvalidSchemaError, check_name, comment_of
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
    json_form,
    moment_of,
    nothing_of,
    number_of,
    shape_in,
    text_of,
    truth_of,
)
from logcore.values.json.text import ExactNumber, parse_json
from logcore.values.limits import DEEPEST_VALUE, MOST_COLUMNS

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
            return replace(one if isinstance(one, JsonStruct) else other, nullable=nullable)
        case JsonScalar(), JsonScalar() if one.of is other.of or (one.of, other.of) in _NARROWER:
            return replace(other, nullable=nullable)
        case JsonScalar(), JsonScalar() if (other.of, one.of) in _NARROWER:
            return replace(one, nullable=nullable)
        case JsonText(), JsonText() if not one.types or not other.types or set(one.types) & set(other.types):
            types = set(one.types or other.types) & set(other.types or one.types)
            return JsonText(tuple(sorted(types)), nullable)
        case (JsonText(), _) if _takes(one, other):
            return replace(other, nullable=nullable)
        case (_, JsonText()) if _takes(other, one):
            return replace(one, nullable=nullable)
    return replace(FREE, nullable=nullable)


def _fields(one: JsonStruct, other: JsonStruct) -> tuple[JsonField, ...]:
    fields = {field.name: field for field in one.fields}
    for new in other.fields:
        known = fields.get(new.name)
        if known is None:
            fields[new.name] = new
        else:
            fields[new.name] = JsonField(new.name, _both(known.shape, new.shape), known.required or new.required)
    return tuple(fields.values())


def _takes(text: JsonText, shape: JsonShape) -> bool:
    kind = "object" if isinstance(shape, JsonStruct | JsonMap) else "array" if isinstance(shape, JsonList) else ""
    return not text.types or kind in text.types


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


_STORED_SCALARS: Mapping[tuple[str, str], tuple[pa.DataType, Callable[[object], object]]] = {
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
        known = form if isinstance(form, str) and ("string", form) in _STORED_SCALARS else ""
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
        if (name, "") not in _STORED_SCALARS:
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
    kind, of = _STORED_SCALARS.get((name, form)) or _STORED_SCALARS[name, ""]
    return JsonScalar(kind, of, False)


def _free(schema: Mapping[str, object], nullable: bool) -> JsonText:
    """The shape of a part of which only the type is known, or nothing."""
    kind = schema.get("type")
    names = [str(name) for name in (kind if isinstance(kind, list) else [kind]) if name is not None]
    types = tuple(sorted(name for name in names if name != "null"))
    return JsonText(types, nullable or not types or "null" in names)


_SCALARS = {
    integer_of: NodeKind.INTEGER,
    number_of: NodeKind.NUMBER,
    truth_of: NodeKind.TRUTH,
    text_of: NodeKind.TEXT,
    date_of: NodeKind.DATE,
    moment_of: NodeKind.MOMENT,
}
_KEY = JsonScalar(pa.string(), text_of, False)
_NOT_IN_NAMES = frozenset(map(chr, range(32))) | {'"', "\\"}


def program_of(shape: JsonShape) -> Program | None:
    """Return the program of a shape; None if it has parts that the kernel does not know."""
    return _JsonBuilder().program(shape)


class _JsonBuilder(ProgramBuilder[JsonShape]):
    def node(self, shape: JsonShape, scope: int) -> Node:
        """See `ProgramBuilder`."""
        if isinstance(shape, JsonScalar) and shape.of in _SCALARS:
            return self.added(_SCALARS[shape.of], shape.nullable, scope)
        if isinstance(shape, JsonList):
            return self.listed(shape.item, shape.nullable, scope)
        if isinstance(shape, JsonMap):
            entry = JsonStruct((JsonField("", _KEY, True), JsonField("", shape.value, True)), False, False)
            node = self.listed(entry, shape.nullable, scope)
            node.is_closed = True
            return node
        if isinstance(shape, JsonStruct):
            return self._object(shape, scope)
        raise UnknownToKernel

    def _object(self, shape: JsonStruct, scope: int) -> Node:
        if len(shape.fields) > MOST_FIELDS or any(_NOT_IN_NAMES & set(each.name) for each in shape.fields):
            raise UnknownToKernel
        node = self.struct([each.shape for each in shape.fields], shape.nullable, scope)
        node.required = sum(1 << at for at, each in enumerate(shape.fields) if each.required)
        node.is_closed = shape.closed
        for at, each in enumerate(shape.fields):
            entry, name = self.entry(node, at), each.name.encode()
            self.fields[entry + FIELD_NAME], self.fields[entry + FIELD_SIZE] = len(self.names), len(name)
            self.names += name
        return node


class JsonDecoder:
    """A `ValueDecoder` of strict JSON, and a `BlockDecoder` of most shapes.

    Args:
        schema: JSON.
        references: Texts of the schemas that it refers to.
        column: The column of several schemas that gets the values.

    Raises:
        InvalidSchemaError: From the constructor, if the schema cannot be used.
    """

    def __init__(self, schema: str, references: Mapping[str, str], column: ValueColumn | None = None) -> None:
        shape, self.comments = json_shape(schema, references)
        self._shape = shape_in(shape, column)
        self.form = json_form(self._shape)
        self._program = program_of(self._shape)
        self.arrow_type: pa.DataType = self._shape.arrow_type

    def decode(self, body: bytes) -> object:
        """See `ValueDecoder`."""
        return self._shape.convert(parse_json(body))

    def decode_block(self, bodies: pa.Array[Any]) -> DecodedBlock | None:
        """See `BlockDecoder`."""
        if self._program is None or bodies.type != pa.binary() or not is_chosen(Work.DECODE_JSON):
            return None
        return decode_block("json_rows", self._program, self.arrow_type, bodies)
