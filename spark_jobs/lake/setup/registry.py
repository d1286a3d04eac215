"""The operator's home: which lakes are registered here, and what each of them ingests.

:mod:`spark_jobs.lake.setup.home` says where the home is. ``<home>/registered/<key>.json`` is written when a lake is
first used here, and read when pages, schedules, sensors and backfills need it. It holds no secrets and no state of the
log.
Only this file decides what a job reads, which policies it follows and whether it may delete.

A lake is data that may come from another person. ``<lake>/sources.json`` is a hint for the next operator: it is shown,
and no job acts on it. Loglake's and Dagster's home never lie inside a lake.
"""

from __future__ import annotations

import dataclasses
import fcntl
import getpass
import json
import os
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, TypeVar

from logcore.texts import shown
from spark_jobs.contracts import Intake
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.setup.home import home_path
from spark_jobs.lake.setup.identity import LAKE_FILE
from spark_jobs.lake.setup.lake_names import key_of, unique_names
from spark_jobs.lake.store import storage

HINT_FILE = "sources.json"
HINT_VERSION = 2

FOLDER = "registered"
VERSION = 2
"""Of the file of a registered lake."""
LOCK_FILE = ".lock"
"""Locked while a lake is registered, so that two lakes do not take one name."""

AnyIntake = TypeVar("AnyIntake", bound=Intake)


class RegistryError(UsageError):
    """A registration cannot be used, or the home lies in a lake; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What a registered lake ingests, and how pages name it."""

    intakes: tuple[Intake, ...] = ()
    name: str = ""
    """The name of the lake in its home, which stays; empty in a lake that is not registered."""
    owners: tuple[str, ...] = ()
    """Who answers questions about the lake: e-mail addresses, or names of users or teams."""
    policies_before: str | None = None
    """The policy file of sources that were forgotten."""

    @property
    def policies(self) -> str | None:
        """The policy file that was named last."""
        named = [intake.policies for intake in self.intakes if intake.policies]
        return named[-1] if named else self.policies_before


@dataclass(frozen=True, slots=True)
class Registrations:
    """All lakes of a home."""

    lakes: Mapping[str, Registration]
    """By path, in the order of their files; each has its name."""
    broken: tuple[str, ...]
    """A sentence for each registration that cannot be used."""


def home() -> str:
    """Return the operator's home; see :func:`home_path`.

    Raises:
        RegistryError: It lies inside a lake, where the author of the lake could have put anything.
        UsageError: This user has no home directory, and none is named.
    """
    folder = home_path()
    around = lake_around(folder)
    if around is not None:
        raise RegistryError(
            f"The home {folder} lies inside the lake {around}. A lake is data and holds no settings: set LOGLAKE_HOME "
            f"to a folder outside of it; to keep what is there, move {folder} first."
        )
    return folder


def home_file(folder: str, lake: str, ending: str = ".json") -> str:
    """Return the path of the file about a lake in a folder of the home; it may not exist."""
    return os.path.join(home(), folder, f"{key_of(lake)}{ending}")


def put_in_home(path: str, content: bytes) -> None:
    """Write a file of the home, whole or not at all.

    Raises:
        JobError: The home is full or cannot be written; the text says how to select another.
    """
    try:
        storage.put(path, content)
    except OSError as error:
        raise _home_cannot_be_written(error) from error


def _home_cannot_be_written(error: OSError) -> JobError:
    return JobError(
        f"The home {home()}, where Loglake registers lakes, cannot be written: {error.strerror or error}. Make "
        "room there, or name a folder of your own with LOGLAKE_HOME; then run again. Commits that were made are "
        "complete."
    )


def lake_around(path: str, lake: str | None = None) -> str | None:
    """Return the lake that contains a local path or is the path; None if there is none.

    Args:
        lake: A directory that counts as a lake although it may not be one yet.
    """
    wanted = None if lake is None or storage.is_remote(lake) else os.path.realpath(lake)
    for each in upwards(os.path.realpath(path)):
        if each == wanted or os.path.lexists(os.path.join(each, LAKE_FILE)):
            return each
    return None


