"""The producers of a log at an offset: the newest snapshot below it, and the batches from there on.

What a broker knows after its start: a producer that was silent for `producer.id.expiration.ms` when the snapshot was
loaded, and has no transaction open, is forgotten; the batches behind the snapshot are replayed as they come.

Source: Kafka ProducerStateManager.truncateAndReload, loadProducersFromRecords. Belongs here: snapshots and batches put
together. The replay itself is in `producer_state`.
"""

from __future__ import annotations

from collections.abc import Iterable

from logcore.errors import CorruptIndexError, CorruptRecordError, InvalidRecordError
from logcore.logs.model.partition_directory import PartitionFile
from logcore.logs.model.producer_state import Completed, ProducerReplay, read_end_marker, without_expired
from logcore.records.batch import BatchHeader
from logcore.records.varint import Buffer
from logcore.segments.filenames import snapshot_end_offset
from logcore.segments.scanning.file_batches import file_batches
from logcore.segments.side_files import producer_state
from logcore.segments.side_files.producer_state import ProducerEntry

Snapshot = tuple[int, tuple[ProducerEntry, ...]]
"""The offset it was taken at (exclusive), and its entries."""


def newest_snapshot(files: Iterable[PartitionFile], end_offset: int) -> Snapshot | None:
    """The newest snapshot at or below an offset that can be read; a broker deletes one that cannot."""
    taken = [(offset, file) for file in files if (offset := snapshot_end_offset(file.name)) is not None]
    for offset, file in sorted(taken, key=lambda each: each[0], reverse=True):
        if offset <= end_offset:
            try:
                return offset, producer_state.parse(bytes(file.content))
            except CorruptIndexError:
                continue
    return None


def producers_at(
    snapshot: Snapshot | None, segments: Iterable[Buffer], as_of_ms: int, expiration_ms: int
) -> tuple[ProducerEntry, ...]:
    """The producers behind the last of these segments, which are all of a log, ascending.

    as_of_ms: when the snapshot was loaded. Of a segment that cannot be walked, what lies in front of that counts.
    """
    start, known = (0, ()) if snapshot is None else snapshot
    replay = ProducerReplay(without_expired(known, as_of_ms, expiration_ms).values())
    for content in segments:
        try:
            for position, header in file_batches(content):
                if header.base_offset >= start:
                    take(replay, content, position, header)
        except CorruptRecordError:
            pass
        del content  # before the next one comes into memory
    return tuple(replay.entries().values())


def take(replay: ProducerReplay, content: Buffer, position: int, header: BatchHeader) -> Completed | None:
    """Account for the batch at a position of these bytes; the transaction that it ends, if it is such a marker.

    A marker that cannot be read counts for nothing.
    """
    if header.producer_id < 0:
        return None
    if not header.is_control:
        replay.take_data(header)
        return None
    try:
        marker = read_end_marker(content, position, header)
    except (CorruptRecordError, InvalidRecordError):
        return None
    return None if marker is None else replay.take_marker(header, marker)
