"""Read the headers of batches in local files with one small read each, without the records.

Only compressed v0 and v1 messages are read completely: their headers do not contain the offsets inside.
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


class HeaderReader:
    """Headers of batches in a source's files, for `logcore.logs.growth.growth` and `divergence`.

    Reads 61 bytes for each batch, and a whole batch only to check it.
    """

    def header_at(self, segment: SegmentFile, position: int) -> BatchHeader | None:
        """Read the header at a position; None if there is no header or the batch is incomplete.

        Raises:
            SourceUnreadable: The file cannot be read.
        """
        with open_readonly(segment.path) as stream:
            return _header_at(stream, segment.path, position, os.fstat(stream.fileno()).st_size)

    def headers(self, segment: SegmentFile, position: int = 0) -> Iterator[tuple[int, BatchHeader | None]]:
        """Yield positions and headers of batches from a position on.

        A last item with None as its header means that nothing can be read from its position on. An unreadable batch is
        skipped if another batch begins at its end.

        Raises:
            SourceUnreadable: The file cannot be read.
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
        """Whether the batch of this header passes its checksum. It reads the whole batch.

        Raises:
            SourceUnreadable: The file cannot be read.
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
            # Damaged bytes are not decompressed; the header gives only the offset of the last record.
            return unfold(message, 0, header) if crc_matches(message, 0, header) else header
    except CorruptRecordError:
        return None
    return header
