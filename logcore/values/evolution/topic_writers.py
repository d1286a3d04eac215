"""The schemas that write keys or values of one topic: by id and GUID, with the type of the column that holds them all.

Schemas are taken in the order of their ids, which is the order in which a registry got them. Each may add fields to the
column. One that would change a field is left out: its rows have the reason INCOMPATIBLE_SCHEMA.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa

from logcore.values.decoder import ValueDecoder
from logcore.values.evolution.merged_type import merged_column
from logcore.values.form import PLAIN, Form, ValueColumn
from logcore.values.formats import decoder_of
from logcore.values.invalid_schema import InvalidSchemaError, check_columns
from logcore.values.prefix import Framing, SchemaId, unknown_schema
from logcore.values.protobuf.descriptors import parse
from logcore.values.registry.schemas import Schemas, WriterSchema, context_of
from logcore.values.undecodable import Reason, Undecodable

_PROTOBUF = "protobuf"
_FIRST = (0,)
_MOST_SAID = 5
"""Differences that one phrase names."""


@dataclass(frozen=True, slots=True)
class SchemaNaming:
    """How keys or values of a topic name the schema that wrote them, as the policy says."""

    format: str
    """``json``, ``avro`` or ``protobuf``."""
    subjects: tuple[str, ...]
    """Subjects whose schemas may be named; all of one context."""
    framing: Framing
    message: str | None = None
    """For Protobuf: name of the message in its file; None: the first one."""


@dataclass(frozen=True, slots=True)
class RefusedWriter:
    """Why rows of a schema are not decoded."""

    reason: Reason
    detail: str
    is_wider: bool = False
    """Whether they are, once all rows of the topic are decoded again."""


@dataclass(frozen=True, slots=True)
class KnownWriter:
    """A schema whose rows are decoded."""

    schema: WriterSchema
    message: tuple[int, ...] | None
    """For Protobuf: indexes of the message."""

    def decoder(self, column: ValueColumn | None = None) -> ValueDecoder:
        """Return a new decoder, whose values fit into a column of several schemas if that is given."""
        schema = self.schema
        return decoder_of(schema.format, schema.text, schema.references, self.message, names_schema=True, column=column)


@dataclass(frozen=True, slots=True, eq=False)
class TopicWriters:
    """What a task needs to decode a column of keys or values."""

    naming: SchemaNaming
    known: Mapping[SchemaId, KnownWriter | RefusedWriter]
    others: frozenset[SchemaId]
    """Ids and GUIDs of other subjects."""
    kind: pa.DataType | None
    """Type of the column; None: no schema can be used."""
    form: Form
    """What marks the column and its fields."""
    comments: Mapping[str, str]
    """Of the newest schema that has one for a field, by path."""
    added: tuple[str, ...]
    """Fields that the table does not have yet, as phrases."""
    digest: int
    """63 bits of what decides which rows can be decoded, and how."""

    def __hash__(self) -> int:
        return self.digest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicWriters) and (other.digest, other.kind, other.form) == (
            self.digest,
            self.kind,
            self.form,
        )

    def writer(self, schema: SchemaId | None) -> KnownWriter:
        """Return the writer that a row names.

        Raises:
            Undecodable: The schema is unknown, of another subject, or refused.
        """
        found = self.known.get(schema) if schema is not None else None
        if isinstance(found, KnownWriter):
            return found
        if found is not None:
            raise Undecodable(found.reason, "", found.detail)
        if schema in self.others:
            raise Undecodable(Reason.OTHER_SUBJECT, "", f"schema {schema} is not one of {self._subjects}")
        raise unknown_schema(schema, f"of {self._subjects} is known")

    @property
    def problem(self) -> str:
        """Why no schema can be used, if that is so."""
        refused = [each.detail for each in self.known.values() if isinstance(each, RefusedWriter)]
        return f"no schema of {self._subjects} can be used: {refused[0] if refused else 'none is registered'}"

    @property
    def _subjects(self) -> str:
        return ", ".join(self.naming.subjects)


def topic_writers(
    schemas: Schemas,
    naming: SchemaNaming,
    place: str,
    table: ValueColumn | None = None,
    prepared: Callable[[WriterSchema], WriterSchema] = lambda schema: schema,
) -> TopicWriters:
    """Choose the schemas of the subjects, and merge their types.

    Args:
        schemas: Of a registry.
        place: ``key`` or ``value``, for phrases.
        table: The column that the table has. It only grows. None: there is no table.
        prepared: Makes a schema one that `decoder_of` reads: it compiles Protobuf in text. It may raise
            InvalidSchemaError.
    """
    context = context_of(naming.subjects[0])
    merging = _Merging(naming, place, table)
    known: dict[SchemaId, KnownWriter | RefusedWriter] = {}
    others: set[SchemaId] = set()
    by_schema: dict[tuple[str, str], KnownWriter | RefusedWriter] = {}
    names = [name for where, name in schemas.by_name if where == context]
    for name in sorted(names, key=lambda each: (schemas.by_name[context, each].id, isinstance(each, UUID), str(each))):
        found = _of_subjects(schemas, name, naming)
        if found is None:
            others.add(name)
            continue
        if isinstance(found, WriterSchema):
            text = (found.text, json.dumps(sorted(found.references.items())))
            if text not in by_schema:
                by_schema[text] = merging.taken(name, found, prepared)
            known[name] = by_schema[text]
        else:
            known[name] = found
    return merging.writers(known, frozenset(others))


def _of_subjects(schemas: Schemas, name: SchemaId, naming: SchemaNaming) -> WriterSchema | RefusedWriter | None:
    """The schema of an id if it belongs to one of the subjects."""
    for subject in naming.subjects:
        try:
            found = schemas.writer_schema(name, subject)
        except Undecodable as failure:
            if failure.reason == Reason.OTHER_SUBJECT:
                continue
            return RefusedWriter(failure.reason, failure.detail)
        if found.format != naming.format:
            return RefusedWriter(
                Reason.OTHER_FORMAT, f"schema {name} has the format {found.format}, the policy {naming.format}"
            )
        return found
    return None


class _Merging:
    """The type of the column, while one schema after the other is merged into it."""

    def __init__(self, naming: SchemaNaming, place: str, table: ValueColumn | None) -> None:
        self.naming, self.place, self.has_table = naming, place, table is not None
        self.column = table
        self.added: list[str] = []
        self.comments: dict[str, str] = {}

    def taken(
        self, name: SchemaId, schema: WriterSchema, prepared: Callable[[WriterSchema], WriterSchema]
    ) -> KnownWriter | RefusedWriter:
        """Merge one schema."""
        try:
            ready = prepared(schema)
            known = KnownWriter(ready, self._message(ready))
            decoder = known.decoder()
            own = ValueColumn(decoder.arrow_type, decoder.form)
            if self.column is None:
                self.column = own
            differences, is_wider = self._merged(self.column, own)
        except InvalidSchemaError as error:
            return RefusedWriter(Reason.BAD_SCHEMA, f"schema {name}: {error.message}")
        except UnicodeError:
            return RefusedWriter(Reason.BAD_SCHEMA, f"schema {name}: a name is not valid Unicode")
        if differences:
            more = f", and {len(differences) - _MOST_SAID} more" if len(differences) > _MOST_SAID else ""
            return RefusedWriter(
                Reason.INCOMPATIBLE_SCHEMA,
                f"schema {name} cannot be aligned with the table: {'; '.join(differences[:_MOST_SAID])}{more}",
                is_wider,
            )
        self.comments.update(decoder.comments)
        return known

    def _merged(self, column: ValueColumn, own: ValueColumn) -> tuple[Sequence[str], bool]:
        """Merge a column; return what forbids it, and whether that is only the type which the table has."""
        merged = merged_column(column, own, self.place, self.naming.format)
        if merged.conflicts:
            return merged.conflicts, False
        if self.has_table and merged.widened:
            return merged.widened, True
        try:
            check_columns(merged.kind)
        except InvalidSchemaError as error:
            return [error.message], False
        self.column = ValueColumn(merged.kind, merged.form)
        self.added += merged.added if self.has_table else ()
        return (), False

    def _message(self, schema: WriterSchema) -> tuple[int, ...] | None:
        if schema.format != _PROTOBUF:
            return None
        if self.naming.message is None:
            return _FIRST
        return parse(schema.text, schema.references).indexes_of(self.naming.message)

    def writers(
        self, known: Mapping[SchemaId, KnownWriter | RefusedWriter], others: frozenset[SchemaId]
    ) -> TopicWriters:
        """Return what was merged."""
        said = [sorted(map(str, others)), *([str(name), repr(each)] for name, each in known.items())]
        digest = int.from_bytes(hashlib.sha256(json.dumps(said).encode()).digest()[:8], "big") >> 1
        kind, form = (None, PLAIN) if self.column is None else (self.column.kind, self.column.form)
        return TopicWriters(self.naming, known, others, kind, form, self.comments, tuple(self.added), digest)
