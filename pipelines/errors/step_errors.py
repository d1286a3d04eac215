"""Errors of steps for people: a sentence, and whether a later attempt of the step can succeed."""

from __future__ import annotations

import os
import shlex
import sqlite3

from logcore.errors import LogError, place_in_code
from logcore.storage.discovery import shown
from spark_jobs.errors import CommitUnanswered, ConcurrentChange, JobError, StorageError, UsageError

_WRITTEN_FOR_USERS = (JobError, UsageError, LogError)
_REPORT = "This is a mistake in Loglake, or in what it runs on; please report this line."
_NOT_WRITABLE = (
    "database or disk is full",
    "disk I/O error",
    "unable to open database file",
    "attempt to write a readonly database",
)
_DAMAGED = ("file is not a database", "database disk image is malformed")
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
    """The error as one line. The text of an unforeseen error is left out: it may contain keys, values or secrets.

    Args:
        error: The error.
        step: Name of the step that raised it.
        run_id: The run of the step.
    """
    if is_written_for_users(error):
        return str(error)
    of_history = history_error(error)
    if of_history is not None:
        return of_history
    if isinstance(error, OSError) and error.errno is not None:
        # The system's own text, for instance of a full disk.
        where = f": {shown(os.fsdecode(error.filename))}" if isinstance(error.filename, str | bytes) else ""
        return f"The step {step} of run {run_id} failed: {os.strerror(error.errno)}{where}."
    return f"The step {step} of run {run_id} failed with {type(error).__name__}{place_in_code(error)}. {_REPORT}"


def history_error(error: BaseException) -> str | None:
    """The paragraph for an error of Dagster's history database; None for any other error."""
    at: BaseException | None = error
    while at is not None:
        # SQLite calls a quota or a limit of the file size an I/O error.
        if isinstance(at, sqlite3.OperationalError) and str(at) in _NOT_WRITABLE:
            return (
                f"Dagster's home {os.environ.get('DAGSTER_HOME', '')} is full or cannot be written: the history of the "
                "run cannot be kept. Make room there, or name another folder with DAGSTER_HOME, and type the same "
                "command again; what was committed to the lake stays."
            )
        if isinstance(at, sqlite3.DatabaseError) and str(at) in _DAMAGED:
            return unusable_history(str(at))
        at = at.__cause__ or at.__context__
    return None


def unusable_history(cause: str) -> str:
    """The paragraph for a home of Dagster that is damaged, or whose ``dagster.yaml`` is wrong."""
    home = os.environ.get("DAGSTER_HOME", "")
    return (
        f"Dagster's home {home} cannot be used: {cause}. Repair its dagster.yaml or its databases; or begin a new "
        f"history: mv {shlex.quote(home)} {shlex.quote(home + '.old')}; or name another folder with DAGSTER_HOME. "
        "What was committed to the lake stays."
    )


class UnforeseenError(Exception):
    """An unforeseen error, by the name of its type; it has the trace of that error."""


def without_text(error: BaseException) -> BaseException:
    """Return an error that programs may store: itself if its text is for users, else its type and its trace alone.

    The same for its causes.
    """
    named = error
    if not is_written_for_users(error):
        named = UnforeseenError(type(error).__name__).with_traceback(error.__traceback__)
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    named.__cause__ = None if cause is None else without_text(cause)
    return named
