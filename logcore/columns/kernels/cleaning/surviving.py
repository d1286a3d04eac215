"""Cleaning by a bit for each offset: the offsets in a map of newest offsets, and the records at these offsets.

When the map is complete, a record that it was made from is the newest of its key if its offset is in the map. So the
second reading needs neither hashes nor the map.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import slots
from logcore.columns.kernels.cleaning import cleaning_slots as at_slot
from logcore.columns.kernels.machine.intrinsics import byte, load64, numbers, pointer, store8, store64, to_bytes
from logcore.columns.kernels.machine.values import varint, varlong


def mark_newest(frame):
    """Set the bits of a map's offsets in BITS_FROM..BITS_END."""
    parts, bits = numbers(frame, at_slot.PARTS), pointer(frame, at_slot.BITS)
    first, end = frame[at_slot.BITS_FROM], frame[at_slot.BITS_END]
    for number in range(nb.int64(1) << (63 - frame[at_slot.PART_SHIFT])):
        part = number * at_slot.PART_WIDTH
        table = to_bytes(parts[part + at_slot.PART_ADDRESS])
        for slot in range(parts[part + at_slot.PART_SLOTS]):
            offset = nb.int64(load64(table, slot * at_slot.SLOT_BYTES + 16)) - 1
            if offset >= first and offset < end:
                place = offset - first
                store8(bits, place >> 3, nb.int64(byte(bits, place >> 3)) | (nb.int64(1) << (place & 7)))
    return nb.int64(0)


def newest_rows(frame):
    """Write a row for every record of batches FIRST..END whose bit is set; all offsets of these batches have a bit.

    The other records were checked when the map was made from them, and are not read here.
    """
    source = pointer(frame, at_slot.SOURCE)
    table, bits = numbers(frame, at_slot.TABLE), pointer(frame, at_slot.BITS)
    offsets, starts = pointer(frame, at_slot.OFFSETS), pointer(frame, at_slot.STARTS)
    flags, first_rows = pointer(frame, at_slot.FLAGS), numbers(frame, at_slot.FIRST_ROWS)
    bits_from = frame[at_slot.BITS_FROM]
    rows, capacity = frame[at_slot.ROWS], frame[at_slot.CAPACITY]
    batch, last_batch = frame[at_slot.FIRST], frame[at_slot.END]
    status = nb.int64(slots.DONE)
    while batch < last_batch:
        row = batch * slots.WIDTH
        at, end = table[row + slots.BODY], table[row + slots.BODY_END]
        base, last = table[row + slots.BASE_OFFSET], table[row + slots.LAST_OFFSET]
        count = table[row + slots.RECORD_COUNT]
        first_rows[batch] = rows
        to = rows
        good = count <= capacity - rows
        done = nb.int64(0)
        while good and done < count:
            good = False
            begun = at
            length, at = varint(source, at, end)
            if at < 0 or length < 1 or length > end - at:
                break
            record_end = at + length
            _, at = varlong(source, at + 1, record_end)
            if at < 0:
                break
            offset, at = varint(source, at, record_end)
            offset += base
            if at < 0 or offset < base or offset > last:
                break
            place = offset - bits_from
            if (nb.int64(byte(bits, place >> 3)) >> (place & 7)) & 1 != 0:
                kind = nb.int64(0)
                key_size, at = varint(source, at, record_end)
                if at < 0 or key_size < -1 or key_size > record_end - at:
                    break
                if key_size < 0:
                    kind = nb.int64(at_slot.NO_KEY)
                else:
                    at += key_size
                value_size, at = varint(source, at, record_end)
                if at < 0 or value_size < -1 or value_size > record_end - at:
                    break
                if value_size < 0:
                    kind |= at_slot.NO_VALUE
                store64(offsets, to, offset)
                store64(starts, to, begun)
                store8(flags, to, kind)
                to += 1
            at = record_end
            done += 1
            good = True
        if not good or at != end:
            status = nb.int64(slots.DOUBT)
            break
        table[row + slots.CONTROL_TYPE] = -1
        rows = to
        batch += 1
    first_rows[batch] = rows
    frame[at_slot.FIRST] = batch
    frame[at_slot.ROWS] = rows
    frame[at_slot.STATUS] = status
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"mark_newest": mark_newest, "newest_rows": newest_rows}
