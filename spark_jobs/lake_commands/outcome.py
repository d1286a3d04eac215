"""Exit codes of the lake commands, and what they refuse: our errors become one paragraph on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from logcore.exit_codes import ExitCode


def guarded(work: Callable[[], int]) -> int:
    """Run ``work``; turn our errors into one paragraph on stderr and an exit code."""
    from spark_jobs.lake.errors import JobError, UsageError

    try:
        return work()
    except UsageError as error:
        sys.stderr.write(f"error: {error}\n")
        return ExitCode.USAGE
    except BrokenPipeError:
        raise  # the reader of the output has closed the pipe (`| head`), which is no error
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


def refuse_unmatched(lake: str, patterns: Sequence[str]) -> None:
    """Refuse patterns of ``--topic`` that match no topic of the lake: a misspelled name would do nothing unnoticed.

    Raises:
        UsageError: One does not match; the error has the nearest names.
    """
    from logcore.logs.model.log_selection import LogSelection
    from logcore.reading.nearest_names import unmatched
    from spark_jobs.lake.errors import UsageError
    from spark_jobs.lake.segments import archive

    if not patterns:
        return
    said = unmatched(LogSelection(tuple(patterns)), {log.topic for log in archive.read_logs(lake).values()})
    if said:
        raise UsageError(said.strip())
