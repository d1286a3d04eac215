"""The findings of a read: each is passed to the caller's function, or the first error ends the read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from logcore.errors import LogError
from logcore.logs.model.findings import Finding, Severity
from logcore.reading.read_options import Notes
from logcore.texts import sentences

T = TypeVar("T")

OnFinding = Callable[[Finding], object]
"""Called with each finding of a read, as soon as it is known."""


class DamageFound(LogError):
    """A read found damage, or bytes that it could not read, and the caller passed no function for findings.

    Attributes:
        finding: The finding. Its severity is `error`. The error has its `file`, `position` and `offset` too.

    Example:
        >>> try:
        ...     count = sum(1 for _ in log.records())
        ... except logcore.DamageFound as error:
        ...     print(error.finding.rule)
    """

    def __init__(self, finding: Finding, advice: str = "Pass on_finding to get findings and read on.") -> None:
        super().__init__(
            finding.message,
            file=finding.file,
            position=finding.position,
            offset=finding.start_offset,
            advice=advice,
        )
        self.finding = finding

    def __str__(self) -> str:
        # The finding's message names file and position already.
        return sentences([self.message, self.advice])


class Reports(Notes):
    """The findings of one read, each reported once.

    Args:
        on_finding: Gets every finding. None: a finding of severity `error` is raised as `DamageFound`, and others are
            dropped.
        known: Findings that are reported first.

    Raises:
        DamageFound: One of the known findings is an error.
    """

    def __init__(self, on_finding: OnFinding | None, known: Iterable[Finding] = ()) -> None:
        super().__init__()
        self._on_finding = on_finding
        for finding in known:
            self.say(finding)

    def say(self, finding: Finding) -> None:
        """Report a finding, once.

        Args:
            finding: The finding.

        Raises:
            DamageFound: It is an error, and the caller passed no function for findings.
        """
        if not self.is_new(finding):
            return
        self.findings.append(finding)
        if self._on_finding is not None:
            self._on_finding(finding)
        elif finding.severity is Severity.ERROR:
            raise DamageFound(finding)


def read_lazily(
    on_finding: OnFinding | None, known: Iterable[Finding], begin: Callable[[Reports], Iterator[T]]
) -> Iterator[T]:
    """Yield the values of a read. It begins, and reports the known findings, when the first value is requested.

    Args:
        on_finding: As for `Reports`.
        known: As for `Reports`.
        begin: Begins the read.

    Raises:
        DamageFound: As `Reports`.
    """
    yield from begin(Reports(on_finding, known))
