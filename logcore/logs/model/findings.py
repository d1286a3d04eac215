"""Findings: what a check reports.

A finding is a value, not an exception: damage in one place never keeps the rest from being read. Each has a rule of the
catalogue in `logcore.logs.rules`. The checks themselves are beside the thing they check.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from logcore.exit_codes import ExitCode
from logcore.logs.rules import RULES, Outcome, Rule, Severity

__all__ = ["RULES", "Finding", "Outcome", "Rule", "Severity", "exit_code", "found"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a check has to say.

    rule: id from `RULES`. message: one sentence for a person, without keys or values of records.
    file: path as the caller named it; position and nbytes: bytes in that file.
    start_offset, end_offset: offsets concerned, end exclusive.
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
    """A finding with its rule's usual severity. ValueError for an id that is not in the catalogue."""
    known = RULES.get(rule)
    if known is None:
        raise ValueError(f"no rule {rule!r} in the rule catalogue")
    return Finding(rule, known.severity, message, file, position, nbytes, start_offset, end_offset)


def exit_code(findings: Iterable[Finding]) -> ExitCode:
    """What a command that had these findings answers: 0 clean, 1 warnings, 2 damage found, 3 could not check.

    The highest wins: a check that could not be made is never outshone by one that was.
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
