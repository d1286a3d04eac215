"""Where a source and the archive diverge: the end of their common prefix, batch by batch.

A broker that lost an election cuts its log back to where it agrees with its leader, and continues with what the leader
wrote (KIP-101, KIP-279). Then from some offset on the batches of this source differ from ours. The same offset and
leader epoch mean the same history up to there. So only the latest of our segments with any agreement is needed. The crc
does not cover base offset and leader epoch, so all three are compared.

    required of the source                                           otherwise
    it has one of our batches, with base offset, epoch and crc       it never was this log, or was rewritten: no fork,
                                                                     unless a newer leader's log begins where ours does
    another batch follows the last such batch                        it only ends earlier: no fork
    that one passes its crc, has a later offset and a known epoch    it may be damage: no fork
    the leader epochs do not diverge at a lower offset               they contradict the batches: no fork

Nothing is read here: headers come from a reader for each side. The caller decides what happens to our tail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from logcore.errors import LogError
from logcore.logs.growth.agreement import LogTail, SourceReader, Stopped, walk
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.records.batch import BatchHeader
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.side_files.leader_epochs import (
    UNDEFINED_EPOCH,
    EpochEntry,
    Epochs,
    end_offset_for,
    epoch_for_offset,
    truncate_from_end,
)


class CheckingReader(SourceReader, Protocol):
    """A reader that also checks the bytes of a batch; `logcore.storage.discovery.HeaderReader` is one."""

    def is_good(self, segment: SegmentFile, position: int, header: BatchHeader) -> bool:
        """Whether the batch of this header, at this position, passes its checksum."""


@dataclass(frozen=True, slots=True)
class HeldSegment:
    """One of our segments: batches between the positions `start` and `end` of a file."""

    base_offset: int
    next_offset: int
    file: SegmentFile
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Fork:
    """The first offset on which source and archive differ.

    Attributes:
        offset: The offset.
        tail: The end of the common prefix, as it is in the source; None if nothing agrees.
        held: Index of our segment in which, or after which, the fork is.
        position: End of the common prefix in the file of that segment.
    """

    offset: int
    tail: LogTail | None = None
    held: int | None = None
    position: int | None = None


Place = tuple[SegmentFile, int]
_Found = tuple[Place, BatchHeader | None]


def find_fork(
    held: Sequence[HeldSegment],
    source: SourceLog,
    reader: CheckingReader,
    archive: SourceReader,
    *,
    known_epochs: Sequence[tuple[int, int]] = (),
    not_below: int | None = None,
    is_whole: bool = False,
) -> Fork | None:
    """Find the fork of a source from our segments. The content of either side never raises.

    Args:
        held: Our segments in offset order, those of an earlier incarnation first, read with `archive`.
        source: The source.
        reader: Reads the source.
        archive: Reads our segments.
        known_epochs: The leader epochs in which our log was written.
        not_below: A fork below this offset does not help the caller, and is not searched. Without it, a source of which
            nothing agrees has a fork too, at its beginning.
        is_whole: Nothing below `held` was ever ours. Then a fork may be at its beginning too.

    Returns:
        The fork; None if there is none, or if it is unknown.
    """
    try:
        for index in reversed(range(len(held))):
            if not_below is not None and held[index].next_offset < not_below:
                return None
            found = _fork_in(held, index, source, reader, archive)
            if found is not None:
                agreed, (place, header) = found
                fork = _fork(held, index, agreed, source)
                if header is None or header.base_offset < fork.offset:
                    return None
                if not _is_written(place, header, agreed.our_next, source, reader):
                    return None
                if not_below is not None and header.base_offset < (source.cleaner_checkpoint or 0):
                    return None  # cleaning may be the reason for the difference, so our segments are kept
                if not_below is not None and fork.offset < not_below:
                    return None
                return fork if _epochs_allow(fork.offset, held[-1].next_offset, known_epochs, source) else None
        if not_below is None:
            return _fork_at_start(source, reader)
        if is_whole and held and held[0].base_offset >= not_below:
            return _fork_before(held, source, reader, archive, known_epochs)
        return None
    except (LogError, Stopped):
        return None


@dataclass(frozen=True, slots=True)
class _Agreed:
    """The last batch on which both agree: header, end in our file, place in the source; and our next batch."""

    header: BatchHeader
    our_end: int
    place: Place
    our_next: BatchHeader | None


def _fork_in(
    held: Sequence[HeldSegment], index: int, source: SourceLog, reader: SourceReader, archive: SourceReader
) -> tuple[_Agreed, _Found] | None:
    """The last batch of a segment that agrees, and the source's next one; None if not even the first agrees."""
    agreed: _Agreed | None = None
    theirs = source_from(held[index].base_offset, source, reader)
    their = next(theirs, None)
    for ours, end in _headers_of(held[index], archive):
        if their is None or ours is None or their[1] is None or not is_same_batch(ours, their[1]):
            rest = (their if their is not None else (_end_of(source), None)) if agreed else None
            return None if agreed is None or rest is None else (replace(agreed, our_next=ours), rest)
        agreed = _Agreed(ours, end, their[0], None)
        their = next(theirs, None)
    if agreed is None:
        return None
    following = next((h for part in held[index + 1 :] for h, _ in _headers_of(part, archive)), None)
    return replace(agreed, our_next=following), their if their is not None else (_end_of(source), None)


def _end_of(source: SourceLog) -> Place:
    return source.segments[-1], source.segments[-1].size


def _headers_of(part: HeldSegment, archive: SourceReader) -> Iterator[tuple[BatchHeader | None, int]]:
    """Headers of our segment, each with the position after its batch; None for damage, as the last one."""
    try:
        for position, header in archive.headers(part.file, part.start):
            if position >= part.end:
                return
            yield header, position if header is None else position + header.size
    except LogError:
        yield None, part.start  # a retired segment's file may be deleted: nothing in it can be compared


