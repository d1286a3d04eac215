"""Filters of a query that the data source applies exactly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from logcore.columns.schema import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from logcore.segments.filenames import MAX_OFFSET, TopicPartition
from spark_jobs.data_source.log_ranges import LogRange

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER_NULL = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """Filters, all of which a row meets.

    Attributes:
        topics: The topic is one of these.
        partitions: The partition is one of these.
        start: The offset is at least this.
        end: The offset is below this.
        since: The timestamp in milliseconds is at least this.
        until: The timestamp in milliseconds is below this.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start: int = 0
    end: int = MAX_OFFSET + 1
    since: int | None = None
    until: int | None = None

    def with_filter(self, given: Filter) -> PushedFilters | None:
        """Return these filters with one more; None if it cannot be applied exactly here."""
        match given:
            case IsNotNull((column,)) if column in _NEVER_NULL:
                return self
            case EqualTo(("topic",), str(value)):
                return self._of_topics({value})
            case In(("topic",), values):
                return self._of_topics(set(values))
            case EqualTo(("partition",), int(value)):
                return self._of_partitions({value})
            case In(("partition",), values):
                return self._of_partitions(set(values))
            case EqualTo(("offset",), int(value)):
                return self._of_offsets(value, value + 1)
            case GreaterThan(("offset",), int(value)):
                return self._of_offsets(value + 1, MAX_OFFSET + 1)
            case GreaterThanOrEqual(("offset",), int(value)):
                return self._of_offsets(value, MAX_OFFSET + 1)
            case LessThan(("offset",), int(value)):
                return self._of_offsets(0, value)
            case LessThanOrEqual(("offset",), int(value)):
                return self._of_offsets(0, value + 1)
            case GreaterThan(("timestamp",), datetime() as value):
                return self._of_times(_micros(value) // 1000 + 1, None)
            case GreaterThanOrEqual(("timestamp",), datetime() as value):
                return self._of_times(-(-_micros(value) // 1000), None)
            case LessThan(("timestamp",), datetime() as value):
                return self._of_times(None, -(-_micros(value) // 1000))
            case LessThanOrEqual(("timestamp",), datetime() as value):
                return self._of_times(None, _micros(value) // 1000 + 1)
        return None

    def may_hold(self, name: TopicPartition) -> bool:
        """Whether a log may have a wanted row."""
        is_topic = self.topics is None or name.topic in self.topics
        return is_topic and (self.partitions is None or name.partition in self.partitions)

    def within(self, reads: LogRange) -> LogRange:
        """Return the part of a range that may have wanted rows."""
        end = min(reads.end, self.end)
        return replace(reads, start=max(reads.start, self.start), end=end, is_open=reads.is_open and end == reads.end)

    def _of_topics(self, topics: set[str]) -> PushedFilters:
        return replace(self, topics=frozenset(topics if self.topics is None else self.topics & topics))

    def _of_partitions(self, numbers: set[int]) -> PushedFilters:
        return replace(self, partitions=frozenset(numbers if self.partitions is None else self.partitions & numbers))

    def _of_offsets(self, start: int, end: int) -> PushedFilters:
        return replace(self, start=max(self.start, start), end=min(self.end, end))

    def _of_times(self, since: int | None, until: int | None) -> PushedFilters:
        # A row without a time that the calendar has is null in `timestamp`, and meets no filter.
        low, high = self.since, self.until
        since = max(*(MIN_TIMESTAMP_MS if each is None else each for each in (low, since)))
        until = min(*(MAX_TIMESTAMP_MS + 1 if each is None else each for each in (high, until)))
        return replace(self, since=since, until=until)


def _micros(value: datetime) -> int:
    aware = value if value.tzinfo is not None else value.astimezone()
    return (aware - _EPOCH) // timedelta(microseconds=1)
