"""Files that are whole and on disk from the moment they can be seen: written aside, synced, renamed.

A process may be killed, or the machine lose power, between any two lines here; what is left then is an old file, a new
one, or one under a name that nobody reads.
"""

from __future__ import annotations

import contextlib
import os
import uuid


def sync(path: str) -> None:
    """Return when a file's bytes, or a directory's entries, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def place(path: str, content: bytes, *, modified_ms: int | None = None) -> None:
    """Put a file in its place, replacing what was there; its directories are made.

    Args:
        modified_ms: the time of change it gets, where that is data (epoch milliseconds).

    Raises:
        OSError: the disk does not take it; nothing is left behind.
    """
    directory = os.path.dirname(path)
    os.makedirs(directory, exist_ok=True)
    temporary = os.path.join(directory, f".{uuid.uuid4().hex}.writing")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if modified_ms is not None:
            os.utime(temporary, ns=(modified_ms * 1_000_000,) * 2)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    sync(directory)
