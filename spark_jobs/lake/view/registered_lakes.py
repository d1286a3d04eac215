"""The lakes that pages show and that schedules, sensors and backfills work on: those of the operator's home.

:mod:`spark_jobs.lake.setup.registry` reads and writes the registrations. A lake may be anywhere, also on an object
store. Here a registered lake is a value with its name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from shlex import quote

from logcore.segments.filenames import TopicPartition
from logcore.storage.source_errors import shown
from logcore.texts import shell_word
from spark_jobs.contracts import Intake
from spark_jobs.errors import UsageError
from spark_jobs.lake.decoded.topic_tables import remembered_tables
from spark_jobs.lake.repair_commands import ingest_command, no_lake, run_command
from spark_jobs.lake.segments.archive import read_logs
from spark_jobs.lake.setup import lake_names, registry
from spark_jobs.lake.setup.identity import LAKE_FILE, read_identity
from spark_jobs.lake.setup.registry import Registration
from spark_jobs.lake.store import lease, storage
from spark_jobs.policies.lake_settings import ON_CLOSED_SEGMENTS
from spark_jobs.policies.policies_file import read_policies
from spark_jobs.policies.topic_policies import LakePolicy, TopicPolicy


class NoSourceError(UsageError):
    """The lake is registered without sources, and itself names some: the text says how to choose."""


@dataclass(frozen=True, slots=True)
class RegisteredLake:
    """A lake, and its registration in the operator's home."""

    path: str
    """Absolute directory, or ``s3://bucket/prefix``."""
    name: str
    """Its name in the home: unique, and the same for ever."""
    intakes: tuple[Intake, ...] = ()
    """The sources that it ingests."""
    policies: str | None = None
    """Absolute path of its ``policies.yaml``."""
    owners: tuple[str, ...] = ()
    """Who answers questions about the lake: e-mail addresses, or names of users or teams."""

    @property
    def identifier(self) -> str:
        """The name with letters, digits and ``_`` only; unique too."""
        return lake_names.identifier(self.name)

    def name_of(self, what: str) -> str:
        """The name in Dagster of something that each lake has one of, such as a job or a schedule."""
        return f"{self.identifier}__{what}"

    @property
    def key(self) -> str:
        """The unique key of the lake in its home."""
        return lake_key(self.path)

    @property
    def why_not_registered(self) -> str | None:
        """Why nothing starts by itself, and what to type; None: it is registered in the home.

        Raises:
            UsageError: Its registration cannot be used.
        """
        if registry.recall(self.path).name:
            return None
        command = ingest_commands(self.path, unadopted_sources(self.path)) or run_command(self.path)
        return f"the lake is not registered in the home {registry.home()}: nothing starts by itself; `{command}`"

    @property
    def is_there(self) -> bool:
        """Whether its directory has a lake or its sources, which an empty mount point has not; True for a lake in a
        store, which is not accessed here.
        """
        files = (os.path.join(self.path, name) for name in (LAKE_FILE, registry.HINT_FILE))
        return storage.is_remote(self.path) or any(map(os.path.lexists, files))

    @property
    def why_no_lake(self) -> str:
        """Why its directory is no lake, and what to type."""
        return no_lake(self.path)

    def is_busy(self, now_ms: int) -> bool:
        """Return whether a process works on it."""
        return (storage.is_remote(self.path) or os.path.isdir(self.path)) and lease.is_held(self.path, now_ms)

    @property
    def policy(self) -> LakePolicy:
        """What schedules do with the lake, by its policies.

        Raises:
            UsageError: The policies cannot be used.
        """
        return read_policies(self.policies).lake

    @property
    def is_watched_by_sensor(self) -> bool:
        """Whether the policies leave the intake to the sensor, which is the default.

        Raises:
            UsageError: The policies cannot be used.
        """
        return self.policy.ingest == ON_CLOSED_SEGMENTS

    @property
    def longest_delay_ms(self) -> int:
        """Time after which everything that a run of this lake left for later is due, by its policies.

        Raises:
            UsageError: The policies cannot be used.
        """
        default = TopicPolicy("*", ()).publish_max_delay_ms
        return max([default, *(each.publish_max_delay_ms for each in read_policies(self.policies).topics)])


