"""How a topic's keys and values are decoded, as its policy says, and the digest that tells one way from another."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from logcore.values.decoder import ValueDecoder
from logcore.values.undecodable import Reason, Undecodable
from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.setup.policies import TopicPolicy

RULES = 1
"""Version of the decoders. Rows that other rules would decode in another way raise it."""


@dataclass(frozen=True, slots=True)
class TopicDecoding:
    """Decoders of a topic. None: keys or values stay bytes."""

    key: ValueDecoder | None
    value: ValueDecoder | None
    digest: int
    """Of formats, schemas and rules: 63 bits, so that Delta can record it as a version."""

    @classmethod
    def of(cls, policy: TopicPolicy) -> TopicDecoding:
        """Return the decoders that a policy names.

        Raises:
            UsageError: A schema can't be read or used.
        """
        key_schema, value_schema = _text(policy.decode_key_schema), _text(policy.decode_value_schema)
        named = [RULES, policy.decode_key, key_schema, policy.decode_value, value_schema]
        digest = hashlib.sha256(json.dumps(named).encode()).digest()
        return cls(
            _decoder(policy.decode_key, key_schema),
            _decoder(policy.decode_value, value_schema),
            int.from_bytes(digest[:8], "big") >> 1,
        )

    @property
    def key_field(self) -> pa.Field[Any]:
        """Type and comments of decoded keys."""
        return _field("key", self.key)

    @property
    def value_field(self) -> pa.Field[Any]:
        """Type and comments of decoded values."""
        return _field("value", self.value)


def _text(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The schema {path} can't be read as text: {error}.") from error


def _decoder(name: str | None, schema: str | None) -> ValueDecoder | None:
    if name is None or name == "bytes":
        return None
    if name == "string":
        return _Text()
    raise UsageError(f"The format {name} can't be decoded yet.")


def _field(name: str, decoder: ValueDecoder | None) -> pa.Field[Any]:
    if decoder is None:
        return pa.field(name, pa.binary())
    return _commented(pa.field(name, decoder.arrow_type), "", decoder)


def _commented(field: pa.Field[Any], path: str, decoder: ValueDecoder) -> pa.Field[Any]:
    """The field with the schema's comments, also in structs and lists."""
    kind = _commented_type(field.type, path, decoder)
    comment = decoder.comments.get(path)
    made = pa.field(field.name, kind, field.nullable)
    return made.with_metadata({"comment": comment}) if comment else made


def _commented_type(kind: pa.DataType, path: str, decoder: ValueDecoder) -> pa.DataType:
    if pa.types.is_struct(kind):
        inner = [_commented(field, f"{path}.{field.name}".lstrip("."), decoder) for field in kind]
        return pa.struct(inner)
    if pa.types.is_list(kind):
        element = kind.value_field
        return pa.list_(element.with_type(_commented_type(element.type, path, decoder)))
    return kind


class _Text:
    """Text in UTF-8."""

    arrow_type: pa.DataType = pa.string()
    comments: dict[str, str] = {}  # noqa: RUF012 - nothing changes it

    def decode(self, body: bytes) -> object:
        try:
            return body.decode()
        except UnicodeDecodeError as error:
            raise Undecodable(Reason.INVALID_UTF8, f"byte {error.start}") from None
