"""What can go wrong with a lake: whose move it is next decides the class."""

from __future__ import annotations

import re

_DECORATION = re.compile(r"\x1b\[[0-9;]*m|↳")
# What native libraries add for their own developers, each to the end of the text.
_FOR_DEVELOPERS = re.compile(r"<\?xml|Debug source:|\n *stack backtrace:|\n *Backtrace:|\n\s*\d+: [^\n]*::|\n\s+at /")


class JobError(Exception):
    """A job could not do its work on a lake; the text says what, where, and what to do."""


class ConcurrentChange(JobError):
    """Another commit moved what this plan stood on: plan again."""


class CommitUnanswered(JobError):
    """Disk or store failed in a commit: it may have landed or not; only looking again tells."""


class OutputMismatch(JobError):
    """What was written, or what the table holds, is not what the ledger says: stop and look."""


class TableUnreadable(JobError):
    """A table, or a file of it, is missing, damaged or of another kind than ours; the text names the command for it."""


class TableRefused(JobError):
    """A table has a feature or a column that our commits would do harm to; the text names the way out."""


class LeaseHeld(JobError):
    """Another process works on this lake; the text names it."""


class LakeRefused(JobError):
    """The lake is of another cluster, or of a layout this version does not know."""


class StorageError(JobError, OSError):
    """The store that a lake lies on did not answer as it should: not there, not allowed, not in time."""


class UsageError(ValueError):
    """The caller asked for something that is not there or not built: a mistake of the call, not of the data."""


def said(error: BaseException) -> str:
    """What another library's error says, in one line and with a full stop: without a server's XML, its debugging text
    and stack, and the colours of a terminal."""
    text = _FOR_DEVELOPERS.split(str(error) or type(error).__name__, maxsplit=1)[0]
    line = " ".join(_DECORATION.sub(" ", text).split()).rstrip(": ")
    return line if line.endswith(".") else f"{line}."
