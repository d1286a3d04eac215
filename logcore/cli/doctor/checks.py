"""The result of one check of an installation, and its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from logcore.cli.output.record_lines import json_line
from logcore.errors import LogError
from logcore.exit_codes import ExitCode
from logcore.storage.objects.addresses import AddressError
from logcore.texts import shown


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


Checks = Callable[[], Iterable[InstallationCheck]]


@dataclass(frozen=True, slots=True)
class CheckedPlaces:
    """What the command names, for the checks of other packages.

    Attributes:
        lake: The lake, as the user wrote it; None if none is named.
        sources: Paths of logs.
        now_ms: The clock when the command began, epoch milliseconds.
    """

    lake: str | None
    sources: tuple[str, ...]
    now_ms: int


def guarded(name: str, checks: Checks) -> Iterator[InstallationCheck]:
    """Yield checks, and a failed one named `name` if they end with an error."""
    try:
        yield from checks()
    except ImportError as error:
        text = f"{error.name or 'A package'} cannot be imported: the check could not be made."
        yield InstallationCheck(name, CheckState.FAILED, text, "Install Loglake's wheel again, with its packages.")
    except (LogError, AddressError, OSError) as error:
        yield InstallationCheck(name, CheckState.FAILED, str(error))
    except Exception as error:  # noqa: BLE001 - the other checks are still useful; the text may have anything in it
        text = f"The check itself failed with {type(error).__name__}."
        yield InstallationCheck(name, CheckState.FAILED, text, "Please report this line.")


def exit_code(checks: Iterable[InstallationCheck]) -> ExitCode:
    """Return the exit code: that of the worst check."""
    return max((EXIT_CODES[check.state] for check in checks), default=ExitCode.CLEAN)


def text_line(check: InstallationCheck) -> str:
    """Return the line of a check for people."""
    text = " ".join(check.text.split())
    advice = "" if check.advice is None else f" To do: {' '.join(check.advice.split())}"
    return f"{check.state:<8} {check.name:<12} {shown(text + advice)}\n"


def jsonl_line(check: InstallationCheck) -> str:
    """Return the line of a check for programs."""
    fields = {"check": check.name, "state": str(check.state), "text": check.text, "advice": check.advice}
    return json_line(fields)
