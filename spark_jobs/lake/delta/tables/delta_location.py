"""The path under which ``deltalake`` finds a table; for a few paths it differs from the path of the table.

Internally ``deltalake`` passes paths on as URLs, and one part decodes a path that is already decoded. Below ``p%20c``
it looks in ``p c``, and on ``[`` it fails. Quoting does not help, and links are resolved before. So such a table gets a
folder with a plain name that has a link to its log. Through this link ``deltalake`` reads and writes the log, which is
all that it does for us. Rows are written by :mod:`spark_jobs.lake.delta.files.parquet_files` and read through Arrow's
own filesystem, both at the path of the table.
"""

from __future__ import annotations

import functools
import os
import re
import tempfile
from pathlib import Path

from spark_jobs.lake.store import storage

LOG_DIRECTORY = "_delta_log"

# Characters that deltalake was seen to use unchanged. They include letters of all scripts, but never a `%`.
_PLAIN = re.compile(r"[\w./ +=,:;@&()'\"!#?$*~-]*")


def delta_uri(root: str) -> str:
    """Return the path to give to ``deltalake`` for the table in the directory ``root``."""
    if storage.is_remote(root) or is_plain(os.path.realpath(root)):
        return root
    return _stand_in(root, os.getpid())


def is_plain(path: str) -> bool:
    """Return whether ``deltalake`` uses this path unchanged."""
    return bool(_PLAIN.fullmatch(path)) and path.isprintable()


def prepare(root: str) -> None:
    """Create the link's target before a table is created in the directory ``root``."""
    if delta_uri(root) != root:
        os.makedirs(storage.join(root, LOG_DIRECTORY), exist_ok=True)


@functools.lru_cache(maxsize=256)
def _stand_in(root: str, process: int) -> str:
    """Return a folder of this process with the link. A forked child has its own, as its parent's may go first."""
    folder = Path(tempfile.mkdtemp(dir=_folder_of(process).name))
    (folder / LOG_DIRECTORY).symlink_to(os.path.abspath(storage.join(root, LOG_DIRECTORY)))
    return str(folder)


@functools.cache
def _folder_of(process: int) -> tempfile.TemporaryDirectory[str]:
    """Return the folder of all links of a process; it is deleted when the process ends."""
    usual = tempfile.gettempdir()
    plain = usual if is_plain(os.path.realpath(usual)) else "/tmp"  # noqa: S108 - a random name in it
    return tempfile.TemporaryDirectory(prefix="loglake-tables-", dir=plain)
