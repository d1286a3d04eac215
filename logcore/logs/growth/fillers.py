"""Batches that fill a hole in the log: offsets that are `missing` or `corrupt` here, and good in another copy.

A hole is filled with whole batches inside it. They must pass their checksum, and increase in offset and leader epoch
between the batches beside the hole. A batch across an edge is refused, and so is one of an earlier leader than the log
had there. A copy that is not the log's own source must be a copy of this log: none of the batches beside the hole
differs, and it has one of them. Without them the topic id and the leader epochs show it: in one leader epoch an offset
has one record.

Belongs here: which bytes of a source fill a hole. The ingest job copies them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from logcore.errors import LogError
from logcore.logs.growth.divergence import CheckingReader
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.records.model import BatchHeader, BatchIdentity
from logcore.segments.side_files.leader_epochs import Epochs, epoch_for_offset


@dataclass(frozen=True, slots=True)
class Hole:
    """Offsets [start, end) that must be filled, and the batches beside them; None if there is none.

    `epochs`: the leader epochs of the log, as far as they are known. `topic_id`: None if it is not known.
    """

    start: int
    end: int
    before: BatchIdentity | None = None
    after: BatchIdentity | None = None
    epochs: Epochs = ()
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class Filler:
    """Adjacent batches: positions [start, end) of a source's segment, offsets [base_offset, next_offset)."""

    segment: SegmentFile
    start: int
    end: int
    base_offset: int
    next_offset: int


def find_fillers(
    hole: Hole,
    source: SourceLog,
    reader: CheckingReader,
    *,
    is_own: bool,
    seen: Collection[str] = (),
    begin_at: Mapping[str, int] | None = None,
) -> tuple[Filler, ...]:
    """Find a source's batches for a hole, in offset order. Nothing if the source may be another log.

    The content of the source never raises.

    Args:
        hole: The hole.
        source: The source to search.
        reader: Reads its headers.
        is_own: The log is bound to this source and agrees with it.
        seen: Paths of files that were read before and have not changed.
        begin_at: Positions in files below which nothing of the hole lies.
    """
    try:
        return _find(hole, source, reader, is_own, seen, begin_at or {})
    except LogError:
        return ()


def _find(
    hole: Hole,
    source: SourceLog,
    reader: CheckingReader,
    is_own: bool,
    seen: Collection[str],
    begin_at: Mapping[str, int],
) -> tuple[Filler, ...]:
    fillers: list[Filler] = []
    expected, epoch = hole.start, hole.before[1] if hole.before else -1
    is_copy, is_stated = is_own, hole.topic_id is not None and hole.topic_id == source.topic_id
    for segment, position, header in _around(hole, source, reader, seen, begin_at):
        beside = next((b for b in (hole.before, hole.after) if b is not None and b[0] == header.base_offset), None)
        if beside is not None:
            if header.identity != beside:
                return ()  # another history
            is_copy = True
        if header.base_offset < expected or header.next_offset > hole.end:
            continue
        if not _fits(header, epoch, hole, source) or not reader.is_good(segment, position, header):
            continue
        own = header.partition_leader_epoch
        is_stated &= all(
            epoch_for_offset(each, header.base_offset) == own for each in (hole.epochs, source.leader_epochs)
        )
        last = fillers[-1] if fillers else None
        if last is not None and (last.segment, last.end, last.next_offset) == (segment, position, header.base_offset):
            start, base_offset = last.start, last.base_offset
            fillers.pop()
        else:
            start, base_offset = position, header.base_offset
        fillers.append(Filler(segment, start, position + header.size, base_offset, header.next_offset))
        expected, epoch = header.next_offset, own
    return tuple(fillers) if is_copy or is_stated else ()


def _around(
    hole: Hole, source: SourceLog, reader: CheckingReader, seen: Collection[str], begin_at: Mapping[str, int]
) -> Iterator[tuple[SegmentFile, int, BatchHeader]]:
    """Readable headers from the batch before the hole to the one after it."""
    first = hole.start if hole.before is None else hole.before[0]
    last = hole.end if hole.after is None else hole.after[0] + 1
    for segment in source.segments:
        following = source.next_base_offset(segment)
        if segment.path in seen or segment.base_offset >= last or (following is not None and following <= first):
            continue
        start = begin_at.get(segment.path, 0)
        if start and reader.header_at(segment, start) is None:
            start = 0
        for position, header in reader.headers(segment, start):
            if header is None or header.base_offset >= last:
                break
            if header.last_offset >= first:
                yield segment, position, header


def _fits(header: BatchHeader, epoch: int, hole: Hole, source: SourceLog) -> bool:
    """Whether a batch's leader epoch is between its neighbours' and equals the one in the source's history."""
    own = header.partition_leader_epoch
    if own < epoch or (hole.after is not None and own > hole.after[1]):
        return False
    known = epoch_for_offset(source.leader_epochs, header.base_offset)
    ours = epoch_for_offset(hole.epochs, header.base_offset)
    return own < 0 or (known in (None, own) and (ours is None or ours <= own))
