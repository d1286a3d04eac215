"""Where the files of a lake lie, and how they are read and written: in a local directory, or on an object store.

A lake is named by an absolute path or by ``s3://bucket/prefix``; everything in it by a path below that, joined with
:func:`join`. Whatever is written here is whole, and on disk, from the moment it can be seen, and replaces what was
there in one step. A process may be killed, or the machine lose power, between any two lines here; what is left then is
an old file, a new one, or one under a name that nobody reads.

What a table's commits look like is :mod:`spark_jobs.lake.delta.commits`' business, what the store can do
:mod:`spark_jobs.lake.store.object_store`'s; sources are read through :mod:`logcore.storage`.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import posixpath
import re
import stat as file_modes
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pyarrow import fs

from logcore.records.varint import Buffer
from logcore.storage.local import SourceUnreadable, map_file
from logcore.storage.source_bytes import SourceBytes
from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.store import object_store

CLOCK_FILE = "lease-clock"
"""Written anew to learn an object store's time."""

_LONGEST_NAME = 255
"""Bytes of a name in a directory, on all filesystems in use for data."""
_DIGEST_DIGITS = 32
_UNUSUAL_IN_KEYS = re.compile(r"""[^\w./ +=,:;@&()'"!$*~-]""")
_A_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_SYNCED_AROUND = 4
"""Directories around that of a file which are on disk with it: as many as a lake has between itself and its files."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a lake: its full path, size in bytes and time of change, which may be the one it had at the source."""

    path: str
    size: int
    modified_ms: int
    placed_ms: int
    """When it got to its place, by the clock of whoever keeps it; nobody can set this."""


def is_remote(path: str) -> bool:
    """Whether it is an object store's."""
    return "://" in path


def absolute(path: str) -> str:
    """The one name of a path: absolute, without a slash at its end.

    Raises:
        UsageError: an object store of another kind than ``s3://``, one named with more than bucket and prefix, or a
            prefix with characters that ``deltalake`` does not find again.
    """
    if not is_remote(path):
        return os.path.abspath(path)
    bucket, key = object_store.split(path)
    if unusual := sorted(set(_UNUSUAL_IN_KEYS.findall(key))):
        raise UsageError(
            f"{path}: a prefix of a bucket cannot hold {' '.join(unusual)} here: Delta's library looks for it under "
            "another name. Choose another prefix."
        )
    return f"s3://{bucket}/{key}".rstrip("/")


def is_absolute(path: str) -> bool:
    """Whether it says by itself where it lies, and is not relative to a lake."""
    return is_remote(path) or os.path.isabs(path)


def lies_below(root: str, path: str) -> bool:
    """Whether a local path is one below another, by their names."""
    return os.path.abspath(path).startswith(os.path.join(os.path.abspath(root), ""))


def join(root: str, *parts: str) -> str:
    """A path below another."""
    return posixpath.join(root, *parts) if is_remote(root) else os.path.join(root, *parts)


def folder_name(name: str) -> str:
    """The folder for something of this name: the name itself, or where a filesystem takes no name that long, its
    beginning and a digest. Two names never get one folder: neither a topic, a cluster nor an id has a ``~`` in it."""
    encoded = name.encode()
    if len(encoded) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(encoded).hexdigest()[:_DIGEST_DIGITS]
    return f"{encoded[: _LONGEST_NAME - _DIGEST_DIGITS - 1].decode(errors='ignore')}~{digest}"


def is_shortened(folder: str) -> bool:
    """Whether :func:`folder_name` cut the name of this folder: what it was called cannot be read from it."""
    return len(os.fsencode(folder)) > _LONGEST_NAME - 4 and "~" in folder


def relative(path: str, root: str) -> str:
    """The part of a path that is below another."""
    return posixpath.relpath(path, root) if is_remote(root) else os.path.relpath(path, root)


def directory_of(path: str) -> str:
    """The path around another."""
    return posixpath.dirname(path) if is_remote(path) else os.path.dirname(path)


def exists(path: str) -> bool:
    """Whether there is such a file. Raises StorageError."""
    try:
        stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def stat(path: str) -> StoredFile:
    """Size and time of change of a file. Raises FileNotFoundError, OSError."""
    if is_remote(path):
        stored = object_store.head(path)
        return StoredFile(path, stored.size, stored.modified_ms, stored.modified_ms)
    return _stored(path, os.stat(path))


def read(path: str) -> bytes:
    """A whole small file. Raises FileNotFoundError, OSError."""
    if is_remote(path):
        return object_store.read(path)[0]
    with open(path, "rb") as file:
        return file.read()


def put(path: str, content: bytes, *, modified_ms: int | None = None) -> None:
    """Put a file in its place, on disk and whole; directories are made. Raises OSError.

    Args:
        modified_ms: the time of change it gets where that can be set; an object store sets its own.
    """
    if is_remote(path):
        object_store.put(path, content)
    else:
        with writing(path, modified_ms=modified_ms) as local, open(local, "xb") as file:
            file.write(content)


