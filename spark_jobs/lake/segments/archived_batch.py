"""One record batch of the archive as it is now: the fields of its header, and its checksum computed again.

This module reads the bytes at a position of a segment. ``lineage`` decides which batch is meant. Keys and values of
records are not read.
"""

from __future__ import annotations

from dataclasses import dataclass

from logcore.errors import LogError
from logcore.records.batch import HEADER_SIZE, computed_crc, counted, read_header
from logcore.records.legacy import unfold
from logcore.records.record import read_records
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.store import mapped_file, storage


@dataclass(frozen=True, slots=True)
class ArchivedBatch:
    """A batch read back from the archive; field names are those of ``loglake dump --batches``."""

    position: int
    """Position in the segment, as in ``records.position``."""
    archive_position: int
    """Position in the archived file; different if the segment was registered in place."""
    origin_position: int | None
    """Position in the file at the source; None for segments that we wrote."""
    size: int
    magic: int
    base_offset: int
    last_offset: int
    record_count: int
    codec: str
    timestamp_type: str
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool
    leader_epoch: int
    crc: int
    """Checksum as stored in the batch."""
    crc_computed: int
    """Checksum of its present bytes: CRC-32C, in formats before v2 CRC-32."""
    holds_offset: bool | None
    """Whether a record has the requested offset; None if its records cannot be read."""

    @property
    def crc_ok(self) -> bool:
        """Whether the bytes match the stored checksum."""
        return self.crc == self.crc_computed


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
    return ArchivedBatch(
        position=position,
        archive_position=at,
        origin_position=None if segment.generation else segment.origin_position + position,
        size=header.size,
        magic=header.magic,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        record_count=header.record_count,
        codec=header.codec.kafka_name,
        timestamp_type=header.timestamp_type.kafka_name,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        leader_epoch=header.partition_leader_epoch,
        crc=header.crc,
        crc_computed=crc,
        holds_offset=holds,
    )
