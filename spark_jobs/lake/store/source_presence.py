"""Whether the source of a log, and what the lake registered there, is still where it was."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from logcore.storage.objects.addresses import is_object
from spark_jobs.errors import JobError
from spark_jobs.lake.store import storage


def is_gone(directory: str) -> bool:
    """Whether a partition directory no longer exists, or has no segment. What cannot be looked into is not gone."""
    if is_object(directory):
        with suppress(JobError, OSError):
            return not storage.has_files(directory)
        return False
    try:
        return not any(name.endswith(".log") for name in os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def gone_files(paths: Sequence[str]) -> list[str]:
    """Return the files that no longer exist, in their order. What cannot be looked into is not gone."""
    gone = {path for path in paths if not is_object(path) and not os.path.lexists(path)}
    # A listing costs less than a request for each object.
    for directory in {storage.directory_of(path) for path in paths if is_object(path)}:
        with suppress(JobError, OSError):
            there = {file.path for file in storage.files_below(directory)}
            gone |= {path for path in paths if storage.directory_of(path) == directory and path not in there}
    return [path for path in paths if path in gone]
