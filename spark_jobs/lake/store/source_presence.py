"""Whether the source of a log is still where it was."""

from __future__ import annotations

import os
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
