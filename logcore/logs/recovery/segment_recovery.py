"""The recovery of one segment: how far its bytes are valid, and the indexes that go with them.

Batch after batch, in the order of the file:

    size and checksum are right                        else the segment ends here, whatever lies behind
    last offset below 2^63-1                           else nothing can follow it, and no broker starts with that
    last offset within base .. base + 2^31-1           else the segment has to be split
    the greatest timestamp so far, first batch wins
    more than `index.interval.bytes` since an entry:   an entry of the offset index (an offset that does not rise is an
                                                       error, as is an index that is full), one of the time index
    v2 only: a leader epoch above the latest is a new epoch; producers are replayed; an ABORT marker that ends a
    transaction is an entry of the transaction index

and at the end one more entry of the time index. Nothing else is looked at: not the magic, not the base offset, not the
leader epoch, no record but a transaction marker's. Those are bytes that a flipped bit can change unnoticed, and
`is_odd` says that some of them cannot be right. Wrappers of v0 and v1 are taken by their outer offset, their content is
not read. A control record that cannot be read ends the segment BEHIND its batch.

This is the specification; `logcore.columns.recovery` gives the same at the speed of the disk. Source: Kafka
LogSegment.recover, OffsetIndex.append, TimeIndex.maybeAppend, ProducerAppendInfo.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Protocol

from logcore.errors import CorruptRecordError, InvalidRecordError, LogError
from logcore.logs.model.producer_state import DataBatch, EndMarker, ProducerReplay, read_end_marker
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
    """A broker that finds this does not start (or takes the whole log directory offline)."""


class OffsetsDoNotRise(InvalidRecordError):
    """An index entry would not rise above the one before. The broker empties such a segment: it is cut at `cut_at`.
    epochs: the leader epochs as they were changed until then."""

    def __init__(self, message: str, cut_at: int, epochs: Epochs) -> None:
        super().__init__(message)
        self.cut_at, self.epochs = cut_at, epochs


class OffsetsOverflow(InvalidRecordError):
    """A batch lies further above the segment's base than an index can say. The broker splits such a segment."""

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
    """What a recovery makes of a segment.

    valid_bytes: of the log, what is behind is cut. stopped_by: why, if what ended it is a batch that is wrong; None at
    a whole end or a partial batch. next_offset: behind the last batch, the base offset without one. replayed_to: behind
    the last v2 batch, None without one. is_odd: an offset or magic that survives a recovery is not what it should be.
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
        """Bytes of the transaction index; None if nothing was aborted: then a broker makes no such file."""
        return transaction_index.encode(self.aborted) if self.aborted else None


class Recover(Protocol):
    """The form of `recover_segment`, which there is in plain and compiled."""

    def __call__(
        self,
        content: Buffer,
        base_offset: int,
        rules: IndexRules = ...,
        *,
        epochs: Epochs = ...,
        producers: ProducerReplay | None = ...,
    ) -> RecoveredSegment: ...


def recover_segment(
    content: Buffer,
    base_offset: int,
    rules: IndexRules = DEFAULT_RULES,
    *,
    epochs: Epochs = (),
    producers: ProducerReplay | None = None,
) -> RecoveredSegment:
    """Recover a segment. epochs: of the log so far. producers: their state at the segment's base, which is moved to its
    end (default: none is known).

    Raises OffsetsDoNotRise, OffsetsOverflow, WouldNotStart.
    """
    recovery = SegmentRecovery(content, base_offset, rules, epochs, producers)
    recovery.take_rest()
    return recovery.finish()


class SegmentRecovery:
    """A recovery under way: batches are taken in the order of the file, then it is finished."""

    def __init__(
        self, content: Buffer, base_offset: int, rules: IndexRules, epochs: Epochs, producers: ProducerReplay | None
    ) -> None:
        self._content, self._base_offset, self._rules = content, base_offset, rules
        self.epochs = epochs
        self.producers = ProducerReplay(is_strict=True) if producers is None else producers
        self.aborted: list[AbortedTransaction] = []
        self.valid = 0
        """Bytes taken."""
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
        """Take batches from `valid` on, at most so many; whether there may be more."""
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
            message = f"the batch at position {position} ends at offset {last_offset}, which an index cannot say"
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
        """The index has no room for another entry. Raises WouldNotStart."""
        message = f"its {index} index would be full before all of it is indexed"
        raise WouldNotStart(
            message, advice="segment.index.bytes or index.interval.bytes are not those it was written by."
        )

    def take_epoch(self, epoch: int, start_offset: int) -> None:
        """Account for the leader epoch of a v2 batch. Raises WouldNotStart."""
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
        """Account for a transaction marker. Raises WouldNotStart."""
        completed = self.producers.take_marker(header, marker)
        if completed is None or not completed.is_aborted:
            return
        aborted = self.producers.aborted(completed)
        if self.aborted and aborted.last_offset <= self.aborted[-1].last_offset:
            message = f"an ABORT marker at offset {aborted.last_offset} follows one at {self.aborted[-1].last_offset}"
            raise WouldNotStart(message, offset=aborted.last_offset, advice="--salvage leaves the second one out.")
        self.aborted.append(aborted)

    def _not_rising(self, message: str) -> OffsetsDoNotRise:
        # Cut where the index made so far finds the first batch that reaches the base offset: nearly always at 0.
        first = _OFFSET_ENTRY.unpack_from(self.offset_entries)[1] if self.offset_entries else 0
        relative = _OFFSET_ENTRY.unpack_from(self.offset_entries)[0] if self.offset_entries else 1
        return OffsetsDoNotRise(message, first if relative == 0 else 0, self.epochs)

    def finish(self) -> RecoveredSegment:
        """All batches were taken. Raises OffsetsDoNotRise."""
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
