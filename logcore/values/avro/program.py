"""An Avro type as the program of the kernel `avro_rows`."""

from __future__ import annotations

from logcore.columns.kernels.parsing.parsing_frames import NULL_FIRST, NULL_SECOND, NodeKind
from logcore.values.avro.schema import Array, Enum, Fixed, Primitive, RecordType, Type, Union
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
    """Return the program of a type; None if it has parts that the kernel does not know: maps, decimals, other unions
    than of null and one type.
    """
    return _AvroBuilder().program(kind)


class _AvroBuilder(ProgramBuilder[Type]):
    def node(self, shape: Type, scope: int) -> Node:
        """See `ProgramBuilder`."""
        kind, nullable = shape, 0
        if isinstance(kind, Union):
            if len(kind.branches) != 2 or _NULL not in kind.branches:
                raise UnknownToKernel
            nullable = NULL_FIRST if kind.branches[0] == _NULL else NULL_SECOND
            kind = next(branch for branch in kind.branches if branch != _NULL)
        match kind:
            case RecordType(_, fields):
                return self.struct([each.type for each in fields], nullable, scope)
            case Array(items):
                return self.listed(items, nullable, scope)
            case Enum(_, symbols):
                node = self.added(NodeKind.SYMBOL, nullable, scope)
                node.required, node.symbols = len(symbols), dict(enumerate(symbols))
                return node
            case Fixed(_, size, ""):
                node = self.added(NodeKind.FIXED, nullable, scope)
                node.required = size
                return node
            case Primitive(name, logical) if (name, logical) in _NUMBERS:
                return self.added(_NUMBERS[name, logical], nullable, scope)
        raise UnknownToKernel
