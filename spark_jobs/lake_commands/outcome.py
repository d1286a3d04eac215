"""Exit codes of the lake commands; our errors become one paragraph on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable

from logcore.exit_codes import ExitCode


def guarded(work: Callable[[], int]) -> int:
    """Run ``work``; turn our errors into one paragraph on stderr and an exit code."""
    from spark_jobs.lake.errors import JobError, UsageError

    try:
        return work()
    except UsageError as error:
        sys.stderr.write(f"error: {error}\n")
        return ExitCode.USAGE
    except (JobError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return ExitCode.NOT_CHECKED


def lake_at(path: str) -> str:
    """Return the normalized path of an existing lake.

    Raises:
        UsageError: There is no lake.
    """
    from spark_jobs.lake.errors import UsageError
    from spark_jobs.lake.setup.identity import read_identity
    from spark_jobs.lake.store import storage

    lake = storage.absolute(path)
    if read_identity(lake) is None:
        raise UsageError(f"{path} is no lake: it has no lake.json.")
    return lake
