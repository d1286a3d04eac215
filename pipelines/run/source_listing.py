"""The state of source directories as one digest, so that a watch sees growth without opening a table or a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence


def listing_digest(paths: Sequence[str]) -> str:
    """Digest of names, sizes and times of all files in and one level below the paths.

    A path that cannot be listed counts with its error, so that its return is a change too.

    Args:
        paths: Log directories, partition directories or files.
    """
    digest = hashlib.sha256()
    for line in sorted(line for path in paths for line in _lines(path, levels=2)):
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _lines(path: str, levels: int) -> Iterator[str]:
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir() and levels > 1:
                    yield from _lines(entry.path, levels - 1)
                else:
                    yield _line(entry.path, entry.stat(follow_symlinks=False))
    except NotADirectoryError:
        yield _of_file(path)
    except OSError as error:
        yield f"{path}\0{error.errno}\n"


def _of_file(path: str) -> str:
    try:
        return _line(path, os.stat(path, follow_symlinks=False))
    except OSError as error:
        return f"{path}\0{error.errno}\n"


def _line(path: str, status: os.stat_result) -> str:
    return f"{path}\0{status.st_ino}\0{status.st_size}\0{status.st_mtime_ns}\n"
