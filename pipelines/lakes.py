"""Which lakes there are, and what each was told to take in.

A *lake home* keeps the lakes of one Dagster instance side by side: ``<home>/lakes/<name>``. ``LOGLAKE_HOME`` names it
(default ``./.loglake``); where a Dagster instance lies inside a lake (``<lake>/.dagster``), that lake alone is meant.

``<lake>/sources.json`` remembers what ``loglake run`` was told, so that a schedule, a sensor or a backfill can do the
same again. It holds no secrets and no state of the log; deleting it only means that it has to be told again.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_jobs.lake import identity as lake_identity
from spark_jobs.lake import storage
from spark_jobs.lake.archive import read_logs

SOURCES_FILE = "sources.json"
SOURCES_VERSION = 2
"""2 knows isolation levels and sources to fill from; files of version 1 are read as well."""


class NoLakeError(ValueError):
    """Nothing, or more than one thing, is meant: the text names the lakes and says how to choose."""


@dataclass(frozen=True, slots=True)
class Intake:
    """One set of sources and the options it is read with."""

    paths: tuple[str, ...]
    """Absolute; log directories, partition directories or ``.log`` files."""
    topics: tuple[str, ...] = ()
    """Globs; empty means all."""
    partitions: tuple[int, ...] = ()
    mode: str = "copy"
    high_watermark: str = "checkpoint"
    cluster: str | None = None
    include_internal: bool = False
    policies: str | None = None
    """Absolute path of a ``policies.yaml``."""
    isolation_level: str | None = None
    """``read_committed`` or ``read_uncommitted``; None: not said, which is the former."""
    fill_from: tuple[str, ...] = ()
    """Absolute; where missing and corrupt offsets are looked for."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The content of ``sources.json``."""

    intakes: tuple[Intake, ...] = ()
    apply_nightly: bool = False
    """Whether the nightly maintenance may act; it only plans until someone writes ``true`` here."""

    @property
    def policies(self) -> str | None:
        """The newest policy file that was named."""
        named = [intake.policies for intake in self.intakes if intake.policies]
        return named[-1] if named else None


def recall(lake: str) -> Memory:
    """What the lake was told; empty where nothing was.

    Raises:
        NoLakeError: the file is there but cannot be understood.
    """
    path = storage.join(lake, SOURCES_FILE)
    try:
        content = json.loads(storage.read(path))
        if content["version"] > SOURCES_VERSION:
            raise ValueError(f"version {content['version']} is newer than {SOURCES_VERSION}")
        intakes = tuple(_intake(item) for item in content["intakes"])
        return Memory(intakes, bool(content.get("apply_nightly", False)))
    except FileNotFoundError:
        return Memory()
    except (ValueError, KeyError, TypeError) as error:
        raise NoLakeError(
            f"{path} cannot be understood ({error}). Correct it, or delete it and name the sources again: "
            "loglake run PATH... --lake DIR."
        ) from error


def as_remembered(lake: str, intake: Intake) -> Intake:
    """The intake with what it leaves unsaid as the lake was told before, of the same paths.

    Isolation level and sources to fill from stay until others are named: a run that says nothing of them is not a wish
    to forget them.
    """
    for known in recall(lake).intakes:
        if set(known.paths) & set(intake.paths):
            level = intake.isolation_level or known.isolation_level
            intake = replace(intake, isolation_level=level, fill_from=intake.fill_from or known.fill_from)
    return intake


def remember(lake: str, intake: Intake) -> Memory:
    """Add what was told now and write the file; the same again writes nothing.

    Options of the same paths are replaced, with one exception: a filter does not narrow what is taken in already
    (a backfill of one topic partition is not a wish to forget the others).
    """
    before = recall(lake)
    intake = as_remembered(lake, intake)
    kept: list[Intake] = []
    for known in before.intakes:
        if set(known.paths) <= set(intake.paths):
            intake = _widened(intake, known)
        else:
            kept.append(known)
    after = replace(before, intakes=(*kept, intake))
    if after != before:
        content = json.dumps({"version": SOURCES_VERSION, **dataclasses.asdict(after)}, indent=1) + "\n"
        storage.put(storage.join(lake, SOURCES_FILE), content.encode())
    return after


