"""The findings of a command, on stderr, and its exit code."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from logcore.cli.output.progress import ProgressLine
from logcore.cli.output.terminal import OF_SEVERITY, Terminal
from logcore.errors import LogError
from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Finding, Severity, exit_code, found
from logcore.logs.model.sources import SourceLog
from logcore.reading.read_options import Notes
from logcore.texts import shown


def kind_text(finding: Finding, terminal: Terminal) -> str:
    """Return severity and rule of a finding, as each command prints them: `warning no-remote-metadata`."""
    return f"{terminal.styled(str(finding.severity), OF_SEVERITY[finding.severity])} {finding.rule}"


def with_place(finding: Finding) -> str:
    """Return the message of a finding, with its file and position where it does not name them."""
    place = [] if finding.file is None or finding.file in finding.message else [finding.file]
    if finding.position is not None and "position" not in finding.message:
        place.append(f"position {finding.position}")
    return f"{finding.message} ({', '.join(place)})" if place else finding.message


@dataclass(slots=True)
class CommandNotes(Notes):
    """Findings of one command. Each is reported once on stderr, as soon as it is known.

    Attributes:
        is_refused: A request was not carried out.
        progress: Its line is removed from a terminal before a finding is printed.
    """

    is_refused: bool = False
    progress: ProgressLine | None = None

    def say(self, finding: Finding) -> None:
        """Add a finding, once, and report it.

        Args:
            finding: The finding.
        """
        if self.is_new(finding):
            self.findings.append(finding)
            self._print(kind_text(finding, Terminal.of(sys.stderr)), with_place(finding))

    def refuse(self, message: str) -> None:
        """Report that a request is not carried out, and continue.

        Args:
            message: The reason, as a sentence.
        """
        self.is_refused = True
        severity = Severity.ERROR
        self._print(Terminal.of(sys.stderr).styled(str(severity), OF_SEVERITY[severity]), shown(message))

    def not_checked(self, log: SourceLog, error: LogError) -> None:
        """Report that a log cannot be checked, and continue with the others."""
        message = f"{log.topic_partition} cannot be checked: {error}"
        self.say(found("log-not-judged", message, file=shown(log.directory)))

    def clear_progress(self) -> None:
        """Remove the line of the progress from a terminal."""
        if self.progress is not None:
            self.progress.clear()

    def _print(self, kind: str, message: str) -> None:
        self.clear_progress()
        sys.stderr.write(f"{kind}: {message}\n")

    @property
    def exit_code(self) -> ExitCode:
        """0 clean · 1 warnings · 2 damage found · 3 could not check."""
        return ExitCode.NOT_CHECKED if self.is_refused else exit_code(self.findings)
