"""The operator's home: which lakes are registered here, and what each of them ingests.

The home is ``$LOGLAKE_HOME``, else ``./.loglake``. ``<home>/registered/<name>-<digest>.json`` is written by
``loglake run`` and ``loglake demo`` and read by schedules, sensors and backfills. It holds no secrets and no state of
the log. Only this file decides what a job reads, which policies it follows and whether it may delete.

A lake is data that may come from another person. ``<lake>/sources.json`` is a hint for the next operator: it is shown,
and it is adopted only by explicit consent (:func:`adopt`). Loglake's and Dagster's home never lie inside a lake.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_jobs.contracts import Intake
from spark_jobs.lake.errors import JobError, UsageError
from spark_jobs.lake.setup.identity import LAKE_FILE
from spark_jobs.lake.store import storage

HINT_FILE = "sources.json"
HINT_VERSION = 2
"""2 has isolation levels and sources to fill from; files of version 1 are read as well."""

FOLDER = "registered"
REGISTRY_VERSION = 1

_MAX_NAME = 80
"""Characters of the lake's own name in the name of its file."""


class RegistryError(UsageError):
    """A registration cannot be used, or the home lies in a lake; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What a registered lake ingests, and what the nightly job may do."""

    intakes: tuple[Intake, ...] = ()
    apply_nightly: bool = False
    """Whether the nightly maintenance may act; it only plans until the operator writes ``true`` in the registration."""

    @property
    def policies(self) -> str | None:
        """The policy file that was named last."""
        named = [intake.policies for intake in self.intakes if intake.policies]
        return named[-1] if named else None


@dataclass(frozen=True, slots=True)
class Registrations:
    """All lakes of a home."""

    lakes: Mapping[str, Memory]
    """By path, in the order of their names."""
    broken: tuple[str, ...]
    """A sentence for each registration that cannot be used."""


def home() -> str:
    """Return ``$LOGLAKE_HOME``, else ``./.loglake``.

    Raises:
        RegistryError: It lies inside a lake, where the author of the lake could have put anything.
    """
    folder = os.path.abspath(os.environ.get("LOGLAKE_HOME") or ".loglake")
    around = lake_around(folder)
    if around is not None:
        raise RegistryError(
            f"The home {folder} lies inside the lake {around}. A lake is data and holds no settings: set LOGLAKE_HOME "
            f"to a folder outside of it, or run from another directory; to keep what is there, move {folder} first."
        )
    return folder


def put_in_home(path: str, content: bytes) -> None:
    """Write a file of the home, whole or not at all.

    Raises:
        JobError: The home is full or cannot be written; the text says how to select another.
    """
    try:
        storage.put(path, content)
    except OSError as error:
        raise JobError(
            f"The home {home()}, where Loglake registers lakes, cannot be written: {error.strerror or error}. Make "
            "room there, or name a folder of your own with LOGLAKE_HOME; then run again. Commits that were made are "
            "complete."
        ) from error


def lake_around(path: str, lake: str | None = None) -> str | None:
    """Return the lake that contains a local path or is the path; None if there is none.

    Args:
        lake: A directory that counts as a lake although it may not be one yet.
    """
    wanted = None if lake is None or storage.is_remote(lake) else os.path.realpath(lake)
    at = os.path.realpath(path)
    while True:
        if at == wanted or os.path.lexists(os.path.join(at, LAKE_FILE)):
            return at
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above


def key_of(lake: str) -> str:
    """Return the key of a lake in this home: its name and a digest of its path, so that keys are unique."""
    path = lake if storage.is_remote(lake) else os.path.realpath(lake)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", os.path.basename(os.path.normpath(lake)))[:_MAX_NAME]
    return f"{name}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"


def registrations(folder: str) -> Registrations:
    """Return all lakes that are registered in a home; an unusable registration does not hide the others."""
    try:
        names = sorted(name for name in os.listdir(os.path.join(folder, FOLDER)) if name.endswith(".json"))
    except FileNotFoundError:
        return Registrations({}, ())
    lakes: dict[str, Memory] = {}
    broken: list[str] = []
    for name in names:
        try:
            lake, memory = _read(os.path.join(folder, FOLDER, name))
        except (RegistryError, OSError) as error:
            broken.append(str(error))
        else:
            lakes[lake] = memory
    return Registrations(lakes, tuple(broken))


def recall(lake: str) -> Memory:
    """Return the registration of a lake; empty if it is not registered.

    Raises:
        RegistryError: Its registration cannot be used.
    """
    path = registration_file(lake)
    return _read(path)[1] if os.path.exists(path) else Memory()


