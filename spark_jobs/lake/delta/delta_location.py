"""The name by which ``deltalake`` finds a table: for a few paths another one than where the table lies.

Between its parts ``deltalake`` hands paths on as URLs, and one of them decodes a path that is decoded already: below
``p%20c`` it looks in ``p c``, and on ``[`` it fails. No quoting helps, and it resolves links before. So such a table
gets a folder under a plain name, with a link to its log: through that ``deltalake`` reads and writes the log, which is
all that we leave to it. Rows are written by :mod:`spark_jobs.lake.delta.parquet_files` and read through Arrow's own
filesystem, both where the table lies.
"""

from __future__ import annotations

import functools
import os
import re
import tempfile
from pathlib import Path

from spark_jobs.lake.store import storage

LOG_DIRECTORY = "_delta_log"

# What deltalake was seen to take as it is. Letters of all scripts are among it; a `%` is not, whatever follows it.
_PLAIN = re.compile(r"[\w./ +=,:;@&()'\"!#?$*~-]*")


def delta_uri(root: str) -> str:
    """What to tell ``deltalake`` of the table whose directory is ``root``."""
    if storage.is_remote(root) or is_plain(os.path.realpath(root)):
        return root
    return _stand_in(root, os.getpid())


def is_plain(path: str) -> bool:
    """Whether ``deltalake`` takes this path as it is."""
    return bool(_PLAIN.fullmatch(path)) and path.isprintable()


def prepare(root: str) -> None:
    """Before a table is made in the directory ``root``: what the link of its stand-in leads to has to be there."""
    if delta_uri(root) != root:
        os.makedirs(storage.join(root, LOG_DIRECTORY), exist_ok=True)


@functools.lru_cache(maxsize=256)
def _stand_in(root: str, process: int) -> str:
    """A folder of this process, with a link in it. A child that was forked makes its own: its parent's may go first."""
    folder = Path(tempfile.mkdtemp(dir=_folder_of(process).name))
    (folder / LOG_DIRECTORY).symlink_to(os.path.abspath(storage.join(root, LOG_DIRECTORY)))
    return str(folder)


@functools.cache
def _folder_of(process: int) -> tempfile.TemporaryDirectory[str]:
    """Where the stand-ins of a process lie; gone when it ends."""
    usual = tempfile.gettempdir()
    return tempfile.TemporaryDirectory(
        prefix="loglake-tables-", dir=usual if is_plain(os.path.realpath(usual)) else "/tmp"
    )
