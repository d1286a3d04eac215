"""The decoder for a format and a schema, by the names that policies use."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from logcore.values.avro.decoder import AvroDecoder
from logcore.values.decoder import ValueDecoder
from logcore.values.form import ValueColumn
from logcore.values.invalid_schema import InvalidSchemaError, check_columns
from logcore.values.json.decoder import JsonDecoder
from logcore.values.primitives import PRIMITIVES
from logcore.values.protobuf.decoder import ProtobufDecoder

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