def create(path: str, content: bytes) -> bool:
    """Put a file in its place if none is there, decided by whoever keeps it; whether it was put. Raises OSError."""
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
    sync(os.path.dirname(path))
    return True


@contextmanager
def mapped(path: str, start: int = 0, end: int | None = None, *, at_source: bool = False) -> Iterator[Buffer]:
    """Bytes [start, end) of a file, at the positions they have in the file; what lies around them must not be read.

    A local file is mapped. One that lies at its source is read into memory instead: others may cut it short, and
    touching a mapped byte that is gone kills the process. Of an object only these bytes are fetched, into a nameless
    temporary file of the object's size that has holes elsewhere.

    Raises:
        SourceUnreadable: it is not there, or it lies at its source and the disk fails to read some of it.
        SourceChanged: it lies at its source and was cut short while it was read.
        StorageError: the object store did not answer as it should.
    """
    if at_source and not is_remote(path):
        source = SourceBytes(path, sealed=False)
        source.fetch(start, source.size if end is None else end)
        gone = source.unreadable(start, source.size if end is None else end)
        if gone:
            nbytes = sum(high - low for low, high in gone)
            message = f"the disk failed to read {nbytes} bytes of it, from this position on"
            raise SourceUnreadable(message, file=path, position=gone[0][0])
        yield source.content
        return
    if not is_remote(path):
        with map_file(path) as content:
            yield content
        return
    fetched = _fetched(path, start, end)
    try:
        yield fetched
    finally:
        if isinstance(fetched, mmap.mmap):
            with suppress(BufferError):  # a view of it may still be alive; the last one closes it
                fetched.close()


@dataclass(frozen=True, slots=True)
class Staged:
    """A local file that is being written, not yet in its place."""

    path: str

    def place(self, final: str, *, modified_ms: int | None = None) -> None:
        """Put it in its place, on disk and whole. Raises OSError; nothing can be seen at its place then."""
        if is_remote(final):
            object_store.upload(self.path, final)
            return
        sync(self.path)
        if modified_ms is not None:
            os.utime(self.path, ns=(modified_ms * 1_000_000,) * 2)
        around = os.path.dirname(final)
        os.makedirs(around, exist_ok=True)
        os.replace(self.path, final)
        sync(around)
        for _ in range(_SYNCED_AROUND):  # a directory is an entry of the one around it, whoever has just made it
            around = os.path.dirname(around)
            with suppress(PermissionError):
                sync(around)


