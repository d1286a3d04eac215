"""Where a scan of a segment continues after damage, and what the damaged bytes still prove.

There is one rule for every scan: `verify`, `ingest`, `dump --all` and `recover --salvage` all use
`logcore.segments.scanning.scan`, and the scan uses this module. A scan never takes a byte of a stretch for data, and
all bytes are accounted for. What a broker itself does (`file_batches`, recovery, cleaning) does not use this module.

A batch's checksum does not cover its length field. So the first check is:

    proven end      the damaged batch's checksum matches the bytes up to another end: only the length field is wrong,
                    and every byte of the batch is known. Tried for every flipped bit of the field within the usual
                    length of batches, and for every batch that is found after it. If there is none, tried for all other
                    flipped bits, for the zeros at the end and for the end of the file

Without such a proof the declared extent is accepted if one of these is at its end. Then a batch inside the extent may
be the value of a record, and is not a batch of this log:

    a sound batch, the end of the file, or the beginning of the zeros at the end of the file
    a damaged batch whose base offset is exactly the next offset that the batch before it claims
    damaged batches of rising offsets, each at the end of the one before: eight of them, or fewer and one of the above

An extent that reaches past the file's end is a write in progress, if the segment is still being written and the extent
begins like a batch. An extent that ends inside the zeros at the end was perhaps never written completely. Sound batches
in such extents may be values. They are part of the log only if both of these are true:

    the first begins at exactly the offset at which the damaged batch claims to end. No record of the damaged batch
    reaches into it, by the sizes of the records; if they are compressed, their stream is complete up to there
    two or more follow each other without a gap between their offsets. They end at the end of the file, at zeros, or at
    bytes that begin like the batch of the next offset. After a value the rest of its record would follow

Eight or more of them without a gap are part of the log whatever offset the damaged batch claims to end at, if the bytes
before them may have had the offsets before them: a value would have such offsets by chance. Up to the end of the file
or zeros they count even if a record may reach into them: its write would have to end exactly between two of its
batches. If their offsets are too low, they do not count, but then the end is no ordinary tail.

Any other extent is implausible. The scan continues where the damaged batch's records end by their own sizes, if a sound
batch is there; else at the first batch that counts:

    counts          its checksum is right. Its offsets lie above the last good batch, within the segment, and below the
                    next good one. Its leader epoch is not above that of the next good one
    next good one   the first batch found that is followed by another one, by zeros or by the file's end. The search
                    ends 64 KiB after the first candidate

If the end of a compressed v0 or v1 message is not proven, v0 and v1 messages after it never count. A codec can leave
messages readable inside it, and their offsets may be relative.

After the last offset of a closed segment no batch of it can follow. The rest is spare, unless a sound batch is in it.
Such a batch may be the only good copy of its records, so the rest is damage then.

The end of a segment still being written may be an ordinary tail. It must begin like a batch, or like a part of a
header, and contain no batch that counts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from logcore.errors import CorruptRecordError
from logcore.records.batch import HEADER_SIZE, check_header, crc_matches, read_header
from logcore.records.legacy import unfold
from logcore.records.model import (
    CODEC_MASK,
    DEFAULT_LIMITS,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    BatchHeader,
    Limits,
)
from logcore.records.varint import Buffer
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scanning.damaged_batch import SMALLEST_LENGTH, DamagedBatch, repaired_bytes, repaired_header
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.sound_batches import SoundBatches, TooManyLookalikes

_ENDING_ZEROS = 9
"""A batch may itself end in zeros; so many positions are tried."""
_USUAL = 1 << 20
_LONG = 16 << 20
"""Bytes over which a checksum is computed at once, for an end that is further than the declared one: after a batch with
a plausible declared extent, and after any other."""
_ZEROS_SUMMED = 64 << 10
_LINKS = 8
"""How many damaged batches in a row are followed by their lengths."""
_INT32 = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Extent:
    """What is known about the end of a damaged batch.

    Attributes:
        end: The position where the scan continues; None if nothing after the damage can be trusted.
        is_repaired: Only the batch's length field is wrong; the batch ends at `end`.
        hides: Why the bytes up to the end of the file are not an ordinary tail; None if they are one.
    """

    end: int | None
    is_repaired: bool = False
    hides: str | None = None


class Resynchronizer:
    """Finds the extent of damaged batches for the scans of one segment. For one thread; it remembers what it found.

    Args:
        buf: The segment's bytes.
        ceiling: The last offset that a batch of the segment may have.
        sealed: Whether a later segment follows.
        limits: The most that is kept in memory.
        fetched: Loads the bytes of `buf` into memory; None if they are all there.
    """

    def __init__(
        self,
        buf: Buffer,
        ceiling: int,
        sealed: bool,
        limits: Limits = DEFAULT_LIMITS,
        fetched: FetchedBytes | None = None,
    ) -> None:
        self._buf, self._size, self._ceiling, self._sealed = buf, len(buf), ceiling, sealed
        self._limits, self._fetched = limits, fetched
        self._sound = SoundBatches(buf, ceiling, limits, fetched)

    def is_zero_rest(self, position: int) -> bool:
        """Whether there are only zeros from a position to the end."""
        return self._sound.is_zero_rest(position)

    def spare_end(self, position: int) -> str | None:
        """What the bytes from a position up to the end are, if no sound batch is in them; else None.

        A batch of a later offset may be the only good copy of its records: the next segment need not hold them.
        """
        if self.is_zero_rest(position):
            return "zeros"
        sound = SoundBatches(self._buf, MAX_OFFSET - 1, self._limits, self._fetched)
        try:
            return "no batch" if next(sound.following(position, 0), None) is None else None
        except TooManyLookalikes:
            return None

    def extent(self, position: int, expected: int) -> Extent:
        """Find how far a batch reaches whose size or checksum is wrong.

        Args:
            position: Where the batch begins.
            expected: The lowest offset that a batch may have there.
        """
        self._sound.fetch(position, position + HEADER_SIZE)
        damaged = DamagedBatch(self._buf, position, self._fetched)
        declared = damaged.declared_end()
        inside = declared is not None and declared <= self._size
        is_plausible = inside and declared is not None and self._is_plausible_end(declared, expected, damaged)
        reach = position + (_USUAL if is_plausible else _LONG)
        reach = max(reach, declared) if inside and declared is not None else reach
        near = [end for end in damaged.ends_by_one_bit() if end <= reach]
        proven = self._proven_by_one_bit(position, expected, damaged, near)
        if proven is not None:
            return proven
        unlike = self._not_like_a_batch(position, expected)
        if is_plausible and declared is not None:
            is_last = declared == self._size or self.is_zero_rest(declared)
            proven = self._proven_far(position, expected, damaged) if is_last else None
            return Extent(declared, hides=unlike) if proven is None else proven
        return self._implausible(position, expected, damaged, declared, unlike)

    def _implausible(
        self, position: int, expected: int, damaged: DamagedBatch, declared: int | None, unlike: str | None
    ) -> Extent:
        """The extent of a batch whose declared end is implausible."""
        framed = damaged.framed_end()
        if framed is not None and framed < self._size and self._sound.at(framed, expected) is not None:
            return self._proven(position, framed, expected) if damaged.matches_up_to(framed) else Extent(framed)
        found = self._next_batch(position, expected, damaged)
        if isinstance(found, Extent):
            return found
        is_begun = declared is not None and declared > self._size and not self._sealed
        ends_in_zeros = declared is not None and declared <= self._size and self.is_zero_rest(declared)
        if found is not None and (unlike is not None or not (is_begun or ends_in_zeros)):
            return Extent(found)
        if found is not None and self._goes_on(found, damaged, expected, found - position):
            return Extent(found)
        proven = self._proven_far(position, expected, damaged)
        if proven is not None:
            return proven
        if ends_in_zeros:
            return Extent(declared, hides=unlike)
        if found is not None:
            return Extent(None, hides=f"it contains a whole batch with valid offsets, at position {found}")
        return Extent(None, hides=unlike or self._lower_batches(position))

    def _proven_by_one_bit(
        self, position: int, expected: int, damaged: DamagedBatch, ends: Iterable[int]
    ) -> Extent | None:
        for end in ends:
            if not self._may_end(end, expected):
                continue
            if self.is_zero_rest(end) and end > self._sound.zeros_from() + _ZEROS_SUMMED:
                continue
            if damaged.matches_up_to(end):
                return self._proven(position, end, expected)
        return None

    def _proven_far(self, position: int, expected: int, damaged: DamagedBatch) -> Extent | None:
        """A proof by one bit at any distance. Only for the last batch of a file, because it may compute a checksum over
        all that is left.
        """
        for end in damaged.ends_by_one_bit():
            if self._may_end(end, expected) and damaged.matches_up_to(end):
                return self._proven(position, end, expected)
        return None

    def _proven(self, position: int, end: int, expected: int) -> Extent:
        """The checksum matches up to `end`: check whether the log may contain this batch."""
        self._sound.fetch(position, end)
        self._sound.fetch_batch(end)
        header = repaired_header(self._buf, position, end)
        try:
            successor = read_header(self._buf, end)
            ceiling = min(self._ceiling, successor.base_offset - 1) if crc_matches(self._buf, end, successor) else None
        except CorruptRecordError:
            ceiling = None
        try:
            content = repaired_bytes(self._buf, position, end)
            header = unfold(content, 0, header, self._limits)
            check_header(header, position)
        except CorruptRecordError:
            return Extent(end, hides="its checksum is right, but its content is invalid")
        top = self._ceiling if ceiling is None or header.is_wrapper else ceiling
        fits = expected <= header.base_offset and header.last_offset <= top
        return Extent(end, is_repaired=fits, hides="its length field is wrong, and its checksum is right without it")

    def _may_end(self, end: int, expected: int) -> bool:
        """Whether a batch may end there, as far as is known without its checksum."""
        if end == self._size or self.is_zero_rest(end):
            return True
        header = self._header(end)
        if header is None:
            return self._size - end < HEADER_SIZE
        return expected <= header.base_offset <= self._ceiling

    def _is_plausible_end(self, end: int, expected: int, damaged: DamagedBatch) -> bool:
        """Whether the end that a length field declares is plausible. Then everything before it is in the batch."""
        if end == self._size:
            return True
        if self.is_zero_rest(end):
            return end <= self._sound.zeros_from() + _ENDING_ZEROS
        claimed, least = damaged.claimed_next_offset(), expected
        for _ in range(_LINKS):
            if end == self._size or self.is_zero_rest(end) or self._sound.at(end, least) is not None:
                return True
            if claimed is not None and expected < claimed <= self._ceiling and self._states(end, claimed):
                return True
            header = self._header(end)
            if header is None or not least <= header.base_offset <= self._ceiling or header.size > self._size - end:
                return False
            claimed = None if header.last_offset_delta < 0 else header.base_offset + header.last_offset_delta + 1
            end, least = end + header.size, header.base_offset + 1
        return True

    def _states(self, position: int, offset: int) -> bool:
        """Whether this base offset and a known magic byte are there, whatever the other fields are."""
        self._sound.fetch(position, position + HEADER_SIZE)
        stated = bytes(self._buf[position : position + MAGIC_AT + 1])
        is_whole = len(stated) == MAGIC_AT + 1 and stated[MAGIC_AT] <= MAGIC_V2
        return is_whole and stated[:LENGTH_AT] == offset.to_bytes(LENGTH_AT, "big")

    def _header(self, position: int) -> BatchHeader | None:
        """The header at a position, if the bytes have its form. Checksum and length are not checked."""
        self._sound.fetch(position, position + HEADER_SIZE)
        try:
            return read_header(self._buf, position, whole=False)
        except CorruptRecordError:
            return None

    def _goes_on(self, position: int, damaged: DamagedBatch, expected: int, nbytes: int) -> bool:
        """Whether the sound batch inside the extent of a damaged one is the continuation of the log, and not a value:
        see above. `nbytes` lie between the two; a record takes more than a byte.
        """
        count, first, at, end = self._chain(position)
        is_last = at == self._size or self.is_zero_rest(at)
        begins_batch = 0 < self._size - at < LOG_OVERHEAD  # zeros that an offset may begin with
        is_long = count >= _LINKS and expected <= first <= expected + nbytes
        if is_long and is_last and not begins_batch:
            return True
        is_claimed = count > 1 and first == damaged.claimed_next_offset()
        if not (is_long or is_claimed) or damaged.may_contain(position, self._limits):
            return False
        if is_last:
            return True
        self._sound.fetch(at, at + HEADER_SIZE)
        stated = bytes(self._buf[at : at + LENGTH_AT])
        begins = end.to_bytes(LENGTH_AT, "big").startswith(stated)
        return begins and self._not_like_a_batch(at, end) is None

    def _chain(self, position: int) -> tuple[int, int, int, int]:
        """The sound batches from a position on without a gap between their offsets.

        Returns:
            Their number, the first offset, the position and the offset after the last.
        """
        first = self._sound.at(position, 0)
        count, at, expected = 0, position, -1 if first is None else first.base_offset
        while (header := self._sound.at(at, max(expected, 0))) is not None and header.base_offset == expected:
            count, at, expected = count + 1, at + header.size, header.next_offset
        return count, -1 if first is None else first.base_offset, at, expected

    def _lower_batches(self, position: int) -> str | None:
        """What batches of too low offsets hide up to the end of the file; None without them."""
        walked = position
        with suppress(TooManyLookalikes):
            for found in self._sound.following(position + 1, 0):
                if found.position < walked:
                    continue  # a part of a chain has the same end and fewer batches
                count, first, at, end = self._chain(found.position)
                walked = at
                if count >= _LINKS and (at == self._size or self.is_zero_rest(at)):
                    what = f"{count} whole batches of the offsets [{first}, {end})"
                    return f"it contains {what}, at position {found.position}, below those before them"
        return None

    def _next_batch(self, position: int, expected: int, damaged: DamagedBatch) -> Extent | int | None:
        """The position of the first batch that counts, or the damaged one's proven end; None if there is neither."""
        held: list[tuple[int, BatchHeader]] = []
        search = self._sound.after_wrapper if damaged.is_wrapper else self._sound.following
        try:
            for found in search(position + 1, expected):
                if damaged.matches_up_to(found.position):
                    return self._proven(position, found.position, expected)
                if damaged.is_wrapper and found.header.magic < MAGIC_V2:
                    continue  # a codec may leave a message readable inside it, perhaps with a relative offset
                if found.followed_by > found.header.last_offset:
                    kept = [each for each in held if _may_precede(each[1], found.header)]
                    return kept[0][0] if kept else found.position
                held.append((found.position, found.header))
        except TooManyLookalikes:
            return held[0][0] if held else None
        if held:
            return held[0][0]
        end = self._sound.zeros_from()
        for at in (*range(end, min(end + _ENDING_ZEROS, self._size)), self._size):
            if at > position and damaged.matches_up_to(at):
                return self._proven(position, at, expected)
        return None

    def _not_like_a_batch(self, position: int, expected: int) -> str | None:
        """Why the bytes at a position do not begin like a valid batch; None if they do."""
        self._sound.fetch(position, position + HEADER_SIZE)
        left = self._size - position
        head = bytes(self._buf[position : position + HEADER_SIZE])
        first = int.from_bytes(head[:LENGTH_AT].ljust(LENGTH_AT, b"\0"), "big")
        last = int.from_bytes(head[:LENGTH_AT].ljust(LENGTH_AT, b"\xff"), "big")
        is_wrapper = left > MAGIC_AT + 1 and head[MAGIC_AT] < MAGIC_V2 and head[MAGIC_AT + 1] & CODEC_MASK
        if not (first <= self._ceiling and last >= expected) and not is_wrapper:
            return "a batch with this offset may not follow there"
        if left >= LOG_OVERHEAD and _INT32.unpack_from(head, LENGTH_AT)[0] < SMALLEST_LENGTH:
            return "its length field is smaller than any batch"
        if left > MAGIC_AT and head[MAGIC_AT] > MAGIC_V2:
            return "Kafka has never written its magic byte"
        try:
            if left >= HEADER_SIZE:
                check_header(read_header(self._buf, position, whole=False), position)
        except CorruptRecordError as error:
            return error.message
        return None


def _may_precede(header: BatchHeader, good: BatchHeader) -> bool:
    is_epoch_known = header.partition_leader_epoch >= 0 and good.partition_leader_epoch >= 0
    rises = not is_epoch_known or header.partition_leader_epoch <= good.partition_leader_epoch
    return header.last_offset < good.base_offset and rises
