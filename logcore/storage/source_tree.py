"""The directories of a source: on local disks, or formed by the keys of objects.

`logcore.storage.discovery` finds logs in a `SourceTree`. A tree of objects is one listing; only files that are read
cost further requests.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from logcore.storage.files import open_readonly, read_file
from logcore.storage.source_errors import SourceUnreadable


class DirectoryEntry(Protocol):
    """A name in a directory; `os.DirEntry` is one."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def path(self) -> str:
        """The path: that of the directory, and the name."""

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory."""

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a regular file."""

    def is_symlink(self) -> bool:
        """Whether it is a link."""


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it was seen: size in bytes, modification time, and what distinguishes it from another one under its
    name.

    `etag` is None for a file of a disk, and `inode` 0 for an object.
    """

    size: int
    modified_ms: int
    inode: int
    etag: str | None = None


class SourceTree(Protocol):
    """Directories and files of a source. Paths are absolute, or relative to the working directory."""

    def is_directory(self, path: str) -> bool:
        """Whether a path is a directory, or a link to one.

        Raises:
            OSError: It does not exist, or cannot be examined.
            ValueError: No file can have this path.
        """

    def entries(self, path: str) -> Sequence[DirectoryEntry]:
        """List a directory by name.

        Raises:
            OSError: It cannot be listed.
        """

    def identity(self, path: str) -> Hashable:
        """What two paths of one directory have in common.

        Raises:
            OSError: It cannot be examined.
        """

    def state(self, path: str) -> FileState:
        """Examine a regular file.

        Raises:
            FileNotFoundError: It does not exist.
            SourceUnreadable: It cannot be examined, or is not a regular file.
        """

    def exists(self, path: str) -> bool:
        """Whether there is anything at a path."""

    def small_file(self, path: str, limit: int) -> bytes | None:
        """Read a whole file; None if there is none.

        Raises:
            SourceUnreadable: It cannot be read, or has more than `limit` bytes.
            SourceChanged: Another one took its name while it was read, or after it was listed.
        """

    def modified_ms(self, path: str) -> int | None:
        """When a file was changed, in epoch milliseconds; None if that is not known."""


class LocalTree:
    """The directories of this machine."""

    def is_directory(self, path: str) -> bool:
        """Whether a path is a directory, or a link to one."""
        return stat.S_ISDIR(os.stat(path).st_mode)

    def entries(self, path: str) -> Sequence[os.DirEntry[str]]:
        """List a directory by name."""
        with os.scandir(path) as found:
            return sorted(found, key=lambda entry: entry.name)

    def identity(self, path: str) -> Hashable:
        """Device and inode."""
        seen = os.stat(path)
        return seen.st_dev, seen.st_ino

    def state(self, path: str) -> FileState:
        """Examine a regular file. Links are not followed."""
        try:
            with open_readonly(path) as stream:
                seen = os.fstat(stream.fileno())
        except SourceUnreadable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise error.__cause__ from error
            raise
        return FileState(seen.st_size, seen.st_mtime_ns // 1_000_000, seen.st_ino)

    def exists(self, path: str) -> bool:
        """Whether there is anything at a path, a broken link too."""
        return os.path.lexists(path)

    def small_file(self, path: str, limit: int) -> bytes | None:
        """Read a whole file; None if there is none."""
        return read_file(path, limit) if os.path.lexists(path) else None

    def modified_ms(self, path: str) -> int | None:
        """When a file was changed, in epoch milliseconds; None if that is not known."""
        try:
            return os.stat(path).st_mtime_ns // 1_000_000
        except OSError:
            return None
