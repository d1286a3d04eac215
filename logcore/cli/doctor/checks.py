"""The result of one check of an installation, and its lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from logcore.exit_codes import ExitCode


class CheckState(StrEnum):
    """The states of a check, from the best to the worst."""

    OK = "ok"
    """It was checked, and it is as it should be."""
    INFO = "info"
    """There was nothing to check, or it is needed by some commands only."""
    WARNING = "warning"
    """Everything works, but more slowly than it could, or something will fail soon."""
    FAILED = "failed"
    """Something cannot work."""


EXIT_CODES = {
    CheckState.OK: ExitCode.CLEAN,
    CheckState.INFO: ExitCode.CLEAN,
    CheckState.WARNING: ExitCode.WARNING,
    CheckState.FAILED: ExitCode.NOT_CHECKED,
}


@dataclass(frozen=True, slots=True)
class InstallationCheck:
    """One check of an installation.

    Attributes:
        name: What was checked. The same name may occur more than once, for instance for each source.
        state: The result.
        text: What was found, in one line.
        advice: What to do; None if there is nothing to do.
    """

    name: str
    state: CheckState
    text: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedPlaces:
    """What the command names, for the checks of other packages.

    Attributes:
        lake: The lake, as the user wrote it; None if none is named.
        sources: Paths of logs.
        now_ms: The clock, epoch milliseconds.
    """

    lake: str | None
    sources: tuple[str, ...]
    now_ms: int


def exit_code(checks: Iterable[InstallationCheck]) -> ExitCode:
    """Return the exit code: that of the worst check."""
    return max((EXIT_CODES[check.state] for check in checks), default=ExitCode.CLEAN)


def text_line(check: InstallationCheck) -> str:
    """Return the line of a check for people."""
    text = " ".join(check.text.split())
    advice = "" if check.advice is None else f" To do: {' '.join(check.advice.split())}"
    return f"{check.state:<8} {check.name:<12} {text}{advice}\n"


def jsonl_line(check: InstallationCheck) -> str:
    """Return the line of a check for programs."""
    fields = {"check": check.name, "state": str(check.state), "text": check.text, "advice": check.advice}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n"
