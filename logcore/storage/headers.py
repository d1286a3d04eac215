"""Headers of batches in local files, one small read each, without reading the batches.

Only a compressed v0 or v1 message is read whole: its header does not tell which offsets are inside.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

from logcore.errors import CorruptRecordError
from logcore.logs.model.sources import SegmentFile
from logcore.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, crc_matches, read_header
from logcore.records.legacy import unfold
from logcore.storage.files import open_readonly, pread_range


class LocalReader:
    """Headers of batches in a source's files: what `logcore.logs.growth.growth` and `divergence` ask to see. Reads 61
    bytes a batch, and a whole one only to check it."""

    def header_at(self, segment: SegmentFile, position: int) -> BatchHeader | None:
        """The header at a position; None if the file ends before the batch does, or no header stands there.

        Raises SourceUnreadable.
        """
        with open_readonly(segment.path) as stream:
            return _header_at(stream, segment.path, position, os.fstat(stream.fileno()).st_size)

    def headers(self, segment: SegmentFile, position: int = 0) -> Iterator[tuple[int, BatchHeader | None]]:
        """Positions and headers of batches from a position on. None in place of a header, as the last item, says that
        from there on nothing can be told. A batch that cannot be told is passed over if one stands at its end.

        Raises SourceUnreadable.
        """
        with open_readonly(segment.path) as stream:
            size = os.fstat(stream.fileno()).st_size
            while position < size:
                header = _header_at(stream, segment.path, position, size)
                if header is not None:
                    yield position, header
                    position += header.size
                    continue
                prefix = pread_range(stream, segment.path, LOG_OVERHEAD, position)
                behind = position + LOG_OVERHEAD + int.from_bytes(prefix[8:], "big", signed=True)
                declares = len(prefix) == LOG_OVERHEAD and position + LOG_OVERHEAD < behind < size
                if not declares or _header_at(stream, segment.path, behind, size) is None:
                    yield position, None
                    return
                position = behind

    def is_good(self, segment: SegmentFile, position: int, header: BatchHeader) -> bool:
        """Whether the batch of this header passes its checksum: reads the whole batch.

        Raises SourceUnreadable.
        """
        with open_readonly(segment.path) as stream:
            content = pread_range(stream, segment.path, header.size, position)
        try:
            stored = read_header(content)
            return stored.size == len(content) and crc_matches(content, 0, stored)
        except CorruptRecordError:
            return False


def _header_at(stream: BinaryIO, path: str, position: int, size: int) -> BatchHeader | None:
    if not 0 <= position < size:
        return None
    try:
        header = read_header(pread_range(stream, path, min(HEADER_SIZE, size - position), position), whole=False)
        if header.size > size - position:
            return None
        if header.is_wrapper:
            message = pread_range(stream, path, header.size, position)
            # Nothing is decompressed for bytes that are damaged; the offset of the last record is all they tell.
            return unfold(message, 0, header) if crc_matches(message, 0, header) else header
    except CorruptRecordError:
        return None
    return header