def _widened(intake: Intake, known: Intake) -> Intake:
    """The intake with filters that leave in what was in before; an empty filter leaves in everything."""
    topics = {*intake.topics, *known.topics} if intake.topics and known.topics else set()
    partitions = {*intake.partitions, *known.partitions} if intake.partitions and known.partitions else set()
    return replace(intake, topics=tuple(sorted(topics)), partitions=tuple(sorted(partitions)))


def _intake(item: dict[str, Any]) -> Intake:
    known = {field.name for field in dataclasses.fields(Intake)}
    if unknown := sorted(set(item) - known):
        raise ValueError(f"unknown field {', '.join(unknown)}")
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in item.items()}
    return Intake(**fields)


def default_home() -> str:
    """``LOGLAKE_HOME``, else the lake around ``DAGSTER_HOME`` if that is ``<lake>/.dagster``, else ``./.loglake``."""
    if named := os.environ.get("LOGLAKE_HOME"):
        return os.path.abspath(named)
    around, name = os.path.split(os.path.abspath(os.environ.get("DAGSTER_HOME", "")))
    if name == ".dagster" and is_lake(around):
        return around
    return os.path.abspath(".loglake")


def dagster_home(lake: str) -> str:
    """Where the history of runs from the command line is kept unless ``DAGSTER_HOME`` says so: in the lake, or on this
    machine where the lake is on an object store."""
    if storage.is_remote(lake):
        return os.path.join(os.path.abspath(os.environ.get("LOGLAKE_HOME") or ".loglake"), "dagster")
    return os.path.join(lake, ".dagster")


def is_lake(directory: str) -> bool:
    """Whether a lake lies here, or was begun here."""
    return any(storage.exists(storage.join(directory, name)) for name in (lake_identity.LAKE_FILE, SOURCES_FILE))


def lakes_of(home: str) -> tuple[str, ...]:
    """All lakes of a home by name; a home that is itself a lake is the only one."""
    if is_lake(home):
        return (home,)
    folder = os.path.join(home, "lakes")
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return ()
    return tuple(path for name in names if is_lake(path := os.path.join(folder, name)))


def lake_name(lake: str) -> str:
    """What a person calls a lake: its directory's name."""
    return os.path.basename(os.path.normpath(lake))


def find_lake(home: str, named: str | None, keys: Sequence[str] | None) -> str:
    """The one lake that is meant.

    Args:
        named: path, or name below the home; None or empty: the one that has the keys, or the only one there is.
        keys: partition keys that the run was launched for.

    Raises:
        NoLakeError: none or several fit.
    """
    lakes = lakes_of(home)
    if named:
        by_name = [lake for lake in lakes if lake_name(lake) == named]
        return by_name[0] if by_name else storage.absolute(named)
    how = 'Name one in the run configuration: resources: {lake: {config: {lake: "NAME"}}}, or by the tag loglake/lake.'
    if keys:
        holding = {lake: {row.topic_partition for row in read_logs(lake).values()} for lake in lakes}
        fitting = [lake for lake in lakes if set(keys) <= holding[lake]]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise NoLakeError(f"{_few(keys)} is in more than one lake: {_named(fitting)}. {how}")
        partly = [lake for lake in lakes if set(keys) & holding[lake]]
        if len(partly) > 1:
            raise NoLakeError(f"{_few(keys)} lie in different lakes: {_named(partly)}. Launch one run for each lake.")
        if partly:
            missing = sorted(set(keys) - holding[partly[0]])
            raise NoLakeError(f"The lake {_named(partly)} does not hold {_few(missing)}, and no other lake does.")
        raise NoLakeError(f"No lake of {home} holds {_few(keys)}; it has {_named(lakes) or 'no lake'}. {how}")
    if len(lakes) == 1:
        return lakes[0]
    if not lakes:
        raise NoLakeError(f"There is no lake under {home} yet. Make one: loglake run PATH... --lake {home}/lakes/NAME")
    raise NoLakeError(f"{home} has several lakes: {_named(lakes)}. {how}")


def _named(lakes: Iterable[str]) -> str:
    return ", ".join(lake_name(lake) for lake in lakes)


def _few(keys: Sequence[str]) -> str:
    return ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")
