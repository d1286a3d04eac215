"""Local copies of segments that were just uploaded to a lake on an object store, for the jobs that follow.

A run validates and publishes the segments that it has just archived. Without copies each of their bytes would be
downloaded twice. A copy is the file that was uploaded, and the store has checked its digest. It is used under the
object's own name, which contains a digest of the bytes, so it cannot be a copy of other bytes.

The driver of a run makes the folder and removes it. Only this process and its worker processes use it, because its
name has the driver's process id. So `verify` reads the store, a folder that a killed run left is not used, and nothing
is kept on other machines of a cluster, or for a job that is started alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator

MOST_BYTES = 8 << 30
"""Most bytes that are kept."""
_FREE_BYTES = 1 << 30
"""Bytes of the disk that stay free."""
_ARCHIVE = "/archive/"


@contextlib.contextmanager
def keeping(lake: str) -> Iterator[None]:
    """Keep copies of a lake's segments until the block ends; nothing for a local lake."""
    if "://" not in lake:
        yield
        return
    folder = _folder(lake, os.getpid())
    with contextlib.suppress(OSError):  # without a folder there are no copies
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        for name in _names(os.path.dirname(folder)):
            if name.startswith(f"{_name(lake)}-"):  # of a killed run; this one holds the lease
                shutil.rmtree(os.path.join(os.path.dirname(folder), name), ignore_errors=True)
        os.mkdir(folder, mode=0o700)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clear(lake: str) -> None:
    """Remove the copies of an earlier round of the same run."""
    folder = _folder(lake, os.getpid())
    for name in _names(folder) if "://" in lake else ():
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, name))


def keep(path: str, url: str) -> None:
    """Move an uploaded file into the folder, if there is one and enough room. Otherwise the file stays."""
    folder = _folder_of(url)
    if folder is None:
        return
    with contextlib.suppress(OSError):
        size = os.path.getsize(path)
        kept = sum(os.path.getsize(os.path.join(folder, name)) for name in _names(folder))
        if kept + size <= MOST_BYTES and shutil.disk_usage(folder).free >= _FREE_BYTES:
            os.rename(path, os.path.join(folder, _name(url)))


def kept(url: str) -> str | None:
    """Return the local copy of an object; None if there is none."""
    folder = _folder_of(url)
    if folder is None:
        return None
    path = os.path.join(folder, _name(url))
    return path if os.path.lexists(path) else None


def _folder(lake: str, driver: int) -> str:
    return os.path.join(tempfile.gettempdir(), f"loglake-copies-{os.geteuid()}", f"{_name(lake)}-{driver}")


def _folder_of(url: str) -> str | None:
    """The folder of this process, or of the driver that started it as a worker."""
    lake, separator, _ = url.rpartition(_ARCHIVE)
    folders = [_folder(lake, process) for process in (os.getpid(), os.getppid())] if separator else []
    return next(filter(_is_ours, folders), None)


def _name(url: str) -> str:
    return hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _is_ours(folder: str) -> bool:
    """Whether nobody else can write into the folder: its name can be guessed."""
    for path in (os.path.dirname(folder), folder):
        try:
            status = os.lstat(path)
        except OSError:
            return False
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            return False
    return True
