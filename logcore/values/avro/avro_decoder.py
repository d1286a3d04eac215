"""The decoder of Avro values. One value after the other is the specification of the kernel's way.

What an Avro type becomes: a column, and a function that reads a value from the bytes.

| Avro | column |
|---|---|
| `boolean`, `int`, `long`, `float`, `double`, `bytes`, `string` | the same |
| `fixed` | bytes |
| `decimal` of at most 38 digits | decimal |
| `date`; `timestamp-millis`, `timestamp-micros` | date; timestamp in microseconds, UTC |
| other logical types | the type below |
| `enum` | its symbol as text |
| `record`, `array`, `map` | struct, list, map |
| union of null and one type | that type, nullable |
| a record inside of itself, or without fields; `null` | JSON text |
| other unions | struct with a nullable field for each type, named as the type, with `_` for each dot; one is set |

An Avro type and the column that it shares with types of other schemas.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.columns.kernels.parsing.parsing_frames import NULL_FIRST, NULL_SECOND, NodeKind
from logcore.values.avro.schema import (
    Again,
    Array,
    Enum,
    Fixed,
    Map,
    Primitive,
    RecordType,
    Type,
    Union,
    parse,
    union_field,
)
from logcore.values.blocks.decoded_block import decode_block
from logcore.values.blocks.program import Node, Program, ProgramBuilder, UnknownToKernel
from logcore.values.column import DecodedBlock
from logcore.values.form import EMPTY, ITEMS, JSON, NULL, UNION, Form, ValueColumn
from logcore.values.invalid_schema import InvalidSchemaError
from logcore.values.json.fragment import Entries, Fragment, json_text
from logcore.values.limits import DEEPEST_VALUE, check_size
from logcore.values.undecodable import Reason, Undecodable

_NULL = Primitive("null")


def avro_form(kind: Type) -> Form:
    """Return the form of the column that a type becomes."""
    match kind:
        case Array(inner) | Map(inner):
            return Form("", union_field(kind), {ITEMS: avro_form(inner)})
        case Union(branches):
            others = [each for each in branches if each != _NULL]
            if len(others) == 1:
                return avro_form(others[0])
            return Form(UNION if others else NULL, "", {union_field(each): avro_form(each) for each in others})
        case RecordType(_, fields):
            parts = {each.name: avro_form(each.type) for each in fields}
            return Form("" if fields else EMPTY, union_field(kind), parts)
        case Again():
            return Form(JSON, union_field(kind))
        case _:
            return Form(NULL if kind == _NULL else "", union_field(kind))


def as_stored(kind: Type, column: ValueColumn | None) -> Type:
    """Return a type without the logical types that its column does not have.

    Args:
        column: None: it has none of them.
    """
    is_several = isinstance(kind, Union) and sum(each != _NULL for each in kind.branches) > 1
    if column is not None and column.is_union and not is_several and not isinstance(kind, Union):
        column = column.parts.get(union_field(kind))
    match kind:
        case Array(items):
            return Array(as_stored(items, column and column.items))
        case Map(values):
            return Map(as_stored(values, column and column.items))
        case Union(branches) if is_several:
            return Union(tuple(as_stored(each, column and column.parts.get(union_field(each))) for each in branches))
        case Union(branches):
            return Union(tuple(as_stored(each, column) for each in branches))
        case RecordType(_, fields):
            stored = (as_stored(each.type, column and column.parts.get(each.name)) for each in fields)
            return replace(kind, fields=tuple(replace(each, type=of) for each, of in zip(fields, stored, strict=True)))
        case Primitive() | Fixed() if kind.logical and not (column and column.is_logical):
            return replace(kind, logical="", precision=0, scale=0)
        case _:
            return kind


_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""Of the years 1 to 9999, since 1970."""
_FIRST_MICRO, _END_MICRO = -62_135_596_800_000_000, 253_402_300_800_000_000
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


