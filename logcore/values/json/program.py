"""A shape of JSON values as the program of the kernel `json_rows`."""

from __future__ import annotations

import pyarrow as pa

from logcore.columns.kernels.parsing.parsing_frames import FIELD_NAME, FIELD_SIZE, MOST_FIELDS, NodeKind
from logcore.values.blocks.program import Node, Program
from logcore.values.blocks.program_builder import ProgramBuilder, UnknownToKernel
from logcore.values.json.shape import (
    JsonField,
    JsonList,
    JsonMap,
    JsonScalar,
    JsonShape,
    JsonStruct,
    date_of,
    integer_of,
    moment_of,
    number_of,
    text_of,
    truth_of,
)

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
