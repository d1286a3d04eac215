"""Where `$ref` leads: to a part of the same document or of another one, by pointer, by anchor or by `$id`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urljoin

from logcore.values.invalid_schema import InvalidSchemaError
from logcore.values.json.text import parse_json
from logcore.values.limits import LARGEST_SCHEMA
from logcore.values.undecodable import Undecodable

_MAIN = ""
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose content is no schema."""
_BY_NAME = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
"""Keywords whose content is schemas by name. Names may be those of keywords."""
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_EARLIER_DRAFT = re.compile(r"draft-0[1-7]")


@dataclass(slots=True, eq=False)
class Resource:
    """A document, or a part of one that has its own `$id`. `#` in a reference means the resource around it."""

    schema: object
    address: str
    around: Resource | None
    """None: it is a whole document."""
    combines: bool
    """Whether `$ref` and the keywords beside it both count, as since the draft of 2019."""
    addresses: dict[str, Resource]
    """Resources of the whole document."""
    anchors: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """What a reference leads to."""

    schema: object
    resource: Resource
    """What it is a part of."""


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

    Several may have the same `$id`. Then each is found by its name, and the first one by the `$id`.

    Args:
        text: The schema.
        references: Texts of others by name. They are read when they are needed.

    Raises:
        InvalidSchemaError: From the constructor, if the text is no JSON.
    """

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        self._waiting = dict(references)
        self._known: dict[str, Resource] = {}
        self._resources: dict[int, Resource] = {}
        """That of each part that has its own, by the part's identity: the documents stay in memory."""
        self.main = self._add(_MAIN, schema_document(text))

    def resource_of(self, schema: object, around: Resource) -> Resource:
        """Return the resource of a part of a document: its own, or that of what is around it."""
        return self._resources.get(id(schema), around)

    def find(self, start: Resource, target: str, place: str) -> Target:
        """Return what a reference leads to.

        Some generators write an `$id` in a part and mean the whole document by `#`. So what is not found in the part
        is looked for in what is around it.

        Args:
            start: The resource with the reference.
            target: The text of `$ref`.
            place: Path of the column, for errors.

        Raises:
            InvalidSchemaError: Nothing is there, or that schema is no JSON.
        """
        name, _, fragment = target.partition("#")
        resource: Resource | None = self._named(start, name, place) if name else start
        fragment = unquote(fragment)
        while resource is not None:
            found = self._within(resource, fragment)
            if found is not None:
                return found
            resource = resource.around
        raise InvalidSchemaError(f"{target} leads nowhere.", place=place)

    def _named(self, start: Resource, name: str, place: str) -> Resource:
        address = _joined(start.address, name)
        if name not in self._waiting and address in start.addresses:
            return start.addresses[address]
        for each in (name, address):
            if each in self._waiting:
                return self._add(each, schema_document(self._waiting.pop(each)))
            if each in self._known:
                return self._known[each]
        for each in list(self._waiting):  # one of them may have this `$id`
            self._add(each, schema_document(self._waiting.pop(each)))
        if address not in self._known:
            raise InvalidSchemaError(
                f"The referenced schema {name} is unknown.", place=place, advice="Add it to the references."
            )
        return self._known[address]

    def _within(self, resource: Resource, fragment: str) -> Target | None:
        if fragment.startswith("/"):
            return self._at(resource, fragment)
        if not fragment:
            return Target(resource.schema, resource)
        return Target(resource.anchors[fragment], resource) if fragment in resource.anchors else None

    def _at(self, resource: Resource, pointer: str) -> Target | None:
        inner = resource.schema
        for part in pointer.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(inner, dict) and part in inner:
                inner = inner[part]
            elif isinstance(inner, list) and _INDEX.fullmatch(part) and int(part) < len(inner):
                inner = inner[int(part)]
            else:
                return None
            resource = self.resource_of(inner, resource)
        return Target(inner, resource)

    def _add(self, name: str, document: object) -> Resource:
        """Note the addresses and anchors in a document."""
        draft = document.get("$schema") if isinstance(document, dict) else None
        combines = not (isinstance(draft, str) and _EARLIER_DRAFT.search(draft))
        root = Resource(document, name, None, combines, {})
        self._known[name] = root
        if isinstance(document, dict):
            self._resources[id(document)] = root
        waiting: list[tuple[object, Resource, bool]] = [(document, root, False)]
        while waiting:
            part, resource, is_by_name = waiting.pop()
            if isinstance(part, dict) and is_by_name:
                waiting += [(inner, resource, False) for inner in part.values()]
            elif isinstance(part, dict):
                resource = self._noted(part, resource)
                waiting += [
                    (inner, resource, keyword in _BY_NAME) for keyword, inner in part.items() if keyword not in _VALUES
                ]
            elif isinstance(part, list):
                waiting += [(inner, resource, False) for inner in part]
        return root

    def _noted(self, part: Mapping[str, object], resource: Resource) -> Resource:
        """Note the address and the anchors of one part; return its resource."""
        own = part.get("$id")
        anchors = [part.get("$anchor"), part.get("$dynamicAnchor")]
        if isinstance(own, str):
            address, _, anchor = own.partition("#")
            if address:
                resource = self._addressed(part, resource, _joined(resource.address, address))
            anchors.append(anchor)
        for name in anchors:
            if name and isinstance(name, str):
                resource.anchors.setdefault(name, part)
        return resource

    def _addressed(self, part: Mapping[str, object], around: Resource, address: str) -> Resource:
        resource = around
        if part is around.schema:
            resource.address = address
        else:
            resource = Resource(part, address, around, around.combines, around.addresses)
            self._resources[id(part)] = resource
        resource.addresses.setdefault(address, resource)
        self._known.setdefault(address, resource)
        return resource


def _joined(base: str, name: str) -> str:
    try:
        return urljoin(base, name)
    except ValueError:  # such as a broken IPv6 address
        return name
