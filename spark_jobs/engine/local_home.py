"""The folder for files that jobs download or create on this machine: jars, the Java shim, Spark's scratch space.

These folders (``jars/``, ``java/``, ``spark-warehouse/``) contain no data and may be deleted at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_jobs.errors import JobError
from spark_jobs.lake.setup.home import home_path


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
