"""Read the headers of batches with one small read each, without the records.

Only compressed v0 and v1 messages are read completely: their headers do not contain the offsets inside. Headers of an
object that are wanted in order are read in windows, which grow: each read of an object is a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from logcore.errors import CorruptRecordError
from logcore.logs.model.sources import SegmentFile
from logcore.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, counted, crc_matches, read_header
from logcore.records.legacy import unfold
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan
from logcore.storage.objects.remembered_reads import RememberedReads
from logcore.storage.opened_file import OpenedFile
from logcore.storage.opened_source import open_source

FIRST_WINDOW, MOST_WINDOW = 1 << 16, 1 << 23
"""Bytes of an object that are read at once for headers in order: at first, and at most."""


@dataclass(frozen=True, slots=True)
class HeaderReader:
    """Headers of batches in a source's files, for `logcore.logs.growth.growth` and `divergence`.

    Reads 61 bytes for each batch, and a whole batch only to check it.

    Attributes:
        remembered: Small reads of objects by earlier runs; None: none.
    """

    remembered: RememberedReads | None = None

    def header_at(self, segment: SegmentFile, position: int) -> BatchHeader | None:
        """Read the header at a position; None if there is no header or the batch is incomplete.

        Raises:
            SourceUnreadable: The file cannot be read.
        """
        with closing(open_source(segment.path, segment, self.remembered)) as file:
            return _header_at(_Window(file, is_growing=False), position, file.size)

    def headers(self, segment: SegmentFile, position: int = 0) -> Iterator[tuple[int, BatchHeader | None]]:
        """Yield positions and headers of batches from a position on.

        A last item with None as its header means that nothing can be read from its position on. An unreadable batch is
        skipped if another batch begins at its end.

        Raises:
            SourceUnreadable: The file cannot be read.
        """
        with closing(open_source(segment.path, segment, self.remembered)) as file:
            window, size = _Window(file, is_growing=file.is_remote), file.size
            while position < size:
                header = _header_at(window, position, size)
                if header is not None:
                    yield position, header
                    position += header.size
                    continue
                prefix = window.read(LOG_OVERHEAD, position)
                behind = position + LOG_OVERHEAD + int.from_bytes(prefix[8:], "big", signed=True)
                declares = len(prefix) == LOG_OVERHEAD and position + LOG_OVERHEAD < behind < size
                if not declares or _header_at(window, behind, size) is None:
                    yield position, None
                    return
                position = behind

    def is_good(self, segment: SegmentFile, position: int, header: BatchHeader) -> bool:
        """Whether the batch of this header passes its checksum and its records can be decoded. It reads all of it.

        Raises:
            SourceUnreadable: The file cannot be read.
        """
        with closing(open_source(segment.path, segment)) as file:
            content = file.read(header.size, position)
        try:
            stored = read_header(content)
            if stored.size != len(content) or not crc_matches(content, 0, stored):
                return False
            first = next(iter(SegmentScan(content, base_offset=header.base_offset, sealed=True)), None)
            return isinstance(first, ScannedBatch)
        except CorruptRecordError:
            return False


class _Window:
    """Bytes of a file that were read at once. Without growth each read is as small as it is requested.

    The first read is always as small as it is requested: only so few bytes may be remembered.

    Args:
        file: The file.
        is_growing: Read ahead, twice as much each time.
    """

    def __init__(self, file: OpenedFile, *, is_growing: bool) -> None:
        self._file, self._is_growing = file, is_growing
        self._next = 0
        self._start, self._content = 0, b""

    def read(self, size: int, position: int) -> bytes:
        """Read at most `size` bytes. Raises as `OpenedFile.read`."""
        if not self._is_growing:
            return self._file.read(size, position)
        end = min(position + size, self._file.size)
        if position < self._start or end > self._start + len(self._content):
            self._start, self._content = position, self._file.read(max(size, self._next), position)
            self._next = min(max(FIRST_WINDOW, 2 * self._next), MOST_WINDOW)
        at = position - self._start
        return self._content[at : at + size]


def _header_at(window: _Window, position: int, size: int) -> BatchHeader | None:
    if not 0 <= position < size:
        return None
    try:
        header = read_header(window.read(min(HEADER_SIZE, size - position), position), whole=False)
        if header.size > size - position:
            return None
        if header.is_wrapper:
            message = window.read(header.size, position)
            # Damaged bytes are not decompressed; the header gives only the offset of the last record.
            return unfold(message, 0, header) if crc_matches(message, 0, header) else header
    except CorruptRecordError:
        return None
    return counted(header)
