"""What a server of forks has imported: all that an earlier fork needed, so that the next ones find it.

A fork that imports pyspark, pandas and our jobs by itself spends half of its time on that.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from pathlib import Path


def write_imported(path: Path, before: set[str]) -> None:
    """In a fork at its end: the names of the modules that it has imported itself."""
    path.write_text("\n".join(name for name in sys.modules if name not in before))


def import_too(path: Path) -> None:
    """In the server: import what the fork that has just ended imported. A killed fork has left no names."""
    for name in path.read_text().split() if path.exists() else ():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
