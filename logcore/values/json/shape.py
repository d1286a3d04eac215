"""The shape of JSON values: the type at each place, as Arrow types, and the values of parsed JSON that fit into it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from math import isinf
from typing import TypeAlias

import pyarrow as pa

from logcore.values.form import ITEMS, JSON, NULL, PLAIN, Form, ValueColumn
from logcore.values.json.fragment import Entries, json_text
from logcore.values.json.text import ExactNumber
from logcore.values.undecodable import Reason, Undecodable

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_DIGITS_OF_MICROSECONDS = 6
_DIGITS_OF_INT64 = 19
_NAMES: Mapping[type, str] = {
    ExactNumber: "number", int: "number", str: "string", bool: "boolean", dict: "object", list: "array"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class JsonScalar:
    """One value without parts. `of` makes it from parsed JSON other than null."""

    arrow_type: pa.DataType
    of: Callable[[object], object]
    nullable: bool

    def convert(self, value: object) -> object:
        """See `JsonShape`."""
        if value is None:
            return null_of(self.nullable)
        return self.of(value)


@dataclass(frozen=True, slots=True)
class JsonList:
    """An array whose items have one shape."""

    item: JsonShape
    nullable: bool

    @property
    def arrow_type(self) -> pa.DataType:
        """See `JsonShape`."""
        return pa.list_(self.item.arrow_type)

    def convert(self, value: object) -> object:
        """See `JsonShape`."""
        if value is None:
            return null_of(self.nullable)
        if not isinstance(value, list):
            raise wrong_type("array", value)
        items: list[object] = []
        convert = self.item.convert
        try:
            for item in value:
                items.append(convert(item))  # noqa: PERF401 - the length says which item failed
        except Undecodable as failure:
            raise failure.inside(f"[{len(items)}]") from None
        return items


@dataclass(frozen=True, slots=True)
class JsonMap:
    """An object with any keys, whose values have one shape."""

    value: JsonShape
    nullable: bool

    @property
    def arrow_type(self) -> pa.DataType:
        """See `JsonShape`."""
        return pa.map_(pa.string(), self.value.arrow_type)

    def convert(self, value: object) -> object:
        """See `JsonShape`. Places count the entries from 0: keys are content and are not shown."""
        if value is None:
            return null_of(self.nullable)
        if not isinstance(value, dict):
            raise wrong_type("object", value)
        entries = Entries()
        convert = self.value.convert
        try:
            for key, item in value.items():
                entries.append((text_of(key), convert(item)))
        except Undecodable as failure:
            raise failure.inside(f"{{{len(entries)}}}") from None
        return entries


@dataclass(frozen=True, slots=True)
class JsonText:
    """A value of any shape, as JSON text without blanks. Numbers stay exact, but `-0` is `0`."""

    types: tuple[str, ...]
    """`object`, `array` or both; empty: any type."""
    nullable: bool
    has_parts: bool = False
    """Whether the schema says more of it than columns can: no other schema that holds too makes columns of it."""

    @property
    def arrow_type(self) -> pa.DataType:
        """See `JsonShape`."""
        return pa.string()

    def convert(self, value: object) -> object:
        """See `JsonShape`."""
        if value is None:
            return null_of(self.nullable)
        if self.types and not (isinstance(value, dict | list) and _NAMES[type(value)] in self.types):
            raise wrong_type(" or ".join(self.types), value)
        return json_text(value)


@dataclass(frozen=True, slots=True)
class JsonField:
    """A property of an object."""

    name: str
    shape: JsonShape
    required: bool


@dataclass(frozen=True, slots=True)
class JsonStruct:
    """An object with named properties. `closed` refuses others, else they are ignored."""

    fields: tuple[JsonField, ...]
    closed: bool
    nullable: bool

    @property
    def arrow_type(self) -> pa.DataType:
        """See `JsonShape`."""
        return pa.struct([pa.field(field.name, field.shape.arrow_type) for field in self.fields])

    def convert(self, value: object) -> object:
        """See `JsonShape`. An absent property is null."""
        if value is None:
            return null_of(self.nullable)
        if not isinstance(value, dict):
            raise wrong_type("object", value)
        found: dict[str, object] = {}
        present = 0
        for field in self.fields:
            name = field.name
            if name in value:
                present += 1
                try:
                    found[name] = field.shape.convert(value[name])
                except Undecodable as failure:
                    raise failure.inside(name) from None
            elif field.required:
                raise Undecodable(Reason.MISSING_FIELD, name, "absent")
            else:
                found[name] = None
        if self.closed and present != len(value):
            raise Undecodable(Reason.UNKNOWN_FIELD, "", f"{len(value) - present} properties that the schema lacks")
        return found


JsonShape: TypeAlias = JsonScalar | JsonList | JsonMap | JsonText | JsonStruct
"""What is at one place of a document. `arrow_type` is the type of its column, and `nullable` says whether null fits.
`convert` makes the value for the column from parsed JSON. It raises Undecodable if the value does not fit, with the
place as it is seen from here.
"""

FREE = JsonText((), True, has_parts=True)
"""The shape of what a schema describes and no column can hold."""


def json_form(shape: JsonShape) -> Form:
    """Return the form of the column that a shape becomes."""
    match shape:
        case JsonStruct():
            return Form(parts={each.name: json_form(each.shape) for each in shape.fields})
        case JsonList(inner) | JsonMap(inner):
            return Form(parts={ITEMS: json_form(inner)})
        case JsonText():
            return Form(JSON)
    return Form(NULL) if isinstance(shape, JsonScalar) and shape.of is nothing_of else PLAIN


def shape_in(shape: JsonShape, column: ValueColumn | None) -> JsonShape:
    """Return a shape whose values fit into a column of several schemas: it is text where that has text."""
    match shape:
        case JsonStruct() if column is not None and pa.types.is_struct(column.kind):
            fields = (replace(each, shape=shape_in(each.shape, column.parts.get(each.name))) for each in shape.fields)
            return replace(shape, fields=tuple(fields))
        case JsonList() if column is not None and pa.types.is_list(column.kind):
            return replace(shape, item=shape_in(shape.item, column.items))
        case JsonMap() if column is not None and pa.types.is_map(column.kind):
            return replace(shape, value=shape_in(shape.value, column.items))
    if column is None or column.kind != pa.string() or isinstance(shape, JsonText):
        return shape
    if column.form.mark == JSON:
        return JsonText((), shape.nullable)
    is_time = isinstance(shape, JsonScalar) and shape.of in (date_of, moment_of)
    return JsonScalar(pa.string(), text_of, shape.nullable) if is_time else shape


def null_of(nullable: bool) -> object:
    """Return null where the schema allows it.

    Raises:
        Undecodable: MISSING_FIELD.
    """
    if not nullable:
        raise Undecodable(Reason.MISSING_FIELD, "", "null, which the schema does not allow here")
    return None


def wrong_type(expected: str, value: object) -> Undecodable:
    """The failure of a value that has another type than the schema names."""
    return Undecodable(Reason.WRONG_TYPE, "", f"{_NAMES.get(type(value), 'null')} where the schema has {expected}")


def text_of(value: object) -> str:
    """A string; half of a surrogate pair, which only an escape can write, is no text."""
    if type(value) is not str:
        raise wrong_type("string", value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Undecodable(Reason.INVALID_UTF8, "", "half of a surrogate pair") from None
    return value


def integer_of(value: object) -> int:
    """An int64. 1.0 and 1e3 are whole numbers, as JSON Schema has it since draft 6."""
    if type(value) is int:
        whole = value
    elif type(value) is ExactNumber:
        try:
            exact = Decimal(value)
        except InvalidOperation:
            raise Undecodable(Reason.OUT_OF_RANGE, "", "an exponent of more than 18 digits") from None
        if exact and exact.adjusted() >= _DIGITS_OF_INT64:
            raise Undecodable(Reason.OUT_OF_RANGE, "", "larger than 64 bits")
        # `as_tuple` and not a division: a context would round what has more digits than its precision
        _, digits, exponent = exact.as_tuple()
        if exact and isinstance(exponent, int) and exponent < 0 and any(digits[exponent:]):
            raise Undecodable(Reason.WRONG_TYPE, "", "a fraction where the schema has integer")
        whole = int(exact) if exact else 0
    else:
        raise wrong_type("integer", value)
    if not -(1 << 63) <= whole < 1 << 63:
        raise Undecodable(Reason.OUT_OF_RANGE, "", "larger than 64 bits")
    return whole


def number_of(value: object) -> float:
    """The float64 that is nearest to the number."""
    if type(value) is not int and type(value) is not ExactNumber:
        raise wrong_type("number", value)
    number = float(value)
    if isinf(number):
        raise Undecodable(Reason.OUT_OF_RANGE, "", "larger than a float64")
    return number


def truth_of(value: object) -> bool:
    """`true` or `false`."""
    if not isinstance(value, bool):
        raise wrong_type("boolean", value)
    return value


def nothing_of(value: object) -> None:
    """Nothing but null is allowed, and that was looked at before."""
    raise wrong_type("null", value)


def date_of(value: object) -> date:
    """A full-date of RFC 3339."""
    found = _DATE.fullmatch(text_of(value))
    if found is None:
        raise Undecodable(Reason.WRONG_TYPE, "", "no date such as 2024-05-17")
    try:
        return date(*map(int, found.groups()))
    except ValueError:
        raise Undecodable(Reason.OUT_OF_RANGE, "", "no day of the calendar from year 1 to 9999") from None


def moment_of(value: object) -> datetime:
    """A date-time of RFC 3339 in UTC. Digits below microseconds are cut: the moment is never later than the text."""
    found = _MOMENT.fullmatch(text_of(value))
    if found is None:
        raise Undecodable(Reason.WRONG_TYPE, "", "no date-time such as 2024-05-17T08:30:00Z")
    *parts, fraction, sign, hours, minutes = found.groups()
    try:
        year, month, day, hour, minute, second = map(int, parts)
        zone = UTC
        if sign is not None:
            away = timedelta(hours=int(hours), minutes=_minutes(minutes))
            zone = timezone(away if sign == "+" else -away)
        microsecond = int((fraction or "")[:_DIGITS_OF_MICROSECONDS].ljust(_DIGITS_OF_MICROSECONDS, "0"))
        return datetime(year, month, day, hour, minute, second, microsecond, zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Undecodable(Reason.OUT_OF_RANGE, "", "no moment of the years 1 to 9999") from None


def is_cut_moment(text: str) -> bool:
    """Whether `moment_of` cuts digits of this date-time, other than zeros."""
    found = _MOMENT.fullmatch(text)
    return found is not None and bool((found[7] or "")[_DIGITS_OF_MICROSECONDS:].strip("0"))


def _minutes(text: str) -> int:
    if int(text) >= 60:
        raise ValueError(text)
    return int(text)
