"""What `loglake run` needs, looked at before it makes anything: no folder, no lake and no history of a run that could
not begin.

A lake and its sources keep out of each other. A broker would take a lake in its log directory for a stray folder, and
the next command would read the archive as if it were the broker's logs; a source inside a lake would be archived into
itself. Paths are compared resolved, with links followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from logcore.segments.filenames import parse_partition_directory
from logcore.storage.local import discover, shown, source_path
from spark_jobs import launch
from spark_jobs.lake.errors import JobError, UsageError
from spark_jobs.lake.setup import identity
from spark_jobs.lake.setup.policies import read_policies
from spark_jobs.lake.store import storage

_ROOT_FILES = ("meta.properties", "replication-offset-checkpoint", "recovery-point-offset-checkpoint")
"""A directory with one of these is a broker's log directory."""


def check_run(lake: str, sources: Sequence[str], fill_from: Sequence[str], policies: str | None) -> None:
    """Everything that a run needs and that can be known before it.

    Args:
        lake: absolute, a directory or ``s3://bucket/prefix``; sources, fill_from: absolute local paths.

    Raises:
        UsageError: lake and sources lie in one another, the lake lies in another one, the policies cannot be read, or
            the lake's address cannot be used.
        JobError: no source is there, the lake cannot be written or is of a newer layout, or Spark will be needed and
            there is no Java for it.
    """
    for path in (*sources, *fill_from):
        _check_apart(lake, path)
    _check_outside_other_lakes(lake)
    read_policies(policies)
    missing = [path for path in sources if not os.path.lexists(path)]
    if len(missing) == len(sources):
        raise JobError(" ".join(f"{shown(path)} does not exist." for path in missing) + " Nothing was made or changed.")
    _check_writable(lake)
    if identity.read_identity(lake) is None and discover([source_path(path) for path in sources]).logs:
        launch.check_engine()  # a first run always needs Spark; whether a later one does, its plans say


def _check_apart(lake: str, source: str) -> None:
    """Raises UsageError where one lies in the other."""
    real = os.path.realpath(source)
    around = next(
        (folder for folder in _upwards(real) if os.path.lexists(os.path.join(folder, identity.LAKE_FILE))), None
    )
    if around is not None:
        raise UsageError(
            f"The source {shown(source)} lies inside the lake {shown(around)}. A lake is no source of logs: name the "
            "directory that its logs came from."
        )
    if storage.is_remote(lake):
        return
    place = os.path.realpath(lake)
    if place in _upwards(real):
        raise UsageError(
            f"The source {shown(source)} lies inside {shown(lake)}, which is to be the lake. Name another --lake."
        )
    for root in _directories_of(real):
        if root in _upwards(place):
            raise UsageError(
                f"The lake {shown(lake)} lies inside the source {shown(root)}. Sources are only read, and a broker "
                "expects only its own folders there: name a --lake outside of it."
            )


def _directories_of(source: str) -> Iterator[str]:
    """The directories that belong to a source: the one that is named or holds the file, and the log directory around a
    partition directory."""
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
    around = _lake_of(_upwards(os.path.realpath(lake))[1:])
    if around is not None:
        raise UsageError(
            f"The lake {shown(lake)} would lie inside the lake {shown(around)}, whose upkeep removes files that are "
            "not its own. Name another --lake."
        )


def _check_writable(lake: str) -> None:
    """Raises JobError where the directory cannot be made or written into. A store says it by itself."""
    if storage.is_remote(lake):
        return
    there = next(folder for folder in _upwards(os.path.realpath(lake)) if os.path.lexists(folder))
    if not os.path.isdir(there):
        raise JobError(
            f"The lake {shown(lake)} cannot be written: {shown(there)} is no directory. Name another --lake."
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise JobError(
            f"The lake {shown(lake)} cannot be written: no permission to write in {shown(there)}, or its filesystem is "
            "read-only. Change that, or name another --lake."
        )


def _lake_of(folders: Sequence[str]) -> str | None:
    """The first of these directories that is a lake."""
    return next((each for each in folders if os.path.lexists(os.path.join(each, identity.LAKE_FILE))), None)


def _upwards(path: str) -> list[str]:
    """The path and every directory around it, innermost first."""
    found = [path]
    while os.path.dirname(found[-1]) != found[-1]:
        found.append(os.path.dirname(found[-1]))
    return found
