"""One record batch as it lies in the archive now: its header's fields, and its checksum computed again.

Belongs here: from a segment and a position to bytes and what they say. Does not: which batch is meant (``lineage``).
Keys and values of records are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

from logcore.errors import LogError
from logcore.records.batch import HEADER_SIZE, computed_crc, read_header
from logcore.records.legacy import unfold
from logcore.records.record import read_records
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.store import storage


@dataclass(frozen=True, slots=True)
class ArchivedBatch:
    """A batch read back from the archive; field names are those of ``loglake dump --batches``."""

    position: int
    """In the segment: what ``records.position`` says."""
    archive_position: int
    """In the archived file; another number where the segment was registered in place."""
    origin_position: int | None
    """In the file at the source; None for segments that we wrote ourselves."""
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
    """As stored in the batch."""
    crc_computed: int
    """From its bytes, now: CRC-32C, of formats before v2 CRC-32."""
    holds_offset: bool | None
    """Whether a record has the offset asked for; None where its records cannot be read."""

    @property
    def crc_ok(self) -> bool:
        """Whether the bytes are those that the producer's checksum was made of."""
        return self.crc == self.crc_computed


def is_held(lake: str, segment: Segment) -> bool:
    """Whether the segment's file is there."""
    return storage.exists(segment.local_path(lake))


def read_batch(lake: str, segment: Segment, position: int, offset: int) -> ArchivedBatch:
    """The batch at ``position`` of a segment.

    Args:
        offset: looked for among the batch's records.

    Raises:
        CorruptRecordError: no batch header can stand there; position is that in the archived file.
        SourceUnreadable, StorageError: the file can't be read.
    """
    at, end = segment.start + position, segment.start + segment.size
    path = segment.local_path(lake)
    at_source = segment.lies_at_source
    with storage.mapped(path, at, min(at + HEADER_SIZE, end), at_source=at_source) as content:
        size = read_header(content, at, end, whole=False).size
    with storage.mapped(path, at, min(at + size, end), at_source=at_source) as content:
        header = read_header(content, at, end)
        crc = computed_crc(content, at, header)
        holds = None
        if crc == header.crc:  # otherwise what is inside is nobody's word
            try:
                header = unfold(content, at, header)
                holds = any(record.offset == offset for record in read_records(content, at, header))
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
