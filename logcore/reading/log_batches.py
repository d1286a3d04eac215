"""Record batches of a log, as they are in its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.logs.model.sources import SourceLog
from logcore.reading.checked_segments import checked_batches
from logcore.reading.read_options import Notes
from logcore.reading.shown_segments import segments_among
from logcore.records.batch import crc_matches, read_header
from logcore.records.control import ControlType
from logcore.records.model import BatchHeader, Record
from logcore.records.record import read_records
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scanning.scan import Stretch
from logcore.storage.discovery import read_range, shown


@dataclass(frozen=True, slots=True)
class LogBatch:
    """A record batch that can be trusted, and its place.

    Attributes:
        path: The segment file.
        position: Where the batch begins, in bytes from the start of the file.
        header: Its header. Of a compressed message of format v0 or v1 it has the offsets of the messages inside.
        control_type: The kind of a control batch; None for all other batches.

    Example:
        >>> for batch in log.batches():
        ...     print(batch.header.base_offset, batch.header.record_count, batch.header.codec.name)
    """

    path: str
    position: int
    header: BatchHeader
    control_type: ControlType | None = None

    def records(self) -> Iterator[Record]:
        """Yield the records of the batch, control records included. The bytes are read from the file again.

        Raises:
            CorruptRecordError: The records cannot be decoded, or the file has other bytes there now.
            SourceUnreadable: The file can no longer be read.
        """
        content = read_range(self.path, self.position, self.position + self.header.size)
        try:
            stored = read_header(content)
            if stored.crc != self.header.crc or not crc_matches(content, 0, stored):
                raise CorruptRecordError(CorruptionReason.CRC, "the file has other bytes there now")
            yield from read_records(content, 0, self.header)
        except CorruptRecordError as error:
            file = shown(self.path)
            raise CorruptRecordError(
                error.reason, error.message, file=file, position=self.position, offset=self.header.base_offset
            ) from error


def batches_of(log: SourceLog, start: int | None, end: int | None, notes: Notes) -> Iterator[LogBatch]:
    """Yield the batches that can be trusted. Damage in the files is reported, as far as they are read.

    Args:
        log: The log.
        start: Only batches that contain this offset or a later one; None: no lower bound.
        end: Only batches that begin before this offset; None: no upper bound.
        notes: Gets the findings.
    """
    low, high = start or 0, MAX_OFFSET if end is None else end
    for segment, item in checked_batches(log, segments_among(log, ((low, high),) if low < high else ()), notes):
        if isinstance(item, Stretch):
            continue
        if item.header.base_offset >= high:
            return
        if item.header.last_offset >= low:
            yield LogBatch(segment.path, item.position, item.header, item.control_type)
