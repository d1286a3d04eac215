"""The decoder of Avro values. One value after the other is the specification of the kernel's way."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.values.avro.program import program_of
from logcore.values.avro.schema import parse
from logcore.values.avro.shape import Cursor, shape_of
from logcore.values.blocks.decoded_block import decode_block
from logcore.values.column import DecodedBlock
from logcore.values.limits import check_size
from logcore.values.undecodable import Reason, Undecodable


class AvroDecoder:
    """A `ValueDecoder` of one writer's schema, and a `BlockDecoder` where the kernel knows all of its types.

    Raises:
        InvalidSchemaError: From the constructor, if the schema cannot be used.
    """

    def __init__(self, schema: str, references: Mapping[str, str] = MappingProxyType({})) -> None:
        comments: dict[str, str] = {}
        parsed = parse(schema, references)
        self._shape = shape_of(parsed, comments)
        self._program = program_of(parsed)
        self.comments: Mapping[str, str] = comments
        self.arrow_type: pa.DataType = self._shape.arrow_type

    def decode(self, body: bytes) -> object:
        """See `ValueDecoder`."""
        check_size(body)
        cursor = Cursor(body)
        value = self._shape.read(cursor)
        if cursor.left:
            raise Undecodable(Reason.TRAILING_BYTES, f"byte {cursor.position}", f"{cursor.left} bytes after the value")
        return value

    def decode_block(self, bodies: pa.Array[Any]) -> DecodedBlock | None:
        """See `BlockDecoder`."""
        if self._program is None or bodies.type != pa.binary() or not is_chosen(Work.DECODE_AVRO):
            return None
        return decode_block("avro_rows", self._program, self.arrow_type, bodies)
