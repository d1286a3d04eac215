"""The decoder of JSON values whose shape a JSON Schema gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.columns.kernels.parsing.parsing_frames import FIELD_NAME, FIELD_SIZE, MOST_FIELDS, NodeKind
from logcore.values.blocks.decoded_block import decode_block
from logcore.values.blocks.program import Node, Program, ProgramBuilder, UnknownToKernel
from logcore.values.column import DecodedBlock
from logcore.values.form import ValueColumn
from logcore.values.json.schema import json_shape
from logcore.values.json.shape import (
    JsonField,
    JsonList,
    JsonMap,
    JsonScalar,
    JsonShape,
    JsonStruct,
    date_of,
    integer_of,
    json_form,
    moment_of,
    number_of,
    shape_in,
    text_of,
    truth_of,
)
from logcore.values.json.text import parse_json

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
