"""The findings of a command, on stderr, and its exit code."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Finding, exit_code
from logcore.reading.notes import Notes


@dataclass(slots=True)
class CommandNotes(Notes):
    """Findings of one command. Each is reported once on stderr, as soon as it is known.

    Attributes:
        is_refused: A request was not carried out.
    """

    is_refused: bool = False

    def say(self, finding: Finding) -> None:
        """Add a finding, once, and report it.

        Args:
            finding: The finding.
        """
        if self.is_new(finding):
            self.findings.append(finding)
            sys.stderr.write(f"{finding.severity}: {finding.message}\n")

    def refuse(self, message: str) -> None:
        """Report that a request is not carried out, and continue.

        Args:
            message: The reason, as a sentence.
        """
        self.is_refused = True
        sys.stderr.write(f"error: {message}\n")

    @property
    def exit_code(self) -> ExitCode:
        """0 clean · 1 warnings · 2 damage found · 3 could not check."""
        return ExitCode.NOT_CHECKED if self.is_refused else exit_code(self.findings)
