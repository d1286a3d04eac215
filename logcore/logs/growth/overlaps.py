"""Two segments that have the same offsets: whether their batches can be of one history.

A cleaner leaves such segments for a moment, and a copy that was taken then keeps them. In one leader epoch an offset
has one record. So two different batches are of one history only if a cleaner wrote one of them again.
"""

from __future__ import annotations

from logcore.logs.growth.divergence import CheckingReader
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.gaps import is_cleaned
from logcore.logs.model.sources import SegmentFile
from logcore.records.batch import BatchHeader


def contradiction(
    reader: CheckingReader, segment: SegmentFile, position: int, following: SegmentFile
) -> Finding | None:
    """Compare the batches of a segment from a position on with those of the next one.

    Returns:
        The finding about the first offset at which they are of different histories; None if there is none.

    Raises:
        SourceUnreadable: A file cannot be read.
    """
    theirs = (header for _, header in reader.headers(following) if header is not None)
    other = next(theirs, None)
    for _, ours in reader.headers(segment, position):
        while ours is not None and other is not None and other.last_offset < ours.base_offset:
            other = next(theirs, None)
        if ours is None or other is None:
            return None
        if other.base_offset <= ours.last_offset and not _are_of_one_history(ours, other):
            offset = max(ours.base_offset, other.base_offset)
            message = (
                f"{segment.path} and the next segment have different batches at offset {offset}, of the leader epochs "
                f"{ours.partition_leader_epoch} and {other.partition_leader_epoch}, and no cleaner explains it: they "
                "are of two histories."
            )
            end = ours.last_offset + 1
            rule, file = "segments-differ", segment.path
            return found(rule, message, file=file, position=position, start_offset=offset, end_offset=end)
    return None


def _are_of_one_history(one: BatchHeader, other: BatchHeader) -> bool:
    if one.partition_leader_epoch != other.partition_leader_epoch:
        return False
    if (one.base_offset, one.crc) == (other.base_offset, other.crc):
        return True
    return any(is_cleaned(h.record_count, h.base_offset, h.last_offset, h.delete_horizon_ms) for h in (one, other))
