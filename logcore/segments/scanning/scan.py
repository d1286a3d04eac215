"""The walk over a segment's bytes: batch after batch, and what becomes of every byte that is in none.

A segment is record batches back to back, without header, trailer or alignment. Gaps between offsets are legal.

    good batch      header readable, crc right, offsets rise, every record parses and lies within the batch's offsets
    stretch         bytes that cannot be trusted, with the reason
    tail            the last stretch of a segment still being written: ordinary, a write that was under way. Only what
                    begins like a batch and hides none is one
    padding         zeros up to the end of the file: room a broker reserved

    valid + quarantined + unreadable + tail + padding = size of the file, always

After a bad batch the walk goes on where the batch's end is beyond doubt: its crc is right (so its length was), or the
crc is right for another length, or its declared size fits and a good batch, zeros up to the end, or the end of the file
stand there. What lies inside is never looked at: a record's value may hold a batch. Where its extent cannot be, the
walk goes on at the next batch that counts, by the one rule of `logcore.segments.scanning.resynchronization`.

The base offset lies outside the crc, so a flipped bit in it is seen only from the neighbours: a batch that claims
offsets its successor also claims is the wrong one if the successor leaves it room, else the successor is.

Judges one segment alone. Rows, findings and counts are made by `logcore.logs.checks.validation`. See Kafka
LogSegment.recover and FileLogInputStream, which instead ends silently at a size that runs past the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.batch import BatchHeader, check_header, crc_matches, read_header
from logcore.records.control import ControlType, control_type
from logcore.records.legacy import unfold
from logcore.records.record import DEFAULT_LIMITS, Limits, Oddities, Record, read_records
from logcore.records.varint import Buffer
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.resynchronization import Resynchronizer

MAX_RELATIVE_OFFSET = 2**31 - 1
"""Offsets of a segment lie at most this far above its base: index entries are 32 bits wide."""

Inspect = Callable[[BatchHeader, Record], None]
"""Called with a record and the header of the batch it is in, in the order of the file."""


class End(StrEnum):
    """How a scan ended. TORN: only a write under way is missing. CORRUPT: bytes were lost that should be there."""

    CLEAN = "clean"
    TORN = "torn"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True)
class ScannedBatch:
    """A batch that can be trusted, where it starts in the file, and for a control batch what it says. The header of a
    compressed v0 or v1 message is unfolded: it tells the offsets and the number of the records inside."""

    position: int
    header: BatchHeader
    control_type: ControlType | None

    @property
    def size(self) -> int:
        """Bytes of the batch, header included."""
        return self.header.size

    @property
    def end(self) -> int:
        """Position behind the batch."""
        return self.position + self.header.size


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes that cannot be trusted. offset: the next offset expected where they begin. tail: at the end of a segment
    still being written, hence ordinary. hides: why it is no ordinary tail, though it reaches the end of a segment still
    being written. is_repaired: it is a batch that is whole but for its length field, which should say `size` - 12.
    unreadable: bytes of it that the disk failed to read.
    """

    position: int
    size: int
    reason: CorruptionReason
    message: str
    offset: int
    tail: bool = False
    hides: str | None = None
    is_repaired: bool = False
    unreadable: int = 0

    @property
    def end(self) -> int:
        """Position behind the stretch."""
        return self.position + self.size


@dataclass(frozen=True, slots=True)
class Accounting:
    """Where the bytes of a file went: valid + quarantined + unreadable + tail + padding = file_size. Padding is always
    last. unreadable: what the disk failed to read."""

    file_size: int
    valid: int
    quarantined: int
    tail: int
    padding: int
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class _Bad:
    """Why a batch is refused, where it ends if that can be told, and whether its crc was right."""

    reason: CorruptionReason
    message: str
    end: int | None
    whole: bool
    hides: str | None = None
    is_repaired: bool = False


def scan(
    buf: Buffer,
    *,
    base_offset: int,
    sealed: bool,
    decode: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    next_base_offset: int | None = None,
    inspect: Inspect | None = None,
    start: int = 0,
    next_offset: int | None = None,
    fetched: FetchedBytes | None = None,
    resynchronizer: Resynchronizer | None = None,
) -> SegmentScan:
    """Walk over a segment, whole or from `start` on.

    base_offset: what the file's name says. sealed: a later segment follows, so nothing may be missing at the end.
    decode: also parse every record. next_base_offset: base of the segment that follows, if one does; no batch reaches
    it. inspect: called with every record that is decoded, before it is known whether the rest of its batch is good.

    start, next_offset: where an earlier walk stood, by its `position` and `next_offset`; this one judges what follows
    exactly as that one would have. So another walker may take over between two steps, and hand back in front of
    whatever it does not understand. It must take no batch whose successor begins below the offset behind it: such a
    pair is for this one to judge, from the first of the two. The accounting is of the bytes from `start` on.

    fetched: whoever brings the bytes of `buf` into memory; None if they are all there. Steps raise as it does.
    resynchronizer: that of an earlier walk over the same bytes with the same bounds, in the same thread. It spares
    finding again what that one found; nothing else differs.
    """
    return SegmentScan(
        buf,
        base_offset,
        sealed,
        decode,
        limits,
        next_base_offset,
        inspect,
        start,
        next_offset,
        fetched,
        resynchronizer,
    )


