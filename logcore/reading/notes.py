"""The findings of one read."""

from __future__ import annotations

from dataclasses import dataclass, field

from logcore.errors import LogError
from logcore.logs.model.findings import Finding


@dataclass(slots=True)
class Notes:
    """Collects the findings of one read. A command prints them too, and the library passes them to its caller.

    Attributes:
        findings: Each finding once, in the order of the reports.
    """

    findings: list[Finding] = field(default_factory=list)

    def say(self, finding: Finding) -> None:
        """Add a finding, once.

        Args:
            finding: The finding.
        """
        if finding not in self.findings:
            self.findings.append(finding)

    def refuse(self, message: str) -> None:
        """Report that a request is not carried out.

        Args:
            message: The reason, as a sentence.

        Raises:
            LogError: Always. A command prints the message instead and continues.
        """
        raise LogError(message)
