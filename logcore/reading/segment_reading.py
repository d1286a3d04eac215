"""Segments of a log: their bytes, the walk over their batches, and the findings about them."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from logcore.errors import CorruptionReason, LogError
from logcore.logs.checks.beyond_log_end import beyond_finding
from logcore.logs.checks.validation import spare_text, stretch_rule
from logcore.logs.model.findings import FINDINGS_PER_RULE, Finding, found
from logcore.logs.model.gaps import NO_EXPLANATION, GapRules, gap_rules, is_cleaned, is_compacted
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.read_options import Notes
from logcore.records.batch import LOG_OVERHEAD, BatchHeader
from logcore.records.packed_files import unpacking
from logcore.records.record import Record
from logcore.segments.filenames import MAX_OFFSET, OFFSET_INDEX_SUFFIX, DirectoryKind
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan, Stretch
from logcore.segments.side_files.proved_entries import ProvedEntries, ReadingStart
from logcore.storage.discovery import HeaderReader, SourceChanged, SourceUnreadable, read_file, read_range, shown
from logcore.storage.source_bytes import SourceBytes

if TYPE_CHECKING:  # commands that decode nothing in bulk start without NumPy
    from logcore.columns.checking.chunks import Chunk
    from logcore.columns.decoding.batch_table import Gaps
    from logcore.columns.decoding.lanes import SegmentRows

Rows = TypeVar("Rows")

LEAST_BULK_BYTES = 1 << 20
"""Smaller logs are read in plain Python: to load NumPy and the kernels takes longer. Records that are only checked are
worth it from a sixteenth of this on.
"""
MAX_INDEX_BYTES = 64 << 20
"""A larger offset index is not used to find an offset; brokers limit it to 10 MiB by default."""


def is_read_in_bulk(log: SourceLog, *, decodes: bool = True) -> bool:
    """Whether kernels read a log: it is not small, and they work here.

    Args:
        log: The log.
        decodes: Its records are wanted; else they are only checked.
    """
    if sum(segment.size for segment in log.segments) < (LEAST_BULK_BYTES if decodes else LEAST_BULK_BYTES >> 4):
        return False
    from logcore.columns.kernels.families import Work
    from logcore.columns.kernels.library import is_chosen

    return is_chosen(Work.DECODE if decodes else Work.CHECK)


def segment_bytes(log: SourceLog, segment: SegmentFile) -> SourceBytes:
    """Return a segment's bytes, which are fetched in pieces.

    Raises:
        SourceUnreadable: The file cannot be opened.
    """
    return SourceBytes(segment.path, sealed=log.is_sealed(segment), seen=segment)


def index_of(segment: SegmentFile) -> bytes:
    """Return the bytes of a segment's offset index; none if there is none or it cannot be read."""
    path = segment.side_file(OFFSET_INDEX_SUFFIX)
    try:
        return b"" if path is None else read_file(path, MAX_INDEX_BYTES)
    except LogError:
        return b""


def reading_start(segment: SegmentFile, source: SourceBytes, seek: int | None) -> ReadingStart:
    """Return where to begin to read a segment for an offset; None: at its beginning."""
    if seek is None or seek <= segment.base_offset:
        return ReadingStart(0, segment.base_offset)
    return ProvedEntries(index_of(segment), segment.base_offset, source).start_for(seek)


def segment_end(log: SourceLog, segment: SegmentFile) -> int | None:
    """Return the offset after the last batch of a segment, at least the log start; None if headers cannot be followed
    to its end: there may be more.

    Args:
        log: The log.
        segment: The segment.
    """
    end = max(segment.base_offset, log.log_start_offset)
    try:
        # Entries of the index that their batches prove: only the rest of the segment is read.
        start = reading_start(segment, SourceBytes(segment.path, sealed=False, seen=segment), MAX_OFFSET)
        for position, header in HeaderReader().headers(segment, start.position):
            if header is not None:
                end = max(end, header.next_offset)
            elif any(read_range(segment.path, position, min(segment.log_bytes, position + LOG_OVERHEAD), segment)):
                return None
    except LogError:
        return None  # reported where the records are read
    return end


