"""The losses of a recovery, counted in offsets, records and bytes.

A stretch of damage has the offsets between the batch before it and what follows: the next sound batch, the next
segment, or at the end of the log the high watermark. Its records are known if its checksum is right, or if its own
header, which nothing proves, has exactly these offsets. Otherwise they are unknown. A write in progress at the end of
the log has no end: its committed part is `missing`.

Belongs here: the value and the counting. `logcore.logs.recovery.recovery_plan` lists the kinds of losses.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from logcore.errors import CorruptRecordError
from logcore.logs.checks.beyond_log_end import times_of_change
from logcore.logs.checks.validation import Reader
from logcore.logs.model.findings import Severity
from logcore.logs.model.gaps import GapRules, is_cleaned
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.remote_tier import below_start_of, removed_because, removed_range
from logcore.logs.recovery.loss_kinds import LOSS_KINDS
from logcore.logs.recovery.segment_pieces import NewFile, Piece, Zeros, header_of, segment_pieces
from logcore.ranges import Range, joined, left_out
from logcore.records.batch import crc_matches, read_header
from logcore.records.legacy import unfold
from logcore.records.model import MAGIC_V2
from logcore.records.varint import Buffer
from logcore.segments.filenames import segment_file_name
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan, Stretch


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that a broker loses, hides or gets wrong.

    Attributes:
        kind: One of `LOSS_KINDS`.
        file: The file.
        message: What is lost, for a person.
        position: Where it is in the file.
        nbytes: How many bytes it is.
        offset: The place in the log, if known.
        first_offset: The first lost offset; None if no offset is lost.
        last_offset: The last lost offset, inclusive; None if no offset is lost or the last one is unknown.
        records: Lost records, control records included; None if unknown.
        sound_batches: Lost batches that a salvage would keep.
    """

    kind: str
    file: str
    message: str
    position: int | None = None
    nbytes: int | None = None
    offset: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    records: int | None = None
    sound_batches: int = 0

    @property
    def severity(self) -> Severity:
        """WARNING if nothing complete is lost, INFO if nothing is lost at all."""
        return LOSS_KINDS[self.kind][0]

    @property
    def counted(self) -> str:
        """For a person: `offsets 33..39, 6 records, 432 bytes; 4 sound batches kept by --salvage`.

        As in other ranges, the second offset is not lost.
        """
        return self.counted_with(lambda nbytes: _number(nbytes, "byte"))

    def counted_with(self, size: Callable[[int], str]) -> str:
        """Return the text of `counted`. `size` returns the text of a number of bytes."""
        parts = []
        if self.first_offset is not None:
            is_open = self.last_offset is None
            parts.append(f"offsets from {self.first_offset} on" if is_open else _range(self))
        elif self.offset is not None:
            parts.append(f"at offset {self.offset}")
        if self.records is not None:
            parts.append(_number(self.records, "record"))
        elif self.first_offset is not None and self.nbytes is not None:
            parts.append("records unknown")
        if self.nbytes is not None:
            parts.append(size(self.nbytes))
        kept = ""
        if self.sound_batches:
            kept = f"; {self.sound_batches} sound batch{'' if self.sound_batches == 1 else 'es'} kept by --salvage"
        return ", ".join(parts) + kept


def _range(loss: Loss) -> str:
    assert loss.last_offset is not None
    return f"offsets [{loss.first_offset}, {loss.last_offset + 1})"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Damage:
    """A lost stretch, with offsets and records as in `Loss`."""

    stretch: Stretch
    first_offset: int | None
    last_offset: int | None
    records: int | None


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far lost offsets at the end of a segment reach.

    Attributes:
        next_base: Base offset of the segment that follows; None for the last one.
        high_watermark: Offsets below it were committed; those above are unknown. None if no file has it.
    """

    next_base: int | None
    high_watermark: int | None

    def end(self, first: int) -> int | None:
        """The end of the offsets that are lost from `first` on; None if unknown."""
        if self.next_base is not None:
            return self.next_base
        return None if self.high_watermark is None or self.high_watermark <= first else self.high_watermark


def with_damage(content: Buffer, pieces: Iterable[Piece], bounds: Bounds) -> Iterator[Piece | Damage]:
    """The pieces of a segment's file in order, with damage counted."""
    held: list[Stretch] = []
    for piece in pieces:
        if isinstance(piece, Stretch) and not piece.is_repaired:
            held.append(piece)
            continue
        if isinstance(piece, NewFile):
            after: int | None = piece.base_offset
        elif isinstance(piece, Zeros):
            after = bounds.end(piece.offset)
        else:
            after = header_of(content, piece).base_offset
        yield from _counted(content, held, after)
        held.clear()
        yield piece
    if held:
        yield from _counted(content, held, bounds.end(held[0].offset))


