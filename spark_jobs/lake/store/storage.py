"""Where the files of a lake are, and how they are read and written: in a local directory, or on an object store.

A lake is named by an absolute path or by ``s3://bucket/prefix``. Everything in it is named by a path below that, joined
with :func:`join`. A file that is written here is complete, and on disk, as soon as it is visible, and replaces an older
one in one step. A process may be killed, or the machine lose power, between any two lines here. Then there is an old
file, a new one, or one under a name that no process reads.

:mod:`spark_jobs.lake.store.deletion` deletes many files and empty folders,
:mod:`spark_jobs.lake.delta.commits` makes the commits of tables, :mod:`spark_jobs.lake.store.object_store` accesses the
store. Sources are read through :mod:`logcore.storage`.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pyarrow import fs

from logcore.storage.files import written_in
from logcore.storage.objects.object_reads import ObjectVersion
from spark_jobs.errors import UsageError
from spark_jobs.lake.store import disk_sync, local_copies, object_store

CLOCK_FILE = "lease-clock"
"""Rewritten to read an object store's clock."""

_LONGEST_NAME = 255
"""Maximum bytes of a name in a directory on usual filesystems."""

_DIGEST_DIGITS = 32

_UNUSUAL_IN_KEYS = re.compile(r"""[^\w./ +=,:;@&()'"!$*~-]""")

_SYNCED_AROUND = 4
"""Parent directories that are synced with a file: as many as a lake has between itself and its files."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a lake: its full path, size in bytes and modification time, which may be that at the source."""

    path: str
    size: int
    modified_ms: int
    placed_ms: int
    """Time when it was placed, by the clock of the filesystem or store; it cannot be set."""


def is_remote(path: str) -> bool:
    """Return whether a path is on an object store."""
    return "://" in path


def absolute(path: str) -> str:
    """Return the normalized path: absolute, without a slash at its end.

    Raises:
        UsageError: It is an object store of another kind than ``s3://``, has more than bucket and prefix, or has a
            prefix with characters that ``deltalake`` cannot find.
    """
    if not is_remote(path):
        return os.path.abspath(path)
    bucket, key = object_store.split(path)
    if unusual := sorted(set(_UNUSUAL_IN_KEYS.findall(key))):
        raise UsageError(
            f"{path}: a prefix of a bucket cannot have {' '.join(unusual)} here: Delta's library looks for it under "
            "another name. Choose another prefix."
        )
    return f"s3://{bucket}/{key}".rstrip("/")


def is_absolute(path: str) -> bool:
    """Return whether a path is absolute, and not relative to a lake."""
    return is_remote(path) or os.path.isabs(path)


def lies_below(root: str, path: str) -> bool:
    """Return whether a local path is below another, by their names."""
    return os.path.abspath(path).startswith(os.path.join(os.path.abspath(root), ""))


def join(root: str, *parts: str) -> str:
    """Return a path below another."""
    return posixpath.join(root, *parts) if is_remote(root) else os.path.join(root, *parts)


def folder_name(name: str, suffix: str = "") -> str:
    """Return the folder name for something of this name: the name itself, or its beginning and a digest if the name is
    too long. Different names get different folders: topics, clusters and ids have no ``~``.

    Args:
        suffix: Follows the name, and is never shortened.
    """
    encoded, longest = name.encode(), _LONGEST_NAME - len(suffix.encode())
    if len(encoded) <= longest:
        return name + suffix
    digest = hashlib.sha256(encoded).hexdigest()[:_DIGEST_DIGITS]
    return f"{encoded[: longest - _DIGEST_DIGITS - 1].decode(errors='ignore')}~{digest}{suffix}"


def is_shortened(folder: str) -> bool:
    """Return whether :func:`folder_name` shortened the name of this folder, so that the full name is lost."""
    return len(os.fsencode(folder)) > _LONGEST_NAME - 4 and "~" in folder


