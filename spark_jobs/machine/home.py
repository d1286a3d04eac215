"""Where this machine keeps what its jobs fetched or made for themselves: jars, the Java shim, Spark's scratch space.

What they put there (``jars/``, ``java/``, ``spark-warehouse/``) is no data and may be deleted at any time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_jobs.lake.errors import JobError


def local_home() -> Path:
    """``$LOGLAKE_HOME``, else ``.loglake`` in the current directory; absolute, not created."""
    return Path(os.environ.get("LOGLAKE_HOME") or ".loglake").absolute()


@contextmanager
def writing_home() -> Iterator[None]:
    """Files are written below the local home: what goes wrong is said of it, and not of the lake.

    :raises JobError: it is full, or cannot be written; the text says how to name another place.
    """
    try:
        yield
    except OSError as error:
        raise JobError(
            f"The folder {local_home()}, where Loglake keeps what it needs to run, cannot be written: "
            f"{error.strerror or error}. Make room there, or name a folder of your own with LOGLAKE_HOME. The lake is "
            "as it was."
        ) from error


def make_folder(path: Path) -> Path:
    """`path`, created with its parents if need be.

    :raises JobError: it cannot be created; the text says how to name another place.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobError(
            f"{path} cannot be made ({error.strerror}): name a folder of your own with LOGLAKE_HOME"
        ) from error
    return path