def open_segment(
    log: SourceLog, segment: SegmentFile, records: list[Record] | None = None, seek: int | None = None
) -> tuple[SourceBytes, SegmentScan]:
    """Open a segment: its bytes, and the walk over them for `walked`.

    Args:
        log: The log of the segment.
        segment: The segment.
        records: Gets the records of the current batch; clear it after each step.
        seek: Begin at an entry of the index for this offset; None: at the beginning.

    Raises:
        SourceUnreadable: The file cannot be opened.
    """
    source = segment_bytes(log, segment)
    start = reading_start(segment, source, seek)
    inspect = None if records is None else (lambda _, record: records.append(record))
    walk = SegmentScan(
        source.content,
        base_offset=segment.base_offset,
        sealed=log.is_sealed(segment),
        next_base_offset=log.next_base_offset(segment),
        inspect=inspect,
        start=start.position,
        next_offset=start.next_offset,
        fetched=source,
    )
    return source, walk


def walked(source: SourceBytes, walk: SegmentScan) -> Iterator[ScannedBatch | Stretch]:
    """Yield the steps of a walk. Bytes before a step are released.

    Args:
        source: The bytes.
        walk: The walk over them.

    Raises:
        SourceUnreadable: The file can no longer be read.
        SourceChanged: The file changed while it was read.
    """
    for item in walk:
        source.release(item.position)
        yield item
    source.refuse_change()


def steps(
    log: SourceLog,
    segment: SegmentFile,
    source: SourceBytes,
    walk: SegmentScan,
    notes: Notes,
    rules: GapRules | None = None,
) -> Iterator[ScannedBatch | Stretch]:
    """Yield the steps of a walk, and report damage. They end where the file can no longer be read.

    Args:
        log: The log of the segment.
        segment: The segment.
        source: Its bytes.
        walk: The walk over them.
        notes: Gets the findings.
        rules: As for `SegmentFindings`.
    """
    expected = walk.next_offset
    wrong = SegmentFindings(log, segment, notes, ReadingStart(walk.position, expected), rules)
    try:
        for item in walked(source, walk):
            if isinstance(item, Stretch):
                wrong.take_stretch(item)
            else:
                if item.header.base_offset > expected:
                    wrong.take_gaps([(expected, item.header.base_offset, item.position)])
                expected = item.header.next_offset
            yield item
    except (SourceUnreadable, SourceChanged) as error:
        cannot_read(segment, error, notes)
        return
    wrong.say_end(len(source.content), walk.accounting.padding, walk.next_offset)


def rows_of_segment(
    log: SourceLog,
    segment: SegmentFile,
    source: SourceBytes,
    decode: Callable[[Chunk], SegmentRows[Rows]],
    notes: Notes,
    start: ReadingStart,
    *,
    end: int | None = None,
    first_bytes: int | None = None,
    most_bytes: int | None = None,
    progress: list[int] | None = None,
) -> Iterator[Rows]:
    """Yield the rows of a segment by a decoding engine, and report damage. They end where the file cannot be read.

    Args:
        log: The log of the segment.
        segment: The segment.
        source: Its bytes.
        decode: Begins a walk over a part of the segment; the walk may end before the end of the part.
        notes: Gets the findings.
        start: Where to begin.
        end: The offset at which reading may end; None: at the end of the file, so that damage there is reported.
        first_bytes: Look at so many bytes at first; None: at all.
        most_bytes: Each following look is twice as long, up to this.
        progress: Gets the offset after the last batch that was read.
    """
    from logcore.columns.checking.chunks import Chunk

    size = len(source.content)
    position, next_offset = start.position, start.next_offset
    last = MAX_OFFSET + 1 if end is None else end
    nbytes, padding = size if first_bytes is None else first_bytes, 0
    wrong = SegmentFindings(log, segment, notes, start)
    wrong.end = last
    try:
        while position < size and next_offset < last:
            rows = decode(Chunk(position, next_offset, min(position + nbytes, size)))
            for item in rows:
                if isinstance(item, Stretch):
                    wrong.take_stretch(item)
                else:
                    yield item
            for gaps in rows.gaps:
                wrong.take_gaps(gaps)
            position, next_offset = rows.position, rows.next_offset
            if rows.padding:
                padding, position = size - (position - rows.padding), size
                break
            source.release(position)
            nbytes = min(2 * nbytes, max(most_bytes or 0, nbytes))
        if position >= size and next_offset < last:
            wrong.say_end(size, padding, next_offset)
        source.refuse_change()
    except (SourceChanged, SourceUnreadable) as error:
        cannot_read(segment, error, notes)
    if progress is not None:
        progress.append(next_offset)


