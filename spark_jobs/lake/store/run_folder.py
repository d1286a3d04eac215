"""The folder in which the steps of one run leave files for one another: beside the log files, gone when the run ends.

What a killed run left there is taken away by the next, which holds the lease.
"""

from __future__ import annotations

import shutil
import uuid

from spark_jobs.lake.store import storage

FOLDERS = "archive/.cleaning"


def new_folder() -> str:
    """A name that no other run has, relative to the lake."""
    return f"{FOLDERS}/{uuid.uuid4().hex}"


def has_leftovers(lake: str) -> bool:
    """Whether a run that is no more left something. Raises StorageError."""
    return storage.has_files(storage.join(lake, FOLDERS))


def remove(lake: str, folder: str = FOLDERS) -> None:
    """Take a folder away, by default those of all runs. Raises OSError."""
    root = storage.join(lake, folder)
    if not storage.is_remote(root):
        shutil.rmtree(root, ignore_errors=True)
        return
    for file in list(storage.files_below(root)):
        storage.delete(file.path)
