"""The recovery of one segment: how far its bytes are valid, and its indexes.

Batch after batch, in the order of the file:

    size and checksum are right                        else the segment ends here, whatever follows
    last offset below 2^63-1                           else nothing can follow it, and no broker starts with it
    last offset within base .. base + 2^31-1           else the segment has to be split
    the greatest timestamp until now, first batch wins
    more than `index.interval.bytes` since an entry:   an entry of the offset index (an offset that does not increase is
                                                       an error, and so is a full index), one of the time index
    only v2: a leader epoch above the latest is a new epoch; producers are replayed; an ABORT marker that ends a
    transaction is an entry of the transaction index

and at the end one more entry of the time index. Nothing else is checked: not the magic, not the base offset, not the
leader epoch, no record except a transaction marker's. A flipped bit can change those bytes unnoticed, and `is_odd`
shows that some of them are wrong. Wrappers of v0 and v1 count with their outer offset, and are not opened. A control
record that cannot be read ends the segment AFTER its batch.

This is the specification; `logcore.columns.recovery` gives the same at the speed of the disk. Source: Kafka
LogSegment.recover, OffsetIndex.append, TimeIndex.maybeAppend, ProducerAppendInfo.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from logcore.errors import CorruptRecordError, InvalidRecordError, LogError
from logcore.logs.model.producers.producer_state import DataBatch, EndMarker, ProducerReplay, read_end_marker
from logcore.records.model import MAGIC_V2, BatchHeader
from logcore.records.varint import Buffer
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scanning.file_batches import ensure_valid, file_batches
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET
from logcore.segments.side_files import leader_epochs, offset_index, time_index, transaction_index
from logcore.segments.side_files.leader_epochs import Epochs
from logcore.segments.side_files.transaction_index import AbortedTransaction

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_NO_TIMESTAMP = time_index.NO_TIMESTAMP


class WouldNotStart(LogError):
    """A broker that finds this does not start, or takes the whole log directory offline."""


class OffsetsDoNotRise(InvalidRecordError):
    """An index entry is not above the one before. The broker empties such a segment: it is cut at `cut_at`.

    `epochs` has the leader epochs up to there.
    """

    def __init__(self, message: str, cut_at: int, epochs: Epochs) -> None:
        super().__init__(message)
        self.cut_at, self.epochs = cut_at, epochs


class OffsetsOverflow(InvalidRecordError):
    """A batch is further above the segment's base than an index allows. The broker splits such a segment."""

    def __init__(self, message: str, epochs: Epochs) -> None:
        super().__init__(message)
        self.epochs = epochs


@dataclass(frozen=True, slots=True)
class IndexRules:
    """`index.interval.bytes` and `segment.index.bytes` of a topic."""

    interval_bytes: int = offset_index.DEFAULT_INTERVAL_BYTES
    size_bytes: int = 10 << 20


DEFAULT_RULES = IndexRules()


@dataclass(frozen=True, slots=True)
class RecoveredSegment:
    """The result of a segment's recovery.

    Attributes:
        valid_bytes: Bytes of the log; what follows is cut.
        stopped_by: Why, if a wrong batch ended it; None at a complete end or a partial batch.
        offset_index: The new offset index.
        time_index: The new time index.
        aborted: The entries of the new transaction index.
        max_timestamp: The greatest of a batch; None without one.
        next_offset: The offset after the last batch; the base offset without one.
        replayed_to: The offset after the last v2 batch; None without one.
        epochs: The leader epochs of the log up to here.
        is_odd: An offset or magic byte that a recovery accepts is wrong.
    """

    valid_bytes: int
    stopped_by: str | None
    offset_index: bytes = field(repr=False)
    time_index: bytes = field(repr=False)
    aborted: tuple[AbortedTransaction, ...]
    max_timestamp: int | None
    next_offset: int
    replayed_to: int | None
    epochs: Epochs
    is_odd: bool

    @property
    def transaction_index(self) -> bytes | None:
        """Bytes of the transaction index; None if nothing was aborted: then a broker writes no such file."""
        return transaction_index.encode(self.aborted) if self.aborted else None


