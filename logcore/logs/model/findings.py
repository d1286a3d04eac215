"""Findings: the results of checks.

A finding is a value, not an exception: after damage in one place the rest is still read. Each finding has a rule of the
catalogue in `logcore.logs.rules`. The checks are beside the things that they check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from logcore.exit_codes import ExitCode
from logcore.logs.rules import RULES, Outcome, Rule, Severity
from logcore.texts import shown

__all__ = ["RULES", "Finding", "Outcome", "Rule", "Severity", "exit_code", "found", "offsets_text"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check.

    Attributes:
        rule: An id of the rule catalogue `RULES`; `loglake help RULE` explains each.
        severity: How bad it is.
        message: One sentence for a person, without keys or values of records.
        file: The path, as the caller named it; None if it is about no file.
        position: Where in that file, in bytes.
        nbytes: How many bytes there.
        start_offset: The first offset concerned.
        end_offset: The offset after the last one concerned.
    """

    rule: str
    severity: Severity
    message: str
    file: str | None = None
    position: int | None = None
    nbytes: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None


def found(
    rule: str,
    message: str,
    *,
    file: str | None = None,
    position: int | None = None,
    nbytes: int | None = None,
    start_offset: int | None = None,
    end_offset: int | None = None,
) -> Finding:
    """Create a finding with its rule's usual severity. Its message is fit for a terminal, whatever names it has.

    Raises:
        ValueError: The catalogue does not contain the rule.
    """
    known = RULES.get(rule)
    if known is None:
        raise ValueError(f"no rule {rule!r} in the rule catalogue")
    return Finding(rule, known.severity, shown(message), file, position, nbytes, start_offset, end_offset)


def offsets_text(start: int | None, end: int | None) -> str:
    """Return offsets as people read them: ``[4, 9)``, or ``4`` if only the first is known; empty if none is."""
    if start is None:
        return ""
    return str(start) if end is None else f"[{start}, {end})"


def exit_code(findings: Iterable[Finding]) -> ExitCode:
    """The exit code of a command with these findings: 0 clean, 1 warnings, 2 damage found, 3 could not check.

    The highest code wins. So a check that was not possible is never hidden by one that was.
    """
    code = ExitCode.CLEAN
    for finding in findings:
        rule = RULES.get(finding.rule)
        if finding.severity is Severity.ERROR:
            unchecked = rule is not None and rule.outcome is Outcome.UNCHECKED
            code = max(code, ExitCode.NOT_CHECKED if unchecked else ExitCode.DAMAGE)
        elif finding.severity is Severity.WARNING:
            code = max(code, ExitCode.WARNING)
    return code


FINDINGS_PER_RULE = 100
"""Findings of one log or segment by one rule beyond this many are only counted."""


class CappedFindings:
    """Findings, at most `FINDINGS_PER_RULE` by each rule; the others are counted.

    Attributes:
        kept: The findings in the order in which they were added. A caller may take them out.
    """

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self._seen: Counter[str] = Counter()

    def add(self, finding: Finding) -> None:
        """Keep a finding, or count it."""
        self._seen[finding.rule] += 1
        if self._seen[finding.rule] <= FINDINGS_PER_RULE:
            self.kept.append(finding)

    def left_out(self) -> dict[str, int]:
        """By rule, how many findings were only counted."""
        return {rule: seen - FINDINGS_PER_RULE for rule, seen in self._seen.items() if seen > FINDINGS_PER_RULE}