def source_from(offset: int, source: SourceLog, reader: SourceReader) -> Iterator[_Found]:
    """The source's batches that begin at or after an offset, and damage."""
    below = [segment for segment in source.segments if segment.base_offset <= offset]
    if not source.segments:
        return
    for place, header in walk(source, reader, below[-1] if below else source.segments[0]):
        if header is None or header.base_offset >= offset:
            yield place, header


def _fork(held: Sequence[HeldSegment], index: int, agreed: _Agreed, source: SourceLog) -> Fork:
    header, (segment, position) = agreed.header, agreed.place
    end = position + header.size
    tail = LogTail(
        next_offset=header.next_offset,
        last_batch_base_offset=header.base_offset,
        last_batch_epoch=header.partition_leader_epoch,
        last_batch_crc=header.crc,
        last_batch_size=header.size,
        last_batch_end=end,
        last_batch_segment=segment.base_offset,
        source_segment=segment.base_offset,
        source_position=end,
    )
    return Fork(header.next_offset, tail, index, agreed.our_end)


def _fork_at_start(source: SourceLog, reader: CheckingReader) -> Fork | None:
    """Nothing agrees: the source's log is another one from its first batch on."""
    if not source.segments or source.unreadable:
        return None
    for (segment, position), header in walk(source, reader, source.segments[0]):
        if header is None or not _is_written((segment, position), header, None, source, reader):
            return None
        return Fork(max(source.log_start_offset, source.segments[0].base_offset))
    return None


def _fork_before(
    held: Sequence[HeldSegment],
    source: SourceLog,
    reader: CheckingReader,
    archive: SourceReader,
    known_epochs: Sequence[tuple[int, int]],
) -> Fork | None:
    """Nothing agrees, and both logs begin at one offset: a newer leader never had ours, and its history shows it.

    Then a follower truncates to its beginning. Without a history it may also be another log.
    """
    begin, end = held[0].base_offset, held[-1].next_offset
    ours = next((header for header, _ in _headers_of(held[0], archive)), None)
    if not source.segments or source.unreadable or source.segments[0].base_offset != begin or ours is None:
        return None
    bound = epochs_part_at(our_epochs(known_epochs, end), source.leader_epochs, end)
    if bound is None or bound > begin or begin < (source.cleaner_checkpoint or 0):
        return None
    for place, header in walk(source, reader, source.segments[0]):
        is_newer = header is not None and header.partition_leader_epoch > ours.partition_leader_epoch
        if header is None or header.base_offset != begin or not is_newer:
            return None
        return Fork(begin) if _is_written(place, header, ours, source, reader) else None
    return None


def _is_written(
    place: Place, header: BatchHeader, ours: BatchHeader | None, source: SourceLog, reader: CheckingReader
) -> bool:
    """Whether a leader wrote the source's differing batch, and it is not one of ours with damage.

    The crc does not cover base offset and leader epoch. If the content is ours, it is another batch only if the
    source's history shows another leader there, as when a producer sent it again.
    """
    if not reader.is_good(*place, header):
        return False
    if ours is not None and ours.crc == header.crc:
        is_again = (
            header.base_offset == ours.base_offset and header.partition_leader_epoch != ours.partition_leader_epoch
        )
        if not is_again or not source.leader_epochs:
            return False
    if not source.leader_epochs:
        return True
    return epoch_for_offset(source.leader_epochs, header.base_offset) == header.partition_leader_epoch


def is_same_batch(ours: BatchHeader, theirs: BatchHeader) -> bool:
    """Whether two headers are of the same batch."""
    return ours.identity == theirs.identity


def _epochs_allow(fork: int, our_end: int, known: Sequence[tuple[int, int]], source: SourceLog) -> bool:
    bound = epochs_part_at(our_epochs(known, our_end), source.leader_epochs, our_end)
    return bound is None or fork <= bound


def our_epochs(known: Sequence[tuple[int, int]], our_end: int) -> Epochs:
    """The history of a log up to an offset, from (epoch, start offset) as they were seen."""
    return truncate_from_end(tuple(EpochEntry(*entry) for entry in known), our_end)


def only_ends_earlier(known: Sequence[tuple[int, int]], source: SourceLog, our_end: int) -> bool:
    """Whether the leader epochs show that a source that ends before us is only an old copy of our log."""
    ours = our_epochs(known, our_end)
    if not ours or not source.leader_epochs:
        return False
    bound = epochs_part_at(ours, source.leader_epochs, our_end)
    return bound is None or bound >= our_end


def epochs_part_at(ours: Epochs, theirs: Epochs, our_end: int, their_end: int = MAX_OFFSET) -> int | None:
    """Find where two histories of leader epochs show that their logs diverge.

    This is what a follower does with its leader's answers: from its latest epoch down, the lower of the two ends of the
    latest epoch that both know. See Kafka AbstractFetcherThread.getOffsetTruncationState.

    Returns:
        The offset; None if the histories do not show it.
    """
    end = our_end
    epoch = ours[-1].epoch if ours else UNDEFINED_EPOCH
    while True:
        answered, their_epoch_end = end_offset_for(theirs, epoch, their_end)
        if answered == UNDEFINED_EPOCH:
            return None
        own, own_end = end_offset_for(ours, answered, our_end)
        if own == UNDEFINED_EPOCH:
            return min(their_epoch_end, end)
        end = min(their_epoch_end, own_end, end)
        if own == answered or own >= epoch:
            return end
        epoch = own