@dataclass(frozen=True, slots=True)
class Home:
    """All lakes that are registered in a home."""

    lakes: tuple[RegisteredLake, ...]
    """Registered lakes by name."""
    broken: tuple[str, ...]
    """A sentence for each registration that cannot be used; it does not hide the others."""
    unused: str | None = None
    """A sentence about another home here; None: there is none."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines for stderr about what is left out."""
        return (*([f"note: {self.unused}"] if self.unused else []), *(f"error: {each}" for each in self.broken))


def home_folder() -> str:
    """Return the operator's home.

    Raises:
        UsageError: It lies inside a lake, or this user has none.
    """
    return registry.home()


def unused_home(lake: str | None = None) -> str | None:
    """Return a sentence about a folder ``.loglake`` here that has lakes which the home does not have.

    Args:
        lake: Only this lake counts; None: every lake.
    """
    folder, home = os.path.abspath(".loglake"), registry.home()
    lakes = registry.registrations(folder).lakes.keys() - registry.registrations(home).lakes.keys()
    if not lakes or (lake is not None and lake not in lakes):
        return None
    names = _few([shown(lake) for lake in sorted(lakes)])
    how = f"export LOGLAKE_HOME={quote(folder)}"
    return f"the home is {home}. The lakes of {folder} are not registered there: {names}. To use that home: {how}"


def check_policies(lake: str, named: str | None = None) -> None:
    """Check that a run of a lake whose tables follow policies has policies.

    Args:
        lake: The lake.
        named: The policies file of the run; None: the registered one.

    Raises:
        UsageError: There is none: the run would publish records that its tables of topics do not have.
    """
    tables = () if named or registry.recall(lake).policies else sorted(remembered_tables(lake))
    if tables:
        # What a lake says of its sources is shown here and not acted on.
        files = (each.policies for each in registry.hinted(lake) if each.policies)
        file = next(map(shell_word, filter(os.path.isfile, files)), "FILE")
        raise UsageError(
            f"The lake {lake} has tables that follow policies ({_few([shown(table) for table in tables])}), and no "
            f"policies file is registered for it in the home {registry.home()}. Nothing was made or changed. Name the "
            f"file once: {run_command(lake)} --policies {file}; or set LOGLAKE_HOME to the home "
            "where it is registered. A file without decode and latest leaves these tables as they are, with a warning."
        )


def dagster_home() -> str:
    """Return the folder of Dagster's run history, without ``DAGSTER_HOME``: in the operator's home."""
    return os.path.join(registry.home(), "dagster")


def read_home(folder: str) -> Home:
    """Return what is registered in a home."""
    found = registry.registrations(folder)
    lakes = (_registered(lake, registration) for lake, registration in found.lakes.items())
    return Home(tuple(sorted(lakes, key=lambda lake: (lake.name, lake.path))), found.broken)


def chosen_lakes(named: Sequence[str]) -> Home:
    """Return the lakes that a command is for: the named ones, or all of the home.

    Args:
        named: Their paths, as a user wrote them.

    Raises:
        UsageError: No lake is named, and none is registered.
    """
    if named:
        lakes = tuple(read_registered(lake) for lake in dict.fromkeys(map(storage.absolute, named)))
        return Home(lakes, (), next(filter(None, (unused_home(lake.path) for lake in lakes)), None))
    home = replace(read_home(home_folder()), unused=unused_home())
    if not home.lakes and not home.broken:
        unused = f" {home.unused[0].upper()}{home.unused[1:]}" if home.unused else ""
        raise UsageError(f"no lake is named, and none is registered in {home_folder()}.{unused}")
    return home


def home_state(folder: str) -> object:
    """Return a value that differs from the last one if a registration of the home was added, changed or removed, or if
    the policies file of one was.
    """
    registered = registry.state_of(folder)
    return registered, tuple(_state_of_file(path) for path in _policies_of(folder, registered))