def upwards(path: str) -> list[str]:
    """Return an absolute local path and all its parents, innermost first."""
    found = [path]
    while os.path.dirname(found[-1]) != found[-1]:
        found.append(os.path.dirname(found[-1]))
    return found


def registrations(folder: str) -> Registrations:
    """Return all lakes that are registered in a home; an unusable registration does not hide the others."""
    try:
        names = sorted(name for name in os.listdir(os.path.join(folder, FOLDER)) if name.endswith(".json"))
    except (FileNotFoundError, NotADirectoryError):
        return Registrations({}, ())
    lakes: dict[str, Registration] = {}
    broken: list[str] = []
    for name in names:
        try:
            lake, found = _read(os.path.join(folder, FOLDER, name))
        except (RegistryError, OSError) as error:
            broken.append(str(error))
        else:
            lakes[lake] = found
    unique = unique_names({lake: found.name for lake, found in lakes.items()})
    return Registrations({lake: replace(found, name=unique[lake]) for lake, found in lakes.items()}, tuple(broken))


def state_of(folder: str) -> tuple[tuple[str, int], ...]:
    """Return the files of all registrations in a home and their times: another value after each change."""
    try:
        with os.scandir(os.path.join(folder, FOLDER)) as entries:
            return tuple(sorted((e.name, e.stat().st_mtime_ns) for e in entries if e.name.endswith(".json")))
    except OSError:
        return ()


def recall(lake: str) -> Registration:
    """Return the registration of a lake; empty if it is not registered.

    Raises:
        RegistryError: Its registration cannot be used.
    """
    path = registration_file(lake)
    return _read(path)[1] if os.path.exists(path) else Registration()


def registration_file(lake: str) -> str:
    """Return the path of the registration of a lake, which may not exist."""
    return home_file(FOLDER, lake)


def as_remembered(lake: str, intake: AnyIntake) -> AnyIntake:
    """Return the intake, completed by the registered options of the same sources.

    Isolation level, sources to fill from, remote storage and policies stay until others are named: a run without them
    does not remove them. The policies of a lake that forgot all its sources are for those that come after.
    """
    before = recall(lake)
    if not before.intakes:
        intake = replace(intake, policies=intake.policies or before.policies)
    for known in before.intakes:
        if set(known.sources) & set(intake.sources):
            intake = replace(
                intake,
                isolation_level=intake.isolation_level or known.isolation_level,
                fill_from=intake.fill_from or known.fill_from,
                remote=intake.remote or known.remote,
                policies=intake.policies or known.policies,
            )
    return intake


def widened(intake: Intake, known: Intake) -> Intake:
    """Return the intake with its filters widened by the known ones; an empty filter selects everything."""
    topics = {*intake.topics, *known.topics} if intake.topics and known.topics else set()
    partitions = {*intake.partitions, *known.partitions} if intake.partitions and known.partitions else set()
    return replace(intake, topics=tuple(sorted(topics)), partitions=tuple(sorted(partitions)))


def is_exact(one: Intake, other: Intake) -> bool:
    """Return whether :func:`widened` chooses no log that neither intake chooses."""
    of_topics, of_partitions = ((set(one.topics), set(other.topics)), (set(one.partitions), set(other.partitions)))
    if of_topics[0] == of_topics[1] or of_partitions[0] == of_partitions[1]:
        return True
    return any(
        all(not pair[at] or (pair[1 - at] and pair[1 - at] <= pair[at]) for pair in (of_topics, of_partitions))
        for at in (0, 1)
    )


def paths_to(directory: str, intake: Intake) -> tuple[str, ...]:
    """Return the sources of an intake that have a partition directory: the directory itself, or one above it."""
    return tuple(path for path in intake.sources if f"{directory}/".startswith(f"{path.rstrip('/')}/"))


def continued(lake: str, intake: Intake, directories: Collection[str]) -> Intake:
    """Return the intake, completed by the registered options of the sources that had these partition directories.

    Raises:
        RegistryError: The registration cannot be used.
    """
    before = [known for known in recall(lake).intakes if any(paths_to(each, known) for each in directories)]
    if not before:
        return intake
    stated = {each.name: value for each in fields(Intake) if (value := getattr(intake, each.name)) != each.default}
    return replace(reduce(widened, before), **stated)


