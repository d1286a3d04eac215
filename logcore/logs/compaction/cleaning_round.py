"""Input and output of one round of cleaning: values that every cleaner shares.

    SourceSegment    a segment before cleaning
    CleaningRound    what is the same for all segments of the round: bounds, clocks, producers, the broker line
    CleanedSegment   the result for a group of segments; its log was written into a sink

A round: `selection` chooses the range, and `CleaningRound` fixes it. The map of latest offsets is built from the dirty
part. `group_segments` joins neighbours, and each group becomes one segment at the base offset of its first.

Source: Kafka Cleaner, LogToClean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from logcore.errors import LogError
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import HeldBytes, LazyBytes
from logcore.records.varint import Buffer
from logcore.segments.side_files.offset_index import DEFAULT_INTERVAL_BYTES
from logcore.segments.side_files.transaction_index import AbortedTransaction


class Uncleanable(LogError):
    """No broker can do this round: it would mark the partition uncleanable."""


@dataclass(frozen=True, slots=True)
class SourceSegment(HeldBytes):
    """A segment to clean.

    Attributes:
        base_offset: Its base offset.
        next_base_offset: That of the segment after it, or the end of the round's range.
        held: The segment's bytes, or an object that reads them.
        modified_ms: The mtime of the file.
        offset_index_size: Bytes of its trimmed offset index; it decides on grouping.
        time_index_size: The same for its time index.
        aborted: The aborted transactions that begin below `next_base_offset` and whose marker is in this segment or
            after it. A broker finds them in its transaction index and those of all later segments.
        dirty_position: Where reading for the map begins: the position in its offset index for the first dirty offset.
        unreadable: Damaged stretches of the file, [start, end) by position. A cleaner skips them and trusts the rest,
            which was verified.
    """

    base_offset: int
    next_base_offset: int
    held: Buffer | LazyBytes = field(repr=False)
    modified_ms: int
    offset_index_size: int
    time_index_size: int
    aborted: tuple[AbortedTransaction, ...] = ()
    dirty_position: int = 0
    unreadable: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that a broker still knows at the round's clock.

    `last_data_offset` is None if only markers of it are known.
    """

    epoch: int
    last_data_offset: int | None


@dataclass(frozen=True, slots=True)
class CleaningRound:
    """What is decided before the first byte is cleaned. Offsets are absolute, times in milliseconds.

    Attributes:
        log_start_offset: The log start.
        first_dirty_offset: Where the last cleaning ended.
        upper_bound_offset: Base of the first segment that is not cleaned (Kafka's firstUncleanableOffset, rounded
            down).
        high_watermark: The log's high watermark after a broker's start. It may lie above the last offset that can be
            read.
        as_of_ms: The clock.
        delete_retention_ms: `delete.retention.ms`.
        legacy_horizon_ms: Tombstones in v0 and v1 are removed from segments changed at or before it.
        line: The broker line.
        producers: Those that a broker still knows.
        index_interval_bytes: `index.interval.bytes`.
        max_keys: The size at which Kafka's map would be full (slots times load factor); None: no limit.
        frozen_from: At and above this offset, a record is removed only if a readable newer one replaces it, because
            bytes below cannot be read; None: all is readable.
        segment_index_bytes: Room in the offset index, and in the time index, of a cleaned segment; None: no limit.
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
    """A group of segments after cleaning. Its log was written to the sink; these are the files beside it.

    Attributes:
        base_offset: Its base offset.
        size: Bytes of its log.
        digest: SHA-256 of the log, in hex.
        offset_index: The bytes of the index, as the next two.
        time_index: See there.
        transaction_index: None if it has no aborted transaction: then there is no such file.
        modified_ms: The mtime of the log.
        batches: How many the output has.
        records: How many the output has.
        removed: How many records of the input are gone.
        rebuilt: Batches of the output whose bytes changed.
        max_timestamp: Greatest of a batch; None if none has one.
        last_offset: That of the last batch; None without one.
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
