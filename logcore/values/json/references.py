"""Where `$ref` leads: to a part of the same document or of another one, by pointer, by anchor or by `$id`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urljoin

from logcore.values.invalid_schema import InvalidSchemaError
from logcore.values.json.text import parse_json
from logcore.values.limits import LARGEST_SCHEMA
from logcore.values.undecodable import Undecodable

_MAIN = ""
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose content is no schema."""
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_EARLIER_DRAFT = re.compile(r"draft-0[1-7]")


@dataclass(frozen=True, slots=True)
class Target:
    """What a reference leads to."""

    schema: object
    base: str
    """Address of the schema that it is a part of."""


def schema_document(text: str) -> object:
    """Parse the text of a schema as strictly as a value.

    Raises:
        InvalidSchemaError: It is no JSON.
    """
    if len(text) > LARGEST_SCHEMA:
        raise InvalidSchemaError(f"The schema has more than {LARGEST_SCHEMA} characters.")
    try:
        return parse_json(text.encode())
    except Undecodable as failure:
        raise InvalidSchemaError(f"The schema is no JSON text: {failure}.") from None
    except UnicodeEncodeError:
        raise InvalidSchemaError("The schema is no text in Unicode.") from None


class SchemaDocuments:
    """A JSON Schema and those that it may refer to. Each has an address: its `$id`, or else its name.

    Args:
        text: The schema.
        references: Texts of others by name. They are read when they are needed.

    Raises:
        InvalidSchemaError: From the constructor, if the text is no JSON.
    """

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        self._waiting = dict(references)
        self._schemas: dict[str, object] = {}
        self._anchors: dict[tuple[str, str], object] = {}
        self._bases: dict[int, str] = {}
        """Address of each part that has one, by its identity: the documents stay in memory."""
        self._earlier: set[str] = set()
        self.main = schema_document(text)
        self._add(_MAIN, self.main)

    def base_of(self, schema: object, around: str) -> str:
        """Return the address of a part of a document: its own, or that of what is around it."""
        return self._bases.get(id(schema), around)

    def combines(self, base: str) -> bool:
        """Whether `$ref` and the keywords beside it both count, as since the draft of 2019."""
        return base not in self._earlier

    def find(self, base: str, target: str, place: str) -> Target:
        """Return what a reference leads to.

        Args:
            base: Address of the schema with the reference.
            target: The text of `$ref`.
            place: Path of the column, for errors.

        Raises:
            InvalidSchemaError: Nothing is there, or that schema is no JSON.
        """
        name, _, fragment = target.partition("#")
        found = Target(self._schemas[base], base)
        if name:
            schema = self._schema(base, name, place)
            found = Target(schema, self.base_of(schema, name))
        fragment = unquote(fragment)
        if fragment.startswith("/"):
            return self._at(found, fragment, target, place)
        if fragment:
            if (found.base, fragment) not in self._anchors:
                raise InvalidSchemaError(f"{target} leads nowhere.", place=place)
            return Target(self._anchors[found.base, fragment], found.base)
        return found

    def _schema(self, base: str, name: str, place: str) -> object:
        address = _joined(base, name)
        for each in (name, address):
            if each in self._waiting:
                self._add(each, schema_document(self._waiting.pop(each)))
            if each in self._schemas:
                return self._schemas[each]
        for each in list(self._waiting):  # one of them may have this `$id`
            self._add(each, schema_document(self._waiting.pop(each)))
        if address not in self._schemas:
            raise InvalidSchemaError(
                f"The referenced schema {name} is unknown.", place=place, advice="Add it to the references."
            )
        return self._schemas[address]

    def _at(self, start: Target, pointer: str, target: str, place: str) -> Target:
        inner, base = start.schema, start.base
        for part in pointer.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(inner, dict) and part in inner:
                inner = inner[part]
            elif isinstance(inner, list) and _INDEX.fullmatch(part) and int(part) < len(inner):
                inner = inner[int(part)]
            else:
                raise InvalidSchemaError(f"{target} leads nowhere.", place=place)
            base = self.base_of(inner, base)
        return Target(inner, base)

    def _add(self, name: str, document: object) -> None:
        """Note the addresses and anchors in a document."""
        self._schemas[name] = document
        draft = document.get("$schema") if isinstance(document, dict) else None
        is_earlier = isinstance(draft, str) and _EARLIER_DRAFT.search(draft) is not None
        waiting: list[tuple[object, str]] = [(document, name)]
        while waiting:
            part, base = waiting.pop()
            if isinstance(part, dict):
                base = self._note(part, base)
                waiting += [(inner, base) for keyword, inner in part.items() if keyword not in _VALUES]
            elif isinstance(part, list):
                waiting += [(inner, base) for inner in part]
            if is_earlier:
                self._earlier.add(base)

    def _note(self, part: Mapping[str, object], base: str) -> str:
        """Note the address and the anchors of one part; return its address."""
        own = part.get("$id")
        if isinstance(own, str):
            address, _, anchor = own.partition("#")
            if address:
                base = _joined(base, address)
                self._schemas.setdefault(base, part)
                self._bases[id(part)] = base
            if anchor:
                self._anchors.setdefault((base, anchor), part)
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor_name = part.get(keyword)
            if isinstance(anchor_name, str):
                self._anchors.setdefault((base, anchor_name), part)
        return base


def _joined(base: str, name: str) -> str:
    try:
        return urljoin(base, name)
    except ValueError:  # such as a broken IPv6 address
        return name
