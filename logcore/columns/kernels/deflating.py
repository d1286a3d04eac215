"""Raw deflate with the bytes of zlib at level 6, which is what java.util.zip writes for Kafka's gzip.

zlib's own code spends its time in walking the chains of earlier places with the same three bytes. The places, their
order, and how many of them are looked at decide the bytes, so they are kept; but a walk ends as soon as it is known
that nothing better will come; eight bytes are compared at once, which tells whether a place gives more than what is
found already; and all of the input is at hand, so that nothing is moved but the tables that hold the places. Like
zlib's they hold 16 bits, counted from the beginning of a window that goes on by 32 KiB; the first place of a window is
never found.

Source: zlib's deflate.c (deflate_slow, longest_match, fill_window) for what is looked at, and when. Belongs here: from
bytes to symbols; `deflate_blocks` writes them.
"""

import numba as nb

from logcore.columns.kernels import deflate_slots as at_slot
from logcore.columns.kernels.deflate_blocks import distance_code, reset_counts, write_block
from logcore.columns.kernels.deflate_slots import (
    BLOCK_SYMBOLS,
    DISTANCES,
    FREQUENCIES,
    HASHES,
    LITERALS,
    MATCHES,
    WAITING,
    WAITING_COUNT,
    WINDOW,
)
from logcore.columns.kernels.intrinsics import (
    byte,
    load16,
    load32,
    load64,
    moved,
    numbers,
    pointer,
    store16,
    store32,
    stored64,
)
from logcore.columns.kernels.zero_bits import trailing_zeros

_MASK = WINDOW - 1
_LOOKAHEAD = 262
"""The longest match, the shortest one, and a byte: closer to the end of what zlib has read, it reads on."""
_FARTHEST = WINDOW - _LOOKAHEAD
_SHORTEST, _LONGEST = 3, 258
_TOO_FAR = 4096
"""Beyond this a match of three bytes is none."""
_GOOD, _LAZY, _NICE, _CHAIN = 8, 16, 128, 128
"""zlib's configuration of level 6: from such a length on fewer places are looked at, no better match is looked for a
byte further on, no further place is looked at; and the number of places."""


@nb.njit(inline="always")
def _hash(source, position):
    """zlib's, of three bytes, with 15 bits."""
    word = nb.int64(load32(source, position))
    return ((word << 10) ^ ((word >> 3) & 0x1FE0) ^ ((word >> 16) & 0xFF)) & (HASHES - 1)


@nb.njit
def _slide(table, count):
    """Count the places of a table from where the next window begins; those in front of it are gone."""
    for index in range(count):
        place = load16(table, index)
        store16(table, index, place - WINDOW if place >= WINDOW else 0)


@nb.njit
def _longest(source, position, base, nearest, newest, earlier, known, left):
    """The length of the first of the longest matches at a position that exceed `known`, and where it begins; a length
    of 2 if there is none."""
    tries = nb.int64(_CHAIN >> 2 if known >= _GOOD else _CHAIN)
    most = min(nb.int64(_LONGEST), left)
    nice = min(nb.int64(_NICE), left)
    limit = max(position - base - _FARTHEST, nb.int64(0))
    found, start = nb.int64(2), nb.int64(0)
    window, here = moved(source, base), moved(source, position)
    place = nearest
    while True:
        # Whatever matches further has in common the three bytes that end just behind what is known. Where those are
        # nowhere in the window, no place that is left need be looked at. Where they would lie too close to be entered
        # yet, bytes repeat at a distance shorter than the match, so that they are also further in front.
        if known > 2 and load16(newest, _hash(here, known - 2)) <= limit:
            break
        # Of the bytes that it has in common the last eight, or all if there are fewer.
        skip = max(known - 7, nb.int64(0))
        mask = ~nb.uint64(0) >> nb.uint64(8 * max(7 - known, nb.int64(0)))
        looked_for = load64(here, skip)
        while (load64(window, place + skip) ^ looked_for) & mask != nb.uint64(0):
            place = load16(earlier, place & _MASK)
            tries -= 1
            if place <= limit or tries == 0:
                return found, start
        length = nb.int64(0)
        while length < most:
            differs = load64(window, place + length) ^ load64(here, length)
            if differs != nb.uint64(0):
                length += trailing_zeros(differs) >> 3
                break
            length += 8
        length = min(length, most)
        if length > known:
            known, found, start = length, length, base + place
            if known >= nice:
                break
        place = load16(earlier, place & _MASK)
        tries -= 1
        if place <= limit or tries == 0:
            break
    return found, start