class Recover(Protocol):
    """The type of `recover_segment`, plain and compiled."""

    def __call__(
        self,
        content: Buffer,
        base_offset: int,
        rules: IndexRules = ...,
        *,
        epochs: Epochs = ...,
        producers: ProducerReplay | None = ...,
    ) -> RecoveredSegment:
        """See `recover_segment`."""


def watched_recovery(recover: Recover, watch: Callable[[Buffer, int, RecoveredSegment], None]) -> Recover:
    """Return the same recovery. `watch` receives the content, the base offset and the result of each segment."""

    def watched(
        content: Buffer,
        base_offset: int,
        rules: IndexRules = DEFAULT_RULES,
        *,
        epochs: Epochs = (),
        producers: ProducerReplay | None = None,
    ) -> RecoveredSegment:
        result = recover(content, base_offset, rules, epochs=epochs, producers=producers)
        watch(content, base_offset, result)
        return result

    return watched


def recover_segment(
    content: Buffer,
    base_offset: int,
    rules: IndexRules = DEFAULT_RULES,
    *,
    epochs: Epochs = (),
    producers: ProducerReplay | None = None,
) -> RecoveredSegment:
    """Recover a segment.

    Args:
        content: The segment's bytes.
        base_offset: The segment's base offset.
        rules: The configuration of indexes.
        epochs: The leader epochs of the log before it.
        producers: The state at the segment's base, which is moved to its end; by default empty.

    Raises:
        OffsetsDoNotRise: The segment must be emptied.
        OffsetsOverflow: The segment must be split.
        WouldNotStart: A broker would not start.
    """
    recovery = SegmentRecovery(content, base_offset, rules, epochs, producers)
    recovery.take_rest()
    return recovery.finish()


