"""Whether a folder can be written, and how much room its filesystem has: found by writing, not from permissions.

Permissions do not show a read-only filesystem, a quota or a full disk. So a file without a name is written, and the
system removes it when it is closed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass

PROBE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class FolderRoom:
    """A folder as a process finds it.

    Attributes:
        folder: The folder that was written to: the named one, or the nearest parent that exists.
        free_bytes: Free space of its filesystem; None if that is not known.
        problem: Why it cannot be written; None if it can.
    """

    folder: str
    free_bytes: int | None
    problem: str | None


def folder_room(folder: str) -> FolderRoom:
    """Write a nameless file of `PROBE_BYTES` into a folder, or into the parent in which it would be created."""
    there = os.path.abspath(folder)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    problem, free = None, None
    try:
        free = shutil.disk_usage(there).free
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        problem = error.strerror or type(error).__name__
    return FolderRoom(there, free, problem)
