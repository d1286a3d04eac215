"""One record batch of the archive as it is now: the fields of its header, and its checksum computed again.

This module reads the bytes at a position of a segment. ``lineage`` decides which batch is meant. Keys and values of
records are not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from logcore.errors import LogError
from logcore.records.batch import HEADER_SIZE, BatchHeader, computed_crc, counted, read_header
from logcore.records.legacy import unfold
from logcore.records.record import read_records
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.store import mapped_file, storage

_NOT_READ = ("delete_horizon_ms", "control_type")


@dataclass(frozen=True, slots=True)
class ArchivedBatch:
    """A batch read back from the archive."""

    position: int
    """Position in the segment, as in ``records.position``."""
    archive_position: int
    """Position in the archived file; different if the segment was registered in place."""
    origin_position: int | None
    """Position in the file at the source; None for segments that we wrote."""
    header: BatchHeader
    crc_computed: int
    """Checksum of its present bytes: CRC-32C, in formats before v2 CRC-32."""
    holds_offset: bool | None
    """Whether a record has the requested offset; None if its records cannot be read."""

    @property
    def crc_ok(self) -> bool:
        """Whether the bytes match the stored checksum."""
        return self.header.crc == self.crc_computed

    @property
    def plain(self) -> dict[str, Any]:
        """Its fields for JSON, with the names of ``loglake dump --batches``."""
        place = {name: getattr(self, name) for name in ("position", "archive_position", "origin_position")}
        batch = {name: value for name, value in self.header.columns().items() if name not in _NOT_READ}
        checked = {name: getattr(self, name) for name in ("crc_computed", "holds_offset", "crc_ok")}
        return place | batch | checked


def is_held(lake: str, segment: Segment) -> bool:
    """Return whether the segment's file exists."""
    return storage.exists(segment.local_path(lake))


def read_batch(lake: str, segment: Segment, position: int, offset: int) -> ArchivedBatch:
    """Read the batch at ``position`` of a segment.

    Args:
        offset: Offset to look for among the batch's records.

    Raises:
        CorruptRecordError: The bytes there cannot be a batch header; its position is that in the archived file.
        SourceUnreadable: The file can't be read.
        StorageError: The object store failed.
    """
    at, end = segment.start + position, segment.start + segment.size
    path = segment.local_path(lake)
    at_source, registered = segment.lies_at_source, segment.registered
    with mapped_file.mapped(
        path, at, min(at + HEADER_SIZE, end), at_source=at_source, registered=registered
    ) as content:
        size = read_header(content, at, end, whole=False).size
    with mapped_file.mapped(path, at, min(at + size, end), at_source=at_source, registered=registered) as content:
        header = read_header(content, at, end)
        crc = computed_crc(content, at, header)
        holds = None
        if crc == header.crc:  # otherwise the records cannot be trusted
            try:
                header = counted(unfold(content, at, header))
                shift = header.reader_shift
                holds = any(record.offset - shift == offset for record in read_records(content, at, header))
            except LogError:
                holds = None
    origin = None if segment.generation else segment.origin_position + position
    return ArchivedBatch(position, at, origin, header, crc, holds)
