"""A lake's registration as a value, and its form in a JSON file.

:mod:`spark_jobs.lake.setup.registry` finds, reads and writes the files. Nothing here opens one.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_jobs.contracts import Intake

VERSION = 2


@dataclass(frozen=True, slots=True)
class Registration:
    """What a registered lake ingests, and how pages name it."""

    intakes: tuple[Intake, ...] = ()
    name: str = ""
    """The name of the lake in its home, which stays; empty in a lake that is not registered."""
    owners: tuple[str, ...] = ()
    """Who answers questions about the lake: e-mail addresses, or names of users or teams."""

    @property
    def policies(self) -> str | None:
        """The policy file that was named last."""
        named = [intake.policies for intake in self.intakes if intake.policies]
        return named[-1] if named else None


def as_text(lake: str, registration: Registration) -> str:
    """Return the content of the file of a lake."""
    content = {"version": VERSION, "lake": lake, **dataclasses.asdict(registration)}
    return json.dumps(content, indent=1) + "\n"


def parse(text: bytes) -> tuple[str, Registration]:
    """Return lake and registration of a file.

    Raises:
        ValueError, KeyError, TypeError, RecursionError: It is not what :func:`as_text` writes.
    """
    content = json.loads(text)
    if content["version"] != VERSION:
        raise ValueError(f"version {content['version']!r}, this Loglake knows {VERSION}")
    lake, name, owners = content["lake"], content["name"], content["owners"]
    if not isinstance(lake, str) or not isinstance(name, str):
        raise ValueError("lake and name are texts")
    if not isinstance(owners, list) or not all(isinstance(owner, str) for owner in owners):
        raise ValueError("owners is a list of texts")
    return lake, Registration(tuple(map(parse_intake, content["intakes"])), name, tuple(owners))


def parse_intake(item: object) -> Intake:
    """Return an intake from plain values.

    Raises:
        ValueError: A field is unknown or of another type.
    """
    if not isinstance(item, dict):
        raise ValueError("an intake is a JSON object")
    fields: dict[str, Any] = {}
    for name, value in item.items():
        if name not in _TYPES:
            raise ValueError(f"unknown field {name}")
        value = tuple(value) if isinstance(value, list) else value
        if not _fits(value, _TYPES[name]):
            raise ValueError(f"{name} has a value of another type")
        fields[name] = value
    if not fields.get("sources"):
        raise ValueError("an intake without sources")
    return Intake(**fields)


_TYPES: Mapping[str, Any] = types.MappingProxyType(typing.get_type_hints(Intake))


def _fits(value: object, kind: Any) -> bool:
    origin, options = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(each, options[0]) for each in value)
    if origin is typing.Literal:
        return value in options
    return any(_fits(value, each) for each in options) if options else type(value) is kind
