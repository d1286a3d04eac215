"""The indexes beside a segment, held against its batches: rules of `loglake verify`.

    rule                       severity  says
    corrupt-index              warning   an index that contradicts itself
    index-missing              info      a segment without an offset index; a broker would recover the segment
    index-partial-entry        info      bytes at the end of an index that are no whole entry; nobody reads them
    index-zeroed               warning   zeros at the end of an index whose segment is complete, where it is trimmed
    index-past-end             warning   an entry for bytes behind the last good batch: the segment may have been cut
    offset-index-differs       warning   an entry that no broker would have written for these batches
    time-index-differs         warning   the same of the time index
    transaction-index-differs  warning   the aborted transactions are not those of the log

Indexes are derived from the log: what is wrong with one is said once a file, and it can be rebuilt. Entries of every
broker line are accepted (`logcore.segments.side_files.offset_index`). Belongs here: a segment's indexes. What needs
the whole log is `logcore.logs.checks.log_check`, which also finds the transactions to compare with.
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
"""The good batches of a segment in its order, as often as it is called. Of each are needed `position`, and of its
header `base_offset`, `last_offset` and `max_timestamp`."""


@dataclass(frozen=True, slots=True)
class WalkedSegment:
    """What the walk over a segment told of it. valid_end: position behind its last good batch. is_damaged: bytes before
    that cannot be trusted; then an entry may be of a batch among them, and only what lies behind the end is said.
    is_sealed: a later segment follows. max_timestamp: the greatest of its batches in ms; None if they have none."""

    valid_end: int
    is_damaged: bool
    is_sealed: bool
    max_timestamp: int | None


def check_indexes(segment: SegmentFile, facts: WalkedSegment, batches: Batches, read: Read) -> Iterator[Finding]:
    """What is to be said of a segment's offset and time index, and of the size of all three."""
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
            f"the index knows of offset {entry.offset} at position {entry.position}, and the segment's last good batch "
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
            f"{len(wrong)} of {len(entries)} entries do not fit the batches, the first one says offset {first.offset} "
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
            f"{len(wrong)} of {len(entries)} entries do not fit the batches, the first one says that offset "
            f"{first.offset} brought timestamp {first.timestamp}",
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
            f"the index of a complete segment ends at timestamp {stated}, its batches reach {greatest}; a broker takes "
            "the former, or the file's time, for the segment's age",
            file=path,
            start_offset=segment.base_offset,
        )


def _size(path: str, size: int, entry_size: int, entries: int, is_sealed: bool) -> Iterator[Finding]:
    """What the size of an index says, whatever its entries do."""
    whole = size - size % entry_size
    used = entries * entry_size
    if size > whole:
        message = f"the last {size - whole} bytes are no whole entry; nobody reads them"
        yield found("index-partial-entry", message, file=path, position=whole, nbytes=size - whole)
    if is_sealed and whole > used:
        message = f"{whole - used} bytes are zeros, where the index of a complete segment is trimmed"
        yield found("index-zeroed", message, file=path, position=used, nbytes=whole - used)


def unusable(path: str, error: LogError) -> Finding:
    """The finding for a file beside a segment that cannot be read or understood."""
    if isinstance(error, CorruptIndexError | UnsupportedFormatError):
        return found("corrupt-index", error.message, file=path, position=error.position)
    return found("unreadable", error.message, file=path)


def transaction_index_of(
    segment: SegmentFile, read: Read
) -> tuple[dict[int, AbortedTransaction] | None, list[Finding]]:
    """Entries of a segment's transaction index by the offset of their marker; None, and a finding, if the file cannot
    be used. A segment without aborts has none."""
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
    """What is to be said of a segment's transaction index.

    indexed, derived: aborted transactions by the offset of their marker, as the index and as the log tells them.
    markers: producer id of every ABORT marker of the segment by its offset. exact_below: up to this offset all of the
    log from its beginning was seen and nothing was cleaned, so that both must be the same; above, an entry is only
    asked for its marker, and an entry may be missing.
    """
    path = segment.side_file(TRANSACTION_INDEX_SUFFIX)
    wrong: list[tuple[int, str]] = []
    for marker, entry in indexed.items():
        ours = derived.get(marker)
        if markers.get(marker) != entry.producer_id:
            if marker < exact_below or marker in markers:
                wrong.append(
                    (marker, f"it has an abort of producer {entry.producer_id} at offset {marker}, the log none")
                )
        elif marker < exact_below and ours != entry:
            told = "no data of it" if ours is None else _differing(entry, ours)
            wrong.append(
                (marker, f"of the abort of producer {entry.producer_id} at offset {marker} the log has {told}")
            )
        elif ours is not None and ours.first_offset < entry.first_offset:
            wrong.append((marker, f"the one up to {marker} begins at {entry.first_offset}, its data before that"))
    for marker, ours in derived.items():
        if marker < exact_below and marker not in indexed:
            wrong.append((marker, f"it lacks the one of producer {ours.producer_id} up to {marker}"))
    if wrong:
        marker, first = min(wrong)
        message = f"{len(wrong)} aborted transactions of the index are not as in the log: {first}"
        if path is None:
            message = f"the segment has no transaction index, and {len(wrong)} aborted transactions end in it"
        yield found("transaction-index-differs", message, file=path or segment.path, start_offset=marker)


def _differing(entry: AbortedTransaction, ours: AbortedTransaction) -> str:
    if entry.first_offset != ours.first_offset:
        return f"first offset {ours.first_offset} instead of {entry.first_offset}"
    return f"last stable offset {ours.last_stable_offset} instead of {entry.last_stable_offset}"
