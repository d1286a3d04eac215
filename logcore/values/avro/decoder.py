"""The decoder of Avro values. One value after the other is the specification of the kernel's way."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.values.avro.column_types import as_stored, avro_form
from logcore.values.avro.program import program_of
from logcore.values.avro.schema import Primitive, parse
from logcore.values.avro.shape import Cursor, bare_bytes_shape, shape_of
from logcore.values.blocks.decoded_block import decode_block
from logcore.values.column import DecodedBlock
from logcore.values.form import ValueColumn
from logcore.values.limits import check_size
from logcore.values.undecodable import Reason, Undecodable


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
