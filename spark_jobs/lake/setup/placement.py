"""Where a lake may be: outside of its sources and of other lakes, in a directory that can be written.

A lake and its sources must be separate. A broker would take a lake in its log directory for a stray folder, and the
next command would read the archive as if it were the broker's logs. A source inside a lake would be archived into
itself. Paths are compared after links are resolved. Nothing is created here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from logcore.segments.filenames import parse_partition_directory, segment_base_offset
from logcore.storage.discovery import shown
from logcore.storage.objects.addresses import split
from spark_jobs.errors import JobError, StorageError, UsageError
from spark_jobs.lake.setup import identity
from spark_jobs.lake.setup.registry import lake_around, upwards
from spark_jobs.lake.store import storage

_ROOT_FILES = ("meta.properties", "replication-offset-checkpoint", "recovery-point-offset-checkpoint")
"""A directory with one of these is a broker's log directory."""


def check_place(lake: str, sources: Iterable[str]) -> None:
    """Check a lake against all directories that a run reads.

    Args:
        lake: Absolute: a directory or ``s3://bucket/prefix``.
        sources: Absolute local paths, or names on object stores.

    Raises:
        UsageError: Lake and sources lie in one another, or the lake lies in another one.
    """
    for path in sources:
        _check_apart(lake, path)
    _check_outside_other_lakes(lake)


def check_outside_lakes(sources: Iterable[str]) -> None:
    """Check that no source on an object store lies inside a lake; that takes a request for each part of its name.

    Raises:
        UsageError: A source lies inside a lake.
    """
    for source in filter(storage.is_remote, sources):
        around = next(filter(_is_visible_lake, _remote_parents(source)), None)
        if around is not None:
            raise _inside_a_lake(source, around)


def _is_visible_lake(directory: str) -> bool:
    """Whether a directory of an object store is a lake, as far as the credentials allow a look.

    They may allow only the source. A store that fails says why when the source is listed: the answer to a request for a
    head has no reason.
    """
    try:
        return storage.exists(f"{directory}/{identity.LAKE_FILE}")
    except StorageError:
        return False


def check_writable(lake: str) -> None:
    """Check that the directory of a lake can be created and written. A store reports this by itself.

    Raises:
        JobError: It cannot; the text names the directory that prevents it.
    """
    if storage.is_remote(lake):
        return
    there = next(folder for folder in upwards(os.path.realpath(lake)) if os.path.lexists(folder))
    if not os.path.isdir(there):
        raise JobError(
            f"The lake {shown(lake)} cannot be written: {shown(there)} is no directory. Name another --lake."
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise JobError(
            f"The lake {shown(lake)} cannot be written: no permission to write in {shown(there)}, or its filesystem is "
            "read-only. Change that, or name another --lake."
        )


def _check_apart(lake: str, source: str) -> None:
    """Raises UsageError where one lies in the other."""
    if storage.is_remote(source):
        _check_apart_remotely(lake, source)
        return
    real = os.path.realpath(source)
    around = lake_around(real)
    if around is not None:
        raise _inside_a_lake(source, around)
    if storage.is_remote(lake):
        return
    place = os.path.realpath(lake)
    if place in upwards(real):
        raise UsageError(
            f"The source {shown(source)} lies inside {shown(lake)}, which will be the lake. Name another --lake."
        )
    for root in _directories_of(real):
        if root in upwards(place):
            raise UsageError(
                f"The lake {shown(lake)} lies inside the source {shown(root)}. Sources are only read, and a broker "
                "expects only its own folders there: name a --lake outside of it."
            )


def _inside_a_lake(source: str, lake: str) -> UsageError:
    return UsageError(
        f"The source {shown(source)} lies inside the lake {shown(lake)}. A lake is no source of logs: name the "
        "directory that its logs came from."
    )


def _check_apart_remotely(lake: str, source: str) -> None:
    """Compare the names: an object store has no links."""
    is_file = segment_base_offset(source.rpartition("/")[2]) is not None
    directory = source.rpartition("/")[0] if is_file else source
    if lake in _remote_parents(source):
        raise UsageError(f"The source {shown(source)} lies inside {shown(lake)}, the lake. Name another --lake.")
    if not storage.is_remote(lake):
        return
    if not set(_remote_parents(directory)[:2]) & set(_remote_parents(lake)):
        return  # without a request
    for root in _remote_directories_of(directory):
        if root in _remote_parents(lake):
            raise UsageError(
                f"The lake {shown(lake)} lies inside the source {shown(root)}. Sources are only read: name a --lake "
                "outside of it."
            )


def _remote_directories_of(directory: str) -> Iterator[str]:
    """Return the named directory, and the log directory of a partition directory. The second one needs requests, as far
    as the credentials allow them.
    """
    yield directory
    around, _, name = directory.rpartition("/")
    if parse_partition_directory(name) is None or around.endswith("/"):
        return
    try:
        if any(storage.exists(f"{around}/{each}") for each in _ROOT_FILES):
            yield around
    except StorageError:
        return


def _remote_parents(url: str) -> list[str]:
    """Return a name on an object store and all its parents, innermost first, down to the bucket."""
    bucket, key = split(url)
    parts = key.split("/") if key else []
    return [f"s3://{'/'.join((bucket, *parts[:count]))}" for count in range(len(parts), -1, -1)]


def _directories_of(source: str) -> Iterator[str]:
    """Return the directories that belong to a source: the named one, or that of the file, and the log directory of a
    partition directory.
    """
    if not os.path.lexists(source):
        return
    directory = source if os.path.isdir(source) else os.path.dirname(source)
    yield directory
    around = os.path.dirname(directory)
    if parse_partition_directory(os.path.basename(directory)) is not None and _is_log_directory(around):
        yield around


def _is_log_directory(path: str) -> bool:
    return any(os.path.lexists(os.path.join(path, name)) for name in _ROOT_FILES)


def _check_outside_other_lakes(lake: str) -> None:
    if storage.is_remote(lake):
        return
    above = upwards(os.path.realpath(lake))[1:]
    around = lake_around(above[0]) if above else None
    if around is not None:
        raise UsageError(
            f"The lake {shown(lake)} would lie inside the lake {shown(around)}, whose maintenance removes "
            "files that are not its own. Name another --lake."
        )
