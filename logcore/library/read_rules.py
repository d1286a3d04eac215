"""Which offsets of a log a reader sees: the rules of `loglake dump`, as values instead of options.

The only place of the library that builds the arguments which the rules of the command line take.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Literal, get_args

from logcore.cli.reading.arguments import OffsetRange
from logcore.cli.reading.log_reading import LogReading, read_log
from logcore.cli.reading.nearest_names import no_such_topic
from logcore.cli.reading.selection import concerns_choice, root_of
from logcore.cli.reading.shown_logs import Notes, Window, find_logs, window
from logcore.errors import LogError
from logcore.logs.model.findings import Finding
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.sources import SourceLog
from logcore.storage.local import discover, shown

IsolationLevel = Literal["read_uncommitted", "read_committed"]
HighWatermark = Literal["checkpoint", "log-end"] | int
Ranges = tuple[tuple[int, int], ...]
"""Half-open ranges of offsets, ascending."""


@dataclass(frozen=True, slots=True)
class ReadRules:
    """Which of a log's offsets are visible.

    Attributes:
        isolation_level: `read_committed` hides records of aborted transactions and what lies at or above the last
            stable offset, as Kafka's consumers do.
        high_watermark: Where the visible offsets end: `checkpoint` (what `replication-offset-checkpoint` states, else
            the log end), `log-end`, or an offset.
        show_all: Also offsets below the log start and at or above the high watermark.
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


def visible_window(log: SourceLog, rules: ReadRules) -> Window:
    """What a log shows. For `read_committed` the headers and markers of the whole log are read."""
    return window(log, _arguments(rules))


def visible_ranges(log: SourceLog, rules: ReadRules, start_offset: int | None, end_offset: int | None) -> Ranges:
    """The visible offsets from `start_offset` on and below `end_offset`; None: no bound."""
    return visible_window(log, rules).ranges(OffsetRange(start_offset, end_offset))


def read_meaning(log: SourceLog, rules: ReadRules, is_compacted: bool, notes: Notes) -> LogReading:
    """The transactions and batches of a log, from one pass over it. Raises LogError as `read_log`."""
    arguments = _arguments(rules)
    arguments.config = [("cleanup.policy", "compact")] if is_compacted else []
    return read_log(log, arguments, notes)


def logs_at(
    path: str, rules: ReadRules, topics: tuple[str, ...] = (), partitions: tuple[int, ...] = ()
) -> tuple[tuple[SourceLog, ...], tuple[Finding, ...]]:
    """The live logs at a path that are chosen, by topic partition, and what was found while looking for them.

    Args:
        topics: Patterns such as `orders-*`. Empty: all topics.
        partitions: Numbers. Empty: all partitions.

    Raises:
        LogError: A pattern matches no topic, or nothing has one of the numbers.
    """
    found = _Collected()
    unstated = rules.show_all or rules.high_watermark != "checkpoint"
    quiet = ["nothing-chosen", *(["no-high-watermark"] if unstated else [])]
    logs = find_logs(_choice(path, topics, partitions), found, quiet=quiet)
    names = [log.topic_partition for log in logs]
    selection = LogSelection(topics, partitions)
    if selection.unmatched_topics({name.topic for name in names}):
        known = {log.topic_partition.topic for log in discover([path]).logs}
        for pattern in selection.unmatched_topics(known):
            raise LogError(no_such_topic(pattern, known), file=shown(path))
    for number in selection.unmatched_partitions({name.partition for name in names}):
        raise LogError(f"no chosen topic has a partition {number} there", file=shown(path))
    return logs, tuple(found.findings)


def concerning(log: SourceLog, path: str, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Of the findings of `logs_at`, those that concern one of the logs."""
    name = log.topic_partition
    choice = _choice(path, (name.topic,), (name.partition,))
    return tuple(finding for finding in findings if concerns_choice(finding, choice, {root_of(log)}))


def not_among(topic: str, partition: int, topics: set[str]) -> str:
    """Why the log of a topic partition is not found where there are these topics."""
    return f"{topic} has no partition {partition} there" if topic in topics else no_such_topic(topic, topics)


class _Collected(Notes):
    def say(self, finding: Finding) -> None:
        if finding not in self.findings:
            self.findings.append(finding)

    def refuse(self, message: str) -> None:
        raise LogError(message)


def _arguments(rules: ReadRules) -> argparse.Namespace:
    return argparse.Namespace(
        all=rules.show_all, high_watermark=rules.high_watermark, isolation_level=rules.isolation_level
    )


def _choice(path: str, topics: tuple[str, ...], partitions: tuple[int, ...]) -> argparse.Namespace:
    return argparse.Namespace(paths=[path], topic=list(topics), partition=list(partitions))
