"""The scan of a segment's bytes: batch after batch, and an account of every byte outside a batch.

A segment is a sequence of record batches, without header, trailer or alignment. Gaps between offsets are valid.

    good batch      header readable, crc right, offsets increase, every record parses and lies in the batch's offsets
    stretch         bytes that cannot be trusted, with the reason
    tail            the last stretch of a segment still being written: an ordinary write in progress. It must begin like
                    a batch and contain none
    spare end       bytes of a closed segment after its last offset, which is the one before the next segment. They hold
                    no offset of the log: zeros, or others without a good batch. A kind of tail
    padding         other zeros up to the end of the file: space that a broker reserved

    valid + quarantined + unreadable + tail + padding = size of the file, always

After a bad batch the scan continues at the batch's end if that end is beyond doubt. So it is if the crc is right (then
the length was right too), or if the crc is right for another length. It is also beyond doubt if the declared size is
possible and a good batch, zeros up to the end, or the end of the file follow. The content of a bad batch is never
searched, because a record's value may contain a batch. If the extent is implausible, the scan continues at the next
batch that counts, by the one rule of `logcore.segments.scanning.resynchronization`.

The crc does not cover the base offset, so only the neighbours show a flipped bit in it. If a batch and its successor
claim the same offsets, the batch is the wrong one if the successor leaves room for its offsets; else the successor is.

A scan validates one segment alone. `logcore.logs.checks.validation` makes rows, findings and counts. See Kafka
LogSegment.recover and FileLogInputStream. They end silently at a size that reaches past the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.batch import BatchHeader, check_header, counted, crc_matches, read_header
from logcore.records.control import ControlType, control_type
from logcore.records.legacy import unfold
from logcore.records.packed_files import packed_kind
from logcore.records.record import DEFAULT_LIMITS, Limits, Oddities, Record, read_records
from logcore.records.varint import Buffer
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.resynchronization import Resynchronizer

MAX_RELATIVE_OFFSET = 2**31 - 1
"""The offsets of a segment are at most this far above its base, because index entries have 32 bits."""

Inspect = Callable[[BatchHeader, Record], None]
"""Called with each record and the header of its batch, in the order of the file."""


class End(StrEnum):
    """How a scan ended. TORN: only a write in progress is missing. CORRUPT: bytes were lost that should be there."""

    CLEAN = "clean"
    TORN = "torn"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True)
class ScannedBatch:
    """A batch that can be trusted, its position in the file, and for a control batch its type.

    The header of a compressed v0 or v1 message is unfolded: it has the offsets and the number of the records inside.
    """

    position: int
    header: BatchHeader
    control_type: ControlType | None

    @property
    def size(self) -> int:
        """Bytes of the batch, header included."""
        return self.header.size

    @property
    def end(self) -> int:
        """Position after the batch."""
        return self.position + self.header.size


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes that cannot be trusted.

    Attributes:
        position: Where they begin in the file.
        size: How many they are.
        reason: Why they cannot be trusted.
        message: The same in words.
        offset: The next offset expected where they begin.
        tail: They are at the end of a segment still being written, or spare, so nothing is lost with them.
        spare: They are after the last offset of a closed segment.
        hides: Why they are not an ordinary tail, although they end a segment still being written.
        is_repaired: They are a batch in which only the length field is wrong; it should be `size` - 12.
        unreadable: How many of these bytes the disk failed to read.
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
    spare: bool = False

    @property
    def end(self) -> int:
        """Position after the stretch."""
        return self.position + self.size


@dataclass(frozen=True, slots=True)
class Accounting:
    """The bytes of a file by kind: valid + quarantined + unreadable + tail + padding = file_size.

    Padding is always last. `unreadable` counts what the disk failed to read.
    """

    file_size: int
    valid: int
    quarantined: int
    tail: int
    padding: int
    unreadable: int = 0

    def end(self, sealed: bool) -> End:
        """How the scan of the file ended, where `sealed` is whether a later segment follows."""
        if self.quarantined or self.unreadable or (sealed and self.padding):
            return End.CORRUPT
        return End.TORN if self.tail else End.CLEAN


@dataclass(frozen=True, slots=True)
class _Bad:
    """Why a batch is refused, where it ends if that is known, and whether its crc was right."""

    reason: CorruptionReason
    message: str
    end: int | None
    whole: bool
    hides: str | None = None
    is_repaired: bool = False


def last_good_end(buf: Buffer, base_offset: int) -> tuple[int, int, ScannedBatch | None]:
    """Find how much of a segment still being written may be read.

    A bad stretch that is followed by good batches is included, for validation to check. This reads headers and crcs
    only; of compressed v0 and v1 messages also the headers inside.

    Returns:
        The end of the last good batch, the next offset, and that batch.
    """
    size = len(buf)
    while True:
        with memoryview(buf) as view, view[:size] as taken:
            walk = SegmentScan(taken, base_offset=base_offset, sealed=False, decode=False)
            stretches = [item for item in walk if isinstance(item, Stretch)]
        last = walk.last_batch
        end = 0 if last is None else last.end
        if end == size or not any(stretch.position < end for stretch in stretches):
            return end, walk.next_offset, last
        size = end  # the end of the bytes decides what damage may hide


class SegmentScan:
    """Iterates once over a segment, in the order of positions. Afterwards `end` and `accounting` have the result."""

    def __init__(
        self,
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
    ) -> None:
        """Scan a segment, or the part of it from `start` on.

        `start` and `next_offset` continue an earlier scan: this one decides exactly as that one would. So another
        reader may take over between two steps, and stop before everything that it does not understand. It must not
        accept a batch whose successor begins below the batch's next offset. This scan must decide on such a pair, from
        the first of the two. The accounting covers the bytes from `start` on.

        Args:
            buf: The segment's bytes.
            base_offset: The offset in the file's name.
            sealed: Whether a later segment follows. Then nothing may be missing at the end.
            decode: Whether every record is parsed too.
            limits: The most that is kept in memory.
            next_base_offset: Base of the segment that follows, if one does; no batch reaches it.
            inspect: Called with every decoded record, before the rest of its batch is checked.
            start: The `position` of the earlier scan.
            next_offset: The `next_offset` of the earlier scan.
            fetched: Loads the bytes of `buf` into memory; None if they are all there. Steps raise its errors.
            resynchronizer: That of an earlier scan over the same bytes with the same bounds, in the same thread. It
                saves a repeated search and changes nothing else.
        """
        self._buf = buf
        self._fetched = fetched
        self._sealed = sealed
        self._decode = decode
        self._limits = limits
        self._inspect = inspect
        self._base_offset, self._next_base_offset = base_offset, next_base_offset
        # Last offset that a batch of this segment may contain.
        self._ceiling = min(base_offset + MAX_RELATIVE_OFFSET, MAX_OFFSET - 1)
        if next_base_offset is not None:
            self._ceiling = min(self._ceiling, next_base_offset - 1)
        self.resynchronizer = resynchronizer or Resynchronizer(buf, self._ceiling, sealed, limits, fetched)
        """Decides where the scan continues after damage. Another scan over the same bytes may use it too."""
        self._valid = self._quarantined = self._unreadable = self._tail = self._padding = 0
        self._finished = False
        self._start = start
        self._unfolded: tuple[int, BatchHeader] | None = None
        self._overlap = 0
        self._walk = self._steps()
        self.position = start
        """Where the next step begins."""
        self.next_offset = base_offset if next_offset is None else next_offset
        """Offset after the last good batch; before the first one the segment's base offset."""
        self.last_batch: ScannedBatch | None = None
        """Last good batch until now."""
        self.oddities = Oddities()
        """Of the last batch whose records were read. Filled in only with an `inspect`."""

    def __iter__(self) -> Iterator[ScannedBatch | Stretch]:
        return self._walk

    @property
    def end(self) -> End:
        """How the scan ended.

        Raises:
            ValueError: The scan has not ended.
        """
        return self.accounting.end(self._sealed)

    @property
    def accounting(self) -> Accounting:
        """The bytes by kind.

        Raises:
            ValueError: The scan has not ended.
        """
        if not self._finished:
            raise ValueError("the scan has not reached its end")
        size = len(self._buf) - self._start
        return Accounting(size, self._valid, self._quarantined, self._tail, self._padding, self._unreadable)

    def _steps(self) -> Iterator[ScannedBatch | Stretch]:
        size = len(self._buf)
        while self.position < size:
            position = self.position
            why = self._spare(position)
            if why is not None:
                self._tail += size - position
                self.position = size
                reason, offset = CorruptionReason.LENGTH, self.next_offset
                yield Stretch(position, size - position, reason, why, offset, tail=True, spare=True)
                break
            if self.resynchronizer.is_zero_rest(position):
                self._padding = size - position
                self.position = size
                break
            step = self._check(position)
            if isinstance(step, ScannedBatch):
                self._valid += step.size
                self.next_offset = step.header.next_offset
                self.last_batch = step
                self.position = step.end
                yield step
                continue
            end = size if step.end is None else step.end
            # A write in progress has no right crc yet. A batch with a right crc that is bad in another way is damage.
            is_last = not self._sealed and (end == size or self.resynchronizer.is_zero_rest(end))
            gone = () if self._fetched is None else self._fetched.unreadable(position, end)
            unreadable = sum(high - low for low, high in gone)
            tail = is_last and not step.whole and step.hides is None and not unreadable
            stretch = Stretch(
                position,
                end - position,
                step.reason,
                step.message,
                self.next_offset,
                tail,
                hides=step.hides if is_last else None,
                is_repaired=step.is_repaired,
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

    def _spare(self, position: int) -> str | None:
        """Why the bytes up to the end of the file hold no offset of the segment; None if they may hold some."""
        is_complete = self._base_offset < self.next_offset == self._next_base_offset
        return self.resynchronizer.spare_end(position) if is_complete else None

    def _check(self, position: int) -> ScannedBatch | _Bad:
        header = self._contradiction(position, self.next_offset)
        if isinstance(header, _Bad):
            return header
        refusal = self._overlaps_successor(position, header)
        if refusal is not None:
            return refusal
        return self._look_inside(position, header)

    def _contradiction(self, position: int, expected: int) -> BatchHeader | _Bad:
        """The header at a position if header, crc and offsets are valid, else why not."""
        size = len(self._buf)
        self._fetch(position)
        try:
            header = read_header(self._buf, position, size)
        except CorruptRecordError as error:
            return self._damaged(position, expected, error.reason, error.message)
        if not crc_matches(self._buf, position, header):
            message = "the batch's crc does not match its bytes"
            return self._damaged(position, expected, CorruptionReason.CRC, message)
        end = position + header.size
        try:
            header = self._placed(position, header, expected)
            check_header(header, position)
        except CorruptRecordError as error:
            return _Bad(error.reason, error.message, end, whole=True)
        if header.base_offset < expected:
            message = f"the batch begins at offset {header.base_offset}, below the expected {expected}"
            return _Bad(CorruptionReason.OFFSET_ORDER, message, end, whole=True)
        if header.last_offset > self._ceiling:
            message = f"the batch reaches offset {header.last_offset}, beyond what its segment can contain"
            if self._ceiling - self._base_offset < MAX_RELATIVE_OFFSET:
                message += (
                    f": the next segment begins at offset {self._ceiling + 1}. Segments overlap in a copy that was "
                    "taken while the cleaner replaced them, or that mixes the files of several copies"
                )
            return _Bad(CorruptionReason.OFFSET_ORDER, message, end, whole=True)
        return header

    def _damaged(self, position: int, expected: int, reason: CorruptionReason, message: str) -> _Bad:
        packed = packed_kind(self._buf) if position == 0 else None
        if packed is not None:  # and no write in progress
            return _Bad(CorruptionReason.PACKED, f"the file is {packed}", len(self._buf), whole=True)
        extent = self.resynchronizer.extent(position, expected)
        if extent.is_repaired and extent.end is not None:
            message += f"; its crc matches the {extent.end - position} bytes before what follows it"
        return _Bad(reason, message, extent.end, whole=False, hides=extent.hides, is_repaired=extent.is_repaired)

    def _overlaps_successor(self, position: int, header: BatchHeader) -> _Bad | None:
        """A refusal if the batch after this one begins inside it and leaves it room. Then the base offset of this one
        has the flipped bit.
        """
        end = position + header.size
        self._fetch(end)
        try:
            successor = read_header(self._buf, end, len(self._buf))
            if successor.is_wrapper and crc_matches(self._buf, end, successor):
                successor = self._unfold(end, successor)
        except CorruptRecordError:
            return None
        # Only a flipped bit that lowers its offset lets a compressed message begin too low and leave a gap as large.
        too_low = header.skipped > 0 and successor.base_offset == header.next_offset + self._overlap
        if not too_low and not (
            self.next_offset + header.last_offset_delta < successor.base_offset < header.next_offset
        ):
            return None
        if not crc_matches(self._buf, end, successor):
            return None
        what = f"{self._overlap} offsets too low for" if too_low else f"at offset {header.base_offset}, above"
        message = f"the batch begins {what} offset {successor.base_offset} after it"
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
                offset = record.offset - header.reader_shift
                if not previous < offset <= header.last_offset:
                    message = f"a record's offset {offset} does not follow {previous} within its batch"
                    raise CorruptRecordError(CorruptionReason.OFFSET_ORDER, message)
                previous = offset
                if self._inspect is not None:
                    self._inspect(header, record)
                if header.is_control and kind is None:
                    kind = control_type(record.key)
        except CorruptRecordError as error:
            if self._decode:
                return _Bad(error.reason, error.message, position + header.size, whole=True)
            kind = None
        return ScannedBatch(position, header, kind)

    def _placed(self, position: int, header: BatchHeader, expected: int) -> BatchHeader:
        """The header with the offsets of the batch in the log, where `expected` is the lowest possible one."""
        count = counted(header)
        if count.base_offset >= expected:
            header = count
        unfolded = self._unfold(position, header)
        self._overlap = expected - unfolded.base_offset
        if unfolded.first_from(expected) != unfolded.base_offset:
            return unfold(self._buf, position, header, self._limits, expected)
        return unfolded

    def _unfold(self, position: int, header: BatchHeader) -> BatchHeader:
        """Unfold the header of a wrapper whose crc is right.

        A batch is unfolded up to three times, for itself and as a successor, but decompressed once.
        """
        if not header.is_wrapper:
            return header
        if self._unfolded is None or self._unfolded[0] != position:
            self._unfolded = position, unfold(self._buf, position, header, self._limits)
        return self._unfolded[1]

    def _fetch(self, position: int) -> None:
        """Load the batch at a position into memory."""
        if self._fetched is not None:
            self._fetched.fetch_batch(position)