class SegmentFindings:
    """Reports what is wrong with a segment while it is read: damage, missing offsets, zeros at its end.

    The rules for a gap are those of `verify` (`logcore.logs.checks.log_check`).

    Args:
        log: The log of the segment.
        segment: The segment.
        notes: Gets the findings.
        start: Where the reading begins; None: at the beginning of the segment.
        rules: What explains gaps, for a caller that checks the log's end itself; None: what log and topic say.

    Attributes:
        end: Damage and gaps that begin at this offset or later are not reported.
        rules: As above.
    """

    def __init__(
        self,
        log: SourceLog,
        segment: SegmentFile,
        notes: Notes,
        start: ReadingStart | None = None,
        rules: GapRules | None = None,
    ) -> None:
        self.end, self.rules = MAX_OFFSET + 1, rules
        self._log, self._segment, self._notes = log, segment, notes
        self._gaps = 0
        self._damage = {start.next_offset} if start is not None and start.position else set()
        """Offsets where damage explains a gap. In the middle of a segment only the lowest offset is known."""

    def take_stretch(self, stretch: Stretch) -> None:
        """Report bytes that cannot be trusted.

        Args:
            stretch: The bytes.
        """
        if stretch.offset < self.end:
            self._notes.say(stretch_finding(stretch, shown(self._segment.path)))
            if not stretch.spare:
                self._damage.add(stretch.offset)

    def take_gaps(self, gaps: Gaps) -> None:
        """Report missing offsets between batches of the segment, unless damage or cleaning explains them.

        Args:
            gaps: Some gaps, in the order of their offsets. A cleaned log may have very many.
        """
        if len(gaps) and int(gaps[0][0]) in self._damage:  # what follows damage begins a new walk
            gaps = gaps[1:]
        if not len(gaps) or self._log.kind is not DirectoryKind.LIVE:
            return
        lowest, highest = max(int(gaps[0][0]), self._start), int(gaps[-1][1])
        if lowest >= min(highest, self.end):
            return
        rules = self.rules or rules_of_gaps(self._log, self._notes)
        if rules.loss(lowest, highest) is None:
            return
        name, file = os.path.basename(self._segment.path), shown(self._segment.path)
        for first, end, position in map(tuple, gaps):
            start = max(int(first), self._start)
            if not start < min(end, self.end) or rules.loss(start, int(end)) != NO_EXPLANATION:
                continue
            self._gaps += 1
            if self._gaps <= FINDINGS_PER_RULE:
                why = f"the batch at position {position} of {name} begins at offset {end}, not at {first}"
                self._say_missing(start, int(end), why, file=file, position=int(position))

    def say_end(self, file_size: int, padding: int, next_offset: int) -> None:
        """Report what only the end of a segment shows: zeros, and missing offsets up to the next segment.

        At the end of a log also the committed offsets that are missing there. Only segment names are compared.

        Args:
            file_size: Of the segment, in bytes.
            padding: The number of zeros at its end.
            next_offset: The offset after its last good batch.
        """
        log, segment, notes = self._log, self._segment, self._notes
        file = shown(segment.path)
        if padding:
            notes.say(padding_finding(log, segment, file_size, padding))
        if self._gaps > FINDINGS_PER_RULE:
            more = f"{file}: and {self._gaps - FINDINGS_PER_RULE} more of these in the same segment."
            notes.say(found("missing-offsets", more, file=file))
        start = max(next_offset, self._start)
        committed = 0 if log.named_files or log.is_metadata else log.high_watermark or 0
        if self.rules is None and not log.is_sealed(segment) and start < committed:
            notes.say(beyond_finding(log, start, committed))
        at = bisect_right(log.segments, segment.base_offset, key=lambda other: other.base_offset)
        following = log.segments[at].base_offset if at < len(log.segments) else 0
        if start >= following or next_offset in self._damage or log.kind is not DirectoryKind.LIVE:
            return
        if (self.rules or rules_of_gaps(log, notes)).loss(start, following) == NO_EXPLANATION:
            name = os.path.basename(file)
            why = f"{name} ends at offset {next_offset}, and the next segment begins at offset {following}"
            self._say_missing(start, following, why, file=file)

    @property
    def _start(self) -> int:
        """The first offset that can be missing."""
        return 0 if self._log.named_files else self._log.log_start_offset

    def _say_missing(self, start: int, end: int, why: str, *, file: str, position: int | None = None) -> None:
        known = "" if self._log.cleaner_checkpoint is not None else " (in a compacted topic this is ordinary)"
        message = f"{self._log.topic_partition}: offsets [{start}, {end}) are missing: {why}{known}."
        self._notes.say(
            found("missing-offsets", message, file=file, position=position, start_offset=start, end_offset=end)
        )