def _counted(content: Buffer, stretches: Sequence[Stretch], end_offset: int | None) -> Iterator[Damage]:
    """Neighbouring stretches of damage with a common end offset."""
    if not stretches:
        return
    first = stretches[0].offset
    if end_offset is not None and end_offset <= first:
        yield from (Damage(stretch, None, None, _vouched(content, stretch, 0)) for stretch in stretches)
        return
    at = first
    shares: list[Damage] = []
    for stretch in stretches:
        claim = None if stretch.tail else _claimed(content, stretch)
        if claim is None or claim[0] != at:
            break
        shares.append(Damage(stretch, claim[0], claim[1] - 1, claim[1] - claim[0]))
        at = claim[1]
    if len(shares) == len(stretches) and at == end_offset:  # together they fill the offsets
        yield from shares
        return
    last = None if end_offset is None else end_offset - 1
    for stretch in stretches:
        records = _vouched(content, stretch, None)
        if records is not None and end_offset is not None:  # its other offsets are of the batch that follows
            records = min(records, end_offset - first)
        yield Damage(stretch, first, None if stretch.tail else last, records)


def _claimed(content: Buffer, stretch: Stretch) -> tuple[int, int] | None:
    """The offsets (start, exclusive end) that the header of a damaged batch claims.

    None unless it also claims a record for each, and the size of the stretch.
    """
    try:
        header = read_header(content, stretch.position, whole=False)
    except CorruptRecordError:
        return None
    is_plain = not header.is_wrapper and header.magic <= MAGIC_V2 and header.size == stretch.size
    if not is_plain or header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
        return None
    return header.base_offset, header.next_offset


def _vouched(content: Buffer, stretch: Stretch, otherwise: int | None) -> int | None:
    """Records of a batch that is lost only because of its offsets. Its checksum proves them."""
    try:
        header = read_header(content, stretch.position)
        if header.size == stretch.size and crc_matches(content, stretch.position, header):
            return max(0, unfold(content, stretch.position, header).record_count)
    except CorruptRecordError:
        pass
    return otherwise


class SegmentOffsets:
    """The offsets that the segments have that stay: the end of each, and its gaps that nothing explains.

    Args:
        rules: What explains gaps; None: gaps are not collected.
    """

    def __init__(self, rules: GapRules | None) -> None:
        self._rules = rules
        self.ends: dict[int, int] = {}
        """By the base offset of each segment, the offset after its last readable batch."""
        self.gaps: dict[int, list[Range]] = {}
        """By the base offset of a segment, the offsets [start, end) before one of its batches."""

    def between(self, base_offset: int, end: int, start: int) -> None:
        """Take the place between two batches of a segment, by the end of the first and the start of the second."""
        if start > end and self._rules is not None and self._rules.loss(end, start) is not None:
            self.gaps.setdefault(base_offset, []).append((end, start))


def is_damaged(
    content: Buffer,
    base_offset: int,
    next_base: int | None,
    read: Reader,
    offsets: SegmentOffsets | None = None,
    fetched: FetchedBytes | None = None,
) -> bool:
    """Whether bytes of a segment cannot be trusted. A write in progress at the end of the log can.

    If they all can, `offsets` receives the gaps.
    """
    found = SegmentOffsets(None) if offsets is None else offsets
    end = base_offset
    for step in read(content, base_offset, next_base, fetched):
        if not isinstance(step, Stretch):
            found.between(base_offset, end, step.base_offset)
            end = step.last_offset + 1
        elif not step.tail:
            found.gaps.pop(base_offset, None)
            return True
    return False


def kept_damage(
    content: Buffer, base_offset: int, bounds: Bounds, offsets: SegmentOffsets | None = None
) -> Generator[Loss, None, int]:
    """Yield what cannot be read in a segment that stays; returns the offset after its last good batch.

    `offsets` receives the gaps.
    """
    name, next_base = segment_file_name(base_offset), bounds.next_base
    walk = SegmentScan(content, base_offset=base_offset, sealed=next_base is not None, next_base_offset=next_base)
    found = SegmentOffsets(None) if offsets is None else offsets
    end = base_offset
    for piece in with_damage(content, walk, bounds):
        if isinstance(piece, ScannedBatch):
            found.between(base_offset, end, piece.header.base_offset)
            end = piece.header.next_offset
            continue
        if isinstance(piece, Damage):
            if piece.stretch.tail:
                continue
            item, counts = piece.stretch, (piece.first_offset, piece.last_offset, piece.records)
        elif isinstance(piece, Stretch):  # a broker does not repair a length field
            header = header_of(content, piece)
            item, counts = piece, (header.base_offset, header.last_offset, header.record_count)
        else:
            continue
        message = f"these bytes stay in the log and cannot be read: {item.message}"
        yield Loss("damage-kept", name, message, item.position, item.size, item.offset, *counts)
    return walk.next_offset