class SegmentRecovery:
    """A recovery in progress: take the batches in the order of the file, then finish it."""

    def __init__(
        self, content: Buffer, base_offset: int, rules: IndexRules, epochs: Epochs, producers: ProducerReplay | None
    ) -> None:
        self._content, self._base_offset, self._rules = content, base_offset, rules
        self.epochs = epochs
        self.producers = ProducerReplay(is_strict=True) if producers is None else producers
        self.aborted: list[AbortedTransaction] = []
        self.valid = 0
        """Bytes read."""
        self.last_entry_at = 0
        self.offset_entries, self.time_entries = bytearray(), bytearray()
        self.last_indexed = -1
        """Offset of the last entry of the offset index."""
        self.last_timed = (_NO_TIMESTAMP, base_offset)
        """Last entry of the time index."""
        self.greatest = (_NO_TIMESTAMP, -1)
        """The greatest timestamp, and the last offset of the first batch that reached it."""
        self.next_offset = base_offset
        self.replayed_to: int | None = None
        self.is_odd = False
        self.stopped_by: str | None = None

    def take_rest(self, count: int | None = None) -> bool:
        """Read batches from `valid` on, at most `count`. Returns whether there may be more."""
        try:
            for position, header in file_batches(self._content, self.valid):
                if count == 0:
                    return True
                self._take(position, header)
                count = None if count is None else count - 1
        except CorruptRecordError as error:
            self.stopped_by = error.message
        return False

    def _take(self, position: int, header: BatchHeader) -> None:
        ensure_valid(self._content, position, header)
        last_offset = header.last_offset
        if last_offset >= MAX_OFFSET:
            message = f"the batch reaches offset {last_offset}, and none may follow the greatest offset {MAX_OFFSET}"
            raise WouldNotStart(message, position=position, offset=header.base_offset)
        if not 0 <= last_offset - self._base_offset <= MAX_RELATIVE_OFFSET:
            message = f"the batch at position {position} ends at offset {last_offset}, too far for an index"
            raise OffsetsOverflow(message, self.epochs)
        if header.max_timestamp > self.greatest[0]:
            self.greatest = header.max_timestamp, last_offset
        if position - self.last_entry_at > self._rules.interval_bytes:
            self._index(last_offset, position)
            self.last_entry_at = position
        is_known = 0 <= header.magic <= MAGIC_V2 and header.last_offset_delta >= 0
        self.is_odd |= not is_known or header.base_offset < self.next_offset
        self.next_offset = last_offset + 1
        self.valid = position + header.size
        if header.magic >= MAGIC_V2:
            self.take_epoch(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self._replay(position, header)
            self.replayed_to = last_offset + 1

    def _index(self, last_offset: int, position: int) -> None:
        if len(self.offset_entries) >= self._rules.size_bytes // offset_index.ENTRY_SIZE * offset_index.ENTRY_SIZE:
            self.refuse_full("offset")
        if self.offset_entries and last_offset <= self.last_indexed:
            raise self._not_rising(f"offset {last_offset} at position {position} is not above {self.last_indexed}")
        self.offset_entries += _OFFSET_ENTRY.pack(last_offset - self._base_offset, position)
        self.last_indexed = last_offset
        if len(self.time_entries) // time_index.ENTRY_SIZE >= self._rules.size_bytes // time_index.ENTRY_SIZE - 1:
            self.refuse_full("time")
        self._time()

    def _time(self) -> None:
        timestamp, offset = self.greatest
        if self.time_entries and offset < self.last_timed[1]:
            raise self._not_rising(f"the greatest timestamp lies at offset {offset}, below {self.last_timed[1]}")
        if timestamp > self.last_timed[0]:
            self.time_entries += _TIME_ENTRY.pack(timestamp, offset - self._base_offset)
            self.last_timed = timestamp, offset

    def refuse_full(self, index: str) -> None:
        """Refuse another entry of a full index.

        Raises:
            WouldNotStart: Always.
        """
        message = f"its {index} index would be full before the whole segment is indexed"
        raise WouldNotStart(
            message, advice="segment.index.bytes or index.interval.bytes differ from those of its broker."
        )

    def take_epoch(self, epoch: int, start_offset: int) -> None:
        """Add the leader epoch of a v2 batch.

        Raises:
            WouldNotStart: A new epoch begins at a negative offset.
        """
        if epoch >= 0 and (not self.epochs or epoch > self.epochs[-1].epoch):
            if start_offset < 0:
                raise WouldNotStart(f"leader epoch {epoch} begins at the negative offset {start_offset}")
            self.epochs = leader_epochs.assign(self.epochs, epoch, start_offset)

    def _replay(self, position: int, header: BatchHeader) -> None:
        try:
            if not header.is_control:
                self.producers.take_data(header)
                return
            marker = read_end_marker(self._content, position, header)
        except InvalidRecordError as error:
            raise WouldNotStart(error.message, position=position, offset=header.base_offset) from error
        if marker is not None:
            self.take_marker(header, marker)

    def take_marker(self, header: DataBatch, marker: EndMarker) -> None:
        """Add a transaction marker.

        Raises:
            WouldNotStart: Markers of aborted transactions are not in order.
        """
        completed = self.producers.take_marker(header, marker)
        if completed is None or not completed.is_aborted:
            return
        aborted = self.producers.aborted(completed)
        if self.aborted and aborted.last_offset <= self.aborted[-1].last_offset:
            message = f"an ABORT marker at offset {aborted.last_offset} follows one at {self.aborted[-1].last_offset}"
            raise WouldNotStart(message, offset=aborted.last_offset, advice="--salvage leaves the second one out.")
        self.aborted.append(aborted)

    def _not_rising(self, message: str) -> OffsetsDoNotRise:
        # Cut where the index until now finds the first batch that reaches the base offset: nearly always at 0.
        first = _OFFSET_ENTRY.unpack_from(self.offset_entries)[1] if self.offset_entries else 0
        relative = _OFFSET_ENTRY.unpack_from(self.offset_entries)[0] if self.offset_entries else 1
        return OffsetsDoNotRise(message, first if relative == 0 else 0, self.epochs)

    def finish(self) -> RecoveredSegment:
        """Finish after all batches.

        Raises:
            OffsetsDoNotRise: The last entry of the time index is not above the one before.
        """
        self._time()
        timestamp = self.greatest[0]
        return RecoveredSegment(
            self.valid,
            self.stopped_by,
            bytes(self.offset_entries),
            bytes(self.time_entries),
            tuple(self.aborted),
            None if timestamp == _NO_TIMESTAMP else timestamp,
            self.next_offset,
            self.replayed_to,
            self.epochs,
            self.is_odd,
        )