@contextmanager
def staged(directory: str) -> Iterator[Staged]:
    """A local file to write and then to place at or below ``directory``; gone at the end if that was not done."""
    if is_remote(directory):
        with tempfile.TemporaryDirectory(prefix="loglake-") as scratch:
            yield Staged(os.path.join(scratch, "file"))
        return
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f".{uuid.uuid4().hex}.writing")
    try:
        yield Staged(path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


@contextmanager
def writing(path: str, *, modified_ms: int | None = None) -> Iterator[str]:
    """The name of a local file to write, which gets to its place when the block ends, and is gone if that fails.

    Raises:
        OSError: disk or store do not take it; nothing can be seen at its place then.
    """
    with staged(directory_of(path)) as file:
        yield file.path
        file.place(path, modified_ms=modified_ms)


def files_below(root: str) -> Iterator[StoredFile]:
    """Every file below a directory; none where that is not there. Raises StorageError."""
    if is_remote(root):
        bucket, _ = object_store.split(root)
        for stored in object_store.listed(root):
            yield StoredFile(f"s3://{bucket}/{stored.key}", stored.size, stored.modified_ms, stored.modified_ms)
        return
    for directory, _, names in os.walk(root):
        for name in sorted(names):
            path = os.path.join(directory, name)
            with suppress(FileNotFoundError):
                yield stat(path)


def has_files(root: str) -> bool:
    """Whether anything lies below a directory. Raises StorageError."""
    return next(files_below(root), None) is not None


def delete(path: str) -> None:
    """Delete a file; none there is as well. Raises OSError."""
    if is_remote(path):
        object_store.delete(path)
        return
    with suppress(FileNotFoundError):
        os.unlink(path)


def own_files_below(root: str) -> Iterator[StoredFile]:
    """The regular files below a directory, seen without following a link: what may be deleted there. Raises
    StorageError."""
    if is_remote(root):
        yield from files_below(root)
        return
    for directory, _, names in os.walk(root):
        for name in sorted(names):
            path = os.path.join(directory, name)
            with suppress(FileNotFoundError):
                status = os.lstat(path)
                if file_modes.S_ISREG(status.st_mode):
                    yield _stored(path, status)


def delete_below(root: str, path: str, *, placed_before_ms: int) -> bool:
    """Delete the file at ``path``, relative to ``root``, if it is still the one that was there before a time; False
    where it is not. On a local disk no link is followed below ``root``, and folders left empty go too.

    Args:
        placed_before_ms: by the clock of whoever keeps the file; one that was put there since is another's.

    Raises:
        UsageError: the path leads out of ``root``.
        OSError: it can't be deleted, or a part of its path is a link.
    """
    names = path.split("/")
    if any(name in ("", ".", "..") for name in names):
        raise UsageError(f"{path!r} is no path below {root}.")
    if is_remote(root):
        full = join(root, path)
        with suppress(FileNotFoundError):
            if stat(full).placed_ms <= placed_before_ms:
                object_store.delete(full)
                return True
        return False
    folders = [os.open(root, _A_FOLDER & ~os.O_NOFOLLOW)]
    try:
        for name in names[:-1]:
            folders.append(os.open(name, _A_FOLDER, dir_fd=folders[-1]))
        status = os.stat(names[-1], dir_fd=folders[-1], follow_symlinks=False)
        if not file_modes.S_ISREG(status.st_mode) or status.st_ctime_ns // 1_000_000 > placed_before_ms:
            return False
        os.unlink(names[-1], dir_fd=folders[-1])
        _remove_empty(folders, names[:-1])
    except FileNotFoundError:
        return False
    finally:
        for folder in folders:
            os.close(folder)
    return True


def empty_folders(root: str, name: str, *, unchanged_since_ms: int) -> list[str]:
    """Folders below the folder ``name`` of ``root``, as paths relative to ``root``, that have no file in them or below
    and were last changed before a time; the innermost first. No link is followed; an object store has none."""
    if is_remote(root) or not os.path.isdir(os.path.join(root, name)):
        return []
    found: list[str] = []
    going: set[str] = set()
    for path, folders, names, within in os.fwalk(os.path.join(root, name), topdown=False):
        here = os.path.relpath(path, root)
        is_old = os.fstat(within).st_mtime_ns // 1_000_000 <= unchanged_since_ms
        # A link to a folder is among the folders, and nobody walks into it: it stays, and what is around it.
        if here != name and is_old and not names and all(os.path.join(here, folder) in going for folder in folders):
            going.add(here)
            found.append(here)
    return found


def remove_folder(root: str, path: str) -> bool:
    """Remove the folder at ``path``, relative to ``root``, if it is empty, through no link; whether it was. Raises
    OSError."""
    folders = [os.open(root, _A_FOLDER & ~os.O_NOFOLLOW)]
    try:
        *around, name = path.split("/")
        for each in around:
            folders.append(os.open(each, _A_FOLDER, dir_fd=folders[-1]))
        return _is_removed(name, folders[-1])
    except FileNotFoundError:
        return False
    finally:
        for folder in folders:
            os.close(folder)


def _remove_empty(folders: list[int], names: list[str]) -> None:
    """Remove folders that are empty now, the innermost first; the outermost stays."""
    for name, around in reversed(list(zip(names[1:], folders[1:], strict=False))):
        if not _is_removed(name, around):
            return


def _is_removed(name: str, around: int) -> bool:
    """Whether a folder was empty, and is gone now."""
    try:
        os.rmdir(name, dir_fd=around)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _stored(path: str, status: os.stat_result) -> StoredFile:
    return StoredFile(path, status.st_size, status.st_mtime_ns // 1_000_000, status.st_ctime_ns // 1_000_000)


def delta_options(root: str) -> dict[str, str] | None:
    """What deltalake is told to open a table below ``root``; the rest it takes from the environment, as we do."""
    return object_store.delta_options() if is_remote(root) else None


@contextmanager
def answers(path: str) -> Iterator[None]:
    """Errors of others who read ``path`` from an object store become StorageError; those of a disk stay."""
    if not is_remote(path):
        yield
        return
    with object_store.answers(path):
        yield


def clock_ms(root: str) -> int:
    """The time that whoever keeps the files below ``root`` gives a file written now, in epoch milliseconds: what ages
    of files are told by, whatever clock a run was given. Raises OSError."""
    if is_remote(root):
        probe = join(root, CLOCK_FILE)
        object_store.put(probe, b"")
        return object_store.head(probe).modified_ms
    with tempfile.TemporaryFile(dir=root) as file:
        return os.fstat(file.fileno()).st_mtime_ns // 1_000_000


def arrow_filesystem(root: str) -> fs.FileSystem:
    """Arrow's own filesystem of what lies below ``root``; paths in it are relative to that."""
    if is_remote(root):
        bucket, key = object_store.split(root)
        return fs.SubTreeFileSystem(f"{bucket}/{key}", object_store.arrow_filesystem())
    return fs.SubTreeFileSystem(os.path.abspath(root), fs.LocalFileSystem())


def _fetched(path: str, start: int, end: int | None) -> mmap.mmap | bytes:
    try:
        whole = object_store.head(path).size
        if not whole:
            return b""  # nothing to map is an error to the operating system
        with tempfile.TemporaryFile(prefix="loglake-") as file:
            os.truncate(file.fileno(), whole)
            object_store.download(path, file.fileno(), start, whole if end is None else min(end, whole))
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError as error:
        raise SourceUnreadable("it is not there", file=path) from error


def sync(path: str) -> None:
    """Return when a local file's bytes, or a directory's entries, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
