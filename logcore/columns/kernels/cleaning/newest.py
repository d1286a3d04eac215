"""Maps from the hash of a key to its newest offset: open addressing with linear probing, in parts that grow separately.

The highest bits of the hash's first half select the part, its second half the slot where the search begins. That slot's
cache line is prefetched some rows ahead, so waits for memory overlap.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import slots
from logcore.columns.kernels.cleaning import cleaning_slots as at_slot
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
    part = _part(high, shift) * at_slot.PART_WIDTH
    place = _first_slot(low, parts[part + at_slot.PART_SLOTS]) * at_slot.SLOT_BYTES
    table = to_bytes(parts[part + at_slot.PART_ADDRESS])
    prefetched(table, place)
    prefetched(table, place + _LINE)


@inlined
def _place(table, count, high, low):
    """Return (byte position of the slot of a hash, or of the empty slot for it, content of the slot)."""
    slot = _first_slot(low, count)
    while True:
        at = slot * at_slot.SLOT_BYTES
        held = load64(table, at + 16)
        if held == _EMPTY or (load64(table, at) == high and load64(table, at + 8) == low):
            return at, held
        slot += 1
        if slot == count:
            slot = nb.int64(0)


def put_newest(frame):
    """Put rows FIRST..END into the map: those from SINCE on with a key that are not left out. The last put wins."""
    parts, shift = numbers(frame, at_slot.PARTS), nb.uint64(frame[at_slot.PART_SHIFT])
    highs, lows = pointer(frame, at_slot.HIGH), pointer(frame, at_slot.LOW)
    offsets, flags = pointer(frame, at_slot.OFFSETS), pointer(frame, at_slot.FLAGS)
    since, most, keys = frame[at_slot.SINCE], frame[at_slot.MOST_KEYS], frame[at_slot.KEYS]
    last_put = frame[at_slot.LAST_PUT]
    row, end = frame[at_slot.FIRST], frame[at_slot.END]
    status = nb.int64(slots.DONE)
    for ahead in range(row, min(row + _AHEAD, end)):
        _ask(parts, shift, highs, lows, ahead)
    while row < end:
        if row + _AHEAD < end:
            _ask(parts, shift, highs, lows, row + _AHEAD)
        offset = nb.int64(load64(offsets, row * 8))
        if byte(flags, row) & nb.uint64(at_slot.NO_KEY | at_slot.LEFT_OUT) == nb.uint64(0) and offset >= since:
            if keys == most:
                status = nb.int64(at_slot.STOPPED)
                break
            high, low = load64(highs, row * 8), load64(lows, row * 8)
            number = _part(high, shift)
            part = number * at_slot.PART_WIDTH
            table = to_bytes(parts[part + at_slot.PART_ADDRESS])
            at, held = _place(table, parts[part + at_slot.PART_SLOTS], high, low)
            if held == _EMPTY:
                if parts[part + at_slot.PART_USED] >= parts[part + at_slot.PART_MOST]:
                    frame[at_slot.PART] = number
                    status = nb.int64(slots.FULL)
                    break
                parts[part + at_slot.PART_USED] += 1
                keys += 1
                stored64(table, at, high)
                stored64(table, at + 8, low)
            stored64(table, at + 16, nb.uint64(offset + 1))
            last_put = offset
        row += 1
    frame[at_slot.FIRST] = row
    frame[at_slot.KEYS] = keys
    frame[at_slot.LAST_PUT] = last_put
    frame[at_slot.STATUS] = status
    return nb.int64(0)


def find_newest(frame):
    """Find the newest offsets of the keys of rows FIRST..END; -1 without a key, or if the map does not have it."""
    parts, shift = numbers(frame, at_slot.PARTS), nb.uint64(frame[at_slot.PART_SHIFT])
    highs, lows = pointer(frame, at_slot.HIGH), pointer(frame, at_slot.LOW)
    flags, newest = pointer(frame, at_slot.FLAGS), pointer(frame, at_slot.NEWEST)
    row, end = frame[at_slot.FIRST], frame[at_slot.END]
    for ahead in range(row, min(row + _AHEAD, end)):
        _ask(parts, shift, highs, lows, ahead)
    while row < end:
        if row + _AHEAD < end:
            _ask(parts, shift, highs, lows, row + _AHEAD)
        found = nb.int64(-1)
        if byte(flags, row) & nb.uint64(at_slot.NO_KEY) == nb.uint64(0):
            high, low = load64(highs, row * 8), load64(lows, row * 8)
            part = _part(high, shift) * at_slot.PART_WIDTH
            table = to_bytes(parts[part + at_slot.PART_ADDRESS])
            _, held = _place(table, parts[part + at_slot.PART_SLOTS], high, low)
            found = nb.int64(held) - 1
        store64(newest, row, found)
        row += 1
    return nb.int64(0)


def spread_part(frame):
    """Move the content of the first MOVE_SLOTS slots of a part to its places among MOVE_TO_SLOTS, at least 1.5 times as
    many.

    It works from the last slot to the first. The number of a slot grows with the hash, so content moves to its own slot
    or to a later one, where all is done already. Other content (it was far after its place, or the search for a place
    wraps around) is set aside and put back at the end. The room for it is used up only if hashes are not random: then
    the status is FULL, and all content is still in the slots or set aside.
    """
    table, aside = pointer(frame, at_slot.MOVE_FROM), pointer(frame, at_slot.MOVE_TO)
    count = frame[at_slot.MOVE_TO_SLOTS]
    laid_aside, status = nb.int64(0), nb.int64(slots.DONE)
    slot = frame[at_slot.MOVE_SLOTS] - 1
    while slot >= 0:
        here = moved(table, slot * at_slot.SLOT_BYTES)
        held = load64(here, 16)
        if held != _EMPTY:
            high, low = load64(here, 0), load64(here, 8)
            at = _first_slot(low, count)
            behind = slot >= at_slot.ALWAYS_ASIDE and at >= slot
            while behind and at != slot and load64(table, at * at_slot.SLOT_BYTES + 16) != _EMPTY:
                at += 1
                behind = at < count
            if not behind and laid_aside == at_slot.MOST_ASIDE:
                status = nb.int64(slots.FULL)
                break
            stored64(here, 16, _EMPTY)
            to = moved(table, at * at_slot.SLOT_BYTES)
            if not behind:
                to = moved(aside, laid_aside * at_slot.SLOT_BYTES)
                laid_aside += 1
            stored64(to, 0, high)
            stored64(to, 8, low)
            stored64(to, 16, held)
        slot -= 1
    frame[at_slot.MOVE_COUNT] = laid_aside
    frame[at_slot.MOVE_STATUS] = status
    if status == slots.DONE:
        _put_back(aside, laid_aside, table, count)
    return nb.int64(0)


@called
def _put_back(source, held_slots, target, count):
    """Put the content of slots into a part of `count` slots that has none of it."""
    for slot in range(held_slots):
        here = moved(source, slot * at_slot.SLOT_BYTES)
        held = load64(here, 16)
        if held == _EMPTY:
            continue
        high, low = load64(here, 0), load64(here, 8)
        at, _ = _place(target, count, high, low)
        stored64(target, at, high)
        stored64(target, at + 8, low)
        stored64(target, at + 16, held)


def move_part(frame):
    """Put the content of MOVE_SLOTS slots into another part, which has none of it."""
    source, target = pointer(frame, at_slot.MOVE_FROM), pointer(frame, at_slot.MOVE_TO)
    _put_back(source, frame[at_slot.MOVE_SLOTS], target, frame[at_slot.MOVE_TO_SLOTS])
    return nb.int64(0)


def take_part(frame):
    """Write the hashes and offsets of a part as rows from COUNT on."""
    source = pointer(frame, at_slot.MOVE_FROM)
    highs, lows = pointer(frame, at_slot.MOVE_HIGH), pointer(frame, at_slot.MOVE_LOW)
    offsets = pointer(frame, at_slot.MOVE_OFFSETS)
    row = frame[at_slot.MOVE_COUNT]
    for slot in range(frame[at_slot.MOVE_SLOTS]):
        here = moved(source, slot * at_slot.SLOT_BYTES)
        held = load64(here, 16)
        if held != _EMPTY:
            store64(highs, row, nb.int64(load64(here, 0)))
            store64(lows, row, nb.int64(load64(here, 8)))
            store64(offsets, row, nb.int64(held) - 1)
            row += 1
    frame[at_slot.MOVE_COUNT] = row
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
