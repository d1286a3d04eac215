"""Which logs a command or a job works on, chosen by topic patterns, partition numbers and names of topic partitions."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Self

from logcore.segments.filenames import TopicPartition


def topic_matches(topic: str, pattern: str) -> bool:
    """Whether a glob (`*`, `?`, `[abc]`) covers a whole topic name; case counts."""
    return fnmatch.fnmatchcase(topic, pattern)


@dataclass(frozen=True, slots=True)
class LogSelection:
    """A choice of logs. A log is chosen if it meets each of the three conditions; an empty one is met by every log."""

    topics: tuple[str, ...] = ()
    """Globs: the topic matches one of them."""
    partitions: tuple[int, ...] = ()
    """The partition number is one of these."""
    names: tuple[str, ...] = ()
    """The topic partition is one of these directory names (`orders-0`)."""

    @classmethod
    def of(
        cls, topics: Iterable[str] | None = None, partitions: Iterable[int] | None = None, names: Iterable[str] = ()
    ) -> Self:
        """From lists as options and configurations have them; None is an empty list."""
        return cls(tuple(topics or ()), tuple(partitions or ()), tuple(names))

    @property
    def is_everything(self) -> bool:
        """Whether every log is chosen, whatever its name."""
        return not (self.topics or self.partitions or self.names)

    def matches(self, topic: str, partition: int) -> bool:
        """Whether a log is chosen."""
        return (
            self.matches_topic(topic)
            and (not self.partitions or partition in self.partitions)
            and (not self.names or str(TopicPartition(topic, partition)) in self.names)
        )

    def matches_topic(self, topic: str) -> bool:
        """Whether the topic patterns leave a topic in."""
        return not self.topics or any(topic_matches(topic, pattern) for pattern in self.topics)

    def unmatched_topics(self, topics: Collection[str]) -> tuple[str, ...]:
        """The patterns, in their order, that match none of some topics."""
        return tuple(pattern for pattern in self.topics if not any(topic_matches(topic, pattern) for topic in topics))

    def unmatched_partitions(self, partitions: Collection[int]) -> tuple[int, ...]:
        """The partition numbers, in their order, that are none of some numbers."""
        return tuple(number for number in self.partitions if number not in partitions)
