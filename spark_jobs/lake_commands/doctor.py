"""Checks of ``loglake doctor`` for lakes: packages of the extra, the operator's home, Java, each lake, its sources.

Without ``--lake`` all registered lakes are checked, with the sources that they are registered with.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement

from logcore.cli.doctor.checks import CheckedPlaces, Checks, CheckState, InstallationCheck, guarded
from logcore.cli.doctor.installation import DISTRIBUTION, folder_check, source_check
from logcore.storage.discovery import shown
from logcore.texts import shell_word
from spark_jobs.engine.java import find_java
from spark_jobs.engine.job_engine import JobEngine, chosen_engine
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.decoded.topic_tables import DECODED, LATEST, UNDECODED, topics_with_tables
from spark_jobs.lake.delta.files.live_files import newest_files
from spark_jobs.lake.delta.tables.snapshots import reading, table_uri
from spark_jobs.lake.setup import registry
from spark_jobs.lake.setup.identity import LAKE_FILE, read_identity
from spark_jobs.lake.store import lease, storage
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.lake.view.registered_lakes import home_folder, read_home, read_registered, unused_home
from spark_jobs.lake.view.unread_sources import unread_copies
from spark_jobs.policies.policies_file import read_policies

_OF_TOPICS = (DECODED, UNDECODED, LATEST)
_OTHER_HOME = "Name a folder of your own with LOGLAKE_HOME."
_OTHER_LAKE = "Change its owner or permissions, or make room."


def lake_checks(places: CheckedPlaces) -> Iterator[InstallationCheck]:
    """Yield the checks of the extra, of the home, of Java, of lakes and of their registered sources."""
    yield from _guarded("extra lake", _packages)
    yield from _guarded("home", _home)
    yield from _guarded("java", lambda: [java_check()])
    if places.lake is not None:
        yield from _guarded("lake", lambda: _named_lake(places))
    elif not places.sources:
        yield from _guarded("registered", lambda: _registered_lakes(places))


def _packages() -> Iterator[InstallationCheck]:
    """Compare versions with those that the extra requires: `pip check` leaves out what only an extra requires."""
    with contextlib.suppress(metadata.PackageNotFoundError):  # of Loglake: a check of its own says so
        parsed = map(Requirement, metadata.requires(DISTRIBUTION) or ())
        needed = [each for each in parsed if each.marker is not None and each.marker.evaluate({"extra": "lake"})]
        found = [(each, metadata.version(each.name)) for each in needed]
        other = [
            f"{each.name} {version} instead of {each.specifier}"
            for each, version in found
            if not each.specifier.contains(version, prereleases=True)
        ]
        if other:
            text = f"Packages have another version than required: {', '.join(other)}."
            yield InstallationCheck("extra lake", CheckState.WARNING, text, "Install the required versions.")
        else:
            text = f"{len(found)} packages have the required versions"
            yield InstallationCheck("extra lake", CheckState.OK, text)


def java_check() -> InstallationCheck:
    """Check Java. Only Spark needs it, so a machine without Spark may lack it."""
    engine, why = chosen_engine()
    try:
        java = find_java()
    except JobError as error:
        if engine is JobEngine.SPARK:
            return InstallationCheck("java", CheckState.FAILED, f"Jobs run on Spark, because {why}. {error}")
        text = "none of version 17 or later was found; only Spark needs it, and jobs run in worker processes"
        return InstallationCheck("java", CheckState.INFO, text)
    text = f"version {java.version}, {java.executable} ({java.source}); jobs run on {engine}: {why}"
    return InstallationCheck("java", CheckState.OK, text)


def lake_check(path: str, now_ms: int) -> InstallationCheck:
    """Check that there is a lake, of a layout that this version knows, and that its store answers.

    Raises:
        JobError: There is something else, or the store did not answer.
    """
    identity = read_identity(path)
    if identity is None and lease.is_held(path, now_ms):
        return InstallationCheck("lake", CheckState.INFO, f"the first run of {shown(path)} is making it now")
    if identity is None:
        text = f"{shown(path)} is no lake: it has no {LAKE_FILE}."
        advice = f"Name another --lake, or make it with `loglake run PATH... --lake {shown(path)}`."
        return InstallationCheck("lake", CheckState.FAILED, text, advice)
    unread = list(_unread_tables(path))
    if unread:
        more = f" So it is with {len(unread) - 1} more." if unread[1:] else ""
        return InstallationCheck("lake", CheckState.FAILED, f"{unread[0]}{more}")
    cluster = "no cluster id" if identity.cluster is None else f"cluster {identity.cluster}"
    return InstallationCheck("lake", CheckState.OK, f"{shown(path)} can be read, layout {identity.layout}, {cluster}")


def _unread_tables(lake: str) -> Iterator[str]:
    """Say why each table cannot be read that is damaged, or that this user may not read."""
    of_topics = [f"{kind}/{topic}" for kind in _OF_TOPICS for topic in topics_with_tables(lake, (kind,))]
    for name in (*TABLES, *of_topics):
        try:
            for file in newest_files(lake, name):
                if not storage.is_remote(lake):
                    _refuse_unread(lake, name, file.path)
        except JobError as error:
            yield str(error)


def _refuse_unread(lake: str, name: str, file: str) -> None:
    with reading(lake, name, file):
        path = storage.join(table_uri(lake, name), file)
        os.stat(path)
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def _home() -> Iterator[InstallationCheck]:
    folder = home_folder()
    yield folder_check("home", folder, _OTHER_HOME)
    unused = unused_home()
    if unused is not None:
        yield InstallationCheck("home", CheckState.INFO, unused)
    for sentence in read_home(folder).broken if os.path.isdir(folder) else ():
        yield InstallationCheck("registered", CheckState.FAILED, sentence)


def _named_lake(places: CheckedPlaces) -> Iterator[InstallationCheck]:
    lake = storage.absolute(places.lake or "")
    sources = () if places.sources else read_registered(lake).intakes
    yield from _lake(lake, [path for intake in sources for path in intake.sources], places)


def _registered_lakes(places: CheckedPlaces) -> Iterator[InstallationCheck]:
    known = read_home(home_folder()).lakes
    if not known:
        yield InstallationCheck("registered", CheckState.INFO, "no lake is registered in this home")
    for lake in known:
        yield from _lake(lake.path, [path for intake in lake.intakes for path in intake.sources], places)


def _lake(lake: str, sources: list[str], places: CheckedPlaces) -> Iterator[InstallationCheck]:
    found = next(_guarded("lake", lambda: [lake_check(lake, places.now_ms)]))
    yield found
    yield from _guarded("policies", lambda: _policies_check(lake))
    if found.state is CheckState.OK and not storage.is_remote(lake):
        yield from _guarded("lake-disk", lambda: [folder_check("lake-disk", lake, _OTHER_LAKE)])
    for path in dict.fromkeys(sources):
        yield from _guarded("source", lambda path=path: [source_check(path)])  # type: ignore[misc]
    yield from _guarded("copy", lambda: _copies(lake))


def _copies(lake: str) -> Iterator[InstallationCheck]:
    """Name registered copies to fill from that are gone. Nothing fails before there is damage."""
    for path, why in unread_copies(lake).items():
        forget = f"`loglake run --lake {shell_word(lake)} --forget-source {shell_word(path)}`"
        text = f"{why} Runs are to take lost offsets from this copy. Put it back, or forget it: {forget}"
        yield InstallationCheck("copy", CheckState.INFO, text)


def _policies_check(lake: str) -> Iterator[InstallationCheck]:
    """Check that the registered policies can be read."""
    path = registry.recall(lake).policies
    if path is not None:
        read_policies(path)
        yield InstallationCheck("policies", CheckState.OK, f"{shown(path)} can be read")


def _guarded(name: str, checks: Checks) -> Iterator[InstallationCheck]:
    """Yield checks, and a failed one if they end with an error."""

    def with_errors_of_lakes() -> Iterator[InstallationCheck]:
        try:
            yield from checks()
        except (JobError, UsageError) as error:
            yield InstallationCheck(name, CheckState.FAILED, str(error))

    yield from guarded(name, with_errors_of_lakes)
