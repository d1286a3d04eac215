"""Compiled code kept between processes: one file a version, made by whoever comes first.

Not data: the folder may be deleted at any time, and what is read from it is checked against its digest, so that a torn
or foreign file is made anew rather than run.
"""

import fcntl
import hashlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import BinaryIO

_LOG = logging.getLogger(__name__)
_DIGEST_BYTES = 32


def cached_object_code(name: str, make: Callable[[], bytes]) -> bytes:
    """The code cached under a name; if there is none, that of `make`, kept for the next process.

    Of several processes one makes it and the others wait. Where nothing can be written, it is made and not kept.
    """
    for folder in (*_folders(), *_shared_folders()):
        code = _read(folder / name)
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
            _LOG.debug("no compiled code is kept in %s: %s", folder, error)
            if code is not None:
                return code
    return make()


def source_digest(package: str) -> bytes:
    """A digest of the Python sources of a package and its packages, wherever it was imported from."""
    digest = hashlib.sha256()
    for name, source in _sources("", resources.files(package)):
        digest.update(name.encode() + b"\0" + source.read_bytes())
    return digest.digest()


def _sources(name: str, folder: Traversable) -> Iterator[tuple[str, Traversable]]:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            yield from _sources(f"{name}{each.name}/", each)
        elif each.name.endswith(".py"):
            yield name + each.name, each


def _folders() -> list[Path]:
    """Where code may be kept: nowhere in the current directory, which may be anyone's."""
    home = os.environ.get("LOGLAKE_HOME")
    if home:
        return [Path(home).absolute() / "kernels"]
    caches = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    kept = caches / "loglake" / "kernels"
    # Without a home there is nothing that `~` stands for.
    return [*_shared_folders(), kept] if kept.is_absolute() else _shared_folders()


def _shared_folders() -> list[Path]:
    """The folder of a virtual environment: who may write there decides already what is run."""
    return [] if sys.prefix == sys.base_prefix else [Path(sys.prefix) / "share" / "loglake" / "kernels"]


def _opened(path: Path, how: int) -> BinaryIO:
    """A file to be locked or written; what is in it stays. In a folder that others may write to a link could lead
    anywhere, so none is followed, and a pipe is not waited for. Raises OSError."""
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags | how, 0o644), "wb", buffering=0)


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as stream:
            state = os.fstat(stream.fileno())
            if state.st_uid not in (os.geteuid(), 0) or state.st_mode & 0o022:
                return None  # someone else could have put anything here
            content = stream.read()
    except OSError:
        return None
    code = content[_DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == content[:_DIGEST_BYTES] else None


def _write(path: Path, code: bytes) -> None:
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    unfinished.unlink(missing_ok=True)  # of an earlier process with this number, which was killed
    with _opened(unfinished, os.O_CREAT | os.O_EXCL) as stream:
        left = memoryview(hashlib.sha256(code).digest() + code)
        while left:
            left = left[stream.write(left) :]
        os.fchmod(stream.fileno(), 0o644)
        os.fsync(stream.fileno())
    unfinished.replace(path)
