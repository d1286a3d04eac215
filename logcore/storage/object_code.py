"""Compiled code kept between processes: one file a version, made by whoever comes first.

Not data: the folder may be deleted at any time, and what is read from it is checked against its digest, so that a torn
or foreign file is made anew rather than run.
"""

import fcntl
import hashlib
import logging
import os
from collections.abc import Callable
from importlib import resources
from pathlib import Path

_LOG = logging.getLogger(__name__)
_DIGEST_BYTES = 32


def cached_object_code(name: str, make: Callable[[], bytes]) -> bytes:
    """The code cached under a name; if there is none, that of `make`, kept for the next process.

    Of several processes one makes it and the others wait. Where nothing can be written, it is made and not kept.
    """
    for folder in _folders():
        code = _read(folder / name)
        if code is not None:
            return code
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / f"{name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                code = _read(folder / name)
                if code is None:
                    code = make()
                    _write(folder / name, code)
                return code
        except OSError as error:
            _LOG.debug("no compiled code is kept in %s: %s", folder, error)
    return make()


def source_digest(package: str) -> bytes:
    """A digest of the Python sources of a package, wherever it was imported from."""
    digest = hashlib.sha256()
    for source in sorted(resources.files(package).iterdir(), key=lambda each: each.name):
        if source.name.endswith(".py"):
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.digest()


def _folders() -> list[Path]:
    home = os.environ.get("LOGLAKE_HOME")
    if home:
        return [Path(home).absolute() / "kernels"]
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    here = Path(".loglake").absolute()
    local = [here / "kernels"] if here.is_dir() else []
    return [*local, Path(caches) / "loglake" / "kernels"]


def _read(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    code = content[_DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == content[:_DIGEST_BYTES] else None


def _write(path: Path, code: bytes) -> None:
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with unfinished.open("wb") as stream:
        stream.write(hashlib.sha256(code).digest() + code)
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.replace(path)
