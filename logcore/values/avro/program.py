"""An Avro type as the program of the kernel `avro_rows`."""

from __future__ import annotations

from dataclasses import dataclass

from logcore.columns.kernels.parsing.parsing_frames import NULL_FIRST, NULL_SECOND, NodeKind
from logcore.values.avro.schema import Array, Enum, Fixed, Map, Primitive, RecordType, Type, Union
from logcore.values.blocks.program import Node, Program
from logcore.values.blocks.program_builder import ProgramBuilder, UnknownToKernel

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
