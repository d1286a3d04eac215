"""The pieces of a segment's file for a salvage: good batches, damage, zeros at the end.

`logcore.segments.scanning.scan` decides what is good. In addition, the walk continues after a batch with only a wrong
length field. And it continues at a batch that is bad only because it is too far above its segment's base: there a new
file begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
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
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET, ScannedBatch, SegmentScan, Stretch


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
    ahead = _Ahead(content, base, next_base, fetched)
    expected: int | None = None
    resynchronizer: Resynchronizer | None = None
    while start < len(content):
        walk = SegmentScan(
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
            beyond = _begins_new_file(content, item, base, walk.next_offset, ahead)
            if beyond is not None:
                yield NewFile(beyond)
                base, start, resynchronizer = beyond, item.position, None
                ahead = _Ahead(content, base, next_base, fetched, is_near=True)
                break
            if item.is_repaired and not _can_be_repaired(content, item, base, walk.next_offset, ahead):
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


class _Ahead:
    """The next good batch after damage.

    Each is searched for once, so that a segment of nothing but damage is not read again for each stretch of it.

    Args:
        content: The segment's bytes.
        base_offset: The base offset that the batches are checked against.
        next_base: Base offset of the segment that follows.
        fetched: Loads the bytes.
        is_near: Only the batch directly after the damage counts. In a file that salvage begins, no batch is good by the
            old base, and a search to the end for each such file would take quadratic time.
    """

    def __init__(
        self,
        content: Buffer,
        base_offset: int,
        next_base: int | None,
        fetched: FetchedBytes | None,
        *,
        is_near: bool = False,
    ) -> None:
        self.base_offset, self.next_base = base_offset, next_base
        self._content, self._fetched, self._is_near = content, fetched, is_near
        self._found: ScannedBatch | None = None
        self._known_to = -1

    def after(self, position: int, expected: int) -> BatchHeader | None:
        """The header of the next good batch from a position on, where `expected` is the lowest possible offset."""
        if position > self._known_to:
            walk = SegmentScan(
                self._content,
                base_offset=self.base_offset,
                sealed=self.next_base is not None,
                next_base_offset=self.next_base,
                start=position,
                next_offset=expected,
                fetched=self._fetched,
            )
            items = islice(walk, 1) if self._is_near else walk
            self._found = next((item for item in items if isinstance(item, ScannedBatch)), None)
            end = position if self._is_near else len(self._content)
            self._known_to = end if self._found is None else self._found.position
        return None if self._found is None else self._found.header


def _can_be_repaired(content: Buffer, stretch: Stretch, base_offset: int, expected: int, ahead: _Ahead) -> bool:
    """Whether a batch is good once its length field is corrected, and takes no offset of the next good batch."""
    whole = repaired_bytes(content, stretch.position, stretch.end)
    walk = SegmentScan(
        whole, base_offset=base_offset, sealed=True, next_base_offset=ahead.next_base, next_offset=expected
    )
    repaired = next(iter(walk))
    if not isinstance(repaired, ScannedBatch):
        return False
    following = ahead.after(stretch.end, expected)
    return following is None or following.base_offset >= repaired.header.next_offset


def _begins_new_file(content: Buffer, stretch: Stretch, base_offset: int, expected: int, ahead: _Ahead) -> int | None:
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
    ceiling = MAX_OFFSET - 1 if ahead.next_base is None else ahead.next_base - 1
    fits = header.base_offset >= expected and header.last_offset <= min(
        header.base_offset + MAX_RELATIVE_OFFSET, ceiling
    )
    if not fits or header.last_offset <= base_offset + MAX_RELATIVE_OFFSET:
        return None
    if (header.base_offset ^ expected).bit_count() == 1:  # no checksum covers it: one bit is wrong
        return None
    # If good batches follow at lower offsets, the far base offset is the wrong one.
    return header.base_offset if ahead.after(stretch.end, expected) is None else None
