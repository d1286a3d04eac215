"""The producers of a log at an offset: the latest snapshot below it, and the batches from there on.

This is a broker's state after its start. It forgets a producer that had no transaction open and was silent for
`producer.id.expiration.ms` when the snapshot was loaded. Then it replays the batches after the snapshot.

Source: Kafka ProducerStateManager.truncateAndReload, loadProducersFromRecords. Belongs here: snapshots and batches
together. `producer_state` has the replay itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from logcore.errors import CorruptIndexError, CorruptRecordError, InvalidRecordError
from logcore.logs.model.partition_directory import PartitionFile
from logcore.logs.model.producers.producer_state import Completed, ProducerReplay, read_end_marker, without_expired
from logcore.records.batch import BatchHeader
from logcore.records.varint import Buffer
from logcore.segments.filenames import snapshot_end_offset
from logcore.segments.scanning.file_batches import file_batches
from logcore.segments.side_files import producer_state
from logcore.segments.side_files.producer_state import ProducerEntry

Snapshot = tuple[int, tuple[ProducerEntry, ...]]
"""Its offset (exclusive), and its entries."""


def newest_snapshot(files: Iterable[PartitionFile], end_offset: int) -> Snapshot | None:
    """Find the latest readable snapshot at or below an offset. A broker deletes one that it cannot read."""
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
    """The producers after the last of these segments.

    Args:
        snapshot: The snapshot to begin with.
        segments: All segments of a log, ascending. Of a segment that cannot be read to its end, the batches before the
            damage count.
        as_of_ms: When the snapshot was loaded.
        expiration_ms: `producer.id.expiration.ms`.
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
        del content  # before the next one is loaded into memory
    return tuple(replay.entries().values())


def take(replay: ProducerReplay, content: Buffer, position: int, header: BatchHeader) -> Completed | None:
    """Add the batch at a position of these bytes to the replay.

    An unreadable marker is ignored.

    Returns:
        The transaction that the batch ends, if it is such a marker.
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
