"""A cache of compiled code that processes share: one file for each version, written by the first process.

It contains no data: the folder may be deleted at any time. Each file is checked against its digest, so a torn or
foreign file is replaced and never run.
"""

import fcntl
import hashlib
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

_LOG = logging.getLogger(__name__)
_DIGEST_BYTES = 32


def find_object_code(name: str) -> bytes | None:
    """Return the cached code of a name; None if there is none."""
    file = find_object_file(name)
    return None if file is None else _read(file)


def find_object_file(name: str) -> Path | None:
    """Return the intact file that holds the cached code of a name; None if there is none."""
    files = (folder / name for folder in (*_folders(), *_shared_folders()))
    return next((file for file in files if _read(file) is not None), None)


def cached_object_code(name: str, make: Callable[[], bytes]) -> bytes:
    """Return the cached code of a name; without one, call `make` and cache its result for other processes.

    If several processes need it, one calls `make` and the others wait. If no folder is writable, it is not cached.
    """
    code = find_object_code(name)
    if code is not None:
        return code
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _opened(folder / f"{name}.lock", os.O_CREAT) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                code = _read(folder / name)
                if code is None:
                    code = make()
                    _write(folder / name, code)
                return code
        except OSError as error:
            _LOG.debug("cannot cache compiled code in %s: %s", folder, error)
            if code is not None:
                return code
    return make()


def _folders() -> list[Path]:
    """Folders for the cache. Never the current directory, because other users may control it."""
    home = os.environ.get("LOGLAKE_HOME")
    if home:
        return [Path(home).absolute() / "kernels"]
    caches = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    kept = caches / "loglake" / "kernels"
    # Without a home directory `~` is not expanded.
    return [*_shared_folders(), kept] if kept.is_absolute() else _shared_folders()


def _shared_folders() -> list[Path]:
    """The folder of a virtual environment: a user who may write there already controls the code that runs."""
    return [] if sys.prefix == sys.base_prefix else [Path(sys.prefix) / "share" / "loglake" / "kernels"]


def _opened(path: Path, how: int) -> BinaryIO:
    """Open a file to lock or write it, without truncation. Raises OSError.

    In a folder that others may write to, a link could lead anywhere. So links are not followed, and pipes do not block.
    """
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags | how, 0o644), "wb", buffering=0)


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as stream:
            state = os.fstat(stream.fileno())
            if state.st_uid not in (os.geteuid(), 0) or state.st_mode & 0o022:
                return None  # another user could have written it
            content = stream.read()
    except OSError:
        return None
    code = content[_DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == content[:_DIGEST_BYTES] else None


def _write(path: Path, code: bytes) -> None:
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    unfinished.unlink(missing_ok=True)  # of a killed process with the same process id
    with _opened(unfinished, os.O_CREAT | os.O_EXCL) as stream:
        left = memoryview(hashlib.sha256(code).digest() + code)
        while left:
            left = left[stream.write(left) :]
        os.fchmod(stream.fileno(), 0o644)
        os.fsync(stream.fileno())
    unfinished.replace(path)
