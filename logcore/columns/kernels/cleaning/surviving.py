"""Cleaning by a bit for each offset: the offsets in a map of newest offsets, and the records at these offsets.

When the map is complete, a record that it was made from is the newest of its key if its offset is in the map. So the
second reading needs neither hashes nor the map.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import batch_row
from logcore.columns.kernels.call_frames import DONE, DOUBT
from logcore.columns.kernels.cleaning.cleaning_frames import (
    NO_KEY,
    NO_VALUE,
    PART_ADDRESS,
    PART_SLOTS,
    PART_WIDTH,
    SLOT_BYTES,
)
from logcore.columns.kernels.machine.intrinsics import byte, load64, numbers, pointer, store8, store64, to_bytes
from logcore.columns.kernels.machine.values import varint, varlong


def mark_newest(frame):
    """Set the bits of a map's offsets in `bits_from`..`bits_end`."""
    parts, bits = numbers(frame.parts), pointer(frame.bits)
    first, end = frame.bits_from, frame.bits_end
    for number in range(nb.int64(1) << (63 - frame.part_shift)):
        part = number * PART_WIDTH
        table = to_bytes(parts[part + PART_ADDRESS])
        for slot in range(parts[part + PART_SLOTS]):
            offset = nb.int64(load64(table, slot * SLOT_BYTES + 16)) - 1
            if offset >= first and offset < end:
                place = offset - first
                store8(bits, place >> 3, nb.int64(byte(bits, place >> 3)) | (nb.int64(1) << (place & 7)))
    return nb.int64(0)


def newest_rows(frame):
    """Write a row for every record of batches `first`..`end` whose bit is set; all offsets of these batches have a bit.

    The other records were checked when the map was made from them, and are not read here.
    """
    source = pointer(frame.source)
    table, bits = numbers(frame.table), pointer(frame.bits)
    offsets, starts = pointer(frame.offsets), pointer(frame.starts)
    flags, first_rows = pointer(frame.flags), numbers(frame.first_rows)
    bits_from = frame.bits_from
    rows, capacity = frame.rows, frame.capacity
    batch, last_batch = frame.first, frame.end
    status = nb.int64(DONE)
    while batch < last_batch:
        row = batch * batch_row.WIDTH
        at, end = table[row + batch_row.BODY], table[row + batch_row.BODY_END]
        base, last = table[row + batch_row.BASE_OFFSET], table[row + batch_row.LAST_OFFSET]
        count = table[row + batch_row.RECORD_COUNT]
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
                    kind = nb.int64(NO_KEY)
                else:
                    at += key_size
                value_size, at = varint(source, at, record_end)
                if at < 0 or value_size < -1 or value_size > record_end - at:
                    break
                if value_size < 0:
                    kind |= NO_VALUE
                store64(offsets, to, offset)
                store64(starts, to, begun)
                store8(flags, to, kind)
                to += 1
            at = record_end
            done += 1
            good = True
        if not good or at != end:
            status = nb.int64(DOUBT)
            break
        table[row + batch_row.CONTROL_TYPE] = -1
        rows = to
        batch += 1
    first_rows[batch] = rows
    frame.first = batch
    frame.rows = rows
    frame.status = status
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"mark_newest": mark_newest, "newest_rows": newest_rows}