def last_good_end(buf: Buffer, base_offset: int) -> tuple[int, int, ScannedBatch | None]:
    """How far a segment still being written may be taken: (end of its last good batch, next offset, that batch).

    A bad stretch that good batches follow is taken along, for validation to judge. Headers and crcs only, and of
    compressed v0 and v1 messages the headers of those inside.
    """
    size = len(buf)
    while True:
        with memoryview(buf) as view, view[:size] as taken:
            walk = scan(taken, base_offset=base_offset, sealed=False, decode=False)
            stretches = [item for item in walk if isinstance(item, Stretch)]
        last = walk.last_batch
        end = 0 if last is None else last.end
        if end == size or not any(stretch.position < end for stretch in stretches):
            return end, walk.next_offset, last
        size = end  # where the bytes end decides what damage may hide


class SegmentScan:
    """Iterates once over a segment, in the order of positions; afterwards `end` and `accounting` tell the outcome."""

    def __init__(
        self,
        buf: Buffer,
        base_offset: int,
        sealed: bool,
        decode: bool,
        limits: Limits,
        next_base_offset: int | None,
        inspect: Inspect | None = None,
        start: int = 0,
        next_offset: int | None = None,
        fetched: FetchedBytes | None = None,
        resynchronizer: Resynchronizer | None = None,
    ) -> None:
        self._buf = buf
        self._fetched = fetched
        self._sealed = sealed
        self._decode = decode
        self._limits = limits
        self._inspect = inspect
        # Last offset a batch of this segment may hold.
        self._ceiling = min(base_offset + MAX_RELATIVE_OFFSET, MAX_OFFSET - 1)
        if next_base_offset is not None:
            self._ceiling = min(self._ceiling, next_base_offset - 1)
        self.resynchronizer = resynchronizer or Resynchronizer(buf, self._ceiling, sealed, limits, fetched)
        """Decides where the walk goes on after damage; another walk over the same bytes may use it too."""
        self._valid = self._quarantined = self._unreadable = self._tail = self._padding = 0
        self._finished = False
        self._start = start
        self._unfolded: tuple[int, BatchHeader] | None = None
        self._walk = self._steps()
        self.position = start
        """Where the next step begins."""
        self.next_offset = base_offset if next_offset is None else next_offset
        """Offset behind the last good batch; the segment's base offset before there is one."""
        self.last_batch: ScannedBatch | None = None
        """Last good batch so far."""
        self.oddities = Oddities()
        """Of the last batch whose records were read; only looked for if there is an `inspect`."""

    def __iter__(self) -> Iterator[ScannedBatch | Stretch]:
        return self._walk

    @property
    def end(self) -> End:
        """How the scan ended. ValueError before it did."""
        accounting = self.accounting
        if accounting.quarantined or accounting.unreadable or (self._sealed and accounting.padding):
            return End.CORRUPT
        return End.TORN if accounting.tail else End.CLEAN

    @property
    def accounting(self) -> Accounting:
        """Where every byte went. ValueError before the scan ended."""
        if not self._finished:
            raise ValueError("the scan has not been walked to its end")
        size = len(self._buf) - self._start
        return Accounting(size, self._valid, self._quarantined, self._tail, self._padding, self._unreadable)

    def _steps(self) -> Iterator[ScannedBatch | Stretch]:
        size = len(self._buf)
        while self.position < size:
            position = self.position
            if self.resynchronizer.is_zero_rest(position):
                self._padding = size - position
                self.position = size
                break
            judged = self._judge(position)
            if isinstance(judged, ScannedBatch):
                self._valid += judged.size
                self.next_offset = judged.header.next_offset
                self.last_batch = judged
                self.position = judged.end
                yield judged
                continue
            end = size if judged.end is None else judged.end
            # What is being written has no good crc yet; a batch with a good one that is bad otherwise is damage.
            is_last = not self._sealed and (end == size or self.resynchronizer.is_zero_rest(end))
            gone = () if self._fetched is None else self._fetched.unreadable(position, end)
            unreadable = sum(high - low for low, high in gone)
            tail = is_last and not judged.whole and judged.hides is None and not unreadable
            stretch = Stretch(
                position,
                end - position,
                judged.reason,
                judged.message,
                self.next_offset,
                tail,
                hides=judged.hides if is_last else None,
                is_repaired=judged.is_repaired,
                unreadable=unreadable,
            )
            if tail:
                self._tail += stretch.size
            else:
                self._quarantined += stretch.size - unreadable
                self._unreadable += unreadable
            self.position = end
            yield stretch
        self._finished = True

    def _judge(self, position: int) -> ScannedBatch | _Bad:
        header = self._contradiction(position, self.next_offset)
        if isinstance(header, _Bad):
            return header
        usurper = self._claims_successors_offsets(position, header)
        if usurper is not None:
            return usurper
        return self._look_inside(position, header)

    def _contradiction(self, position: int, expected: int) -> BatchHeader | _Bad:
        """The header at a position if header, crc and offsets stand, else why not."""
        size = len(self._buf)
        self._fetch(position)
        try:
            header = read_header(self._buf, position, size)
        except CorruptRecordError as error:
            return self._damaged(position, expected, error.reason, error.message)
        if not crc_matches(self._buf, position, header):
            message = "the batch's crc does not fit its bytes"
            return self._damaged(position, expected, CorruptionReason.CRC, message)
        end = position + header.size
        try:
            header = self._unfold(position, header)
            check_header(header, position)
        except CorruptRecordError as error:
            return _Bad(error.reason, error.message, end, whole=True)
        if header.base_offset < expected:
            message = f"the batch begins at offset {header.base_offset} where {expected} or more was expected"
            return _Bad(CorruptionReason.OFFSET_ORDER, message, end, whole=True)
        if header.last_offset > self._ceiling:
            message = f"the batch reaches offset {header.last_offset}, beyond what its segment can hold"
            return _Bad(CorruptionReason.OFFSET_ORDER, message, end, whole=True)
        return header

    def _damaged(self, position: int, expected: int, reason: CorruptionReason, message: str) -> _Bad:
        extent = self.resynchronizer.extent(position, expected)
        if extent.is_repaired and extent.end is not None:
            message += f"; its crc does fit the {extent.end - position} bytes up to what follows it"
        return _Bad(reason, message, extent.end, whole=False, hides=extent.hides, is_repaired=extent.is_repaired)

    def _claims_successors_offsets(self, position: int, header: BatchHeader) -> _Bad | None:
        """A refusal if the batch behind this one begins inside it and would leave it room: then this one's base offset
        is the flipped one."""
        end = position + header.size
        self._fetch(end)
        try:
            successor = read_header(self._buf, end, len(self._buf))
            if successor.is_wrapper and crc_matches(self._buf, end, successor):
                successor = self._unfold(end, successor)
        except CorruptRecordError:
            return None
        if not self.next_offset + header.last_offset_delta < successor.base_offset < header.next_offset:
            return None
        if not crc_matches(self._buf, end, successor):
            return None
        message = f"the batch begins at offset {header.base_offset}, above the offset {successor.base_offset} behind it"
        return _Bad(CorruptionReason.OFFSET_ORDER, message, end, whole=True)

    def _look_inside(self, position: int, header: BatchHeader) -> ScannedBatch | _Bad:
        if not self._decode and not header.is_control:
            return ScannedBatch(position, header, None)
        kind: ControlType | None = None
        previous = header.base_offset - 1
        self.oddities = Oddities()
        wanted = None if self._inspect is None else self.oddities
        try:
            for record in read_records(self._buf, position, header, self._limits, wanted):
                if not previous < record.offset <= header.last_offset:
                    message = f"a record's offset {record.offset} does not follow {previous} within its batch"
                    raise CorruptRecordError(CorruptionReason.OFFSET_ORDER, message)
                previous = record.offset
                if self._inspect is not None:
                    self._inspect(header, record)
                if header.is_control and kind is None:
                    kind = control_type(record.key)
        except CorruptRecordError as error:
            if self._decode:
                return _Bad(error.reason, error.message, position + header.size, whole=True)
            kind = None
        return ScannedBatch(position, header, kind)

    def _unfold(self, position: int, header: BatchHeader) -> BatchHeader:
        """The header of a wrapper as it is inside. Its crc must have been found right. A batch is asked about up to
        three times, for itself and as a successor, but decompressed for it once."""
        if not header.is_wrapper:
            return header
        if self._unfolded is None or self._unfolded[0] != position:
            self._unfolded = position, unfold(self._buf, position, header, self._limits)
        return self._unfolded[1]

    def _fetch(self, position: int) -> None:
        """Have the batch at a position in memory."""
        if self._fetched is not None:
            self._fetched.fetch_batch(position)
