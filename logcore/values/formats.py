"""The decoder for a format and a schema, by the names that policies use.

Kafka's own serializers are here too: text, numbers in a fixed width, UUID as text, plain bytes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logcore.values.avro.avro_decoder import AvroDecoder
from logcore.values.column import DecodedBlock
from logcore.values.decoder import ValueDecoder
from logcore.values.form import PLAIN, Form, ValueColumn
from logcore.values.invalid_schema import InvalidSchemaError, check_columns
from logcore.values.json.json_decoder import JsonDecoder
from logcore.values.limits import LARGEST_VALUE, check_size
from logcore.values.protobuf.protobuf_decoder import ProtobufDecoder
from logcore.values.undecodable import Reason, Undecodable

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class PrimitiveDecoder:
    """A `ValueDecoder` of one value without parts and without a schema."""

    arrow_type: pa.DataType
    of: Callable[[bytes], object]
    comments: Mapping[str, str] = field(default_factory=dict)
    of_block: Callable[[pa.Array[Any]], pa.Array[Any] | None] | None = None
    """Decodes rows at once if all of them are certain; None: the format has no such way."""
    form: Form = PLAIN

    def decode(self, body: bytes) -> object:
        """See `ValueDecoder`."""
        check_size(body)
        return self.of(body)

    def decode_block(self, bodies: pa.Array[Any]) -> DecodedBlock | None:
        """See `BlockDecoder`. A block with a doubtful row is decoded row by row."""
        values = None if self.of_block is None else self.of_block(bodies)
        return None if values is None else DecodedBlock(values, np.empty(0, np.int64))


def _texts(bodies: pa.Array[Any]) -> pa.Array[Any] | None:
    longest = pc.max(pc.binary_length(bodies)).as_py()  # type: ignore[call-overload]
    if longest is not None and longest > LARGEST_VALUE:
        return None
    try:
        return bodies.cast(pa.string())
    except pa.ArrowInvalid:
        return None


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(Reason.INVALID_UTF8, f"byte {error.start}") from None


def _number(form: str) -> Callable[[bytes], object]:
    layout = struct.Struct(form)

    def unpack(body: bytes) -> object:
        if len(body) != layout.size:
            raise Undecodable(Reason.WRONG_SIZE, "", f"{len(body)} bytes instead of {layout.size}")
        return layout.unpack(body)[0]

    return unpack


def _truth(body: bytes) -> bool:
    if len(body) != 1:
        raise Undecodable(Reason.WRONG_SIZE, "", f"{len(body)} bytes instead of 1")
    if body[0] > 1:
        raise Undecodable(Reason.OUT_OF_RANGE, "byte 0", "neither 0 nor 1")
    return body[0] == 1


def _uuid(body: bytes) -> str:
    text = _text(body)
    if not _UUID.fullmatch(text):
        raise Undecodable(Reason.WRONG_TYPE, "", "no UUID such as 123e4567-e89b-12d3-a456-426614174000")
    return str(UUID(text))


PRIMITIVES: Mapping[str, PrimitiveDecoder] = {
    "string": PrimitiveDecoder(pa.string(), _text, of_block=_texts),
    "short": PrimitiveDecoder(pa.int16(), _number(">h")),
    "integer": PrimitiveDecoder(pa.int32(), _number(">i")),
    "long": PrimitiveDecoder(pa.int64(), _number(">q")),
    "float": PrimitiveDecoder(pa.float32(), _number(">f")),
    "double": PrimitiveDecoder(pa.float64(), _number(">d")),
    "boolean": PrimitiveDecoder(pa.bool_(), _truth),
    "uuid": PrimitiveDecoder(pa.string(), _uuid),
    "bytes": PrimitiveDecoder(pa.binary(), bytes),
}
"""The decoder of each format that needs no schema, by the name that a policy uses."""

FORMATS = ("json", "avro", "protobuf", *PRIMITIVES)
"""The names of all formats."""


def decoder_of(
    format: str,
    schema: str | None,
    references: Mapping[str, str] = MappingProxyType({}),
    message: tuple[int, ...] | None = None,
    *,
    names_schema: bool = False,
    column: ValueColumn | None = None,
) -> ValueDecoder:
    """Return the decoder of a format.

    Args:
        format: One of `FORMATS`.
        schema: Text of the writer's schema, for the formats that have one; for Protobuf a compiled schema in base64.
        references: Texts of the schemas that it refers to, by the names that it uses for them.
        message: For Protobuf, the indexes that lead to the message type; None is the first.
        names_schema: Whether values name their schema, as Confluent's serializers write them. If the whole schema is
            Avro's `bytes`, these write the bytes without a length.
        column: The column of several schemas that gets the values, if this is one of them. A decoder makes values that
            fit into it, as `aligned` completes them.

    Raises:
        InvalidSchemaError: The format is unknown, or the schema is missing, invalid or without columns.
    """
    if format in PRIMITIVES:
        if schema is not None:
            raise InvalidSchemaError(f"The format {format} has no schema.", advice="Leave the schema out.")
        return PRIMITIVES[format]
    if format not in FORMATS:
        raise InvalidSchemaError(f"There is no format {format}.", advice=f"Choose one of {', '.join(FORMATS)}.")
    if schema is None:
        raise InvalidSchemaError(f"The format {format} needs a schema.", advice="Name a file or a schema registry.")
    decoder: ValueDecoder
    if format == "protobuf":
        decoder = ProtobufDecoder(schema, references, message)
    else:
        decoder = (
            AvroDecoder(schema, references, bare_bytes=names_schema, column=column)
            if format == "avro"
            else JsonDecoder(schema, references, column)
        )
    check_columns(decoder.arrow_type)
    return decoder