def rules_of_gaps(log: SourceLog, notes: Notes, compacted: bool | None = None) -> GapRules:
    """Return what explains gaps in a log. Headers of batches are read only for a gap that nothing else explains.

    Args:
        log: The log.
        notes: Remembers what the headers say.
        compacted: As `stated` in `is_compacted`.
    """
    return gap_rules(log, is_compacted(log, compacted), partial(_cleaned_below, log, notes))


def _cleaned_below(log: SourceLog, notes: Notes) -> int:
    if log.directory not in notes.cleaned_below:
        ends = (_last_cleaned(log, segment) for segment in reversed(log.segments))
        notes.cleaned_below[log.directory] = next((base for base in ends if base), 0)
    return notes.cleaned_below[log.directory]


def _last_cleaned(log: SourceLog, segment: SegmentFile) -> int:
    """The base offset of the last good batch that only cleaning leaves; 0 without any."""
    reader = HeaderReader()
    try:
        cleaned = [
            (position, each)
            for position, each in _headers(log, segment, reader)
            if is_cleaned(each.record_count, each.base_offset, each.last_offset, each.delete_horizon_ms)
        ]
        return next((each.base_offset for at, each in reversed(cleaned) if reader.is_good(segment, at, each)), 0)
    except LogError:
        return 0  # reported where it is read


def _headers(log: SourceLog, segment: SegmentFile, reader: HeaderReader) -> Iterator[tuple[int, BatchHeader]]:
    """Positions and headers of batches; from a header that cannot be read on, those that a scan finds."""
    next_offset = segment.base_offset
    for position, header in reader.headers(segment):
        if header is None:
            source = segment_bytes(log, segment)
            walk = SegmentScan(
                source.content,
                base_offset=segment.base_offset,
                sealed=True,
                decode=False,
                start=position,
                next_offset=next_offset,
                fetched=source,
            )
            yield from ((item.position, item.header) for item in walk if isinstance(item, ScannedBatch))
            return
        next_offset = header.next_offset
        yield position, header


def padding_finding(log: SourceLog, segment: SegmentFile, file_size: int, padding: int) -> Finding:
    """Return the finding for zeros up to the end: padding in a segment still being written, a loss in any other.

    Args:
        log: The log of the segment.
        segment: The segment.
        file_size: Of the segment, in bytes.
        padding: The number of zeros.
    """
    file, position = shown(segment.path), file_size - padding
    rule = "zero-tail" if log.is_sealed(segment) else "zero-padding"
    message = f"{file}: the last {padding} bytes, from position {position}, are zeros."
    return found(rule, message, file=file, position=position, nbytes=padding)


def cannot_read(segment: SegmentFile, error: LogError, notes: Notes) -> None:
    """Report that a segment changed while it was read, was removed or cannot be read.

    Args:
        segment: The segment.
        error: The reason.
        notes: Gets the finding.
    """
    file = shown(segment.path)
    rule = "source-changed" if isinstance(error, SourceChanged) else "unreadable"
    notes.say(found(rule, str(error.at(file=file)), file=file))


def stretch_finding(stretch: Stretch, file: str) -> Finding:
    """Return the finding for bytes of a file that cannot be trusted.

    Args:
        stretch: The bytes.
        file: The path of the file, as findings name it.
    """
    if stretch.spare:
        message = f"{file}: {spare_text(stretch)}."
        rule, offset = stretch_rule(stretch), stretch.offset
        return found(rule, message, file=file, position=stretch.position, nbytes=stretch.size, start_offset=offset)
    if stretch.tail:
        message = f"{file}: {stretch.size} bytes from position {stretch.position} are a batch that was being written."
        return found("torn-tail", message, file=file, position=stretch.position, nbytes=stretch.size)
    message = (
        f"{file}: {stretch.size} bytes from position {stretch.position}, where offset {stretch.offset} was expected, "
        f"cannot be trusted: {stretch.message} ({stretch.reason})."
    )
    if stretch.unreadable:
        message = f"{message.removesuffix('.')}. The disk failed to read {stretch.unreadable} of them."
    elif stretch.hides is not None:
        message = f"{message.removesuffix('.')}. It is not an ordinary tail: {stretch.hides}."
    elif stretch.reason is CorruptionReason.PACKED:
        message = f"{message.removesuffix('.')}; {unpacking(stretch.message, file)}."
    return found(
        stretch_rule(stretch),
        message,
        file=file,
        position=stretch.position,
        nbytes=stretch.size,
        start_offset=stretch.offset,
    )