def relative(path: str, root: str) -> str:
    """Return the part of a path that is below another."""
    below = f"{root}/"
    if path.startswith(below) and "/." not in path:  # a lake may have 100,000 files, and relpath takes 10 µs
        return path[len(below) :]
    return posixpath.relpath(path, root) if is_remote(root) else os.path.relpath(path, root)


def directory_of(path: str) -> str:
    """Return the parent of a path."""
    return posixpath.dirname(path) if is_remote(path) else os.path.dirname(path)


def exists(path: str) -> bool:
    """Return whether a file exists.

    Raises:
        StorageError: The object store failed.
    """
    try:
        stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def stat(path: str) -> StoredFile:
    """Return size and modification time of a file.

    Raises:
        FileNotFoundError: It does not exist.
        OSError: It cannot be read.
    """
    if is_remote(path):
        stored = object_store.head(path)
        return StoredFile(path, stored.size, stored.modified_ms, stored.modified_ms)
    return local_file(path, os.stat(path))


def read(path: str) -> bytes:
    """Read a whole small file.

    Raises:
        FileNotFoundError: It does not exist.
        OSError: It cannot be read.
    """
    if is_remote(path):
        return object_store.read(path)[0]
    with open(path, "rb") as file:
        return file.read()


def put(path: str, content: bytes, *, modified_ms: int | None = None) -> None:
    """Put a file in its place, complete and on disk; directories are created.

    Args:
        modified_ms: Modification time to set; an object store sets its own.

    Raises:
        OSError: The file cannot be written.
    """
    if is_remote(path):
        object_store.put(path, content)
    else:
        with writing(path, modified_ms=modified_ms) as local, open(local, "xb") as file:
            file.write(content)


def put_if_new(path: str, content: bytes, *, modified_ms: int | None = None) -> bool:
    """Put a file like :func:`put`, unless it already has this content; return whether it was written.

    Raises:
        OSError: The file cannot be written.
    """
    with suppress(FileNotFoundError):
        if read(path) == content:
            return False
    put(path, content, modified_ms=modified_ms)
    return True


