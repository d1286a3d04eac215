"""Writes of files and directories that have to survive a power failure.

A task normally waits for the disk before it returns. Inside :func:`late_syncs` files are placed without that wait, and
the caller gets their paths. It syncs them with :func:`sync_all` before anything refers to them. A file without a
reference is an orphan, whatever a power failure leaves of it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

MOST_ALONE = 64
"""More files than this are synced with their whole file system: one wait in place of one for each file."""


@dataclass(slots=True)
class Unsynced:
    """Files that were placed, and the directories that gained entries."""

    files: list[str] = field(default_factory=list)
    directories: set[str] = field(default_factory=set)


_collected: Unsynced | None = None


@contextmanager
def late_syncs() -> Iterator[Unsynced]:
    """Collect what is placed inside the block instead of syncing it. One block at a time.

    Yields:
        What was placed so far.
    """
    global _collected
    unsynced = Unsynced()
    _collected = unsynced
    try:
        yield unsynced
    finally:
        _collected = None


def is_late(file: str, directories: Iterable[str]) -> bool:
    """Leave the sync of a file and its directories to the caller of :func:`late_syncs`; False outside of it."""
    if _collected is None:
        return False
    _collected.files.append(file)
    _collected.directories.update(directories)
    return True


def sync(path: str) -> None:
    """Return when a local file's bytes, or a directory's entries, are on disk.

    Raises:
        OSError: The disk failed to write them.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(paths: Collection[str]) -> None:
    """Return when all these local files and directories are on disk.

    Raises:
        OSError: The disk failed to write them.
    """
    different = dict.fromkeys(paths)
    if len(different) <= MOST_ALONE:
        for path in different:
            with suppress(PermissionError):  # a directory above the lake may be closed to this user
                sync(path)
        return
    file_systems = {os.stat(path).st_dev: path for path in different}
    for path in file_systems.values():
        _sync_file_system(path)


def _sync_file_system(path: str) -> None:
    """``syncfs`` of Linux: as fsync of every file of the file system that holds ``path``."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        os.sync()
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if call(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(descriptor)