@dataclass(slots=True)
class Cursor:
    """A position in the bytes of a value."""

    body: bytes
    position: int = 0
    depth: int = 0
    """Records inside of themselves that are being read."""

    @property
    def left(self) -> int:
        """Bytes that are not read yet."""
        return len(self.body) - self.position

    def take(self, size: int) -> bytes:
        """Return the next bytes.

        Raises:
            Undecodable: TRUNCATED.
        """
        if size > self.left:
            raise Undecodable(Reason.TRUNCATED, f"byte {self.position}", f"{self.left} bytes are left, {size} needed")
        begun, self.position = self.position, self.position + size
        return self.body[begun : self.position]

    def long(self) -> int:
        """Return the next zigzag number.

        Raises:
            Undecodable: TRUNCATED or VARINT.
        """
        body, position, value = self.body, self.position, 0
        for shift in range(0, 70, 7):
            if position >= len(body):
                raise Undecodable(Reason.TRUNCATED, f"byte {self.position}", "the bytes end inside a number")
            byte = body[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> 64:
                    break
                self.position = position
                return (value >> 1) ^ -(value & 1)
        raise Undecodable(Reason.VARINT, f"byte {self.position}", "a number of more than 64 bits")

    def length(self) -> int:
        """Return the next number, as a length or a number of items that the rest can hold.

        Raises:
            Undecodable: TRUNCATED, VARINT or LENGTH.
        """
        begun = self.position
        size = self.long()
        if not 0 <= size <= self.left:
            raise Undecodable(Reason.LENGTH, f"byte {begun}", f"{size} where {self.left} bytes are left")
        return size


Read = Callable[[Cursor], object]


@dataclass(frozen=True, slots=True)
class AvroShape:
    """A column, and how its values are read."""

    arrow_type: pa.DataType
    read: Read


def shape_of(kind: Type, comments: dict[str, str], path: str = "") -> AvroShape:
    """Return the shape of a type.

    Args:
        comments: Gets what the schema says about fields, by their path.

    Raises:
        InvalidSchemaError: Names of a union's types differ too little.
    """
    match kind:
        case Primitive():
            return _primitive(kind)
        case Fixed():
            return _decimal(kind, lambda cursor: cursor.take(kind.size))
        case Enum(_, symbols):
            return AvroShape(pa.string(), lambda cursor: _symbol(cursor, symbols))
        case Array(items):
            return _list(shape_of(items, comments, path))
        case Map(values):
            return _map(shape_of(values, comments, path))
        case Union():
            return _union(kind, comments, path)
        case RecordType():
            return _record(kind, comments, path)
        case Again():
            return AvroShape(pa.string(), lambda cursor: _again(kind, cursor))


def bare_bytes_shape(kind: Primitive) -> AvroShape:
    """Return the shape of bytes without a length before them: all that is left."""
    return _decimal(kind, lambda cursor: cursor.take(cursor.left))


def _primitive(kind: Primitive) -> AvroShape:
    match kind.name, kind.logical:
        case "null", _:
            return AvroShape(pa.string(), lambda _: None)
        case "boolean", _:
            return AvroShape(pa.bool_(), _truth)
        case "int", "date":
            return AvroShape(pa.date32(), lambda cursor: _within(cursor, _FIRST_DAY, _LAST_DAY + 1, 1))
        case "int", _:
            return AvroShape(pa.int32(), lambda cursor: _within(cursor, -(1 << 31), 1 << 31, 1))
        case "long", "timestamp-millis":
            return AvroShape(
                pa.timestamp("us", tz="UTC"), lambda cursor: _within(cursor, _FIRST_MICRO, _END_MICRO, 1000)
            )
        case "long", "timestamp-micros":
            return AvroShape(pa.timestamp("us", tz="UTC"), lambda cursor: _within(cursor, _FIRST_MICRO, _END_MICRO, 1))
        case "long", _:
            return AvroShape(pa.int64(), Cursor.long)
        case "float", _:
            return AvroShape(pa.float32(), lambda cursor: _FLOAT.unpack(cursor.take(4))[0])
        case "double", _:
            return AvroShape(pa.float64(), lambda cursor: _DOUBLE.unpack(cursor.take(8))[0])
        case "bytes", _:
            return _decimal(kind, lambda cursor: cursor.take(cursor.length()))
        case _:
            return AvroShape(pa.string(), _text)


def _truth(cursor: Cursor) -> object:
    begun = cursor.position
    value = cursor.take(1)[0]
    if value > 1:
        raise Undecodable(Reason.OUT_OF_RANGE, f"byte {begun}", "neither 0 nor 1")
    return value == 1


def _within(cursor: Cursor, first: int, end: int, scale: int) -> object:
    begun = cursor.position
    value = cursor.long() * scale
    if not first <= value < end:
        raise Undecodable(Reason.OUT_OF_RANGE, f"byte {begun}", "outside of the range of its type")
    return value


def _text(cursor: Cursor) -> object:
    begun = cursor.position
    try:
        return cursor.take(cursor.length()).decode()
    except UnicodeDecodeError as error:
        place = f"byte {begun}"
        raise Undecodable(Reason.INVALID_UTF8, place, f"from byte {error.start} of the text on") from None


def _decimal(kind: Primitive | Fixed, content: Callable[[Cursor], bytes]) -> AvroShape:
    if kind.logical != "decimal":
        return AvroShape(pa.binary(), content)
    limit, scale = 10**kind.precision, kind.scale

    def read(cursor: Cursor) -> object:
        begun = cursor.position
        unscaled = int.from_bytes(content(cursor), "big", signed=True)
        if not -limit < unscaled < limit:
            raise Undecodable(Reason.OUT_OF_RANGE, f"byte {begun}", f"more than {kind.precision} digits")
        sign, digits = int(unscaled < 0), tuple(map(int, str(abs(unscaled))))
        return Decimal((sign, digits, -scale))

    return AvroShape(pa.decimal128(kind.precision, scale), read)


def _symbol(cursor: Cursor, symbols: tuple[str, ...]) -> object:
    begun = cursor.position
    index = cursor.long()
    if not 0 <= index < len(symbols):
        raise Undecodable(Reason.UNKNOWN_SYMBOL, f"byte {begun}", f"symbol {index} of {len(symbols)}")
    return symbols[index]


def _blocks(cursor: Cursor, one: Callable[[int], None]) -> None:
    """Read the blocks of an array or a map; `one` reads an item and gets its number."""
    number = 0
    while True:
        begun = cursor.position
        count = cursor.long()
        end = None
        if count < 0:
            count = -count
            end = cursor.length() + cursor.position
        if count > cursor.left:
            raise Undecodable(Reason.LENGTH, f"byte {begun}", f"{count} items where {cursor.left} bytes are left")
        if not count:
            return
        for _ in range(count):
            one(number)
            number += 1
        if end is not None and cursor.position != end:
            raise Undecodable(Reason.LENGTH, f"byte {begun}", "a block has another size than it states")


def _list(item: AvroShape) -> AvroShape:
    def read(cursor: Cursor) -> object:
        values: list[object] = []

        def one(number: int) -> None:
            try:
                values.append(item.read(cursor))
            except Undecodable as failure:
                raise failure.inside(f"[{number}]") from None

        _blocks(cursor, one)
        return values

    return AvroShape(pa.list_(item.arrow_type), read)


def _map(value: AvroShape) -> AvroShape:
    def read(cursor: Cursor) -> object:
        values: dict[object, object] = {}

        def one(number: int) -> None:
            try:
                key = _text(cursor)
                values[key] = value.read(cursor)
            except Undecodable as failure:
                raise failure.inside(f"{{{number}}}") from None

        _blocks(cursor, one)
        return Entries(values.items())

    return AvroShape(pa.map_(pa.string(), value.arrow_type), read)


def _union(kind: Union, comments: dict[str, str], path: str) -> AvroShape:
    others = [branch for branch in kind.branches if branch != _NULL]
    is_one = len(others) <= 1
    steps = [path if is_one else f"{path}.{union_field(branch)}".lstrip(".") for branch in kind.branches]
    shapes = [shape_of(branch, comments, step) for branch, step in zip(kind.branches, steps, strict=True)]
    if is_one:
        readers = [shape.read for shape in shapes]
        arrow_type = next((s.arrow_type for s, b in zip(shapes, kind.branches, strict=True) if b != _NULL), pa.string())
        return AvroShape(arrow_type, lambda cursor: readers[_branch(cursor, len(readers))](cursor))
    names = [union_field(branch) for branch in kind.branches]
    if len(set(names)) != len(names):
        raise InvalidSchemaError("Names of a union's types differ by a dot only.", place=path)
    fields = [(n, s) for n, s, b in zip(names, shapes, kind.branches, strict=True) if b != _NULL]
    empty = dict.fromkeys(name for name, _ in fields)

    def read(cursor: Cursor) -> object:
        branch = _branch(cursor, len(shapes))
        if kind.branches[branch] == _NULL:
            return None
        try:
            return empty | {names[branch]: shapes[branch].read(cursor)}
        except Undecodable as failure:
            raise failure.inside(names[branch]) from None

    return AvroShape(pa.struct([pa.field(name, shape.arrow_type) for name, shape in fields]), read)


def _again(kind: Again, cursor: Cursor) -> object:
    """A record inside of itself as JSON text, without logical types."""
    if not kind.made:
        kind.made.append(shape_of(as_stored(kind.named[kind.name], None), {}).read)
    read: Any = kind.made[0]
    cursor.depth += 1
    if cursor.depth > DEEPEST_VALUE:
        raise Undecodable(Reason.TOO_DEEP, f"byte {cursor.position}", f"more than {DEEPEST_VALUE} levels")
    value = json_text(read(cursor))
    cursor.depth -= 1
    return value


def _branch(cursor: Cursor, count: int) -> int:
    begun = cursor.position
    branch = cursor.long()
    if not 0 <= branch < count:
        raise Undecodable(Reason.UNKNOWN_SYMBOL, f"byte {begun}", f"type {branch} of a union of {count}")
    return branch


def _record(kind: RecordType, comments: dict[str, str], path: str) -> AvroShape:
    if kind.comment:
        comments.setdefault(path, kind.comment)
    fields = []
    for each in kind.fields:
        at = f"{path}.{each.name}".lstrip(".")
        if each.comment:
            comments[at] = each.comment
        fields.append((each.name, shape_of(each.type, comments, at)))

    if not fields:
        return AvroShape(pa.string(), lambda _: Fragment("{}"))

    def read(cursor: Cursor) -> object:
        values = {}
        for name, shape in fields:
            try:
                values[name] = shape.read(cursor)
            except Undecodable as failure:
                raise failure.inside(name) from None
        return values

    return AvroShape(pa.struct([pa.field(name, shape.arrow_type) for name, shape in fields]), read)


_NUMBERS = {
    ("boolean", ""): NodeKind.TRUTH,
    ("int", ""): NodeKind.INT32,
    ("int", "date"): NodeKind.DATE,
    ("long", ""): NodeKind.INTEGER,
    ("long", "timestamp-millis"): NodeKind.MILLIS,
    ("long", "timestamp-micros"): NodeKind.MOMENT,
    ("float", ""): NodeKind.FLOAT32,
    ("double", ""): NodeKind.FLOAT64,
    ("bytes", ""): NodeKind.BYTES,
    ("string", ""): NodeKind.TEXT,
}


def program_of(kind: Type) -> Program | None:
    """Return the program of a type; None if the kernel does not know its parts: JSON text, unions of one type."""
    return _AvroBuilder().program(kind)


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a map: a text, and a value."""

    value: Type


class _AvroBuilder(ProgramBuilder[Type | _Entry]):
    def node(self, shape: Type | _Entry, scope: int) -> Node:
        """See `ProgramBuilder`."""
        kind, nullable = shape, 0
        if isinstance(kind, Union):
            others = [branch for branch in kind.branches if branch != _NULL]
            if len(others) > 1:
                return self._union(kind, others, scope)
            if len(kind.branches) != 2 or not others:
                raise UnknownToKernel
            nullable = NULL_FIRST if kind.branches[0] == _NULL else NULL_SECOND
            (kind,) = others
        match kind:
            case RecordType(_, fields) if fields:
                return self.struct([each.type for each in fields], nullable, scope)
            case Array(items):
                return self.listed(items, nullable, scope)
            case Map(values):
                return self.listed(_Entry(values), nullable, scope)
            case _Entry(value):
                node = self.struct([Primitive("string"), value], nullable, scope)
                node.is_closed = True
                return node
            case Enum(_, symbols):
                node = self.added(NodeKind.SYMBOL, nullable, scope)
                node.required, node.symbols = len(symbols), dict(enumerate(symbols))
                return node
            case Fixed(_, size, ""):
                node = self.added(NodeKind.FIXED, nullable, scope)
                node.required = size
                return node
            case Fixed(_, size, "decimal", precision):
                node = self.added(NodeKind.FIXED_DECIMAL, nullable, scope)
                node.required, node.bound = size, 10**precision
                return node
            case Primitive("bytes", "decimal", precision):
                node = self.added(NodeKind.DECIMAL, nullable, scope)
                node.bound = 10**precision
                return node
            case Primitive(name, logical) if (name, logical) in _NUMBERS:
                return self.added(_NUMBERS[name, logical], nullable, scope)
        raise UnknownToKernel

    def _union(self, kind: Union, others: list[Type], scope: int) -> Node:
        node = self.struct(others, 0, scope)
        node.kind = NodeKind.UNION
        node.required = kind.branches.index(_NULL) if _NULL in kind.branches else -1
        return node


class AvroDecoder:
    """A `ValueDecoder` of one writer's schema, and a `BlockDecoder` where the kernel knows all of its types.

    Args:
        schema: JSON.
        references: See :func:`logcore.values.avro.schema.parse`.
        bare_bytes: Whether a value whose whole schema is `bytes` has no length before it.
        column: The column of several schemas that gets the values.

    Raises:
        InvalidSchemaError: From the constructor, if the schema cannot be used.
    """

    def __init__(
        self,
        schema: str,
        references: Mapping[str, str] = MappingProxyType({}),
        *,
        bare_bytes: bool = False,
        column: ValueColumn | None = None,
    ) -> None:
        comments: dict[str, str] = {}
        parsed = parse(schema, references)
        if column is not None:
            parsed = as_stored(parsed, column)
        if bare_bytes and isinstance(parsed, Primitive) and parsed.name == "bytes":
            self._shape, self._program = bare_bytes_shape(parsed), None
        else:
            self._shape, self._program = shape_of(parsed, comments), program_of(parsed)
        self.comments: Mapping[str, str] = comments
        self.arrow_type: pa.DataType = self._shape.arrow_type
        self.form = avro_form(parsed)

    def decode(self, body: bytes) -> object:
        """See `ValueDecoder`."""
        check_size(body)
        cursor = Cursor(body)
        try:
            value = self._shape.read(cursor)
        except RecursionError:
            raise Undecodable(Reason.TOO_DEEP) from None
        if cursor.left:
            raise Undecodable(Reason.TRAILING_BYTES, f"byte {cursor.position}", f"{cursor.left} bytes after the value")
        return value

    def decode_block(self, bodies: pa.Array[Any]) -> DecodedBlock | None:
        """See `BlockDecoder`."""
        if self._program is None or bodies.type != pa.binary() or not is_chosen(Work.DECODE_AVRO):
            return None
        return decode_block("avro_rows", self._program, self.arrow_type, bodies)
