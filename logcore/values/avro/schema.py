"""Text of an Avro schema becomes a tree of frozen types: names resolved, logical types read.

Source: the Avro specification 1.12. Aliases and defaults belong to readers' schemas and are not used: a value is
decoded as it was written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from logcore.values.invalid_schema import InvalidSchemaError, check_name, comment_of
from logcore.values.limits import DEEPEST_VALUE, LARGEST_SCHEMA, LARGEST_VALUE, MOST_COLUMNS

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LARGEST_PRECISION = 38
"""Digits of a decimal that Delta tables can hold; others stay bytes."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive type. `logical`: `date`, `timestamp-millis`, `timestamp-micros`, `decimal`, or empty."""

    name: str
    logical: str = ""
    precision: int = 0
    """Of a decimal."""
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Fixed:
    """Bytes of a fixed number."""

    name: str
    size: int
    logical: str = ""
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Enum:
    """One of several symbols."""

    name: str
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """Items of one type."""

    items: Type


@dataclass(frozen=True, slots=True)
class Map:
    """Text keys, and values of one type."""

    values: Type


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types."""

    branches: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record."""

    name: str
    type: Type
    comment: str


@dataclass(frozen=True, slots=True)
class RecordType:
    """Named fields in their order."""

    name: str
    fields: tuple[Field, ...]
    comment: str


@dataclass(frozen=True, slots=True)
class Again:
    """A record inside of itself. Its one object in a schema is shared."""

    name: str
    named: Mapping[str, Type] = field(compare=False, repr=False)
    """All types by full name."""
    made: list[object] = field(default_factory=list, compare=False, repr=False)
    """How it is read, once that is known."""


Type = Primitive | Fixed | Enum | Array | Map | Union | RecordType | Again


def parse(text: str, references: Mapping[str, str]) -> Type:
    """Read a schema.

    Args:
        text: JSON.
        references: Texts of the schemas whose types it names, in any order. Their keys are not used: the types have
            their names in the texts.

    Raises:
        InvalidSchemaError: It is no Avro schema, or names an unknown type.
    """
    reader = _Reader({})
    waiting = list(references.values())
    while waiting:
        left = []
        for each in waiting:
            known = dict(reader.named)
            try:
                reader.type(_json(each), "", "", 0)
            except _UnknownNameError:
                reader = _Reader(known, left=reader.left)
                left.append(each)
        if len(left) == len(waiting):
            break
        waiting = left
    return reader.type(_json(text), "", "", 0)


class _UnknownNameError(InvalidSchemaError):
    """A schema names a type that is not defined."""


def _json(text: str) -> object:
    if len(text) > LARGEST_SCHEMA:
        raise InvalidSchemaError(f"The schema has more than {LARGEST_SCHEMA} bytes.", advice="Use a smaller schema.")
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        if _NAME.fullmatch(text.strip()):
            return text.strip()  # registries have a primitive schema without quotes too
        raise InvalidSchemaError("The schema is no JSON.") from None
    return found