@lru_cache(maxsize=1)
def _policies_of(folder: str, registered: object) -> tuple[str, ...]:
    """The policies files of a home. They are looked up again when the registrations have changed."""
    return tuple(sorted({lake.policies for lake in read_home(folder).lakes if lake.policies}))


def _state_of_file(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def read_registered(lake: str) -> RegisteredLake:
    """Return the registration of one lake; only its path and its directory's name if it is not registered.

    Raises:
        UsageError: Its registration cannot be used.
    """
    return _registered(lake, registry.recall(lake))


def lake_name(lake: str) -> str:
    """Return the name of a lake for users: its directory's name."""
    return os.path.basename(os.path.normpath(lake))


def lake_key(lake: str) -> str:
    """Return the key of a lake in the home: its directory's name and a digest of its path."""
    return lake_names.key_of(lake)


def lake_path(named: str) -> str:
    """Return the normalized path of a lake: absolute, without a slash at its end.

    Raises:
        UsageError: An object store address that cannot be used.
    """
    return storage.absolute(named)


def is_lake(path: str) -> bool:
    """Return whether there is a lake at this place.

    Raises:
        JobError: It is of another layout, or the object store did not answer.
    """
    return read_identity(path) is not None


def lake_around(path: str, lake: str | None = None) -> str | None:
    """Return the lake that contains a local path or is the path; None if there is none.

    Args:
        lake: A directory that counts as a lake although it may not be one yet.
    """
    return registry.lake_around(path, lake)


def intakes_of(lake: str) -> tuple[Intake, ...]:
    """Return what a run of a lake ingests that names no sources of its own.

    Raises:
        NoSourceError: The lake is registered without sources, and itself names some. Those are never used.
        UsageError: Its registration cannot be used.
    """
    hinted = unadopted_sources(lake)
    if hinted:
        raise NoSourceError(
            f"The lake {lake} has no sources in {registry.home()}. Its {registry.HINT_FILE} names some; what a lake "
            f"says of itself is not acted on. If they are right, register them: {ingest_commands(lake, hinted)}"
        )
    return read_registered(lake).intakes


def remote_of(lake: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the remote storage that is registered with any of these sources.

    Raises:
        UsageError: The registration cannot be used.
    """
    return registry.remote_of(lake, paths)


def unadopted_sources(lake: str) -> tuple[Intake, ...]:
    """Return what a lake names as its sources, if it has no sources here.

    Raises:
        UsageError: Its registration cannot be used.
    """
    if registry.recall(lake).intakes:
        return ()
    return registry.hinted(lake)


def ingest_commands(lake: str, intakes: Iterable[Intake]) -> str:
    """Return the commands that ingest sources, and so register them, as one line for a shell."""
    return "; ".join(ingest_command(lake, intake) for intake in intakes)


def named_sources(lake: str) -> tuple[str, ...]:
    """Return all local or remote paths that a lake is registered with, or that it names itself: none may be written.

    Raises:
        UsageError: Its registration cannot be used.
    """
    intakes = (*registry.recall(lake).intakes, *registry.hinted(lake))
    named = (path for intake in intakes for path in (*intake.sources, *intake.fill_from, *intake.remote))
    return tuple(dict.fromkeys(named))


def hint_file(lake: str) -> str:
    """Return the file in which a lake names its sources, for the next operator."""
    return storage.join(lake, registry.HINT_FILE)


def as_remembered(lake: str, intake: registry.AnyIntake) -> registry.AnyIntake:
    """Return the intake, completed by the registered options of the same sources.

    Raises:
        UsageError: The registration of the lake cannot be used.
    """
    return registry.as_remembered(lake, intake)


def held_logs(lake: str) -> dict[str, TopicPartition]:
    """Return topic and partition of each log of a lake, by log key; several incarnations of a log are several entries.

    Raises:
        TableUnreadable: The table ``logs`` cannot be read.
    """
    return {log: TopicPartition(row.topic, row.partition) for log, row in read_logs(lake).items()}


def _registered(lake: str, found: Registration) -> RegisteredLake:
    name = found.name or lake_names.free_name(lake, ())
    return RegisteredLake(lake, name, found.intakes, found.policies, found.owners)


def _few(keys: Sequence[str]) -> str:
    return ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")