def register(lake: str) -> Registration:
    """Register a lake that is used here, with its name and without sources; a registered one stays as it is.

    Raises:
        RegistryError: Its registration cannot be used.
    """
    before = recall(lake)
    return before if before.name else _register(lake, before)


def remember(lake: str, intake: Intake, left: Collection[str] = (), read: Collection[str] = ()) -> Registration:
    """Register the lake with these sources and options. An unchanged registration is not written again.

    Options of the same sources are replaced, with one exception: a filter does not narrow what is already ingested (a
    backfill of one topic partition does not remove the others). Where one filter would choose logs that neither chose,
    both stay.

    Args:
        lake: The lake.
        intake: The sources and their options.
        left: Partition directories from which the run moved their logs to these sources.
        read: Partition directories from which the lake reads logs. Sources that were left, and have none, are dropped.
    """
    before = recall(lake)
    intake = as_remembered(lake, continued(lake, intake, left))
    kept: list[Intake] = []
    for known in before.intakes:
        has_left, is_read = (any(paths_to(each, known) for each in of) for of in (left, read))
        if set(known.sources) <= set(intake.sources):
            if is_exact(intake, known):
                intake = widened(intake, known)
            else:
                kept.append(replace(intake, topics=known.topics, partitions=known.partitions))
        elif not has_left or is_read:
            kept.append(known)
    after = replace(before, intakes=(*kept, intake))
    is_same = sorted(map(repr, after.intakes)) == sorted(map(repr, before.intakes))  # in another order
    return _register(lake, before if is_same and after.policies == before.policies else after)


