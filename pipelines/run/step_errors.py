"""Errors of steps for people: a sentence, and whether a later attempt of the step can succeed."""

from __future__ import annotations

from logcore.errors import LogError
from spark_jobs.lake.errors import CommitUnanswered, ConcurrentChange, JobError, StorageError, UsageError

_WRITTEN_FOR_USERS = (JobError, UsageError, LogError)
_TRANSIENT = (StorageError, ConcurrentChange, CommitUnanswered)


def is_written_for_users(error: BaseException) -> bool:
    """Whether the text of an error says what is wrong and what to do."""
    return isinstance(error, _WRITTEN_FOR_USERS)


def is_transient(error: BaseException) -> bool:
    """Whether the same step can succeed a little later: the store failed, or another commit was faster.

    Damaged data, a refused table and a wrong setting stay as they are.
    """
    return isinstance(error, _TRANSIENT)


def sentence_of(error: BaseException, step: str, run_id: str) -> str:
    """The error as one line.

    Args:
        error: The error.
        step: Name of the step that raised it.
        run_id: The run of the step.
    """
    if is_written_for_users(error):
        return str(error)
    text = f"The step {step} of run {run_id} failed: {type(error).__name__}: {error}"
    return f"{' '.join(text.split()).rstrip('.')}."
