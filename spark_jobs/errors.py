"""Errors of a lake, and what a command makes of them. The class depends on who must act next."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from logcore.exit_codes import ExitCode
from logcore.storage.objects.answers import said
from logcore.texts import shown

Options = TypeVar("Options")

DISK_FULL = "DiskFull"
"""Name of an error in ``runs`` and alerts, whatever its class, if no more bytes fit on a disk."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether no more bytes fit on a disk. Delta and workers say it only in the text of their errors."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            return True
        if any(os.strerror(code) in str(error) for code in _NO_ROOM):
            return True
        error = error.__cause__ or error.__context__
    return False


def error_name(error: BaseException) -> str:
    """Return the name of an error for ``runs`` and alerts. Its text may have anything in it, and is left out."""
    return DISK_FULL if is_disk_full(error) else type(error).__name__


class JobError(Exception):
    """A job could not do its work on a lake; the text says what, where, and what to do."""

    def __str__(self) -> str:
        """Return the text, fit for a terminal whatever names it has."""
        return shown(super().__str__())


class ConcurrentChange(JobError):
    """Another commit changed the basis of this plan: plan again."""


class CommitUnanswered(JobError):
    """Disk or store failed in a commit. Only reading the table again shows whether it was committed."""


class OutputMismatch(JobError):
    """Written rows, or rows of the table, differ from the ledger: stop and investigate."""


class TableUnreadable(JobError):
    """A table, or a file of it, is missing, damaged or of another kind than ours; the text names the repair command."""


class TableRefused(JobError):
    """A table has a feature or a column that our commits would damage; the text says what to do."""


class LeaseHeld(JobError):
    """Another process works on this lake; the text names it."""


class LakeRefused(JobError):
    """The lake is of another cluster, or has another layout than this version knows."""


class SourceUnread(JobError):
    """No source of a run is there. The class has the name that ``runs`` and alerts use."""


class NothingChosen(JobError):
    """The options that choose logs match none."""


class StorageError(JobError, OSError):
    """The store of a lake failed: it is not reachable, denies access, or does not answer in time."""


class UsageError(ValueError):
    """The caller requested something that does not exist: an error in the call, not in the data."""

    def __str__(self) -> str:
        """Return the lines of the text, fit for a terminal whatever names they have."""
        return "\n".join(map(shown, super().__str__().split("\n")))


def guarded(work: Callable[[Options], int]) -> Callable[[Options], int]:
    """Return the same command, with each of our errors as one paragraph on stderr and an exit code."""

    @wraps(work)
    def run(options: Options) -> int:
        try:
            return work(options)
        except UsageError as error:
            return _refused(str(error), ExitCode.USAGE)
        except BrokenPipeError:
            raise  # the reader of the output has closed the pipe (`| head`), which is no error
        except JobError as error:
            return _refused(str(error), ExitCode.NOT_CHECKED)
        except OSError as error:
            return _refused(f"{said(error)} Remove the cause, and type the same command again.", ExitCode.NOT_CHECKED)

    return run


def _refused(why: str, code: ExitCode) -> ExitCode:
    sys.stderr.write(f"error: {why}\n")
    return code
