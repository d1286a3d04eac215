"""The folder where this machine keeps what it fetched or made for itself: jars, the Java shim, Spark's scratch space.

Nothing in it is data: it may be deleted at any time. What a lake holds is never here.
"""

from __future__ import annotations

import os
from pathlib import Path


def local_home() -> Path:
    """``$LOGLAKE_HOME``, else ``.loglake`` in the current directory; absolute, not created."""
    return Path(os.environ.get("LOGLAKE_HOME") or ".loglake").absolute()
