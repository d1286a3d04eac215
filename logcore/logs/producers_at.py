"""The producers of a log at an offset: the newest snapshot below it, and the batches from there on.

What a broker knows after its start: a producer that was silent for `producer.id.expiration.ms` when the snapshot was
loaded, and has no transaction open, is forgotten; the batches behind the snapshot are replayed as they come.

Source: Kafka ProducerStateManager.truncateAndReload, loadProducersFromRecords. Belongs here: snapshots and batches put
together. The replay itself is in `producer_state`.
"""

from __future__ import annotations

from collections.abc import Iterable

from logcore.errors import CorruptIndexError, CorruptRecordError
from logcore.logs.partition_directory import PartitionFile
from logcore.logs.producer_state import Completed, ProducerReplay
from logcore.logs.validation import BatchVerdict
from logcore.records.control import ControlType, coordinator_epoch
from logcore.records.record import read_records
from logcore.records.varint import Buffer
from logcore.segments import producer_state
from logcore.segments.filenames import snapshot_end_offset
from logcore.segments.producer_state import ProducerEntry
from logcore.segments.scan import ScannedBatch, scan

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
    snapshot: Snapshot | None, segments: Iterable[tuple[int, Buffer]], expired_before_ms: int
) -> tuple[ProducerEntry, ...]:
    """The producers behind the last of these segments (base offset and bytes, ascending)."""
    start, known = (0, ()) if snapshot is None else snapshot
    alive = (entry for entry in known if entry.open_transaction is not None or entry.timestamp > expired_before_ms)
    replay = ProducerReplay(alive)
    for base_offset, content in segments:
        for step in scan(content, base_offset=base_offset, sealed=False, decode=False):
            if isinstance(step, ScannedBatch) and step.header.base_offset >= start:
                take(replay, content, step)
    return tuple(replay.entries().values())


def take(replay: ProducerReplay, content: Buffer, batch: ScannedBatch) -> Completed | None:
    """Account for a batch of these bytes, with what its marker says if it is one."""
    if batch.header.producer_id < 0:
        return None
    epoch = None
    if batch.control_type in (ControlType.COMMIT, ControlType.ABORT):
        try:
            epoch = next(
                (coordinator_epoch(r.value) for r in read_records(content, batch.position, batch.header)), None
            )
        except CorruptRecordError:
            epoch = None
    return replay.take(BatchVerdict.of(batch), epoch)
