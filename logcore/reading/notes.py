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
        cleaned_below: By directory of a log with gaps, the base offset of the last batch that only cleaning leaves.
    """

    findings: list[Finding] = field(default_factory=list)
    cleaned_below: dict[str, int] = field(default_factory=dict)
    _known: set[Finding] = field(default_factory=set)
    """The findings again: a damaged segment may have very many, and a search in the list reads all of them."""

    def say(self, finding: Finding) -> None:
        """Add a finding, once.

        Args:
            finding: The finding.
        """
        if self.is_new(finding):
            self.findings.append(finding)

    def is_new(self, finding: Finding) -> bool:
        """Whether this is the first call with a finding.

        Args:
            finding: The finding.
        """
        count = len(self._known)
        self._known.add(finding)
        return len(self._known) > count

    def refuse(self, message: str) -> None:
        """Report that a request is not carried out.

        Args:
            message: The reason, as a sentence.

        Raises:
            LogError: Always. A command prints the message instead and continues.
        """
        raise LogError(message)
