"""The pieces of a segment's file for a salvage: good batches, damage, zeros at the end.

`logcore.segments.scanning.scan` decides what is good. In addition, the walk continues after a batch with only a wrong
length field. And it continues at a batch that is bad only because it is too far above its segment's base: there a new
file begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from logcore.errors import CorruptRecordError
from logcore.records.batch import check_header, crc_matches, read_header
from logcore.records.legacy import unfold
from logcore.records.model import BatchHeader
from logcore.records.varint import Buffer
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scanning.damaged_batch import repaired_bytes
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.resynchronization import Resynchronizer
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET, ScannedBatch, Stretch, scan


@dataclass(frozen=True, slots=True)
class Zeros:
    """Zeros from a position up to the end of the file. `offset` is the next one expected there."""

    position: int
    nbytes: int
    offset: int


@dataclass(frozen=True, slots=True)
class NewFile:
    """What follows is too far above the segment's base for an index, and begins a file of this base offset."""

    base_offset: int


Piece: TypeAlias = ScannedBatch | Stretch | Zeros | NewFile


def segment_pieces(
    content: Buffer, base_offset: int, next_base: int | None, fetched: FetchedBytes | None = None
) -> Iterator[Piece]:
    """Yield the pieces of a segment's file in order.

    Args:
        content: The segment's bytes.
        base_offset: The segment's base offset.
        next_base: Base offset of the segment that follows; no batch reaches it, so that the batches of a whole log
            increase. None for the last segment.
        fetched: Knows which bytes the disk failed to read.
    """
    base, start = base_offset, 0
    expected: int | None = None
    resynchronizer: Resynchronizer | None = None
    while start < len(content):
        walk = scan(
            content,
            base_offset=base,
            sealed=next_base is not None,
            next_base_offset=next_base,
            start=start,
            next_offset=expected,
            fetched=fetched,
            resynchronizer=resynchronizer,
        )
        resynchronizer = walk.resynchronizer
        start, expected = len(content), None
        for item in walk:
            if isinstance(item, ScannedBatch):
                yield item
                continue
            beyond = _begins_new_file(content, item, base, walk.next_offset, next_base)
            if beyond is not None:
                yield NewFile(beyond)
                base, start, resynchronizer = beyond, item.position, None
                break
            if item.is_repaired and not _can_be_repaired(content, item, base, walk.next_offset, next_base):
                item = replace(item, is_repaired=False)
            yield item
            if item.is_repaired:
                start, expected = item.end, header_of(content, item).next_offset
                break
        else:
            if walk.accounting.padding:
                padding = walk.accounting.padding
                yield Zeros(len(content) - padding, padding, walk.next_offset)


def header_of(content: Buffer, piece: ScannedBatch | Stretch) -> BatchHeader:
    """The header of a good batch, or of one with only a wrong length field; unfolded."""
    if isinstance(piece, ScannedBatch):
        return piece.header
    whole = repaired_bytes(content, piece.position, piece.end)
    return unfold(whole, 0, read_header(whole))


def _can_be_repaired(content: Buffer, stretch: Stretch, base_offset: int, expected: int, next_base: int | None) -> bool:
    """Whether a batch is good once its length field is corrected, and takes no offset of the next good batch."""
    whole = repaired_bytes(content, stretch.position, stretch.end)
    walk = scan(whole, base_offset=base_offset, sealed=True, next_base_offset=next_base, next_offset=expected)
    repaired = next(iter(walk))
    if not isinstance(repaired, ScannedBatch):
        return False
    following = _next_good(content, stretch.end, base_offset, expected, next_base)
    return following is None or following.base_offset >= repaired.header.next_offset


def _next_good(
    content: Buffer, start: int, base_offset: int, expected: int, next_base: int | None
) -> BatchHeader | None:
    walk = scan(
        content,
        base_offset=base_offset,
        sealed=next_base is not None,
        next_base_offset=next_base,
        start=start,
        next_offset=expected,
    )
    return next((item.header for item in walk if isinstance(item, ScannedBatch)), None)


def _begins_new_file(
    content: Buffer, stretch: Stretch, base_offset: int, expected: int, next_base: int | None
) -> int | None:
    """The base offset of a batch that is bad only because it is too far above its segment's base; else None.

    It must fit a segment of its own, or the walk would stop at it again.
    """
    try:
        header = read_header(content, stretch.position)
        if not crc_matches(content, stretch.position, header):
            return None
        header = unfold(content, stretch.position, header)
        check_header(header, stretch.position)
    except CorruptRecordError:
        return None
    ceiling = MAX_OFFSET - 1 if next_base is None else next_base - 1
    fits = header.base_offset >= expected and header.last_offset <= min(
        header.base_offset + MAX_RELATIVE_OFFSET, ceiling
    )
    if not fits or header.last_offset <= base_offset + MAX_RELATIVE_OFFSET:
        return None
    # If sound batches follow at lower offsets, the far base offset is the wrong one.
    is_lower_after = _next_good(content, stretch.end, base_offset, expected, next_base) is not None
    return None if is_lower_after else header.base_offset