@dataclass(slots=True)
class _Reader:
    named: dict[str, Type]
    """Types by full name."""
    open: set[str] = field(default_factory=set)
    """Names of records whose fields are being read."""
    again: dict[str, Again] = field(default_factory=dict)
    left: int = MOST_COLUMNS

    def type(self, schema: object, namespace: str, place: str, depth: int) -> Type:
        self.left -= 1
        if self.left < 0:
            raise InvalidSchemaError(f"The schema has more than {MOST_COLUMNS} types.", advice="Use a smaller schema.")
        if depth > DEEPEST_VALUE:
            raise InvalidSchemaError(f"The schema has more than {DEEPEST_VALUE} levels.", place=place[:200])
        if isinstance(schema, str):
            return self._by_name(schema, namespace, place)
        if isinstance(schema, list):
            return self._union(schema, namespace, place, depth)
        if not isinstance(schema, dict):
            raise InvalidSchemaError("A type is a name, an object or a list.", place=place)
        kind = schema.get("type")
        if isinstance(kind, dict | list):
            return self.type(kind, namespace, place, depth + 1)
        if kind in ("record", "error"):
            return self._record(schema, namespace, place, depth)
        if kind == "enum":
            return self._enum(schema, namespace, place)
        if kind == "fixed":
            return self._fixed(schema, namespace, place)
        if kind == "array":
            return Array(self.type(schema.get("items"), namespace, place, depth + 1))
        if kind == "map":
            return Map(self.type(schema.get("values"), namespace, place, depth + 1))
        if not isinstance(kind, str):
            raise InvalidSchemaError("A type has no name.", place=place)
        if kind in PRIMITIVES:
            return _with_logical(kind, schema)
        return self._by_name(kind, namespace, place)

    def _by_name(self, name: str, namespace: str, place: str) -> Type:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full in self.open:
            return self.again.setdefault(full, Again(full, self.named))
        found = self.named.get(full)
        if found is None:
            raise _UnknownNameError(f"The type {full} is not defined.", place=place, advice="Name what it refers to.")
        self.left -= _size(found)
        return found

    def _union(self, schema: list[object], namespace: str, place: str, depth: int) -> Type:
        branches = tuple(self.type(each, namespace, place, depth + 1) for each in schema)
        if not branches or any(isinstance(each, Union) for each in branches):
            raise InvalidSchemaError("A union needs types, and none of them may be a union.", place=place)
        names = [branch_name(each) for each in branches]
        if len(set(names)) != len(names):
            raise InvalidSchemaError("A union has a type twice.", place=place)
        return Union(branches)

    def _record(self, schema: Mapping[str, object], namespace: str, place: str, depth: int) -> Type:
        name, inner = self._name(schema, namespace, place)
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchemaError(f"The record {name} has no fields.", place=place)
        self.open.add(name)
        read = []
        for each in fields:
            label = each.get("name") if isinstance(each, dict) else None
            if not isinstance(label, str) or not _NAME.fullmatch(label):
                raise InvalidSchemaError(f"A field of the record {name} has no valid name.", place=place)
            at = f"{place}.{label}".lstrip(".")
            if "type" not in each:
                raise InvalidSchemaError("The field has no type.", place=at)
            kind = each["type"]
            read.append(Field(label, self.type(kind, inner, at, depth + 1), _text(each.get("doc"))))
        self.open.discard(name)
        if len({each.name for each in read}) != len(read):
            raise InvalidSchemaError(f"The record {name} has a field twice.", place=place)
        return self._defined(name, RecordType(name, tuple(read), _text(schema.get("doc"))), place)

    def _enum(self, schema: Mapping[str, object], namespace: str, place: str) -> Type:
        name, _ = self._name(schema, namespace, place)
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
            raise InvalidSchemaError(f"The enum {name} has no symbols.", place=place)
        for symbol in symbols:
            check_name(symbol, place)
        return self._defined(name, Enum(name, tuple(map(str, symbols))), place)

    def _fixed(self, schema: Mapping[str, object], namespace: str, place: str) -> Type:
        name, _ = self._name(schema, namespace, place)
        size = schema.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise InvalidSchemaError(f"The fixed {name} has no size.", place=place)
        if size > LARGEST_VALUE:
            raise InvalidSchemaError(f"The fixed {name} has more than {LARGEST_VALUE} bytes.", place=place)
        logical, precision, scale = _logical(schema, "fixed", size)
        return self._defined(name, Fixed(name, size, logical, precision, scale), place)

    def _name(self, schema: Mapping[str, object], namespace: str, place: str) -> tuple[str, str]:
        """The full name of a type, and the namespace of what is in it."""
        name = schema.get("name")
        if not isinstance(name, str) or not all(_NAME.fullmatch(part) for part in name.split(".")):
            raise InvalidSchemaError("A named type has no valid name.", place=place)
        if "." in name:
            return name, name.rpartition(".")[0]
        said = schema.get("namespace", namespace)
        inner = said if isinstance(said, str) else namespace
        if inner:
            check_name(inner, place)
        return (f"{inner}.{name}" if inner else name), inner

    def _defined(self, name: str, kind: Type, place: str) -> Type:
        if name in self.named and self.named[name] != kind:
            raise InvalidSchemaError(f"The type {name} is defined twice.", place=place)
        self.named[name] = kind
        return kind


def branch_name(kind: Type) -> str:
    """Return the name of a branch of a union: unique in the union."""
    match kind:
        case Primitive(name) | Fixed(name) | Enum(name) | RecordType(name) | Again(name):
            return name
        case Array():
            return "array"
        case Map():
            return "map"
        case _:
            return "union"


def union_field(kind: Type) -> str:
    """Return the name of the field that a union's struct has for a branch."""
    return branch_name(kind).replace(".", "_")


def _size(kind: Type) -> int:
    """Types in a type."""
    match kind:
        case RecordType():
            return 1 + sum(_size(each.type) for each in kind.fields)
        case Array():
            return 1 + _size(kind.items)
        case Map():
            return 1 + _size(kind.values)
        case Union():
            return 1 + sum(map(_size, kind.branches))
        case _:
            return 1


def _with_logical(name: str, schema: Mapping[str, object]) -> Primitive:
    logical, precision, scale = _logical(schema, name, 0)
    return Primitive(name, logical, precision, scale)


_LOGICAL = {
    "int": ("date",),
    "long": ("timestamp-millis", "timestamp-micros"),
    "bytes": ("decimal",),
    "fixed": ("decimal",),
}


def _logical(schema: Mapping[str, object], of: str, size: int) -> tuple[str, int, int]:
    """The logical type with precision and scale. One that is unknown or not valid is none, as the specification says.

    Times of day and local timestamps are numbers: Delta tables have no type for them that every reader knows.
    """
    logical = schema.get("logicalType")
    if not isinstance(logical, str) or logical not in _LOGICAL.get(of, ()):
        return "", 0, 0
    if logical != "decimal":
        return logical, 0, 0
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or isinstance(precision, bool):
        return "", 0, 0
    most = _LARGEST_PRECISION if of == "bytes" else min(_LARGEST_PRECISION, _digits_of(size))
    if not 0 < precision <= most or not 0 <= scale <= precision:
        return "", 0, 0
    return logical, precision, scale


def _digits_of(size: int) -> int:
    return len(str(2 ** (8 * min(size, 40) - 1) - 1)) - 1 if size else 0


def _text(doc: object) -> str:
    return comment_of(" ".join(doc.split())) if isinstance(doc, str) else ""