def is_registered(lake: str) -> bool:
    """Return whether the lake is registered."""
    return os.path.exists(registration_file(lake))


def registration_file(lake: str) -> str:
    """Return the path of the registration of a lake, which may not exist."""
    return os.path.join(home(), FOLDER, f"{key_of(lake)}.json")


def as_remembered(lake: str, intake: Intake) -> Intake:
    """Return the intake, completed by the registered options of the same paths.

    Isolation level and sources to fill from stay until others are named: a run without them does not remove them.
    """
    for known in recall(lake).intakes:
        if set(known.paths) & set(intake.paths):
            level = intake.isolation_level or known.isolation_level
            intake = replace(intake, isolation_level=level, fill_from=intake.fill_from or known.fill_from)
    return intake


def remember(lake: str, intake: Intake) -> Memory:
    """Register the lake with these sources and options. An unchanged registration is not written again.

    Options of the same paths are replaced, with one exception: a filter does not narrow what is already ingested (a
    backfill of one topic partition does not remove the others).
    """
    before = recall(lake)
    intake = as_remembered(lake, intake)
    kept: list[Intake] = []
    for known in before.intakes:
        if set(known.paths) <= set(intake.paths):
            intake = _widened(intake, known)
        else:
            kept.append(known)
    return _register(lake, before, replace(before, intakes=(*kept, intake)))


def hinted(lake: str) -> tuple[Intake, ...]:
    """Return what ``<lake>/sources.json`` names; nothing if it is missing or cannot be parsed."""
    try:
        content = json.loads(storage.read(storage.join(lake, HINT_FILE)))
        if not isinstance(content, dict) or content["version"] not in range(1, HINT_VERSION + 1):
            return ()
        return tuple(_intake(item) for item in content["intakes"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ()


def adopt(lake: str) -> tuple[Intake, ...]:
    """Register the lake with the sources that its hint names, as the operator requested; return these.

    The permission to delete is never adopted.
    """
    intakes = hinted(lake)
    before = recall(lake)
    known = {path for intake in before.intakes for path in intake.paths}
    new = tuple(intake for intake in intakes if not set(intake.paths) <= known)
    if new:
        _register(lake, before, replace(before, intakes=(*before.intakes, *new)))
    return new


def _register(lake: str, before: Memory, after: Memory) -> Memory:
    if after == before and is_registered(lake):
        return after
    content = {"version": REGISTRY_VERSION, "lake": lake, **dataclasses.asdict(after)}
    put_in_home(registration_file(lake), (json.dumps(content, indent=1) + "\n").encode())
    if hinted(lake) in ((), before.intakes):  # another operator's hint stays until it is adopted
        hint = {"version": HINT_VERSION, "intakes": [dataclasses.asdict(intake) for intake in after.intakes]}
        storage.put(storage.join(lake, HINT_FILE), (json.dumps(hint, indent=1) + "\n").encode())
    return after


def _widened(intake: Intake, known: Intake) -> Intake:
    """Widen the intake's filters by the known ones; an empty filter selects everything."""
    topics = {*intake.topics, *known.topics} if intake.topics and known.topics else set()
    partitions = {*intake.partitions, *known.partitions} if intake.partitions and known.partitions else set()
    return replace(intake, topics=tuple(sorted(topics)), partitions=tuple(sorted(partitions)))


def _read(path: str) -> tuple[str, Memory]:
    """Return lake and content of a registration."""
    try:
        content = json.loads(storage.read(path))
        if content["version"] != REGISTRY_VERSION:
            raise ValueError(f"version {content['version']!r}, this Loglake knows {REGISTRY_VERSION}")
        lake, may_apply = content["lake"], content["apply_nightly"]
        if not isinstance(lake, str) or not isinstance(may_apply, bool):
            raise ValueError("lake is a text, apply_nightly is true or false")
        if os.path.basename(path) != f"{key_of(lake)}.json":
            raise ValueError(f"the name of the file is not the one of lake {lake}")
        return lake, Memory(tuple(_intake(item) for item in content["intakes"]), may_apply)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RegistryError(
            f"{path} cannot be understood ({error}). Correct it, or delete it and register the lake again: "
            "loglake run PATH... --lake LAKE."
        ) from error


def _intake(item: object) -> Intake:
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
    if not fields.get("paths"):
        raise ValueError("an intake without paths")
    return Intake(**fields)


_TYPES: Mapping[str, Any] = types.MappingProxyType(typing.get_type_hints(Intake))


def _fits(value: object, kind: Any) -> bool:
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        return isinstance(value, tuple) and all(_fits(each, inner) for each in value)
    options = typing.get_args(kind) or (kind,)
    return type(value) in options
