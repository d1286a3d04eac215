"""Segments of a log: their bytes, the walk over their batches, and the findings about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from logcore.errors import CorruptionReason, LogError
from logcore.logs.checks.validation import stretch_rule
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.notes import Notes
from logcore.records.packed_files import unpacking
from logcore.records.record import Record
from logcore.segments.filenames import MAX_OFFSET, OFFSET_INDEX_SUFFIX
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan, Stretch, scan
from logcore.segments.side_files.proved_entries import ProvedEntries, ReadingStart
from logcore.storage.discovery import SourceChanged, SourceUnreadable, read_file, shown
from logcore.storage.source_bytes import SourceBytes

if TYPE_CHECKING:  # commands that decode nothing in bulk start without NumPy
    from logcore.columns.checking.chunks import Chunk
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
    walk = scan(
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
    log: SourceLog, segment: SegmentFile, source: SourceBytes, walk: SegmentScan, notes: Notes
) -> Iterator[ScannedBatch | Stretch]:
    """Yield the steps of a walk, and report damage. They end where the file can no longer be read.

    Args:
        log: The log of the segment.
        segment: The segment.
        source: Its bytes.
        walk: The walk over them.
        notes: Gets the findings.
    """
    file = shown(segment.path)
    try:
        for item in walked(source, walk):
            if isinstance(item, Stretch):
                notes.say(stretch_finding(item, file))
            yield item
    except (SourceUnreadable, SourceChanged) as error:
        cannot_read(segment, error, notes)
        return
    padding = walk.accounting.padding
    if padding:
        notes.say(padding_finding(log, segment, len(source.content), padding))


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
    nbytes = size if first_bytes is None else first_bytes
    try:
        while position < size and next_offset < last:
            rows = decode(Chunk(position, next_offset, min(position + nbytes, size)))
            for item in rows:
                if not isinstance(item, Stretch):
                    yield item
                elif item.offset < last:
                    notes.say(stretch_finding(item, shown(segment.path)))
            position, next_offset = rows.position, rows.next_offset
            if rows.padding and next_offset < last:
                notes.say(padding_finding(log, segment, size, size - (position - rows.padding)))
                break
            source.release(position)
            nbytes = min(2 * nbytes, max(most_bytes or 0, nbytes))
        source.refuse_change()
    except (SourceChanged, SourceUnreadable) as error:
        cannot_read(segment, error, notes)
    if progress is not None:
        progress.append(next_offset)


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