def remote_of(lake: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the remote storage that is registered with any of these sources.

    Raises:
        RegistryError: The registration cannot be used.
    """
    sources = set(paths)
    places = (place for known in recall(lake).intakes if sources & set(known.sources) for place in known.remote)
    return tuple(dict.fromkeys(places))


def forget_remote(lake: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Forget the remote storage that is registered with these sources; return its places.

    Raises:
        RegistryError: The registration cannot be used.
    """
    before, sources = recall(lake), set(paths)
    forgotten: list[str] = []
    intakes = []
    for known in before.intakes:
        if sources & set(known.sources):
            forgotten += known.remote
            known = replace(known, remote=())
        intakes.append(known)
    if forgotten:
        _register(lake, replace(before, intakes=tuple(intakes)))
    return tuple(dict.fromkeys(forgotten))


def check_sources(lake: str, paths: Collection[str]) -> None:
    """Check that a lake has these sources, or copies to fill from: by its registration, or by what it names itself.

    Raises:
        RegistryError: It has not, or the registration cannot be used.
    """
    known = sorted({path for each in (*recall(lake).intakes, *hinted(lake)) for path in each.sources})
    copies = {path for each in (*recall(lake).intakes, *hinted(lake)) for path in each.fill_from}
    for path in paths:
        if path not in known and path not in copies:
            there = f"these are: {' '.join(map(shown, known))}" if known else "it has none"
            raise RegistryError(f"{shown(path)} is no registered source of the lake {shown(lake)}; {there}.")


def forget_sources(lake: str, paths: Collection[str]) -> None:
    """Forget sources, and copies to fill from, also those that only the lake itself names. The lake keeps its policies.

    Raises:
        RegistryError: It has none of this path, or the registration cannot be used.
    """
    check_sources(lake, paths)
    before = recall(lake)
    _register(lake, replace(before, intakes=_without(before.intakes, paths), policies_before=before.policies))
    hint = hinted(lake)  # that of a run which was killed here, or of another operator
    if _without(hint, paths) != hint:
        _put_hint(lake, _without(hint, paths))


def _without(intakes: Iterable[Intake], paths: Collection[str]) -> tuple[Intake, ...]:
    left = (
        replace(
            each,
            sources=tuple(path for path in each.sources if path not in paths),
            fill_from=tuple(path for path in each.fill_from if path not in paths),
        )
        for each in intakes
    )
    return tuple(each for each in left if each.sources)


def has_sources(lake: str) -> bool:
    """Return whether a lake has registered sources, or names some itself.

    Raises:
        RegistryError: The registration cannot be used.
    """
    return bool(recall(lake).intakes or hinted(lake))


def hinted(lake: str) -> tuple[Intake, ...]:
    """Return what ``<lake>/sources.json`` names; nothing if it is missing or cannot be parsed."""
    try:
        content = json.loads(storage.read(storage.join(lake, HINT_FILE)))
        if not isinstance(content, dict) or content["version"] != HINT_VERSION:
            return ()
        return tuple(map(_parsed_intake, content["intakes"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ()


def _register(lake: str, wanted: Registration) -> Registration:
    """Store a registration if it differs from the stored one; a new one gets a name and an owner."""
    with _locked():
        before = recall(lake)
        owners = wanted.owners if before.name else wanted.owners or _owners()
        wanted = replace(wanted, name=before.name or _name_of(lake), owners=owners)
        if wanted == before:
            return before
        put_in_home(registration_file(lake), _as_text(lake, wanted).encode())
    # Another operator's hint stays.
    if (wanted.intakes or before.intakes) and hinted(lake) in ((), before.intakes):
        _put_hint(lake, wanted.intakes)
    return wanted


def _put_hint(lake: str, intakes: Iterable[Intake]) -> None:
    hint = {"version": HINT_VERSION, "intakes": [dataclasses.asdict(intake) for intake in intakes]}
    storage.put(storage.join(lake, HINT_FILE), (json.dumps(hint, indent=1) + "\n").encode())


def _name_of(lake: str) -> str:
    known = {path: found.name for path, found in registrations(home()).lakes.items()}
    return known.get(lake) or unique_names({**known, lake: ""})[lake]


def _owners() -> tuple[str, ...]:
    """Return the user who registers a lake; nobody where the system knows no name."""
    try:
        return (getpass.getuser(),)
    except (KeyError, OSError):
        return ()


@contextmanager
def _locked() -> Iterator[None]:
    """Let one process at a time register a lake in the home."""
    folder = os.path.join(home(), FOLDER)
    try:
        os.makedirs(folder, exist_ok=True)
        descriptor = os.open(os.path.join(folder, LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _home_cannot_be_written(error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(path: str) -> tuple[str, Registration]:
    """Return lake and content of a registration."""
    try:
        lake, found = _parsed(storage.read(path))
        if os.path.basename(path) != f"{key_of(lake)}.json":
            raise ValueError(f"the name of the file is not the one of lake {lake}")
        return lake, found
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RegistryError(
            f"{path} cannot be understood ({error}). Correct it, or delete it and register the lake again: "
            f"loglake run LOGDIR --lake {os.path.basename(path)}, with the log directory and the lake that it was for."
        ) from error


def _as_text(lake: str, registration: Registration) -> str:
    """Return the content of the file of a lake."""
    content = {"version": VERSION, "lake": lake, **dataclasses.asdict(registration)}
    return json.dumps(content, indent=1) + "\n"


def _parsed(text: bytes) -> tuple[str, Registration]:
    """Return lake and registration of a file.

    Raises:
        ValueError, KeyError, TypeError, RecursionError: It is not what :func:`_as_text` writes.
    """
    content = json.loads(text)
    if content["version"] != VERSION:
        raise ValueError(f"version {content['version']!r}, this Loglake knows {VERSION}")
    lake, name, owners = content["lake"], content["name"], content["owners"]
    if not isinstance(lake, str) or not isinstance(name, str):
        raise ValueError("lake and name are texts")
    if not isinstance(owners, list) or not all(isinstance(owner, str) for owner in owners):
        raise ValueError("owners is a list of texts")
    policies = content.get("policies_before")
    if not isinstance(policies, str | None):
        raise ValueError("policies_before is a text")
    return lake, Registration(tuple(map(_parsed_intake, content["intakes"])), name, tuple(owners), policies)


def _parsed_intake(item: object) -> Intake:
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
