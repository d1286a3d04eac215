"""What is known of the schemas of a registry, and which of them wrote a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from logcore.values.limits import MOST_COLUMNS
from logcore.values.prefix import SchemaId, unknown_schema
from logcore.values.undecodable import Reason, Undecodable

DEFAULT_CONTEXT = "."
LATEST = -1
"""The version of a reference to the newest version that is not deleted."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Another schema, by subject and version, and the name that the text uses for it."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as it was registered. `format` is one of `avro`, `json`, `protobuf`, or another registry's word."""

    id: int
    format: str
    text: str
    references: tuple[Reference, ...] = ()
    guid: UUID | None = None
    encrypted: bool = False


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of a subject. A deleted one still decodes old values."""

    schema: RegisteredSchema
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """What `decoder_of` needs to decode values of one schema."""

    format: str
    text: str
    references: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Schemas:
    """All schemas of a registry. Ids are unique within a context only, so a name is a context and an id or GUID."""

    by_name: Mapping[tuple[str, SchemaId], RegisteredSchema]
    subjects: Mapping[tuple[str, SchemaId], frozenset[str]]
    """Subjects of a schema, also those that were deleted."""
    versions: Mapping[tuple[str, int], SchemaVersion]
    ambiguous: frozenset[tuple[str, SchemaId]] = frozenset()
    """Ids that two different schemas have had."""

    def writer_schema(self, schema: SchemaId, subject: str) -> WriterSchema:
        """Return the schema that wrote values of a subject.

        Args:
            schema: Id or GUID of the prefix.
            subject: Such as `orders-value`, or `:.context:orders-value`; its context is the one of ids.

        Raises:
            Undecodable: UNKNOWN_SCHEMA, OTHER_SUBJECT, ENCRYPTED, or BAD_SCHEMA if a reference is missing.
        """
        context = context_of(subject)
        name = (context, schema)
        found = self.by_name.get(name)
        if found is None:
            raise unknown_schema(schema, f"in context {context}")
        if qualified(subject) not in self.subjects.get(name, frozenset()):
            raise Undecodable(Reason.OTHER_SUBJECT, "", f"schema {schema} is not registered for {subject}")
        if name in self.ambiguous:
            raise Undecodable(Reason.BAD_SCHEMA, "", f"two different schemas have had the id {schema}")
        if found.encrypted:
            raise Undecodable(Reason.ENCRYPTED, "", f"schema {schema} has encrypted fields")
        return WriterSchema(found.format, found.text, self._references(found, context))

    def _references(self, schema: RegisteredSchema, context: str) -> dict[str, str]:
        """Texts of all schemas that a schema refers to, also through others."""
        texts: dict[str, str] = {}
        waiting = list(schema.references)
        for _ in range(MOST_COLUMNS):
            if not waiting:
                return texts
            reference = waiting.pop()
            found = self._version(qualified(reference.subject, context), reference.version)
            if found is None:
                where = f"{reference.subject} version {reference.version}"
                raise Undecodable(Reason.BAD_SCHEMA, "", f"the referenced schema {where} is unknown")
            known = texts.get(reference.name)
            if known is not None and known != found.text:
                raise Undecodable(Reason.BAD_SCHEMA, "", f"{reference.name} is the name of two referenced schemas")
            if known is None:
                texts[reference.name] = found.text
                waiting.extend(found.references)
        raise Undecodable(Reason.BAD_SCHEMA, "", f"more than {MOST_COLUMNS} references")

    def _version(self, subject: str, version: int) -> RegisteredSchema | None:
        if version == LATEST and (subject, LATEST) not in self.versions:
            numbers = [number for name, number in self.versions if name == subject]
            version = max((number for number in numbers if not self.versions[subject, number].deleted), default=version)
        found = self.versions.get((subject, version))
        return None if found is None else found.schema


def context_of(subject: str) -> str:
    """Return the context of a subject such as `:.context:orders-value`; one without a context has the default."""
    if subject.startswith(":."):
        context, colon, _ = subject[1:].partition(":")
        if colon:
            return context
    return DEFAULT_CONTEXT


def qualified(subject: str, context: str = DEFAULT_CONTEXT) -> str:
    """Return a subject as the registry stores it: with a context, unless it is the default one.

    Args:
        context: That of a subject that names none.
    """
    own = context_of(subject)
    if own != DEFAULT_CONTEXT:
        return subject
    name = subject.removeprefix(":.:")
    return name if context == DEFAULT_CONTEXT or name != subject else f":{context}:{name}"
