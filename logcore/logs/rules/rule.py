"""One rule of the rule catalogue: how severe its findings are, what they mean, and what a person does about them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is. INFO is ordinary life of a log, WARNING wants a look, ERROR is damage or a refusal."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Outcome(StrEnum):
    """Whether the check was made; decides the exit code of a command.

    JUDGED: the bytes were read, and the finding is the result. UNCHECKED: the bytes could not be read or compared.
    """

    JUDGED = "judged"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the rule catalogue.

    severity: the usual severity of its findings. meaning: what a finding says. what_to_do: one or two sentences for
    the reader of a finding; SRC stands for the log directory, LAKE for the lake, COPY for another copy of the logs.
    """

    severity: Severity
    meaning: str
    what_to_do: str
    outcome: Outcome = Outcome.JUDGED
