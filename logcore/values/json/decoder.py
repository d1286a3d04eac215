"""The decoder of JSON values whose shape a JSON Schema gives."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from logcore.values.json.schema import json_shape
from logcore.values.json.text import parse_json


class JsonDecoder:
    """A `ValueDecoder` of strict JSON.

    Raises:
        InvalidSchemaError: From the constructor, if the schema cannot be used.
    """

    def __init__(self, schema: str, references: Mapping[str, str]) -> None:
        self._shape, self.comments = json_shape(schema, references)
        self.arrow_type: pa.DataType = self._shape.arrow_type

    def decode(self, body: bytes) -> object:
        """See `ValueDecoder`."""
        return self._shape.convert(parse_json(body))
