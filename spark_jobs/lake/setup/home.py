"""Where the operator's home is. It never depends on the working directory, so that every command finds the same one.

It is ``$LOGLAKE_HOME``; else the folder that the file ``share/loglake/home`` of the virtual environment names, which
``make setup`` writes for a clone; else ``$XDG_DATA_HOME/loglake``, by default ``~/.local/share/loglake``.
"""

from __future__ import annotations

import os
import sys

from spark_jobs.errors import UsageError


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
