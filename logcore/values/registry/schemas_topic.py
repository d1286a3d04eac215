"""Records of the topic `_schemas`, in which Confluent's schema registry keeps its state, become that state.

Keys and values are JSON. A key has a `keytype`; the newest record of a key counts. Deleted schemas go on
decoding values that were written with them, so a tombstone removes a version and keeps the schema of its id.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from logcore.values.json.text import parse_json
from logcore.values.prefix import SchemaId
from logcore.values.registry.schemas import Reference, RegisteredSchema, Schemas, SchemaVersion, context_of, qualified
from logcore.values.undecodable import Undecodable

_Object = dict[str, object]
_ENCRYPTING = frozenset({"ENCRYPT", "ENCRYPT_PAYLOAD"})
_INT32 = 1 << 31


@dataclass(frozen=True, slots=True)
class RegistryFinding:
    """Something in `_schemas` that a person should look at. `detail` names types and subjects, never content."""

    kind: str
    """UNKNOWN_KEYTYPE, BAD_RECORD or TWO_SCHEMAS."""
    detail: str
    count: int


@dataclass(frozen=True, slots=True)
class TopicState:
    """What the records of `_schemas` say.

    Attributes:
        schemas: For decoding.
        settings: Newest value of each other key, as it is: CONFIG, MODE, CONTEXT, ASSOC, and keytypes not known here.
        findings: Unknown keytypes, records that cannot be read, ids with two schemas.
    """

    schemas: Schemas
    settings: Mapping[bytes, bytes]
    findings: tuple[RegistryFinding, ...]


def fold_schemas_topic(records: Iterable[tuple[bytes | None, bytes | None]]) -> TopicState:
    """Fold keys and values of `_schemas`, in the order of their offsets, into a state.

    The job that decodes calls this once, with the rows of `records` of that topic.
    """
    folding = _Folding()
    for key, value in records:
        folding.take(key, value)
    return folding.state()


class _Folding:
    def __init__(self) -> None:
        self.by_name: dict[tuple[str, SchemaId], RegisteredSchema] = {}
        self.subjects: dict[tuple[str, SchemaId], set[str]] = {}
        self.versions: dict[tuple[str, int], SchemaVersion] = {}
        self.ambiguous: set[tuple[str, SchemaId]] = set()
        self.settings: dict[bytes, bytes] = {}
        self.findings: Counter[tuple[str, str]] = Counter()
        self.handlers: dict[str, Callable[[_Object, _Object | None], None]] = {
            "SCHEMA": self._schema,
            "DELETE_SUBJECT": self._delete_subject,
            "CLEAR_SUBJECT": self._clear_subject,
        }
        self.kept = frozenset({"CONFIG", "MODE", "CONTEXT", "ASSOC"})

    def take(self, key: bytes | None, value: bytes | None) -> None:
        name = "without a key"
        try:
            if key is None:
                raise ValueError
            fields = _object(key)
            name = _text(fields, "keytype")
            if name == "NOOP":
                return
            if name in self.handlers:
                self.handlers[name](fields, None if value is None else _object(value))
                return
            if name not in self.kept:
                self.findings["UNKNOWN_KEYTYPE", name[:100]] += 1
        except (ValueError, Undecodable):
            self.findings["BAD_RECORD", name[:100]] += 1
            return
        if value is None:
            self.settings.pop(key, None)
        else:
            self.settings[key] = value

    def state(self) -> TopicState:
        for context, number in self.ambiguous:
            self.findings["TWO_SCHEMAS", f"id {number} of context {context}"] += 1
        subjects = {name: frozenset(found) for name, found in self.subjects.items()}
        schemas = Schemas(self.by_name, subjects, self.versions, frozenset(self.ambiguous))
        findings = tuple(RegistryFinding(*name, count) for name, count in sorted(self.findings.items()))
        return TopicState(schemas, self.settings, findings)

    def _schema(self, key: _Object, value: _Object | None) -> None:
        if key.get("magic") not in (0, 1):
            raise ValueError
        subject, version = qualified(_text(key, "subject")), _number(key, "version")
        if value is None:
            self.versions.pop((subject, version), None)
            return
        schema = registered_schema(value, _number(value, "id"))
        for id in (schema.id, schema.guid):
            if id is not None:
                self._name((context_of(subject), id), schema, subject)
        self.versions[subject, version] = SchemaVersion(schema, value.get("deleted") is True)

    def _name(self, name: tuple[str, SchemaId], schema: RegisteredSchema, subject: str) -> None:
        known = self.by_name.setdefault(name, schema)
        if (known.format, known.text, known.references) != (schema.format, schema.text, schema.references):
            self.ambiguous.add(name)
        elif schema.encrypted:
            self.by_name[name] = schema
        self.subjects.setdefault(name, set()).add(subject)

    def _delete_subject(self, key: _Object, value: _Object | None) -> None:
        if value is None:
            return
        subject, last = qualified(_text(key, "subject")), _number(value, "version")
        for name, version in list(self.versions):
            if name == subject and version <= last:
                self.versions[name, version] = SchemaVersion(self.versions[name, version].schema, deleted=True)

    def _clear_subject(self, key: _Object, value: _Object | None) -> None:
        if value is None:
            return
        subject = qualified(_text(key, "subject"))
        for name, version in list(self.versions):
            if name == subject:
                del self.versions[name, version]


def registered_schema(value: Mapping[str, object], id: int) -> RegisteredSchema:
    """Return the schema of a SCHEMA value, or of a registry's answer, which has the same fields.

    Raises:
        ValueError: A field is missing or has another type.
    """
    references = value.get("references") or []
    if not isinstance(references, list):
        raise ValueError
    kind = value.get("schemaType") or "AVRO"
    if not isinstance(kind, str):
        raise ValueError
    return RegisteredSchema(
        id,
        kind.lower(),
        _text(value, "schema"),
        tuple(_reference(reference) for reference in references),
        _guid(value),
        _is_encrypted(value.get("ruleSet")),
    )


def _reference(value: object) -> Reference:
    if not isinstance(value, dict):
        raise ValueError
    return Reference(_text(value, "name"), _text(value, "subject"), _number(value, "version"))


def _guid(value: Mapping[str, object]) -> UUID | None:
    """The GUID has the 16 bytes of `md5`, a digest of text, references, metadata and rule set, written in base64.

    A registry's answer has the GUID itself.
    """
    named = value.get("guid")
    if isinstance(named, str):
        with contextlib.suppress(ValueError):
            return UUID(named)
    digest = value.get("md5")
    if not isinstance(digest, str):
        return None
    try:
        return UUID(bytes=base64.b64decode(digest, validate=True))
    except (binascii.Error, ValueError):
        return None


def _is_encrypted(rules: object) -> bool:
    if not isinstance(rules, dict):
        return False
    listed = [rule for group in rules.values() if isinstance(group, list) for rule in group]
    return any(
        isinstance(rule, dict) and rule.get("type") in _ENCRYPTING and rule.get("disabled") is not True
        for rule in listed
    )


def _object(text: bytes) -> _Object:
    value = parse_json(text)
    if not isinstance(value, dict):
        raise ValueError
    return value


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise ValueError
    return value


def _number(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not -_INT32 <= value < _INT32:
        raise ValueError
    return value
