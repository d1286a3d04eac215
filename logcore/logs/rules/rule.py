"""One rule of the rule catalogue.

It says how severe its findings are, how long a lake counts them, what they mean, and what a person does about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum


class Severity(StrEnum):
    """How bad a finding is. INFO: ordinary in a log. WARNING: needs a look. ERROR: damage or a refusal."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Outcome(StrEnum):
    """Whether the check was possible; decides the exit code of a command.

    CHECKED: the bytes were read, and the finding is the result. UNCHECKED: the bytes could not be read or compared.
    """

    CHECKED = "checked"
    UNCHECKED = "unchecked"


class Persistence(Enum):
    """How long a lake counts a finding after the run that found it.

    A lake keeps every finding in the table `findings`. A finding is open as long as it counts: for the exit code, the
    checks and the figures of its log. The value says how long, for a person. Whatever a rule says, a finding about a
    segment is closed when other bytes replace the segment, and when the source takes the segment back.
    """

    ONE_RUN = "only in the run that finds it"
    """The next run or command looks again, or is not asked the same."""
    FOR_GOOD = "always. No later run closes it"
    """It says what happened to a log, and nothing reverses that."""
    UNTIL_REPLACED = "until other bytes replace the segment, or retention retires it and it hid no offset"
    """It is about bytes of a segment."""
    WHILE_STOPPED = "as long as the log is stopped for this reason"
    """It says why a log does not grow."""
    WHILE_IN_LEDGER = "as long as the ledger has unknown, missing or corrupt offsets there"
    """It is about a range of the offset ledger."""
    WHILE_LEDGER_HAS_HOLE = "as long as the ledger leaves out offsets of the log"
    WHILE_REMOTE = "as long as offsets of the log are in the remote tier alone"
    WHILE_ROWS_DIFFER = "as long as the table and the ledger differ in the same way"
    WHILE_FILE_DIFFERS = "as long as the file belongs to the table"
    UNTIL_EXPECTATIONS_MET = "until the log meets all expectations"
    UNTIL_PUBLISHED = "until its offsets are published"
    UNTIL_LOG_END_PASSED = "until the archive has reached the high watermark, or a run takes the log's end as it"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the rule catalogue.

    Attributes:
        severity: The usual severity of its findings.
        persistence: How long a lake counts them.
        meaning: What a finding means.
        what_to_do: One command for this harm, or one sentence why there is none. A template: the fields in braces are
            those of `logcore.logs.rules.advice`.
        outcome: Whether the check was possible.
        for_logs: The same for a finding about files that no lake has; empty: `what_to_do`.
    """

    severity: Severity
    persistence: Persistence
    meaning: str
    what_to_do: str
    outcome: Outcome = Outcome.CHECKED
    for_logs: str = ""
