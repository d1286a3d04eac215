"""Where the operator's home is. It never depends on the working directory, so that every command finds the same one.

It is ``$LOGLAKE_HOME``; else the folder that the file ``share/loglake/home`` of the virtual environment names, which
``make setup`` writes for a clone; else ``$XDG_DATA_HOME/loglake``, by default ``~/.local/share/loglake``.

Jobs also keep files there that they download or create on this machine: jars,
the Java shim, Spark's scratch space. These folders (``jars/``, ``java/``, ``spark-warehouse/``) contain no data and may
be deleted at any time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_jobs.errors import JobError, UsageError


def home_path() -> str:
    """Return the absolute path of the home, which may not exist.

    Raises:
        UsageError: Neither a variable nor the system names a folder of this user.
    """
    folder = os.environ.get("LOGLAKE_HOME") or _of_environment()
    if not folder:
        data = os.environ.get("XDG_DATA_HOME") or ""
        folder = os.path.join(data if os.path.isabs(data) else os.path.expanduser("~/.local/share"), "loglake")
        if not os.path.isabs(folder):
            raise UsageError("This user has no home directory: set LOGLAKE_HOME to a folder of your own.")
    return os.path.abspath(folder)


def _of_environment() -> str:
    """Return the home that the virtual environment names. Who may write there controls the code that runs anyway."""
    if sys.prefix == sys.base_prefix:
        return ""
    try:
        with open(os.path.join(sys.prefix, "share", "loglake", "home"), encoding="utf-8") as named:
            return named.read().strip()
    except OSError:
        return ""


def local_home() -> Path:
    """The operator's home; absolute, not created."""
    return Path(home_path())


@contextmanager
def writing_home() -> Iterator[None]:
    """Context for writing below the local home: write errors name that folder, not the lake.

    Raises:
        JobError: The folder is full or cannot be written; the text says how to select another.
    """
    try:
        yield
    except OSError as error:
        raise JobError(
            f"The folder {local_home()}, where Loglake keeps the files that it needs to run, cannot be written: "
            f"{error.strerror or error}. Make room there, or name a folder of your own with LOGLAKE_HOME. The lake is "
            "as it was."
        ) from error


def make_folder(path: Path) -> Path:
    """Create `path` and its parents if they do not exist.

    Raises:
        JobError: It cannot be created; the text says how to select another.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobError(
            f"{path} cannot be made ({error.strerror}): name a folder of your own with LOGLAKE_HOME"
        ) from error
    return path
