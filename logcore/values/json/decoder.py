"""The decoder of JSON values whose shape a JSON Schema gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.values.blocks.decoded_block import decode_block
from logcore.values.column import DecodedBlock
from logcore.values.form import ValueColumn
from logcore.values.json.program import program_of
from logcore.values.json.schema import json_shape
from logcore.values.json.shape import json_form, shape_in
from logcore.values.json.text import parse_json


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
