"""What sampled JSON documents look like: the JSON Schema that describes them, and what no schema could describe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from logcore.values.invalid_schema import InvalidSchemaError, check_name
from logcore.values.json.shape import date_of, integer_of, is_cut_moment, moment_of
from logcore.values.json.text import ExactNumber
from logcore.values.undecodable import Undecodable

MOST_NAMES = 200
"""An object with more different names is a map, if its values have one type."""

WHOLE = "the whole"
"""The place of the document itself, in notes."""

_MOMENT = "date-time"

Schema = dict[str, object]


@dataclass(slots=True)
class SampledPlace:
    """The values that were seen at one place of the documents."""

    kinds: Counter[str] = field(default_factory=Counter)
    """Number of values by type of JSON Schema."""
    dates: int = 0
    moments: int = 0
    cut_moments: int = 0
    """Those of the moments with digits below microseconds."""
    properties: dict[str, SampledPlace] = field(default_factory=dict)
    items: SampledPlace | None = None

    def add(self, value: object) -> None:
        """Add a parsed value."""
        self.kinds[kind_of(value)] += 1
        if isinstance(value, dict):
            for name, inner in value.items():
                self.properties.setdefault(name, SampledPlace()).add(inner)
        elif isinstance(value, list):
            for inner in value:
                self.items = self.items or SampledPlace()
                self.items.add(inner)
        elif isinstance(value, str) and not isinstance(value, ExactNumber):
            self.dates += _fits(date_of, value)
            if _fits(moment_of, value):
                self.moments += 1
                self.cut_moments += is_cut_moment(value)

    def merge(self, other: SampledPlace) -> None:
        """Add what was seen at another place."""
        self.kinds += other.kinds
        self.dates += other.dates
        self.moments += other.moments
        self.cut_moments += other.cut_moments
        for name, inner in other.properties.items():
            self.properties.setdefault(name, SampledPlace()).merge(inner)
        if other.items is not None:
            self.items = self.items or SampledPlace()
            self.items.merge(other.items)

    def schema(self, path: str, notes: list[str]) -> Schema | None:
        """Return the schema of the values; None if they have no one type.

        Args:
            path: The place, for notes.
            notes: Gets a line for what is left out, and for what was concluded from the sample.
        """
        name = self._one_type(path, notes)
        if name is None:
            return None
        made: Schema = {"type": [name, "null"] if self.kinds["null"] else name}
        if name == "string":
            self._form(made, path, notes)
        elif name == "array":
            items = None if self.items is None else self.items.schema(f"{path}[]", notes)
            if items is None:
                notes.append(f"{path or WHOLE}: left out, because its items have no type")
                return None
            made["items"] = items
        elif name == "object":
            return self._object(made, path, notes)
        return made

    def _one_type(self, path: str, notes: list[str]) -> str | None:
        kinds = {kind: count for kind, count in self.kinds.items() if kind != "null" and count}
        if kinds.keys() == {"integer", "number"}:
            kinds = {"number": sum(kinds.values())}
        if len(kinds) == 1:
            return next(iter(kinds))
        said = " and ".join(f"{count:,} of type {kind}" for kind, count in sorted(kinds.items()))
        notes.append(f"{path or WHOLE}: left out, because it has {said or 'only null'}")
        return None

    def _form(self, made: Schema, path: str, notes: list[str]) -> None:
        for form, count in ((_MOMENT, self.moments), ("date", self.dates)):
            if count == self.kinds["string"]:
                made["format"] = form
                cut = self._cut() if form == _MOMENT else ""
                notes.append(f"{path}: all {count:,} texts have the form {form}{cut}")

    def _cut(self) -> str:
        verb = "has" if self.cut_moments == 1 else "have"
        said = f"; {self.cut_moments:,} {verb} digits below microseconds, which would be cut"
        return said if self.cut_moments else ""

    def _object(self, made: Schema, path: str, notes: list[str]) -> Schema | None:
        if len(self.properties) > MOST_NAMES:
            merged = SampledPlace()
            for inner in self.properties.values():
                merged.merge(inner)
            values = merged.schema(f"{path}{{}}", notes)
            if values is None:
                return None
            notes.append(f"{path or WHOLE}: a map, because it has {len(self.properties):,} different names")
            return made | {"additionalProperties": values}
        prefix = f"{path}." if path else ""
        named = {name: inner for name, inner in sorted(self.properties.items()) if _can_be_a_column(name)}
        if len(named) < len(self.properties):
            lost = len(self.properties) - len(named)
            notes.append(f"{f'{path}: ' if path else ''}{lost:,} names left out, because no column can have them")
        found = {name: inner.schema(f"{prefix}{name}", notes) for name, inner in named.items()}
        properties = {name: inner for name, inner in found.items() if inner is not None}
        if not properties:
            notes.append(f"{path or WHOLE}: left out, because no property of it has a type")
            return None
        return made | {"properties": properties}


def kind_of(value: object) -> str:
    """Return the type of a parsed value, as JSON Schema names it."""
    if isinstance(value, ExactNumber) or (isinstance(value, int) and not isinstance(value, bool)):
        return "integer" if isinstance(value, int) and _fits(integer_of, value) else "number"
    names = {type(None): "null", bool: "boolean", str: "string", dict: "object", list: "array"}
    return names[type(value)]


def _can_be_a_column(name: str) -> bool:
    try:
        check_name(name, "")
    except InvalidSchemaError:
        return False
    return True


def _fits(convert: Callable[[object], object], value: object) -> bool:
    try:
        convert(value)
    except Undecodable:
        return False
    return True
