"""Writing a log as a broker does: from append calls to the files of a partition directory.

    append       first a new segment, if the active one is full: by size, by time, by its indexes
    roll         the new base is the offset of the append's first batch, or the log end if that is higher; the old
                 segment's indexes are closed, a producer snapshot is written for the new base, and everything below it
                 is flushed
    flush        every flush.messages messages, and after flush.ms: the recovery point follows
    close        the active segment's indexes are closed, a snapshot is written for the log end, all is flushed
    kill         none of this: the active segment's indexes have their whole size, with zeros after the entries, and the
                 root files have the values of the last checkpoint

Batches are appended unchanged, as by a follower: they have offsets, timestamps and leader epochs already. The callers
of `logcore.records.builder` do what a leader does before that. A batch of format v0 or v1 clears the history of leader
epochs. The clock is an argument of every step.

An mtime is the clock of the last step that changed the file.

Source: Kafka UnifiedLog, LocalLog.roll, ProducerStateManager, LogManager. Belongs here: a log from its beginning, in
memory. Not here: reading an existing log, recovery, retention, compaction.

The active segment while it is written: its bytes, its indexes as they grow, and when it is full.

    per batch     if its max timestamp is greater than all before: stored with the batch's last offset
                  more than index.interval.bytes since the last entry: an entry of the offset index, and one of the time
                  index if the greatest timestamp has increased
    closing       the greatest timestamp once more, then both indexes are cut to their entries

The count of bytes since the last entry restarts when a segment is opened and when it is truncated. So a live segment's
indexes depend on the history of its broker. An index has room for `segment.index.bytes` in whole entries. Until it is
closed its file has that size, with zeros after the entries. The time index keeps one entry free for closing.

Source: Kafka LogSegment.append, shouldRoll, truncateTo, onBecomeInactiveSegment; AbstractIndex.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import PartitionDirectory, PartitionFile
from logcore.logs.model.producers.producer_state import Completed, ProducerReplay, without_expired
from logcore.logs.model.producers.producers_at import take
from logcore.logs.model.topic_config import TopicConfig
from logcore.records.batch import BatchHeader
from logcore.records.model import MAGIC_V2
from logcore.records.varint import Buffer
from logcore.segments.filenames import (
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA_FILE,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    TopicPartition,
    segment_file_name,
)
from logcore.segments.scanning.file_batches import ensure_valid, file_batches
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET
from logcore.segments.side_files import (
    checkpoints,
    leader_epochs,
    offset_index,
    producer_state,
    time_index,
    transaction_index,
)
from logcore.segments.side_files.leader_epochs import Epochs
from logcore.segments.side_files.offset_index import OffsetEntry
from logcore.segments.side_files.time_index import NO_TIMESTAMP, TimeEntry
from logcore.segments.side_files.transaction_index import AbortedTransaction

PlacedBatch = tuple[int, BatchHeader]
"""Position in the bytes of the append call, and header."""


class RollReason(StrEnum):
    """Why a new segment was begun, in the order of the checks."""

    SIZE = "segment.bytes"
    TIME = "segment.ms"
    OFFSET_INDEX = "the offset index is full"
    TIME_INDEX = "the time index is full"
    OFFSET_SPAN = "an offset too far above the base"


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """The part of a topic's configuration that decides on segments and index entries. Sizes in bytes, time in ms."""

    segment_bytes: int
    segment_ms: int
    index_bytes: int
    index_interval_bytes: int

    @classmethod
    def of(cls, config: TopicConfig) -> SegmentLimits:
        """The limits of a configuration. A compacted topic rolls in time for max.compaction.lag.ms."""
        rolls_after = min(config.max_compaction_lag_ms, config.segment_ms) if config.compacts else config.segment_ms
        return cls(config.segment_bytes, rolls_after, config.segment_index_bytes, config.index_interval_bytes)


