"""How a topic's keys and values are decoded, as its policy says, and the digest that tells one way from another."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from logcore.values.decoder import ValueDecoder
from logcore.values.formats import decoder_of
from logcore.values.invalid_schema import InvalidSchemaError
from spark_jobs.decode.proto_schema import compiled_schema
from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.setup.policies import TopicPolicy

RULES = 1
"""Version of the decoders. Rows that other rules would decode in another way raise it."""
_BYTES, _PROTOBUF = "bytes", "protobuf"
_PROTO_SUFFIX = ".proto"
_MOST_FOLDERS = 100
"""Folders below that of a schema that are looked at for changes."""


@dataclass(frozen=True, slots=True)
class Format:
    """The format of keys or values, and the text of their schema. Tasks carry it: decoders can't be pickled."""

    name: str | None = None
    """None: they stay bytes."""
    schema: str | None = None

    @classmethod
    def of(cls, name: str | None, path: str | None) -> Format:
        """Return the format of a policy.

        Args:
            path: File with the schema; None: there is none.

        Raises:
            UsageError: The schema can't be read, or there is no decoder for it.
        """
        if name is None or name == _BYTES:
            return cls()
        made = cls(name, None if path is None else _schema(name, path))
        try:
            decoder_of(name, made.schema)
        except InvalidSchemaError as error:
            raise UsageError(f"The schema {path}: {error}" if path else f"The format {name}: {error}") from error
        return made


@dataclass(frozen=True, slots=True)
class TopicFormats:
    """The formats of a topic's keys and values."""

    key: Format
    value: Format

    @classmethod
    def of(cls, policy: TopicPolicy) -> TopicFormats:
        """Return the formats that a policy names.

        Raises:
            UsageError: A schema can't be read or used.
        """
        return cls(
            Format.of(policy.decode_key, policy.decode_key_schema),
            Format.of(policy.decode_value, policy.decode_value_schema),
        )

    @property
    def digest(self) -> int:
        """Digest of formats, schemas and rules: 63 bits, so that Delta can record it as a version."""
        named = [RULES, self.key.name, self.key.schema, self.value.name, self.value.schema]
        return int.from_bytes(hashlib.sha256(json.dumps(named).encode()).digest()[:8], "big") >> 1


@dataclass(frozen=True, slots=True)
class TopicDecoding:
    """Decoders of a topic. None: keys or values stay bytes."""

    key: ValueDecoder | None
    value: ValueDecoder | None

    @property
    def key_field(self) -> pa.Field[Any]:
        """Type and comments of decoded keys."""
        return _field("key", self.key)

    @property
    def value_field(self) -> pa.Field[Any]:
        """Type and comments of decoded values."""
        return _field("value", self.value)


@lru_cache(maxsize=8)
def decoding_of(formats: TopicFormats) -> TopicDecoding:
    """Return the decoders of formats that were made by :meth:`TopicFormats.of`; a worker makes them once."""
    return TopicDecoding(_decoder(formats.key), _decoder(formats.value))


def _decoder(of: Format) -> ValueDecoder | None:
    return None if of.name is None else decoder_of(of.name, of.schema)


def _schema(name: str, path: str) -> str:
    text = _text(path)
    if name != _PROTOBUF:
        return text
    if not path.endswith(_PROTO_SUFFIX):
        return text.strip()
    stamp = _stamp_of(path)
    return compiled_schema(path) if stamp is None else _compiled(path, stamp)


@lru_cache(maxsize=64)
def _compiled(path: str, stamp: tuple[tuple[str, int, int], ...]) -> str:
    """The compiled schema. A watch plans each second, and the compiler is a process of its own."""
    return compiled_schema(path)


def _stamp_of(path: str) -> tuple[tuple[str, int, int], ...] | None:
    """Size and time of all files that the schema can import; None: they are too many to look at."""
    found: list[tuple[str, int, int]] = []
    for seen, (folder, _, names) in enumerate(os.walk(os.path.dirname(os.path.abspath(path)))):
        if seen == _MOST_FOLDERS:
            return None
        for name in names:
            if name.endswith(_PROTO_SUFFIX):
                status = os.stat(os.path.join(folder, name))
                found.append((os.path.join(folder, name), status.st_size, status.st_mtime_ns))
    return tuple(sorted(found))


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The schema {path} can't be read as text: {error}.") from error


def _field(name: str, decoder: ValueDecoder | None) -> pa.Field[Any]:
    if decoder is None:
        return pa.field(name, pa.binary())
    return _commented(pa.field(name, decoder.arrow_type), "", decoder)


def _commented(field: pa.Field[Any], path: str, decoder: ValueDecoder) -> pa.Field[Any]:
    """The field with the schema's comments, also in structs, lists and maps."""
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
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _commented_type(kind.item_type, path, decoder))
    return kind
