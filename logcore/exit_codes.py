"""The exit codes of every command: `loglake` and the modules that are run with `python -m`.

docs/cli.md has the same table; a test compares them.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command ends with. Of several codes of one command the highest counts."""

    CLEAN = 0
    """Nothing to report but information."""
    WARNING = 1
    """Warnings, also what cannot be verified."""
    DAMAGE = 2
    """Damage was found."""
    NOT_CHECKED = 3
    """The command could not do its work or a part of it: what it needs is missing, unreadable or refused."""
    USAGE = 64
    """Wrong usage: `EX_USAGE` of sysexits.h."""
    INTERRUPTED = 130
    """Ended by Ctrl-C or SIGTERM: 128 + SIGINT, as shells report it."""


SUMMARY = "Exit codes: 0 clean, 1 warnings, 2 damage found, 3 could not check, 64 wrong usage, 130 interrupted."
"""The line for help texts."""
