"""How files of a lake are deleted: one, many with few requests, and folders that became empty.

Paths are relative to a root. On a local disk no link is followed below it, so nothing outside a lake is ever deleted.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat as file_modes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from spark_jobs.errors import UsageError
from spark_jobs.lake.store import object_store, storage

_A_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_DELETED_AT_ONCE = 1000


def own_files_below(root: str) -> Iterator[storage.StoredFile]:
    """Yield the regular files below a directory that may be deleted; links are not followed.

    Raises:
        StorageError: The object store failed.
    """
    if storage.is_remote(root):
        yield from storage.files_below(root)
        return
    for directory, _, names in os.walk(root):
        for name in sorted(names):
            path = os.path.join(directory, name)
            with suppress(FileNotFoundError):
                status = os.lstat(path)
                if file_modes.S_ISREG(status.st_mode):
                    yield storage.local_file(path, status)


def delete_below(root: str, path: str, *, placed_before_ms: int) -> bool:
    """Delete the file at ``path``, relative to ``root``, if it was placed before a time; return whether it was deleted.

    On a local disk no link is followed below ``root``, and empty folders are removed too.

    Args:
        placed_before_ms: By the clock of the filesystem or store; a file that was placed later is another one.

    Raises:
        UsageError: The path leads out of ``root``.
        OSError: It can't be deleted, or a part of its path is a link.
    """
    _check_below(root, path)
    names = path.split("/")
    if storage.is_remote(root):
        full = storage.join(root, path)
        with suppress(FileNotFoundError):
            if storage.stat(full).placed_ms <= placed_before_ms:
                object_store.delete(full)
                return True
        return False
    with suppress(FileNotFoundError), _opened(root, names[:-1]) as folders:
        status = os.stat(names[-1], dir_fd=folders[-1], follow_symlinks=False)
        if file_modes.S_ISREG(status.st_mode) and status.st_ctime_ns // 1_000_000 <= placed_before_ms:
            os.unlink(names[-1], dir_fd=folders[-1])
            _remove_empty(folders, names[:-1])
            return True
    return False


@contextmanager
def _opened(root: str, names: Sequence[str]) -> Iterator[list[int]]:
    """Yield descriptors of a folder and of folders one below another in it; no link is followed below the first."""
    folders = [os.open(root, _A_FOLDER & ~os.O_NOFOLLOW)]
    try:
        for name in names:
            folders.append(os.open(name, _A_FOLDER, dir_fd=folders[-1]))
        yield folders
    finally:
        for folder in folders:
            os.close(folder)


def delete_files(paths: Sequence[str]) -> None:
    """Delete files by their full paths, in this order; they may be missing. A store gets one request for many.

    Raises:
        OSError: One can't be deleted.
    """
    if paths and storage.is_remote(paths[0]):
        for at in range(0, len(paths), _DELETED_AT_ONCE):
            object_store.delete_many(paths[at : at + _DELETED_AT_ONCE])
        return
    for path in paths:
        storage.delete(path)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The outcome of a deletion of many files."""

    removed: list[str]
    failed: list[tuple[str, str]]
    """Paths that could not be deleted, each with the reason."""


def delete_all_below(root: str, paths: Sequence[str], *, placed_before_ms: int) -> Deleted:
    """Delete files as :func:`delete_below`. An object store gets a listing and few deletions, not requests for each.

    Raises:
        UsageError: A path leads out of ``root``. Nothing was deleted from an object store.
    """
    done = Deleted([], [])
    if not storage.is_remote(root):
        for path in paths:
            try:
                if delete_below(root, path, placed_before_ms=placed_before_ms):
                    done.removed.append(path)
            except OSError as error:
                done.failed.append((path, error.strerror or str(error)))
        return done
    for path in paths:
        _check_below(root, path)
    around = posixpath.commonpath([posixpath.dirname(path) for path in paths]) if paths else ""
    try:
        listed = storage.files_below(storage.join(root, around)) if paths else ()
        placed = {storage.relative(file.path, root): file.placed_ms for file in listed}
    except OSError as error:
        return Deleted([], [(path, str(error)) for path in paths])
    due = [path for path in paths if path in placed and placed[path] <= placed_before_ms]
    for at in range(0, len(due), _DELETED_AT_ONCE):
        some = due[at : at + _DELETED_AT_ONCE]
        try:
            object_store.delete_many([storage.join(root, path) for path in some])
            done.removed.extend(some)
        except OSError as error:
            done.failed.extend((path, str(error)) for path in some)
    return done


def _check_below(root: str, path: str) -> None:
    if any(name in ("", ".", "..") for name in path.split("/")):
        raise UsageError(f"{path!r} is no path below {root}.")


def empty_folders(root: str, name: str, *, unchanged_since_ms: int) -> list[str]:
    """Return folders below the folder ``name`` of ``root`` that contain no file and were last changed before a time:
    paths relative to ``root``, the innermost first. No link is followed; an object store has no folders.
    """
    if storage.is_remote(root) or not os.path.isdir(os.path.join(root, name)):
        return []
    found: list[str] = []
    going: set[str] = set()
    for path, folders, names, within in os.fwalk(os.path.join(root, name), topdown=False):
        here = os.path.relpath(path, root)
        is_old = os.fstat(within).st_mtime_ns // 1_000_000 <= unchanged_since_ms
        # A link to a folder is listed as a folder, but not followed: it stays, with its parents.
        if here != name and is_old and not names and all(os.path.join(here, folder) in going for folder in folders):
            going.add(here)
            found.append(here)
    return found


def remove_folder(root: str, path: str) -> bool:
    """Remove the folder at ``path``, relative to ``root``, if it is empty, through no link; return whether it was.

    Raises:
        OSError: It cannot be removed.
    """
    *around, name = path.split("/")
    with suppress(FileNotFoundError), _opened(root, around) as folders:
        return _is_removed(name, folders[-1])
    return False


def _remove_empty(folders: list[int], names: list[str]) -> None:
    """Remove empty folders, the innermost first; the outermost stays."""
    for name, around in reversed(list(zip(names[1:], folders[1:], strict=False))):
        if not _is_removed(name, around):
            return


def _is_removed(name: str, around: int) -> bool:
    """Remove a folder if it is empty; return whether it was."""
    try:
        os.rmdir(name, dir_fd=around)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True
