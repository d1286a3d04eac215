"""The common type of two schemas, and how they differ.

Fields are matched by name. A field that only one of them has is null in rows of the other. What a format allows besides
becomes a wider column, in which no value changes:

| types | column |
|---|---|
| numbers | whole numbers, floats or decimals with room for both; of a whole number and a float a double |
| text and bytes | bytes |
| a type and a union, in Avro | the union |
| what is always null, and any other | the other |
| a record without fields, and one with fields | that with fields |
| a date, timestamp or decimal of Avro, and a type that it promotes to or from | that of the number or bytes below |
| a date or timestamp of JSON, and text | text |
| an enum or boolean of Protobuf, and a whole number | names and numbers as text; a whole number |
| a value and a list, in Protobuf, other than of numbers | the list |
| JSON text and any other type, an object and a map, in JSON | JSON text |

Every other difference is a conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from logcore.values.form import EMPTY, ITEMS, JSON, NAMES, NULL, PLAIN, UNION, Form, ValueColumn, struct_of

_WHOLE: Mapping[pa.DataType, int] = {pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
"""Whole numbers with their decimal digits."""
_FLOATS = (pa.float32(), pa.float64())
_MOST_DIGITS = 38
_TIME = pa.timestamp("us", tz="UTC")
_BELOW: Mapping[str, Mapping[pa.DataType, pa.DataType]] = {
    "avro": {pa.date32(): pa.int32(), _TIME: pa.int64()},
    "json": {pa.date32(): pa.string(), _TIME: pa.string()},
    "protobuf": {pa.bool_(): pa.int16()},
}
"""By format, the types below those that only say what a number or text means."""


@dataclass(frozen=True, slots=True)
class MergedType:
    """The common type of a known type and of another one, with the differences as phrases for people."""

    kind: pa.DataType
    """The fields of the known type in their order, then the new ones. Without meaning if there are conflicts."""
    added: tuple[str, ...] = ()
    """Fields that the known type does not have, such as ``+ value.note: string``."""
    widened: tuple[str, ...] = ()
    """Columns of the known type that need another type, such as ``value.id: int32 → int64``."""
    conflicts: tuple[str, ...] = ()
    """Differences that no common type covers, such as ``value.price: int64 → string``."""
    form: Form = PLAIN


def merged_type(known: pa.DataType, other: pa.DataType, place: str = "value") -> MergedType:
    """Return the common type of two types without marks, of no format."""
    return merged_column(ValueColumn(known), ValueColumn(other), place, "")


def merged_column(known: ValueColumn, other: ValueColumn, place: str, format: str) -> MergedType:
    """Return the common type of two columns.

    Args:
        known: A column that has rows already, or of earlier schemas.
        other: Of one more schema.
        place: What the types are called in the phrases.
        format: Of both schemas; its rules say which types may become another.
    """
    merger = _Merger(format)
    made = merger.column(known, other, place)
    return MergedType(made.kind, tuple(merger.added), tuple(merger.widened), tuple(merger.conflicts), made.form)


def fits(column: ValueColumn, other: ValueColumn, format: str) -> bool:
    """Whether a column takes all values of another one as it is."""
    merger = _Merger(format)
    merger.column(column, other, "")
    return not (merger.added or merger.widened or merger.conflicts)


def _in_union(column: ValueColumn, union: ValueColumn, format: str) -> ValueColumn:
    """A column as a union of one type: the one of its name, else one that takes its values, or a new one."""
    name = column.form.branch
    if name not in union.parts and not pa.types.is_struct(column.kind):
        name = next((each for each, part in union.parts.items() if fits(part, column, format)), name)
    return struct_of({name: column}, UNION)


@dataclass(slots=True)
class _Merger:
    format: str
    added: list[str] = field(default_factory=list)
    widened: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)

    def column(self, known: ValueColumn, other: ValueColumn, place: str) -> ValueColumn:
        """Merge two columns, and note how they differ."""
        said = f"{place}: {_name(known)} → {_name(other)}"
        if known.is_union != other.is_union and NULL not in (known.form.mark, other.form.mark):
            if known.is_union:
                return self.column(known, _in_union(other, known, self.format), place)
            self.widened.append(said)
            inner = _Merger(self.format)
            made = inner.column(_in_union(known, other, self.format), other, place)
            self.conflicts += inner.conflicts
            return made
        if pa.types.is_struct(known.kind) and pa.types.is_struct(other.kind):
            return self._struct(known, other, place)
        made_of = self._items(known, other, place) if _shape(known) == _shape(other) else None
        common = made_of or _common(known, other, self.format)
        if common is None:
            self.conflicts.append(said)
            return known
        form = replace(common.form, branch=other.form.branch or known.form.branch)
        if made_of is None and (common.kind, form.mark) != (known.kind, known.form.mark):
            self.widened.append(said)
        return ValueColumn(common.kind, form)

    def _items(self, known: ValueColumn, other: ValueColumn, place: str) -> ValueColumn | None:
        """Lists or maps; None: they are neither, or keys are of two types."""
        if known.items is None or other.items is None:
            return None
        if pa.types.is_list(known.kind):
            inner = self.column(known.items, other.items, f"{place}[]")
            return ValueColumn(pa.list_(inner.kind), Form(parts={ITEMS: inner.form}))
        keys: list[pa.DataType] = [each.kind.key_type for each in (known, other)]  # type: ignore[attr-defined]
        key = _wider(*keys)
        if key is None:
            return None
        if key != keys[0]:
            self.widened.append(f"{place}{{}}: keys {keys[0]} → {key}")
        inner = self.column(known.items, other.items, f"{place}{{}}")
        return ValueColumn(pa.map_(key, inner.kind), Form(parts={ITEMS: inner.form}))

    def _struct(self, known: ValueColumn, other: ValueColumn, place: str) -> ValueColumn:
        parts = dict(known.parts)
        spelled = {name.casefold(): name for name in parts}
        for name, own in other.parts.items():
            at, clash = f"{place}.{name}", spelled.get(name.casefold(), name)
            if name in parts:
                parts[name] = self.column(parts[name], own, at)
            elif clash != name:
                self.conflicts.append(f"{place}.{clash} and {at} differ by case only")
            else:
                self.added.append(f"+ {at}: {_name(own)}")
                parts[name] = own
        return struct_of(parts, known.form.mark, other.form.branch or known.form.branch)


def _common(known: ValueColumn, other: ValueColumn, format: str) -> ValueColumn | None:
    """The column that takes all values of both; None: there is none."""
    marks = {known.form.mark, other.form.mark}
    if known.kind == other.kind and len(marks) == 1:
        return known
    pairs = ((known, other), (other, known))
    for one, another in pairs:
        if one.form.mark == NULL or (one.form.mark == EMPTY and pa.types.is_struct(another.kind)):
            return another
    if format == "json" and (JSON in marks or {_shape(known), _shape(other)} == {"map", "struct"}):
        return ValueColumn(pa.string(), Form(JSON))
    if marks & {JSON, EMPTY}:
        return None
    for one, another in pairs if format == "protobuf" else ():
        if one.form.mark == NAMES:
            is_name = another.kind in (pa.bool_(), pa.string()) or _digits(another.kind) is not None
            return one if is_name else None
        if pa.types.is_list(one.kind) and one.items is not None and not _is_number(another):
            inner = merged_column(one.items, another, "", format)
            return None if inner.conflicts else ValueColumn(pa.list_(inner.kind), Form(parts={ITEMS: inner.form}))
    wider = _wider(known.kind, other.kind) or _wider(*(_below(each.kind, format) for each in (known, other)))
    return None if wider is None else ValueColumn(wider)


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type of scalars in which no value of both changes."""
    if one == other:
        return one
    kinds = {one, other}
    if kinds == {pa.string(), pa.binary()}:
        return pa.binary()
    if kinds <= _WHOLE.keys():
        return max(kinds, key=_WHOLE.__getitem__)
    if kinds <= {*_WHOLE, *_FLOATS}:
        return pa.float64()
    digits = [_digits(each) for each in (one, other)]
    if None in digits:
        return None
    whole, scale = (max(each[at] for each in digits if each is not None) for at in (0, 1))
    return pa.decimal128(whole + scale, scale) if whole + scale <= _MOST_DIGITS else None


def _digits(kind: pa.DataType) -> tuple[int, int] | None:
    """Digits before and after the decimal point; None: it is neither a decimal nor a whole number."""
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    return (_WHOLE[kind], 0) if kind in _WHOLE else None


def _is_number(column: ValueColumn) -> bool:
    kind = column.kind
    return _digits(kind) is not None or kind in (*_FLOATS, pa.bool_()) or column.form.mark == NAMES


def _below(kind: pa.DataType, format: str) -> pa.DataType:
    if format == "avro" and pa.types.is_decimal(kind):
        return pa.binary()
    return _BELOW.get(format, {}).get(kind, kind)


def _name(column: ValueColumn) -> str:
    """The type in a word or two: a struct's fields could fill a page."""
    if pa.types.is_struct(column.kind):
        return f"{'union' if column.is_union else 'struct'} of {column.kind.num_fields} fields"
    return "JSON text" if column.form.mark == JSON and column.kind == pa.string() else _shape(column)


def _shape(column: ValueColumn) -> str:
    kind: Any = column.kind
    if pa.types.is_struct(kind):
        return "struct"
    return "list" if pa.types.is_list(kind) else "map" if pa.types.is_map(kind) else str(kind)
