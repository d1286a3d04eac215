"""Local copies of segments that a run has just uploaded or registered, for its jobs that follow.

A run validates and publishes the segments that it has just taken in. Without copies it would download the bytes of each
twice more. There are two kinds:

    of an object of the lake    the file that was uploaded, and the store has checked its digest. The object's name
                                contains a digest of the bytes
    of an object at the source  its bytes as they were registered: of one version of the object, decrypted and
                                decompressed

A copy is used only for exactly this object, or this version of it. So it cannot be a copy of other bytes.

The driver of a run makes the folder and removes it. Only this process and its worker processes use it, because its
name has the driver's process: its id, and its start. So `verify` reads the store, a folder that a killed run left is
not used, and nothing is kept for a job that is started alone. On a cluster a task that copies, validates and decodes
keeps its segment until it ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator

MOST_BYTES = 8 << 30
"""Most bytes that are kept."""
ROUND_BYTES = 7 << 30
"""Bytes of segments that fit for certain."""
_FREE_BYTES = 1 << 30
"""Bytes of the disk that stay free."""
_ARCHIVE = "/archive/"
_ROOM, _BLOCK = "room", 4096
"""A file with a byte for each block that copies have taken. Several processes append to it."""
_START = 19
"""Where the start of a process is in `/proc/PID/stat`, after its name."""


@contextlib.contextmanager
def keeping(lake: str, *, is_alone: bool = True) -> Iterator[None]:
    """Keep copies of a lake's segments until the block ends.

    Args:
        lake: The lake.
        is_alone: Whether no other process works on the lake, because this one holds its lease.
    """
    folder = _folder(lake, _process(os.getpid()))
    with contextlib.suppress(OSError):  # without a folder there are no copies
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        for name in _names(os.path.dirname(folder)):
            # Of a killed run: this one holds the lease of this lake, and no process is left of the others.
            if (is_alone and name.startswith(f"{_name(lake)}-")) or not _is_alive(name.rpartition("-")[2]):
                shutil.rmtree(os.path.join(os.path.dirname(folder), name), ignore_errors=True)
        os.mkdir(folder, mode=0o700)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clear(lake: str) -> None:
    """Remove the copies of an earlier round of the same run."""
    folder = _folder(lake, _process(os.getpid()))
    for name in _names(folder):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, name))


def keep(path: str, url: str) -> None:
    """Move an uploaded file into the folder, if there is one and enough room. Otherwise the file stays."""
    folder = _folder_of(url)
    if folder is not None:
        with contextlib.suppress(OSError):
            if _takes_room(folder, os.path.getsize(path)):
                os.rename(path, os.path.join(folder, _name(url)))


def kept(url: str) -> str | None:
    """Return the local copy of an object; None if there is none."""
    folder = _folder_of(url)
    if folder is None:
        return None
    path = os.path.join(folder, _name(url))
    return path if os.path.lexists(path) else None


def keep_registered(path: str, etag: str, content: memoryview) -> None:
    """Write a copy of bytes that were registered at their source, if there is a folder and enough room.

    Args:
        path: The object.
        etag: Names its content.
        content: Its first bytes.
    """
    folder = _folder_of_driver()
    if folder is None:
        return
    aside = os.path.join(folder, uuid.uuid4().hex)
    with contextlib.suppress(OSError):
        if _takes_room(folder, len(content)):
            try:
                with open(aside, "xb") as file:
                    file.write(content)
                os.rename(aside, os.path.join(folder, _name(f"{etag} {path}")))
            except OSError:
                os.unlink(aside)


def keeps_registered() -> bool:
    """Whether copies of bytes at their source are kept here now."""
    return _folder_of_driver() is not None


def kept_registered(path: str, etag: str, end: int) -> str | None:
    """Return the local copy of the first bytes of an object at its source, at least up to `end`; None without one."""
    folder = _folder_of_driver()
    if folder is None:
        return None
    copy = os.path.join(folder, _name(f"{etag} {path}"))
    with contextlib.suppress(OSError):
        if os.path.getsize(copy) >= end:
            return copy
    return None


def _folder_of_driver() -> str | None:
    """A folder of this process, or of the driver that started it as a worker, of any lake."""
    parent = _parent()
    ends = tuple(f"-{process}" for process in _this_and_parent())
    found = (os.path.join(parent, name) for name in _names(parent) if name.endswith(ends))
    return next(filter(_is_ours, found), None)


def _takes_room(folder: str, nbytes: int) -> bool:
    """Whether there is room for a copy; it is taken then."""
    blocks = -(-nbytes // _BLOCK)
    with open(os.path.join(folder, _ROOM), "ab") as file:
        if file.tell() + blocks > MOST_BYTES // _BLOCK or shutil.disk_usage(folder).free < _FREE_BYTES + nbytes:
            return False
        file.write(bytes(blocks))
    return True


def _parent() -> str:
    return os.path.join(tempfile.gettempdir(), f"loglake-copies-{os.geteuid()}")


def _folder(lake: str, driver: str) -> str:
    return os.path.join(_parent(), f"{_name(lake)}-{driver}")


def _folder_of(url: str) -> str | None:
    """The folder of this process, or of the driver that started it as a worker."""
    lake, separator, _ = url.rpartition(_ARCHIVE)
    folders = [_folder(lake, process) for process in _this_and_parent()] if separator else []
    return next(filter(_is_ours, folders), None)


def _name(url: str) -> str:
    return hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _this_and_parent() -> tuple[str, str]:
    return _process(os.getpid()), _process(os.getppid())


def _process(number: int) -> str:
    """Name a process: by its id, and by its start where the system says it. After a restart ids come again."""
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8", errors="replace") as file:
            return f"{number}.{file.read().rpartition(')')[2].split()[_START]}"
    except (OSError, IndexError):
        return str(number)


def _is_alive(process: str) -> bool:
    """Whether a named process still runs. What is not a name counts as one."""
    try:
        number = int(process.partition(".")[0])
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError, ValueError):
        return True
    return _process(number) == process


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