def lost_end(content: Buffer, base_offset: int, bounds: Bounds, start: int, message: str) -> Loss:
    """Count what is lost if a segment's file, with `base_offset` in its name, is cut at a position.

    The place of the loss in the log is the next offset that is expected there.
    """
    pieces = segment_pieces(content, base_offset, bounds.next_base)
    offset = base_offset
    first: int | None = None
    last: int | None = None
    records: int | None = 0
    sound = 0
    for piece in with_damage(content, pieces, bounds):
        if isinstance(piece, Zeros | NewFile):
            continue
        is_kept = (piece.stretch if isinstance(piece, Damage) else piece).end <= start
        if isinstance(piece, Damage):
            if is_kept:
                continue
            count = piece.records
            if piece.first_offset is not None:
                first = piece.first_offset if first is None else first
                last = piece.last_offset
        else:
            header = header_of(content, piece)
            if is_kept:
                offset = header.next_offset
                continue
            sound += 1
            count = header.record_count
            first = header.base_offset if first is None else first
            last = header.last_offset
        records = None if records is None or count is None else records + count
    if records is not None and first is not None and last is not None:
        records = min(records, last + 1 - first)
    name, nbytes = segment_file_name(base_offset), len(content) - start
    return Loss("cut", name, message, start, nbytes, offset, first, last, records, sound)


def lost_ranges(losses: Iterable[Loss]) -> tuple[Range, ...]:
    """The lost offsets."""
    return joined(
        (loss.first_offset, loss.last_offset + 1)
        for loss in losses
        if loss.first_offset is not None and loss.last_offset is not None
    )


def cleaned_below(directory: PartitionDirectory) -> int:
    """Return the base offset of the last batch that only cleaning leaves, as in `GapRules`; 0 without any."""
    for base_offset in reversed(directory.base_offsets):
        walk = SegmentScan(
            directory.files[segment_file_name(base_offset)].content, base_offset=base_offset, sealed=True
        )
        headers = [item.header for item in walk if isinstance(item, ScannedBatch)]
        for each in reversed(headers):
            if is_cleaned(each.record_count, each.base_offset, each.last_offset, each.delete_horizon_ms):
                return each.base_offset
    return 0


def missing_offsets(
    directory: PartitionDirectory,
    offsets: SegmentOffsets,
    log_start_offset: int,
    rules: GapRules,
    losses: Sequence[Loss],
) -> Iterator[Loss]:
    """Yield losses of the kind `missing`, in the order of offsets.

    Args:
        directory: Before its recovery.
        offsets: What the segments that stay have.
        log_start_offset: The log start.
        rules: What explains gaps.
        losses: Those found before. Their offsets are not missing too.
    """
    high_watermark = directory.high_watermark
    removed = removed_range(below_start_of(directory))
    if removed is not None:
        start, after, why = removed
        message = f"no segment has them: {removed_because(why)}"
        yield from _missing(start, after, segment_file_name(after), message, None, ())
    known, ends = lost_ranges(losses), offsets.ends
    end: int | None = None
    for base_offset in sorted(ends):
        file = segment_file_name(base_offset)
        if end is not None and base_offset > end:
            message = f"no segment has them: the one before it ends at offset {end}"
            yield from _missing(max(end, log_start_offset), base_offset, file, message, rules, known)
        for first, after in offsets.gaps.get(base_offset, ()):
            message = f"no batch has them: the one before them ends at offset {first}, the next begins at {after}"
            if first == base_offset:
                message = f"no batch has them: the first one of the segment begins at offset {after}"
            yield from _missing(max(first, log_start_offset), after, file, message, rules, known)
        end = max(end or 0, base_offset, ends[base_offset])
    end = log_start_offset if end is None else end
    if high_watermark is not None:
        file = segment_file_name(max(ends, default=end))
        message = f"the log ends at offset {end}, below its high watermark {high_watermark}{_times(directory)}"
        yield from _missing(max(end, log_start_offset), high_watermark, file, message, None, known)


def _times(directory: PartitionDirectory) -> str:
    bases = directory.base_offsets
    if directory.high_watermark_ms is None or not bases:
        return ""
    last = directory.files[segment_file_name(bases[-1])]
    return f"; {times_of_change(directory.high_watermark_ms, last.name, last.modified_ms)}"


def _missing(
    start: int, end: int, file: str, message: str, rules: GapRules | None, known: Sequence[Range]
) -> Iterator[Loss]:
    for first, after in left_out(start, end, known):
        if rules is None or rules.loss(first, after) is not None:
            yield Loss("missing", file, message, offset=first, first_offset=first, last_offset=after - 1)