class OpenSegment:
    """A segment that is being written. `jitter_ms` is how much earlier than segment.ms it is full."""

    def __init__(self, base_offset: int, limits: SegmentLimits, created_ms: int, jitter_ms: int = 0) -> None:
        self.base_offset = base_offset
        self.content = bytearray()
        self.offset_entries: list[OffsetEntry] = []
        self.time_entries: list[TimeEntry] = []
        self.aborted: list[AbortedTransaction] = []
        self.was_asked = False
        """Whether its indexes were used. A broker creates their files only then."""
        self._limits = limits
        self._created_ms = created_ms
        self._jitter_ms = jitter_ms
        self._since_entry = 0
        self._greatest = TimeEntry(NO_TIMESTAMP, base_offset)

    @property
    def offset_index_room(self) -> int:
        """Entries that fit the offset index."""
        return self._limits.index_bytes // offset_index.ENTRY_SIZE

    @property
    def time_index_room(self) -> int:
        """Entries that fit the time index, the closing one included."""
        return self._limits.index_bytes // time_index.ENTRY_SIZE

    def full_for(self, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> RollReason | None:
        """Why an append of this size, greatest timestamp and last offset needs a new segment; None if it fits."""
        if len(self.content) > self._limits.segment_bytes - size:
            return RollReason.SIZE
        if self.content and self._waited(max_timestamp, now_ms) > self._limits.segment_ms - self._jitter_ms:
            return RollReason.TIME
        self.was_asked = True
        if len(self.offset_entries) >= self.offset_index_room:
            return RollReason.OFFSET_INDEX
        if len(self.time_entries) >= self.time_index_room - 1:
            return RollReason.TIME_INDEX
        if not 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
            return RollReason.OFFSET_SPAN
        return None

    def _waited(self, max_timestamp: int, now_ms: int) -> int:
        """By the records' own clock; if the first batch has no timestamp, by the broker's."""
        _, first = next(file_batches(self.content))
        return max_timestamp - first.max_timestamp if first.max_timestamp >= 0 else now_ms - self._created_ms

    def append(self, data: Buffer, batches: Sequence[PlacedBatch]) -> None:
        """Append the batches of one call.

        Raises:
            ValueError: An offset is too far from the base, or an index is full.
        """
        last_offset = batches[-1][1].last_offset
        if not 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
            raise ValueError(f"a segment based at {self.base_offset} cannot contain offset {last_offset}")
        at = len(self.content)
        self.content += data
        for position, header in batches:
            if header.max_timestamp > self._greatest.timestamp:  # the first batch wins ties
                self._greatest = TimeEntry(header.max_timestamp, header.last_offset)
            if self._since_entry > self._limits.index_interval_bytes:
                self._index(OffsetEntry(header.last_offset, at + position))
                self._since_entry = 0
            self._since_entry += header.size

    def _index(self, entry: OffsetEntry) -> None:
        self.was_asked = True
        if len(self.offset_entries) >= self.offset_index_room or len(self.time_entries) >= self.time_index_room - 1:
            raise ValueError(f"an index of the segment based at {self.base_offset} is full within one append call")
        self.offset_entries.append(entry)
        self._note_greatest()

    def _note_greatest(self) -> None:
        last = self.time_entries[-1].timestamp if self.time_entries else NO_TIMESTAMP
        if self._greatest.timestamp > last:
            self.time_entries.append(self._greatest)

    def close(self) -> None:
        """Write the closing entry of the time index, for a segment that is rolled or closed."""
        self._note_greatest()

    def reopen(self, created_ms: int, jitter_ms: int) -> None:
        """Do what a start does: the greatest timestamp becomes that of the last entry of the time index."""
        self._greatest = self.time_entries[-1] if self.time_entries else TimeEntry(NO_TIMESTAMP, self.base_offset)
        self._since_entry = 0
        self.was_asked = True
        self._created_ms, self._jitter_ms = created_ms, jitter_ms

    def truncate(self, offset: int, now_ms: int) -> None:
        """Cut before the batch that reaches an offset. Index entries at or above it are removed."""
        for position, header in file_batches(self.content):
            if header.last_offset >= offset:
                del self.content[position:]
                break
        self.offset_entries = [entry for entry in self.offset_entries if entry.offset < offset]
        self.time_entries = [entry for entry in self.time_entries if entry.offset < offset]
        self.aborted = list(transaction_index.truncate(self.aborted, offset))
        self._since_entry = 0
        if not self.content:
            self._created_ms = now_ms
        if self._greatest.timestamp >= 0:
            self._greatest = self._greatest_left()

    def _greatest_left(self) -> TimeEntry:
        """The last entry of the time index, or a later time in a batch after it."""
        greatest = self.time_entries[-1] if self.time_entries else TimeEntry(NO_TIMESTAMP, self.base_offset)
        start = offset_index.lookup(self.offset_entries, greatest.offset, self.base_offset).position
        for _, header in file_batches(self.content, start):
            if header.max_timestamp > greatest.timestamp:
                greatest = TimeEntry(header.max_timestamp, header.last_offset)
        return greatest

    def index_files(self, *, preallocated: bool) -> tuple[bytes, bytes]:
        """Bytes of the offset index and of the time index, on request with the zeros after them."""
        offsets = offset_index.encode(self.offset_entries, self.base_offset)
        times = time_index.encode(self.time_entries, self.base_offset)
        if not preallocated:
            return offsets, times
        return (
            offsets.ljust(self.offset_index_room * offset_index.ENTRY_SIZE, b"\0"),
            times.ljust(self.time_index_room * time_index.ENTRY_SIZE, b"\0"),
        )


@dataclass(frozen=True, slots=True)
class Roll:
    """A segment that was begun because of an append, and why."""

    base_offset: int
    reason: RollReason


class LogWriter:
    """Writes a log from its beginning, in memory, as a broker of one line writes it.

    `close` or `kill` gives the files of the partition directory. `logcore.write_partition` writes them to disk.

    Args:
        topic_partition: Whose log it is.
        config: Where segments roll, how far index entries are apart, and when is flushed.
        line: Brokers of which line write the same files.
        as_of_ms: The clock: epoch milliseconds of the beginning. Each step has its own.
        start_offset: Where the log begins.
        topic_id: The topic id, for a file `partition.metadata`; None: no such file.
        jitter: Called once for each segment. The segment rolls so many milliseconds before segment.ms, which Kafka
            draws below segment.jitter.ms.

    Attributes:
        rolls: Segments that were begun because of an append, and why.
        log_start_offset: The first offset that a consumer may read.
        log_end_offset: The offset that the next record gets.
        recovery_point: The first offset that is not flushed.

    Example:
        >>> writer = LogWriter(TopicPartition("orders", 0), TopicConfig(), BrokerLine.V4_4, as_of_ms=now)
        >>> writer.append(build_batch(records, leader_epoch=0), as_of_ms=now)
        >>> logcore.write_partition(writer.close(as_of_ms=now), "logs")
        'logs/orders-0'
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        config: TopicConfig,
        line: BrokerLine,
        *,
        as_of_ms: int,
        start_offset: int = 0,
        topic_id: str | None = None,
        jitter: Callable[[], int] = int,
    ) -> None:
        self._name = topic_partition
        self._config = config
        self._line = line
        self._limits = SegmentLimits.of(config)
        self._jitter = jitter
        self._segments = [OpenSegment(start_offset, self._limits, as_of_ms, jitter())]
        self._segments[0].was_asked = True  # a start allocates the indexes of the last segment
        self._changed: dict[str, int] = {}
        self._epochs: Epochs = ()
        self._epoch_file = b""
        self._topic_id = topic_id
        self._producers = ProducerReplay()
        self._open: set[int] = set()
        """Producers that have a transaction open."""
        self._ongoing: dict[int, int] = {}
        """Producer id by first offset of each transaction that is open."""
        self._snapshots: dict[int, bytes] = {}
        self._last_snapshot = start_offset
        self._flushed_ms = as_of_ms
        self._checkpointed: tuple[int, int, int | None] | None = None
        self.rolls: list[Roll] = []
        self.log_start_offset = start_offset
        self.log_end_offset = start_offset
        self.recovery_point = start_offset
        self._touch(as_of_ms, segment_file_name(start_offset), LEADER_EPOCH_FILE, PARTITION_METADATA_FILE)

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """The base offsets of the segments."""
        return tuple(segment.base_offset for segment in self._segments)

    def become_leader(self, epoch: int, as_of_ms: int) -> None:
        """Let a leader of this epoch begin to write at the log end.

        Raises:
            ValueError: The epoch is negative.
        """
        self._set_epochs(leader_epochs.assign(self._epochs, epoch, self.log_end_offset), as_of_ms)

    def append(self, data: bytes | Sequence[bytes], as_of_ms: int) -> None:
        """Append whole batches in one call, as a follower does. A full segment rolls first.

        Args:
            data: The bytes of one or more batches, for instance from `build_batch`. Their offsets begin at
                `log_end_offset` or above it.
            as_of_ms: The clock, epoch milliseconds.

        Raises:
            CorruptRecordError: The size or the checksum of a batch is not right.
            ValueError: There is no batch, bytes follow the last one, offsets do not rise from the log end on, or there
                are more than segment.bytes.
        """
        data = data if isinstance(data, bytes) else b"".join(data)
        batches = self._checked(data)
        for _, header in batches:
            if header.magic < MAGIC_V2:
                self._clear_epochs(as_of_ms)
            elif header.partition_leader_epoch >= 0:
                assigned = leader_epochs.assign(self._epochs, header.partition_leader_epoch, header.base_offset)
                self._set_epochs(assigned, as_of_ms)
        self._roll_if_full(len(data), batches, as_of_ms)
        active = self._segments[-1]
        active.append(data, batches)
        self._touch(as_of_ms, segment_file_name(active.base_offset))
        for entry in self._update_producers(data, batches):
            active.aborted.append(entry)
            self._touch(as_of_ms, segment_file_name(active.base_offset, TRANSACTION_INDEX_SUFFIX))
        self.log_end_offset = batches[-1][1].last_offset + 1
        if self.log_end_offset - self.recovery_point >= self._config.flush_messages:
            self.flush(as_of_ms)

    def _checked(self, data: bytes) -> list[PlacedBatch]:
        batches = list(file_batches(data))
        if not batches or batches[-1][0] + batches[-1][1].size != len(data):
            raise ValueError("an append call must contain one or more whole batches, and nothing else")
        expected = self.log_end_offset
        for position, header in batches:
            ensure_valid(data, position, header)
            if header.base_offset < expected or header.last_offset < header.base_offset:
                raise ValueError(f"a batch at offset {header.base_offset}, below the expected {expected}")
            expected = header.last_offset + 1
        if len(data) > self._limits.segment_bytes:
            raise ValueError(f"{len(data)} bytes in one append call, segment.bytes is {self._limits.segment_bytes}")
        return batches

    def _roll_if_full(self, size: int, batches: Sequence[PlacedBatch], as_of_ms: int) -> None:
        last_offset = batches[-1][1].last_offset
        greatest = max(header.max_timestamp for _, header in batches)
        reason = self._segments[-1].full_for(size, greatest, last_offset, as_of_ms)
        if reason is None:
            return
        first = batches[0][1]
        # The first offset of an older format would have to be unpacked. The lowest possible one is used instead.
        wanted = first.base_offset if first.magic >= MAGIC_V2 else last_offset - MAX_RELATIVE_OFFSET
        self.rolls.append(Roll(self.roll(as_of_ms, wanted), reason))

    def roll(self, as_of_ms: int, expected_next_offset: int = 0) -> int:
        """Begin a new segment at the log end, or at `expected_next_offset` if that is higher.

        An empty active segment of that base is replaced.

        Args:
            as_of_ms: The clock, epoch milliseconds.
            expected_next_offset: The offset of the next batch.

        Returns:
            The base offset of the segment.
        """
        base_offset = max(expected_next_offset, self.log_end_offset)
        active = self._segments[-1]
        if active.base_offset == base_offset:
            self._segments.pop()
        else:
            active.close()
            self._touch_indexes(active, as_of_ms)
        self._segments.append(OpenSegment(base_offset, self._limits, as_of_ms, self._jitter()))
        self._touch(as_of_ms, segment_file_name(base_offset))
        self._take_snapshot(base_offset, as_of_ms)
        self._flush_up_to(base_offset, as_of_ms)
        return base_offset

    def _update_producers(self, data: bytes, batches: Sequence[PlacedBatch]) -> list[AbortedTransaction]:
        """Process the producers of a call's batches, and return the transaction index entries for its markers.

        A broker registers all transactions that a call begins before it completes the first one that the call ends.
        """
        completed: list[Completed] = []
        for position, header in batches:
            done = take(self._producers, data, position, header)
            if done is not None:
                completed.append(done)
                self._open.discard(done.producer_id)
            elif header.is_transactional and not header.is_control and 0 <= header.producer_id not in self._open:
                self._open.add(header.producer_id)
                self._ongoing[header.base_offset] = header.producer_id
        entries = []
        for each in completed:
            others = (first for first, producer in self._ongoing.items() if producer != each.producer_id)
            stable = min(others, default=each.marker_offset + 1)
            self._ongoing.pop(each.first_offset, None)
            if each.is_aborted:
                entries.append(AbortedTransaction(each.producer_id, each.first_offset, each.marker_offset, stable))
        return entries

    def flush(self, as_of_ms: int) -> None:
        """Move the recovery point to the log end, as if everything was on disk.

        Args:
            as_of_ms: The clock, epoch milliseconds.
        """
        self._flush_up_to(self.log_end_offset, as_of_ms)

    def flush_if_due(self, as_of_ms: int) -> bool:
        """Flush if flush.ms has passed, as the scheduler does. Returns whether it did."""
        if as_of_ms - self._flushed_ms < self._config.flush_ms:
            return False
        self.flush(as_of_ms)
        return True

    def _flush_up_to(self, offset: int, as_of_ms: int) -> None:
        if offset > self.recovery_point:
            self.recovery_point = offset
            self._flushed_ms = as_of_ms

    def checkpoint(self) -> None:
        """Write the root files. Their values are what is left if the broker is killed."""
        self._checkpointed = (self.recovery_point, self.log_end_offset, self._stated_log_start())

    def expire_producers(self, as_of_ms: int) -> None:
        """Forget producers that were silent for producer.id.expiration.ms."""
        known = self._producers.entries().values()
        self._producers = ProducerReplay(
            without_expired(known, as_of_ms, self._config.producer_id_expiration_ms).values()
        )

    def delete_records(self, before: int, as_of_ms: int) -> None:
        """Move the log start to an offset. An offset below the log start changes nothing.

        Raises:
            ValueError: The offset is above the log end.
        """
        if before > self.log_end_offset:
            raise ValueError(f"records before {before} cannot be deleted: the log ends at {self.log_end_offset}")
        if before > self.log_start_offset:
            self.log_start_offset = before
            self.recovery_point = max(self.recovery_point, before)
            self._set_epochs(leader_epochs.truncate_from_start(self._epochs, before), as_of_ms)

    def truncate(self, offset: int, as_of_ms: int) -> None:
        """Cut the log back, as a follower of a new leader does.

        The whole batch that contains the offset is removed, but the log end becomes the offset.

        Raises:
            ValueError: The offset is negative.
        """
        if offset < 0:
            raise ValueError(f"a log cannot be cut back to offset {offset}")
        self._set_epochs(leader_epochs.truncate_from_end(self._epochs, offset), as_of_ms)
        if offset >= self.log_end_offset:
            return
        if offset < self._segments[0].base_offset:
            self._begin_anew(offset, as_of_ms)
            return
        while self._segments[-1].base_offset > offset:
            gone = self._segments.pop()
            self._snapshots.pop(gone.base_offset, None)
        active = self._segments[-1]
        active.truncate(offset, as_of_ms)
        self._touch(as_of_ms, segment_file_name(active.base_offset))
        self._touch_indexes(active, as_of_ms)
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self._reload_producers(as_of_ms)

    def _begin_anew(self, offset: int, as_of_ms: int) -> None:
        self._segments = [OpenSegment(offset, self._limits, as_of_ms, self._jitter())]
        self._touch(as_of_ms, segment_file_name(offset))
        self._clear_epochs(as_of_ms)
        self._snapshots.clear()
        self._producers, self._open, self._ongoing = ProducerReplay(), set(), {}
        self.log_start_offset = self.log_end_offset = self.recovery_point = self._last_snapshot = offset

    def close(self, as_of_ms: int) -> PartitionDirectory:
        """The partition directory that a clean stop leaves.

        Args:
            as_of_ms: The clock, epoch milliseconds.

        Returns:
            The files, and the lines of the checkpoint files. All offsets are below the high watermark.
        """
        active = self._segments[-1]
        active.close()
        self._touch_indexes(active, as_of_ms)
        self._take_snapshot(self.log_end_offset, as_of_ms)
        self.flush(as_of_ms)
        self.checkpoint()
        has_indexes = bool(active.content) or active.was_asked or self._line is BrokerLine.V4_4
        return self._directory(is_clean=True, active_indexes=has_indexes, preallocated=False)

    def kill(self) -> PartitionDirectory:
        """The partition directory after its broker was killed, while the machine went on.

        Returns:
            The files, and the lines of the checkpoint files as the last `checkpoint` stated them.
        """
        return self._directory(is_clean=False, active_indexes=self._segments[-1].was_asked, preallocated=True)

    def restart(self, as_of_ms: int) -> None:
        """Stop cleanly and start.

        A time index may gain an entry, the count of bytes since the last entry restarts, and snapshots that no start
        keeps are removed.
        """
        self.close(as_of_ms)
        self._segments[-1].reopen(as_of_ms, self._jitter())
        bases = set(self.base_offsets)
        strays = sorted(set(self._snapshots) - bases)
        if strays and strays[-1] > max(bases):
            strays.pop()
        for offset in strays:
            del self._snapshots[offset]
        self._reload_producers(as_of_ms)

    def _reload_producers(self, as_of_ms: int) -> None:
        """Load the latest snapshot between log start and log end, and the batches after it."""
        for offset in [at for at in self._snapshots if not self.log_start_offset < at <= self.log_end_offset]:
            del self._snapshots[offset]
        start = max(self._snapshots, default=self.log_start_offset)
        known = producer_state.parse(self._snapshots[start]) if self._snapshots else ()
        alive = without_expired(known, as_of_ms, self._config.producer_id_expiration_ms)
        self._producers = ProducerReplay(alive.values())
        open_ones = [entry for entry in alive.values() if entry.open_transaction is not None]
        self._open = {entry.producer_id for entry in open_ones}
        self._ongoing = {entry.current_txn_first_offset: entry.producer_id for entry in open_ones}
        self._last_snapshot = start
        for segment in self._segments:
            if segment.base_offset > start and segment.base_offset in self.base_offsets[-2:]:
                self._take_snapshot(segment.base_offset, as_of_ms)
            content = bytes(segment.content)
            self._update_producers(content, [each for each in file_batches(content) if each[1].base_offset >= start])
        self._take_snapshot(self.log_end_offset, as_of_ms)

    def _take_snapshot(self, offset: int, as_of_ms: int) -> None:
        if offset > self._last_snapshot:
            entries = tuple(self._producers.entries().values())
            self._snapshots[offset] = producer_state.encode(producer_state.java_order(entries))
            self._last_snapshot = offset
            self._touch(as_of_ms, segment_file_name(offset, PRODUCER_SNAPSHOT_SUFFIX))

    def _set_epochs(self, epochs: Epochs, as_of_ms: int) -> None:
        if epochs != self._epochs:
            self._epochs = epochs
            self._epoch_file = checkpoints.format_leader_epochs(epochs)
            self._touch(as_of_ms, LEADER_EPOCH_FILE)

    def _clear_epochs(self, as_of_ms: int) -> None:
        self._set_epochs((), as_of_ms)

    def _stated_log_start(self) -> int | None:
        return self.log_start_offset if self.log_start_offset > self._segments[0].base_offset else None

    def _touch(self, as_of_ms: int, *names: str) -> None:
        self._changed.update(dict.fromkeys(names, as_of_ms))

    def _touch_indexes(self, segment: OpenSegment, as_of_ms: int) -> None:
        names = (segment_file_name(segment.base_offset, suffix) for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        self._touch(as_of_ms, *names)

    def _directory(self, *, is_clean: bool, active_indexes: bool, preallocated: bool) -> PartitionDirectory:
        files: dict[str, bytes] = {LEADER_EPOCH_FILE: self._epoch_file}
        if self._topic_id is not None:
            files[PARTITION_METADATA_FILE] = checkpoints.format_partition_metadata(self._topic_id)
        for segment in self._segments:
            is_active = segment is self._segments[-1]
            files[segment_file_name(segment.base_offset, LOG_SUFFIX)] = bytes(segment.content)
            if not is_active or active_indexes:
                offsets, times = segment.index_files(preallocated=is_active and preallocated)
                files[segment_file_name(segment.base_offset, OFFSET_INDEX_SUFFIX)] = offsets
                files[segment_file_name(segment.base_offset, TIME_INDEX_SUFFIX)] = times
            if segment.aborted:
                name = segment_file_name(segment.base_offset, TRANSACTION_INDEX_SUFFIX)
                files[name] = transaction_index.encode(segment.aborted)
        for offset, content in self._snapshots.items():
            files[segment_file_name(offset, PRODUCER_SNAPSHOT_SUFFIX)] = content
        recovery_point, high_watermark, log_start = self._checkpointed or (None, None, None)
        return PartitionDirectory(
            self._name,
            {name: PartitionFile(name, content, self._last_change(name)) for name, content in sorted(files.items())},
            recovery_point,
            log_start,
            high_watermark,
            None,
            is_clean,
        )

    def _last_change(self, name: str) -> int:
        """The mtime of a file. An index that is still open has that of its segment."""
        return self._changed[name if name in self._changed else segment_file_name(int(name[:20]))]
