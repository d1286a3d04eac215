"""One Avro value after the other: the specification of every faster way."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

from logcore.values.avro.schema import parse
from logcore.values.avro.shape import Cursor, shape_of
from logcore.values.limits import check_size
from logcore.values.undecodable import Reason, Undecodable


class AvroDecoder:
    """A `ValueDecoder` of one writer's schema.

    Raises:
        InvalidSchemaError: From the constructor, if the schema cannot be used.
    """

    def __init__(self, schema: str, references: Mapping[str, str] = MappingProxyType({})) -> None:
        comments: dict[str, str] = {}
        self._shape = shape_of(parse(schema, references), comments)
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
