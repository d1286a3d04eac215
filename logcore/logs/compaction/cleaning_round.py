"""What one round of cleaning works on, and what comes of it: values that every way of cleaning shares.

    SourceSegment    a segment as it is before
    CleaningRound    what is the same for all segments of the round: bounds, clocks, producers, the broker line
    CleanedSegment   what a group of segments became; its log went into a sink meanwhile

A round: `selection` chooses the range, `CleaningRound` fixes it, the map of newest offsets is made over the dirty part,
`group_segments` puts neighbours together, and each group becomes one segment at the base offset of its first.

Source: Kafka Cleaner, LogToClean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from logcore.errors import LogError
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import BYTES, HeldElsewhere
from logcore.records.varint import Buffer
from logcore.segments.side_files.offset_index import DEFAULT_INTERVAL_BYTES
from logcore.segments.side_files.transaction_index import AbortedTransaction


class Uncleanable(LogError):
    """The round cannot be done by any rule that a broker has: it would mark the partition uncleanable."""


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """A segment to clean. next_base_offset: of the segment behind it, or the end of the round's range.

    offset_index_size, time_index_size: bytes of its indexes as trimmed, which decide about grouping.
    aborted: the aborted transactions that begin below `next_base_offset` and whose marker lies in this segment or
    behind it: what a broker finds in its transaction index and those of the segments that follow, of the whole log.
    dirty_position: where reading for the map begins, which is what its offset index says about the first dirty offset.
    held: the segment's bytes, or who reads them.
    unreadable: stretches of the file, [start, end) by position, that are damaged. Who cleans steps over them and
    trusts the rest, which was verified.
    """

    base_offset: int
    next_base_offset: int
    held: Buffer | HeldElsewhere = field(repr=False)
    modified_ms: int
    offset_index_size: int
    time_index_size: int
    aborted: tuple[AbortedTransaction, ...] = ()
    dirty_position: int = 0
    unreadable: tuple[tuple[int, int], ...] = ()

    @property
    def content(self) -> Buffer:
        """The segment's bytes; see `HeldElsewhere`."""
        return self.held if isinstance(self.held, BYTES) else self.held.content

    @property
    def size(self) -> int:
        """How many there are; nothing is read for it."""
        return len(self.held) if isinstance(self.held, BYTES) else self.held.size


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that a broker would still know at the round's clock. last_data_offset: None if only markers of it are
    known."""

    epoch: int
    last_data_offset: int | None


@dataclass(frozen=True, slots=True)
class CleaningRound:
    """What is decided before the first byte is cleaned. Offsets are absolute, times in milliseconds.

    upper_bound_offset: base of the first segment that is not cleaned (Kafka's firstUncleanableOffset as rounded down).
    legacy_horizon_ms: tombstones in v0 and v1 go with segments changed at or before it. max_keys: where Kafka's map
    would be full (slots times load factor); None: never. frozen_from: at and above it nothing is garbage but what a
    readable newer record replaces, because bytes below it cannot be read; None: all is readable. segment_index_bytes:
    room in the offset index, and in the time index, of a cleaned segment; None: any.
    """

    log_start_offset: int
    first_dirty_offset: int
    upper_bound_offset: int
    high_watermark: int
    as_of_ms: int
    delete_retention_ms: int
    legacy_horizon_ms: int
    line: BrokerLine
    producers: Mapping[int, ActiveProducer] = field(default_factory=dict)
    index_interval_bytes: int = DEFAULT_INTERVAL_BYTES
    max_keys: int | None = None
    frozen_from: int | None = None
    segment_index_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class CleanedSegment:
    """A group of segments after cleaning. Its log was written to the sink; these go beside it.

    digest: SHA-256 of the log, in hex. transaction_index: None if no transaction of it was aborted: then there is no
    such file. records, batches: of the output. removed: records of the input that are gone. rebuilt: batches of the
    output that are not the bytes they were. max_timestamp: greatest of a batch, None if none has one. last_offset: of
    the last batch, None without one.
    """

    base_offset: int
    size: int
    digest: str
    offset_index: bytes = field(repr=False)
    time_index: bytes = field(repr=False)
    transaction_index: bytes | None = field(repr=False)
    modified_ms: int
    batches: int
    records: int
    removed: int
    rebuilt: int
    max_timestamp: int | None
    last_offset: int | None