def create(path: str, content: bytes) -> bool:
    """Put a file if there is none, decided by the filesystem or store; return whether it was written.

    Raises:
        OSError: The file cannot be written.
    """
    if is_remote(path):
        return object_store.create(path, content) is not None
    aside = f"{path}.{uuid.uuid4().hex}"
    put(aside, content)
    try:
        os.link(aside, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(aside)
    disk_sync.sync(os.path.dirname(path))
    return True


@dataclass(frozen=True, slots=True)
class Staged:
    """A local file that is being written under a temporary name."""

    path: str

    def place(
        self,
        final: str,
        *,
        modified_ms: int | None = None,
        is_synced: bool = True,
        same: tuple[str, ObjectVersion] | None = None,
    ) -> None:
        """Put it in its place, complete and on disk; inside :func:`disk_sync.late_syncs` the caller syncs it.

        Args:
            final: Its place.
            modified_ms: Modification time to set; an object store sets its own.
            is_synced: False for a file that no later process needs: it need not be on disk.
            same: An object with the same bytes, of which the store can make a copy by itself, and its version.

        Raises:
            OSError: It cannot be written. Then nothing is visible at its place.
        """
        if is_remote(final):
            if same is None or not object_store.copy_within(*same, final):
                object_store.upload(self.path, final)
            local_copies.keep(self.path, final)
            return
        around = os.path.dirname(final)
        directories = [around]
        # A directory is an entry of its parent, which any process may have just created.
        for _ in range(_SYNCED_AROUND):
            directories.append(os.path.dirname(directories[-1]))
        # A file that is already there may be in use: it is replaced only by one that is on disk.
        is_late = is_synced and not os.path.lexists(final) and disk_sync.is_late(final, directories)
        is_synced = is_synced and not is_late
        if is_synced:
            disk_sync.sync(self.path)
        if modified_ms is not None:
            os.utime(self.path, ns=(modified_ms * 1_000_000,) * 2)
        try:
            os.replace(self.path, final)
        except FileNotFoundError:
            os.makedirs(around, exist_ok=True)
            os.replace(self.path, final)
        if is_synced:
            disk_sync.sync(around)
            for directory in directories[1:]:
                with suppress(PermissionError):
                    disk_sync.sync(directory)


@contextmanager
def staged(directory: str) -> Iterator[Staged]:
    """Yield a local file to write and to place at or below ``directory``; it is deleted if it was not placed."""
    if is_remote(directory):
        with tempfile.TemporaryDirectory(prefix="loglake-") as scratch:
            yield Staged(os.path.join(scratch, "file"))
        return
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f".{uuid.uuid4().hex}.writing")
    try:
        with written_in(directory):
            yield Staged(path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


@contextmanager
def writing(path: str, *, modified_ms: int | None = None, is_synced: bool = True) -> Iterator[str]:
    """Yield the name of a local file to write. It is placed when the block ends, and deleted if the block fails.

    Args:
        is_synced: See `Staged.place`.

    Raises:
        OSError: Disk or store fail to write. Then nothing is visible at its place.
    """
    with staged(directory_of(path)) as file:
        yield file.path
        file.place(path, modified_ms=modified_ms, is_synced=is_synced)


def files_below(root: str) -> Iterator[StoredFile]:
    """Yield every file below a directory; none if it does not exist.

    Raises:
        StorageError: The object store failed.
    """
    if is_remote(root):
        bucket, _ = object_store.split(root)
        for stored in object_store.listed(root):
            yield StoredFile(f"s3://{bucket}/{stored.key}", stored.size, stored.modified_ms, stored.modified_ms)
        return
    for directory, _, names in os.walk(root):
        for name in sorted(names):
            path = f"{directory}/{name}"
            with suppress(FileNotFoundError):
                yield local_file(path, os.stat(path))


def objects_below(root: str) -> tuple[object, ...]:
    """Return all objects below a directory of an object store, each with what distinguishes it from a later one.

    Raises:
        StorageError: The object store failed.
    """
    return tuple(object_store.listed(root))


def has_files(root: str) -> bool:
    """Return whether there is anything below a directory.

    Raises:
        StorageError: The object store failed.
    """
    return next(files_below(root), None) is not None


def delete(path: str) -> None:
    """Delete a file, which may be missing.

    Raises:
        OSError: It cannot be deleted.
    """
    if is_remote(path):
        object_store.delete(path)
        return
    with suppress(FileNotFoundError):
        os.unlink(path)


def local_file(path: str, status: os.stat_result) -> StoredFile:
    """Return a local file with this status."""
    return StoredFile(path, status.st_size, status.st_mtime_ns // 1_000_000, status.st_ctime_ns // 1_000_000)


def delta_options(root: str) -> dict[str, str] | None:
    """Return deltalake's options for a table below ``root``; it reads the rest from the environment, as we do."""
    return object_store.delta_options() if is_remote(root) else None


@contextmanager
def answers(path: str) -> Iterator[None]:
    """Turn errors of libraries that read ``path`` from an object store into StorageError; those of a disk stay."""
    if not is_remote(path):
        yield
        return
    with object_store.answers(path):
        yield


def clock_ms(root: str) -> int:
    """Return the time that the filesystem or store below ``root`` gives a file written now, in epoch milliseconds. Ages
    of files are computed with it, not with a run's clock.

    Raises:
        OSError: The file cannot be written.
    """
    if is_remote(root):
        probe = join(root, CLOCK_FILE)
        object_store.put(probe, b"")
        return object_store.head(probe).modified_ms
    with tempfile.TemporaryFile(dir=root) as file:
        return os.fstat(file.fileno()).st_mtime_ns // 1_000_000


def arrow_filesystem(root: str) -> fs.FileSystem:
    """Return Arrow's own filesystem below ``root``; its paths are relative to ``root``."""
    if is_remote(root):
        bucket, key = object_store.split(root)
        return fs.SubTreeFileSystem(f"{bucket}/{key}", object_store.arrow_filesystem())
    return fs.SubTreeFileSystem(os.path.abspath(root), fs.LocalFileSystem())
