"""Maps from the hash of a key to its newest offset: open addressing with linear probing, in parts that grow separately.

The highest bits of the hash's first half select the part, its second half the slot where the search begins. That slot's
cache line is prefetched some rows ahead, so waits for memory overlap.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels.call_frames import DONE, FULL
from logcore.columns.kernels.cleaning.cleaning_frames import (
    ALWAYS_ASIDE,
    LEFT_OUT,
    MOST_ASIDE,
    NO_KEY,
    PART_ADDRESS,
    PART_MOST,
    PART_SLOTS,
    PART_USED,
    PART_WIDTH,
    SLOT_BYTES,
    STOPPED,
)
from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.intrinsics import (
    byte,
    load64,
    moved,
    numbers,
    pointer,
    prefetched,
    store64,
    stored64,
    to_bytes,
)

_AHEAD = 24
"""Rows between the prefetch of a slot and its use."""
_LINE = 64
"""Bytes of a cache line. A search of two or three slots mostly ends in the line after its first one."""

_ONE = nb.uint64(1)
_HALF = nb.uint64(32)
_EMPTY = nb.uint64(0)


@inlined
def _first_slot(low, count):
    """Where the search for a hash begins in a part of `count` slots, fewer than 2**32."""
    return nb.int64(((low >> _HALF) * nb.uint64(count)) >> _HALF)


@inlined
def _part(high, shift):
    """The number of the part of a hash."""
    return nb.int64((high >> _ONE) >> shift)


@inlined
def _ask(parts, shift, highs, lows, row):
    high, low = load64(highs, row * 8), load64(lows, row * 8)
    part = _part(high, shift) * PART_WIDTH
    place = _first_slot(low, parts[part + PART_SLOTS]) * SLOT_BYTES
    table = to_bytes(parts[part + PART_ADDRESS])
    prefetched(table, place)
    prefetched(table, place + _LINE)


@inlined
def _place(table, count, high, low):
    """Return (byte position of the slot of a hash, or of the empty slot for it, content of the slot)."""
    slot = _first_slot(low, count)
    while True:
        at = slot * SLOT_BYTES
        held = load64(table, at + 16)
        if held == _EMPTY or (load64(table, at) == high and load64(table, at + 8) == low):
            return at, held
        slot += 1
        if slot == count:
            slot = nb.int64(0)


def put_newest(frame):
    """Put rows `first`..`end` into the map: those from `since` on with a key that are not left out.

    The last put wins.
    """
    parts, shift = numbers(frame.parts), nb.uint64(frame.part_shift)
    highs, lows = pointer(frame.high), pointer(frame.low)
    offsets, flags = pointer(frame.offsets), pointer(frame.flags)
    since, most, keys = frame.since, frame.most_keys, frame.keys
    last_put = frame.last_put
    row, end = frame.first, frame.end
    status = nb.int64(DONE)
    for ahead in range(row, min(row + _AHEAD, end)):
        _ask(parts, shift, highs, lows, ahead)
    while row < end:
        if row + _AHEAD < end:
            _ask(parts, shift, highs, lows, row + _AHEAD)
        offset = nb.int64(load64(offsets, row * 8))
        if byte(flags, row) & nb.uint64(NO_KEY | LEFT_OUT) == nb.uint64(0) and offset >= since:
            if keys == most:
                status = nb.int64(STOPPED)
                break
            high, low = load64(highs, row * 8), load64(lows, row * 8)
            number = _part(high, shift)
            part = number * PART_WIDTH
            table = to_bytes(parts[part + PART_ADDRESS])
            at, held = _place(table, parts[part + PART_SLOTS], high, low)
            if held == _EMPTY:
                if parts[part + PART_USED] >= parts[part + PART_MOST]:
                    frame.part = number
                    status = nb.int64(FULL)
                    break
                parts[part + PART_USED] += 1
                keys += 1
                stored64(table, at, high)
                stored64(table, at + 8, low)
            stored64(table, at + 16, nb.uint64(offset + 1))
            last_put = offset
        row += 1
    frame.first = row
    frame.keys = keys
    frame.last_put = last_put
    frame.status = status
    return nb.int64(0)


def find_newest(frame):
    """Find the newest offsets of the keys of rows `first`..`end`; -1 without a key, or if the map does not have it."""
    parts, shift = numbers(frame.parts), nb.uint64(frame.part_shift)
    highs, lows = pointer(frame.high), pointer(frame.low)
    flags, newest = pointer(frame.flags), pointer(frame.newest)
    row, end = frame.first, frame.end
    for ahead in range(row, min(row + _AHEAD, end)):
        _ask(parts, shift, highs, lows, ahead)
    while row < end:
        if row + _AHEAD < end:
            _ask(parts, shift, highs, lows, row + _AHEAD)
        found = nb.int64(-1)
        if byte(flags, row) & nb.uint64(NO_KEY) == nb.uint64(0):
            high, low = load64(highs, row * 8), load64(lows, row * 8)
            part = _part(high, shift) * PART_WIDTH
            table = to_bytes(parts[part + PART_ADDRESS])
            _, held = _place(table, parts[part + PART_SLOTS], high, low)
            found = nb.int64(held) - 1
        store64(newest, row, found)
        row += 1
    return nb.int64(0)


def spread_part(frame):
    """Move the content of the first `source_slots` slots of a part to its places among `target_slots`.

    These are at least 1.5 times as many.

    It works from the last slot to the first. The number of a slot grows with the hash, so content moves to its own slot
    or to a later one, where all is done already. Other content (it was far after its place, or the search for a place
    wraps around) is set aside and put back at the end. The room for it is used up only if hashes are not random: then
    the status is FULL, and all content is still in the slots or set aside.
    """
    table, aside = pointer(frame.source), pointer(frame.target)
    count = frame.target_slots
    laid_aside, status = nb.int64(0), nb.int64(DONE)
    slot = frame.source_slots - 1
    while slot >= 0:
        here = moved(table, slot * SLOT_BYTES)
        held = load64(here, 16)
        if held != _EMPTY:
            high, low = load64(here, 0), load64(here, 8)
            at = _first_slot(low, count)
            behind = slot >= ALWAYS_ASIDE and at >= slot
            while behind and at != slot and load64(table, at * SLOT_BYTES + 16) != _EMPTY:
                at += 1
                behind = at < count
            if not behind and laid_aside == MOST_ASIDE:
                status = nb.int64(FULL)
                break
            stored64(here, 16, _EMPTY)
            to = moved(table, at * SLOT_BYTES)
            if not behind:
                to = moved(aside, laid_aside * SLOT_BYTES)
                laid_aside += 1
            stored64(to, 0, high)
            stored64(to, 8, low)
            stored64(to, 16, held)
        slot -= 1
    frame.count = laid_aside
    frame.status = status
    if status == DONE:
        _put_back(aside, laid_aside, table, count)
    return nb.int64(0)


@called
def _put_back(source, held_slots, target, count):
    """Put the content of slots into a part of `count` slots that has none of it."""
    for slot in range(held_slots):
        here = moved(source, slot * SLOT_BYTES)
        held = load64(here, 16)
        if held == _EMPTY:
            continue
        high, low = load64(here, 0), load64(here, 8)
        at, _ = _place(target, count, high, low)
        stored64(target, at, high)
        stored64(target, at + 8, low)
        stored64(target, at + 16, held)


def move_part(frame):
    """Put the content of `source_slots` slots into another part, which has none of it."""
    source, target = pointer(frame.source), pointer(frame.target)
    _put_back(source, frame.source_slots, target, frame.target_slots)
    return nb.int64(0)


def take_part(frame):
    """Write the hashes and offsets of a part as rows from `count` on."""
    source = pointer(frame.source)
    highs, lows = pointer(frame.high), pointer(frame.low)
    offsets = pointer(frame.offsets)
    row = frame.count
    for slot in range(frame.source_slots):
        here = moved(source, slot * SLOT_BYTES)
        held = load64(here, 16)
        if held != _EMPTY:
            store64(highs, row, nb.int64(load64(here, 0)))
            store64(lows, row, nb.int64(load64(here, 8)))
            store64(offsets, row, nb.int64(held) - 1)
            row += 1
    frame.count = row
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {
        "put_newest": put_newest,
        "find_newest": find_newest,
        "spread_part": spread_part,
        "move_part": move_part,
        "take_part": take_part,
    }
