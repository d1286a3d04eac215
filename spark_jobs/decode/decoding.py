"""How a topic's keys and values are decoded, as its policy says, and a digest of the way."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from logcore.values.decoder import ValueDecoder
from logcore.values.evolution.topic_writers import SchemaNaming, TopicWriters, topic_writers
from logcore.values.evolution.written_column import WrittenColumnDecoder
from logcore.values.form import ITEMS, METADATA, Form, ValueColumn, mark_of
from logcore.values.formats import decoder_of
from logcore.values.invalid_schema import InvalidSchemaError
from logcore.values.prefix import Framing
from logcore.values.protobuf.descriptors import parse
from logcore.values.registry.schemas import Schemas, context_of
from spark_jobs.decode.protobuf.proto_schema import compiled_schema, compiled_writer
from spark_jobs.errors import UsageError
from spark_jobs.policies.topic_policies import TopicPolicy

RULES = 1
"""Version of the decoders. All topics wait for `--replace` if it is raised. So only a change does that which gives rows
other values or columns."""
_BYTES, _PROTOBUF = "bytes", "protobuf"
_WITH_SCHEMA = ("json", "avro", _PROTOBUF)
_PROTO_SUFFIX = ".proto"
_MOST_FOLDERS = 100
"""Folders below that of a schema that are looked at for changes."""


@dataclass(frozen=True, slots=True)
class Format:
    """The format of keys or values, and their schemas. Tasks carry it: decoders can't be pickled."""

    name: str | None = None
    """None: they stay bytes."""
    schema: str | None = None
    """Text of the one schema."""
    message: tuple[int, ...] | None = None
    """For Protobuf with one schema: indexes of the message; None: the first."""
    naming: SchemaNaming | None = None
    """How rows name their schemas; None: they have one schema, or need none."""
    writers: TopicWriters | None = None
    """The schemas that rows may name; None before :meth:`resolved`."""

    @classmethod
    def of(cls, policy: TopicPolicy, topic: str, part: str) -> Format:
        """Return the format of keys or values that a policy names.

        Args:
            part: ``key`` or ``value``.

        Raises:
            UsageError: The schema can't be read, or there is no decoder for it.
        """
        is_key = part == "key"
        name = policy.decode_key if is_key else policy.decode_value
        path = policy.decode_key_schema if is_key else policy.decode_value_schema
        message = policy.decode_key_message if is_key else policy.decode_value_message
        subjects = policy.decode_key_subjects if is_key else policy.decode_value_subjects
        if name is None or name == _BYTES:
            return cls()
        if path is None and policy.decode_schemas is not None and name in _WITH_SCHEMA:
            subjects = subjects or (f"{topic}-{part}",)
            if len({context_of(each) for each in subjects}) > 1:
                raise UsageError(f"decode.{part}.subjects: all subjects of a topic must have one context.")
            return cls(name, naming=SchemaNaming(name, subjects, Framing(policy.decode_framing), message))
        try:
            text = None if path is None else _schema(name, path)
            indexes = None
            if name == _PROTOBUF and text is not None and message is not None:
                indexes = parse(text, {}).indexes_of(message)
            decoder_of(name, text, message=indexes)
        except InvalidSchemaError as error:
            raise UsageError(f"The schema {path}: {error}" if path else f"decode.{part}: {error}") from error
        return cls(name, text, indexes)

    @property
    def described(self) -> list[object]:
        """What decides how rows are decoded, apart from what a registry says."""
        if self.naming is not None:
            return [self.name, None, self.naming.subjects, self.naming.framing, self.naming.message]
        return [self.name, self.schema, *([self.message] if self.message else [])]

    def resolved(self, schemas: Schemas, part: str, table: ValueColumn | None) -> Format:
        """Return the format with the schemas that rows may name.

        Args:
            table: The column that the table has; None: there is no table.
        """
        if self.naming is None:
            return self
        return replace(self, writers=topic_writers(schemas, self.naming, part, table, compiled_writer))


def lacking_schema(policy: TopicPolicy) -> str | None:
    """Return the setting of a schema that a policy's formats need and the policy lacks; None: it lacks none."""
    if policy.decode_schemas is None:
        parts = (
            ("key", policy.decode_key, policy.decode_key_schema),
            ("value", policy.decode_value, policy.decode_value_schema),
        )
        for part, name, path in parts:
            if name in _WITH_SCHEMA and path is None:
                return f"decode.{part}.schema"
    return None


@dataclass(frozen=True, slots=True)
class TopicFormats:
    """The formats of a topic's keys and values."""

    key: Format
    value: Format

    @classmethod
    def of(cls, policy: TopicPolicy, topic: str) -> TopicFormats:
        """Return the formats that a policy names.

        Raises:
            UsageError: A schema can't be read or used.
        """
        return cls(Format.of(policy, topic, "key"), Format.of(policy, topic, "value"))

    @property
    def digest(self) -> int:
        """Digest of formats, schemas and rules: 63 bits, so that Delta can record it as a version."""
        return _digest([RULES, *self.key.described, *self.value.described])

    @property
    def registry_digest(self) -> int | None:
        """Digest of the schemas that rows may name; None: they name none."""
        digests = [writers.digest for writers in self.writers]
        return _digest(digests) if digests else None

    @property
    def writers(self) -> tuple[TopicWriters, ...]:
        """The schemas that keys and values may name, after :meth:`Format.resolved`."""
        return tuple(part.writers for part in (self.key, self.value) if part.writers is not None)

    @property
    def names_schemas(self) -> bool:
        """Whether keys or values name their schemas."""
        return self.key.naming is not None or self.value.naming is not None


def _digest(named: Sequence[object]) -> int:
    return int.from_bytes(hashlib.sha256(json.dumps(named).encode()).digest()[:8], "big") >> 1


@dataclass(frozen=True, slots=True)
class TopicDecoding:
    """Decoders of a topic. None: keys or values stay bytes."""

    key: ValueDecoder | WrittenColumnDecoder | None
    value: ValueDecoder | WrittenColumnDecoder | None

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


def _decoder(of: Format) -> ValueDecoder | WrittenColumnDecoder | None:
    if of.writers is not None:
        return WrittenColumnDecoder(of.writers)
    return None if of.name is None else decoder_of(of.name, of.schema, message=of.message)


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


def _field(name: str, decoder: ValueDecoder | WrittenColumnDecoder | None) -> pa.Field[Any]:
    if decoder is None:
        return pa.field(name, pa.binary())
    return _commented(pa.field(name, decoder.arrow_type), "", decoder.form, decoder.comments)


def _commented(field: pa.Field[Any], path: str, form: Form, comments: Mapping[str, str]) -> pa.Field[Any]:
    """The field with the schema's comments and marks, also in structs, lists and maps."""
    kind = _commented_type(field.type, path, form, comments)
    comment, mark = comments.get(path), mark_of(form)
    made = pa.field(field.name, kind, field.nullable)
    said: dict[bytes | str, bytes | str] = {b"comment": comment} if comment else {}
    return made.with_metadata(said | ({METADATA: mark} if mark else {}))


def _commented_type(kind: pa.DataType, path: str, form: Form, comments: Mapping[str, str]) -> pa.DataType:
    if pa.types.is_struct(kind):
        named = ((field, f"{path}.{field.name}".lstrip(".")) for field in kind)
        return pa.struct([_commented(field, at, form.of(field.name), comments) for field, at in named])
    if pa.types.is_list(kind):
        element = kind.value_field
        return pa.list_(element.with_type(_commented_type(element.type, path, form.of(ITEMS), comments)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _commented_type(kind.item_type, path, form.of(ITEMS), comments))
    return kind
