"""Where this machine keeps what its jobs fetched or made for themselves: jars, the Java shim, Spark's scratch space.

What they put there (``jars/``, ``java/``, ``spark-warehouse/``) is no data and may be deleted at any time.
"""

from __future__ import annotations

import os
from pathlib import Path


def local_home() -> Path:
    """``$LOGLAKE_HOME``, else ``.loglake`` in the current directory; absolute, not created."""
    return Path(os.environ.get("LOGLAKE_HOME") or ".loglake").absolute()