@nb.njit(inline="always")
def _put_literal(source, position, work, symbols, count):
    literal = nb.int64(byte(source, position))
    work[FREQUENCIES + LITERALS + literal] += 1
    store32(symbols, count, literal)
    return count + 1


@nb.njit
def _deflated(source, size, target, room, newest, earlier, symbols, work):
    """Where the stream ends, -1 where it may not fit in front of `room`, both places in the target."""
    at = nb.int64(0)
    for index in range(0, 2 * HASHES, 8):
        stored64(newest, index, nb.uint64(0))
    work[WAITING] = 0
    work[WAITING_COUNT] = 0
    reset_counts(work)
    position, base, read = nb.int64(0), nb.int64(0), nb.int64(0)
    block, count = nb.int64(0), nb.int64(0)
    # What is known of the byte before: whether it waits for better than being a literal, and the match there.
    waits = False
    length, start = nb.int64(2), nb.int64(0)
    while True:
        is_last = position >= size
        if is_last:
            end = position
            if waits:
                count = _put_literal(source, position - 1, work, symbols, count)
        else:
            if read - position < _LOOKAHEAD:
                if position - base >= WINDOW + _FARTHEST:
                    _slide(newest, HASHES)
                    _slide(earlier, WINDOW)
                    base += WINDOW
                read = min(size, base + 2 * WINDOW)
            left = size - position
            nearest = nb.int64(0)
            if left >= _SHORTEST:
                hashed = _hash(source, position)
                nearest = load16(newest, hashed)
                store16(earlier, position & _MASK, nearest)
                store16(newest, hashed, position - base)
            known, known_start = length, start
            length = nb.int64(2)
            if nearest != 0 and known < _LAZY and position - base - nearest <= _FARTHEST and known < left:
                length, start = _longest(source, position, base, nearest, newest, earlier, known, left)
                if length == _SHORTEST and position - start > _TOO_FAR:
                    length = nb.int64(2)
            if known >= _SHORTEST and length <= known:
                distance = position - known_start - 2
                code = distance_code(distance)
                work[MATCHES + known - _SHORTEST] += 1
                work[FREQUENCIES + DISTANCES + code] += 1
                store32(symbols, count, (known - _SHORTEST) | (distance << 8) | (code << 24) | (1 << 31))
                count += 1
                end = position + known - 1
                for each in range(position + 1, min(end, size - 2)):
                    hashed = _hash(source, nb.int64(each))
                    store16(earlier, each & _MASK, load16(newest, hashed))
                    store16(newest, hashed, each - base)
                position = end
                waits = False
                length = nb.int64(2)
            else:
                if waits:
                    count = _put_literal(source, position - 1, work, symbols, count)
                waits = True
                # A block that a literal fills ends in front of the byte that is waiting now.
                end = position
                position += 1
        if is_last or count == BLOCK_SYMBOLS:
            first = block if block >= base else nb.int64(-1)
            at = write_block(work, symbols, count, source, first, end, is_last, target, at, room)
            if is_last or at < 0:
                return at
            reset_counts(work)
            block, count = end, nb.int64(0)


def deflate(frame):
    """Deflate SIZE bytes to the TARGET; USED says how many there are then, -1 where they might not fit the ROOM. Of the
    source BEHIND bytes more are looked at, and of the target WASTE bytes more than there are in the end are written.
    """
    tables = pointer(frame, at_slot.TABLES)
    newest, earlier = moved(tables, at_slot.NEWEST), moved(tables, at_slot.EARLIER)
    symbols = moved(tables, at_slot.SYMBOLS)
    source, target = pointer(frame, at_slot.SOURCE), pointer(frame, at_slot.TARGET)
    work = numbers(frame, at_slot.NUMBERS)
    frame[at_slot.USED] = _deflated(
        source, frame[at_slot.SIZE], target, frame[at_slot.ROOM], newest, earlier, symbols, work
    )
    return nb.int64(0)
