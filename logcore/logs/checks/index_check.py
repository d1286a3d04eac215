"""The indexes beside a segment, compared with its batches: rules of `loglake verify`.

    rule                       finds
    corrupt-index              an index that contradicts itself
    index-missing              a segment without an offset index; a broker would recover the segment
    index-partial-entry        bytes at the end of an index that are not a whole entry; no broker reads them
    index-zeroed               zeros at the end of an index whose segment is complete; brokers trim them
    index-past-end             an entry for bytes after the last good batch: the segment may have been cut
    offset-index-differs       an entry that no broker would have written for these batches
    time-index-differs         the same for the time index
    transaction-index-differs  the aborted transactions are not those of the log

Indexes are derived from the log and can be rebuilt. So each kind of error gives one finding for each file. Entries of
every broker line are accepted (`logcore.segments.side_files.offset_index`). Belongs here: a segment's indexes.
`logcore.logs.checks.log_check` has rules that need the whole log, and finds the transactions to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from logcore.errors import CorruptIndexError, LogError, UnsupportedFormatError
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SegmentFile
from logcore.segments.filenames import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from logcore.segments.scanning.scan import ScannedBatch
from logcore.segments.side_files import offset_index, time_index, transaction_index
from logcore.segments.side_files.transaction_index import AbortedTransaction

Read = Callable[[str], bytes]
"""The bytes of a file beside a segment, by its path. Raises LogError."""

Batches = Callable[[], Iterable[ScannedBatch]]
"""The good batches of a segment in its order, as often as it is called. Each needs `position`, and in its header
`base_offset`, `last_offset` and `max_timestamp`."""


@dataclass(frozen=True, slots=True)
class WalkedSegment:
    """The results of a segment's scan.

    Attributes:
        valid_end: Position after its last good batch.
        is_damaged: Bytes before that cannot be trusted. Then an entry may belong to a batch among them, and only
            entries after the end are reported.
        is_sealed: A later segment follows.
        max_timestamp: The greatest of its batches in ms; None if they have none.
    """

    valid_end: int
    is_damaged: bool
    is_sealed: bool
    max_timestamp: int | None


def check_indexes(segment: SegmentFile, facts: WalkedSegment, batches: Batches, read: Read) -> Iterator[Finding]:
    """Check a segment's offset index and time index, and the sizes of both.

    The indexes of a remote segment that the log takes in part describe the whole segment. They are not checked.
    """
    if segment.end is not None:
        return
    path = segment.side_file(OFFSET_INDEX_SUFFIX)
    if path is not None:
        yield from _offset_index(segment, path, facts, batches, read)
    elif segment.size:
        message = "the segment has no offset index; a broker's start would recover the segment"
        yield found("index-missing", message, file=segment.path, start_offset=segment.base_offset)
    path = segment.side_file(TIME_INDEX_SUFFIX)
    if path is not None:
        yield from _time_index(segment, path, facts, batches, read)


def _offset_index(
    segment: SegmentFile, path: str, facts: WalkedSegment, batches: Batches, read: Read
) -> Iterator[Finding]:
    try:
        content = read(path)
        entries = offset_index.parse(content, segment.base_offset)
    except LogError as error:
        yield unusable(path, error)
        return
    yield from _size(path, len(content), offset_index.ENTRY_SIZE, len(entries), facts.is_sealed)
    past = next((at for at, entry in enumerate(entries) if entry.position >= max(facts.valid_end, 1)), None)
    if past is not None:
        entry = entries[past]
        yield found(
            "index-past-end",
            f"the index has offset {entry.offset} at position {entry.position}, but the segment's last good batch "
            f"ends at {facts.valid_end}; the segment may have been cut",
            file=path,
            position=past * offset_index.ENTRY_SIZE,
            nbytes=(len(entries) - past) * offset_index.ENTRY_SIZE,
            start_offset=entry.offset,
        )
        entries = entries[:past]
    if facts.is_damaged or not entries:
        return
    wrong = offset_index.unexplained(entries, batches())
    if wrong:
        first = wrong[0]
        yield found(
            "offset-index-differs",
            f"{len(wrong)} of {len(entries)} entries do not match the batches; the first one has offset {first.offset} "
            f"at position {first.position}",
            file=path,
            position=entries.index(first) * offset_index.ENTRY_SIZE,
            nbytes=offset_index.ENTRY_SIZE,
            start_offset=first.offset,
        )


def _time_index(
    segment: SegmentFile, path: str, facts: WalkedSegment, batches: Batches, read: Read
) -> Iterator[Finding]:
    try:
        content = read(path)
        entries = time_index.parse(content, segment.base_offset)
    except LogError as error:
        yield unusable(path, error)
        return
    yield from _size(path, len(content), time_index.ENTRY_SIZE, len(entries), facts.is_sealed)
    if facts.is_damaged:
        return
    wrong = time_index.unexplained(entries, batches()) if entries else ()
    if wrong:
        first = wrong[0]
        yield found(
            "time-index-differs",
            f"{len(wrong)} of {len(entries)} entries do not match the batches; the first one has offset "
            f"{first.offset} for timestamp {first.timestamp}",
            file=path,
            position=entries.index(first) * time_index.ENTRY_SIZE,
            nbytes=time_index.ENTRY_SIZE,
            start_offset=first.offset,
        )
        return
    greatest, stated = facts.max_timestamp, entries[-1].timestamp if entries else -1
    if facts.is_sealed and greatest is not None and stated < greatest:
        yield found(
            "time-index-differs",
            f"the index of a complete segment ends at timestamp {stated}, but its batches reach {greatest}; a broker "
            "uses the former, or the file's mtime, as the segment's age",
            file=path,
            start_offset=segment.base_offset,
        )


def _size(path: str, size: int, entry_size: int, entries: int, is_sealed: bool) -> Iterator[Finding]:
    """Check the size of an index, whatever its entries are."""
    whole = size - size % entry_size
    used = entries * entry_size
    if size > whole:
        message = f"the last {size - whole} bytes are not a whole entry; brokers ignore them"
        yield found("index-partial-entry", message, file=path, position=whole, nbytes=size - whole)
    if is_sealed and whole > used:
        message = f"{whole - used} bytes are zeros, but the index of a complete segment has none at its end"
        yield found("index-zeroed", message, file=path, position=used, nbytes=whole - used)


def unusable(path: str, error: LogError) -> Finding:
    """The finding for a file beside a segment that is unreadable or invalid."""
    if isinstance(error, CorruptIndexError | UnsupportedFormatError):
        return found("corrupt-index", error.message, file=path, position=error.position)
    return found("unreadable", error.message, file=path)


def transaction_index_of(
    segment: SegmentFile, read: Read
) -> tuple[dict[int, AbortedTransaction] | None, list[Finding]]:
    """Read a segment's transaction index. A segment without aborts has none.

    Returns:
        Entries by the offset of their marker, and findings. The entries are None if the file cannot be used, or belongs
        to a remote segment that the log takes in part.
    """
    if segment.end is not None:
        return None, []
    path = segment.side_file(TRANSACTION_INDEX_SUFFIX)
    if path is None:
        return {}, []
    try:
        content = read(path)
        entries = transaction_index.parse(content, segment.base_offset)
    except LogError as error:
        return None, [unusable(path, error)]
    said = _size(path, len(content), transaction_index.ENTRY_SIZE, len(entries), is_sealed=False)
    return {entry.last_offset: entry for entry in entries}, list(said)


def compare_transactions(
    segment: SegmentFile,
    indexed: Mapping[int, AbortedTransaction],
    derived: Mapping[int, AbortedTransaction],
    markers: Mapping[int, int],
    *,
    exact_below: int,
) -> Iterator[Finding]:
    """Check a segment's transaction index against the log.

    Args:
        segment: The segment.
        indexed: The index's aborted transactions by the offset of their marker.
        derived: The log's aborted transactions by the offset of their marker.
        markers: Producer id of every ABORT marker of the segment by its offset.
        exact_below: Below this offset the log is known from its beginning and nothing was cleaned, so both must be the
            same. Above it an entry must only have its marker in the log, and entries may be missing.
    """
    path = segment.side_file(TRANSACTION_INDEX_SUFFIX)
    wrong: list[tuple[int, str]] = []
    for marker, entry in indexed.items():
        ours = derived.get(marker)
        if markers.get(marker) != entry.producer_id:
            if marker < exact_below or marker in markers:
                wrong.append(
                    (marker, f"it has an abort of producer {entry.producer_id} at offset {marker}, the log has none")
                )
        elif marker < exact_below and ours != entry:
            difference = "no data of it" if ours is None else _differing(entry, ours)
            wrong.append(
                (marker, f"for the abort of producer {entry.producer_id} at offset {marker} the log has {difference}")
            )
        elif ours is not None and ours.first_offset < entry.first_offset:
            wrong.append((marker, f"the one up to {marker} begins at {entry.first_offset}, its data earlier"))
    for marker, ours in derived.items():
        if marker < exact_below and marker not in indexed:
            wrong.append((marker, f"it lacks the one of producer {ours.producer_id} up to {marker}"))
    if wrong:
        marker, first = min(wrong)
        message = f"{len(wrong)} aborted transactions of the index differ from the log: {first}"
        if path is None:
            message = f"the segment has no transaction index, and {len(wrong)} aborted transactions end in it"
        yield found("transaction-index-differs", message, file=path or segment.path, start_offset=marker)


def _differing(entry: AbortedTransaction, ours: AbortedTransaction) -> str:
    if entry.first_offset != ours.first_offset:
        return f"first offset {ours.first_offset} instead of {entry.first_offset}"
    return f"last stable offset {ours.last_stable_offset} instead of {entry.last_stable_offset}"
