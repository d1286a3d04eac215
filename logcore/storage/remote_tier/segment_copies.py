"""Copies the bytes of a segment that is stored in chunks into a new local file."""

from __future__ import annotations

from contextlib import closing

from logcore.logs.model.sources import SegmentFile
from logcore.storage.objects.object_copy import copy_parts
from logcore.storage.objects.object_reads import PART_BYTES
from logcore.storage.opened_source import open_stored
from logcore.storage.remote_tier.chunked_segment import ChunkedSegment
from logcore.storage.source_errors import SourceChanged, shown


def copy_chunked(file: SegmentFile, start: int, end: int, destination: str) -> str:
    """Copy bytes start..end of a segment into a new file. On an error the file is removed. It is not synced to disk.

    Args:
        file: The segment as it was listed; an object must still be that one.
        start: First byte.
        end: Exclusive end.
        destination: Path of the new file, which must not exist.

    Returns:
        The SHA-256 of the bytes, in hex.

    Raises:
        SourceUnreadable: The chunks cannot be read, decrypted or decompressed.
        SourceChanged: The object is another one than was listed, or the segment ends before `end`.
        OSError: The destination cannot be written.
    """
    with closing(ChunkedSegment(file.path, open_stored, file.etag, file.modified_ms, file.chunk_map)) as segment:
        if segment.size < end:
            message = f"bytes {start} to {end} of {segment.size} cannot be copied"
            raise SourceChanged(message, file=shown(file.path), position=start)
        # A chunk is decoded once if no part ends inside of it.
        chunk_size = segment.manifest.chunks.chunk_size
        part_bytes = max(1, PART_BYTES // chunk_size) * chunk_size
        digest = copy_parts(
            lambda low, high: memoryview(segment.read(high - low, low)), start, end, destination, part_bytes
        )
        segment.refuse_change(sealed=True)
    return digest
