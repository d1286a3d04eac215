"""The decoder of Avro values. One value after the other is the specification of the kernel's way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.columns.kernels.parsing.parsing_frames import NULL_FIRST, NULL_SECOND, NodeKind
from logcore.values.avro.column_types import as_stored, avro_form
from logcore.values.avro.schema import Array, Enum, Fixed, Map, Primitive, RecordType, Type, Union, parse
from logcore.values.avro.shape import Cursor, bare_bytes_shape, shape_of
from logcore.values.blocks.decoded_block import decode_block
from logcore.values.blocks.program import Node, Program, ProgramBuilder, UnknownToKernel
from logcore.values.column import DecodedBlock
from logcore.values.form import ValueColumn
from logcore.values.limits import check_size
from logcore.values.undecodable import Reason, Undecodable

_NULL = Primitive("null")
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
