"""The options of a read: which logs, which of their offsets, and whether gaps between offsets are losses.

Commands make these values from their arguments, and the library makes them from the parameters of its functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args

from logcore.errors import LogError
from logcore.logs.model.findings import Finding
from logcore.logs.model.log_selection import LogSelection

IsolationLevel = Literal["read_uncommitted", "read_committed"]
HighWatermark = Literal["checkpoint", "log-end"] | int


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A range of offsets. Without bounds it contains every offset.

    Attributes:
        start: The first offset; None: no lower bound.
        end: The offset after the last one; None: no upper bound.
    """

    start: int | None = None
    end: int | None = None

    def __contains__(self, offset: int) -> bool:
        return (self.start is None or offset >= self.start) and (self.end is None or offset < self.end)

    def overlaps(self, first: int, last: int) -> bool:
        """Whether any offset of first..last (inclusive) is in the range."""
        return (self.start is None or last >= self.start) and (self.end is None or first < self.end)


@dataclass(frozen=True, slots=True)
class ReadRules:
    """Which of a log's offsets are visible.

    Attributes:
        isolation_level: `read_committed` hides records of aborted transactions and the offsets from the last stable
            offset on, as Kafka's consumers do.
        high_watermark: The end of the visible offsets: `checkpoint` (the value in `replication-offset-checkpoint`, else
            the log end), `log-end`, or an offset.
        show_all: Also offsets below the log start and from the high watermark on.

    Raises:
        ValueError: There is no such isolation level or high watermark.
    """

    isolation_level: IsolationLevel = "read_uncommitted"
    high_watermark: HighWatermark = "checkpoint"
    show_all: bool = False

    def __post_init__(self) -> None:
        if self.isolation_level not in get_args(IsolationLevel):
            raise ValueError(f"isolation_level is read_uncommitted or read_committed, not {self.isolation_level!r}")
        if isinstance(self.high_watermark, int):
            if self.high_watermark < 0:
                raise ValueError(f"the high watermark {self.high_watermark} is negative")
        elif self.high_watermark not in ("checkpoint", "log-end"):
            raise ValueError(f"high_watermark is checkpoint, log-end or an offset, not {self.high_watermark!r}")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of one read.

    Attributes:
        paths: Segment files, partition directories and log directories, as the caller named them.
        selection: Which logs at these paths are read.
        offsets: Which of the visible offsets are read.
        rules: Which offsets are visible.
        remotes: Remote storage of tiered topics; remote and local segments are read as one log.
        is_compacted: Whether the topic configuration makes gaps between offsets legal; None if it is not stated.
    """

    paths: tuple[str, ...] = ()
    selection: LogSelection = field(default_factory=LogSelection)
    offsets: OffsetRange = field(default_factory=OffsetRange)
    rules: ReadRules = field(default_factory=ReadRules)
    is_compacted: bool | None = None
    remotes: tuple[str, ...] = ()


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

    def say_all(self, findings: Iterable[Finding]) -> None:
        """Add findings, as `say`."""
        for finding in findings:
            self.say(finding)

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
