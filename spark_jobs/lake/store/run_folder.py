"""The folder for files that the steps of one run pass to each other: beside the log files, deleted when the run ends.

The next run, which holds the lease, deletes the files of a killed run.
"""

from __future__ import annotations

import shutil
import uuid

from spark_jobs.lake.store import storage

FOLDERS = "archive/.cleaning"


def new_folder() -> str:
    """Return a unique name, relative to the lake."""
    return f"{FOLDERS}/{uuid.uuid4().hex}"


def has_leftovers(lake: str) -> bool:
    """Return whether an earlier run left files.

    Raises:
        StorageError: The object store failed.
    """
    return storage.has_files(storage.join(lake, FOLDERS))


def remove(lake: str, folder: str = FOLDERS) -> None:
    """Delete a folder, by default those of all runs.

    Raises:
        OSError: Files cannot be deleted.
    """
    root = storage.join(lake, folder)
    if not storage.is_remote(root):
        shutil.rmtree(root, ignore_errors=True)
        return
    for file in list(storage.files_below(root)):
        storage.delete(file.path)
