"""Numbers, bytes and bits, as the kernels read them from records and write them into Arrow's buffers.

Functions that read get the end of the bytes and never read after it. Functions that write need SLACK bytes after each
buffer.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import batch_row
from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.intrinsics import (
    byte,
    copy,
    copy32,
    load32,
    load64,
    numbers,
    pointer,
    store8,
    store32,
)

_STEPPED = 256
"""Up to this many bytes, a multiple of 32, copying in steps is faster than a call of memcpy."""

_HIGH_BITS = nb.uint64(0x8080808080808080)
_HIGH_HALF = nb.uint64(0x80808080)


def _number_reader(last_shift: int, most: int) -> Any:
    """Make the function that reads a zigzag number whose last byte is at most `most` at `last_shift`.

    It takes only the shortest encoding. It returns the number and the position after it; -1 if there is none.
    """

    @inlined
    def read(source, at, end):
        if at >= end:
            return nb.int64(0), nb.int64(-1)
        low = byte(source, at)
        at += 1
        if low < nb.uint64(128):
            return nb.int64(low >> nb.uint64(1)) ^ -nb.int64(low & nb.uint64(1)), at
        value = low & nb.uint64(127)
        shift = nb.uint64(7)
        while True:
            if at >= end or shift > nb.uint64(last_shift):
                return nb.int64(0), nb.int64(-1)
            low = byte(source, at)
            at += 1
            value |= (low & nb.uint64(127)) << shift
            if low < nb.uint64(128):
                break
            shift += nb.uint64(7)
        if low == nb.uint64(0) or (shift == nb.uint64(last_shift) and low > nb.uint64(most)):
            return nb.int64(0), nb.int64(-1)
        return nb.int64(value >> nb.uint64(1)) ^ -nb.int64(value & nb.uint64(1)), at

    return read


varint, varlong = _number_reader(28, 15), _number_reader(63, 1)
"""Read an int32 and an int64."""


@inlined
def copy_bytes(target, to, source, at, size, source_end):
    """Copy in steps of 32 bytes if both sides have room for whole steps, else exactly."""
    if size <= _STEPPED and source_end - at >= _STEPPED:
        copy32(target, to, source, at)
        if size > 32:
            copy32(target, to + 32, source, at + 32)
            if size > 64:
                copy32(target, to + 64, source, at + 64)
                done = nb.int64(96)
                while done < size:
                    copy32(target, to + done, source, at + done)
                    done += 32
    else:
        copy(target, to, source, at, size)


@inlined
def clear_bit(bits, index):
    """Mark element `index` as null."""
    place = index >> 3
    store8(bits, place, nb.int64(byte(bits, place)) & ~(nb.int64(1) << (index & 7)))


@inlined
def set_bit(bits, index):
    """Mark element `index` as not null."""
    place = index >> 3
    store8(bits, place, nb.int64(byte(bits, place)) | (nb.int64(1) << (index & 7)))


@inlined
def begin_bits(bits, index):
    """Mark eight elements as not null, at the first of them."""
    if index & 7 == 0:
        store8(bits, index >> 3, nb.int64(255))


@called
def is_utf8(source, at, end):
    """Whether the bytes are well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF)."""
    # ASCII in whole words; the last word begins inside of the one before, so that no bytes are left over.
    if end - at >= 8:
        last = end - 8
        while at < last and load64(source, at) & _HIGH_BITS == nb.uint64(0):
            at += 8
        if at >= last and load64(source, last) & _HIGH_BITS == nb.uint64(0):
            return True
    elif end - at >= 4 and (load32(source, at) | load32(source, end - 4)) & _HIGH_HALF == nb.uint64(0):
        return True
    while at < end:
        if end - at >= 8 and load64(source, at) & _HIGH_BITS == nb.uint64(0):
            at += 8
            continue
        lead = nb.int64(byte(source, at))
        at += 1
        if lead < 0x80:
            continue
        low, high = nb.int64(0x80), nb.int64(0xBF)
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            if lead == 0xE0:
                low = nb.int64(0xA0)
            elif lead == 0xED:
                high = nb.int64(0x9F)
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            if lead == 0xF0:
                low = nb.int64(0x90)
            elif lead == 0xF4:
                high = nb.int64(0x8F)
        else:
            return False
        if end - at < more:
            return False
        for step in range(more):
            following = nb.int64(byte(source, at + step))
            if following < low or following > high:
                return False
            low, high = nb.int64(0x80), nb.int64(0xBF)
        at += more
    return True


@called
def same_bytes(source, at, other, size):
    """Whether the bytes at a position equal `size` bytes elsewhere."""
    for index in range(size):  # noqa: SIM110 - Numba compiles no generators
        if byte(source, at + index) != byte(other, index):
            return False
    return True


@called
def in_ranges(ranges, count, offset):
    """Whether an offset is in one of the ascending half-open ranges."""
    low, high = nb.int64(0), count
    while low < high:
        middle = (low + high) >> 1
        if ranges[2 * middle + 1] <= offset:
            low = middle + 1
        else:
            high = middle
    return low < count and ranges[2 * low] <= offset


@called
def fill_constants(frame, table, row, start, end):
    """Write the values that are the same for all rows of a batch: position, leader epoch, types of timestamp and
    control record.
    """
    if frame.to_positions != 0:
        positions = numbers(frame.to_positions)
        position = frame.position_base + table[row + batch_row.POSITION]
        for index in range(start, end):
            positions[index] = position
    if frame.to_types != 0:
        types = pointer(frame.to_types)
        kind = (table[row + batch_row.ATTRIBUTES] >> 3) & 1 if table[row + batch_row.MAGIC] > 0 else nb.int64(-1)
        for index in range(start, end):
            store32(types, index, kind)
    if frame.to_control != 0:
        controls, control = pointer(frame.to_control), nb.int64(-1)
        if table[row + batch_row.MAGIC] == 2 and table[row + batch_row.ATTRIBUTES] & 32 != 0:
            control = table[row + batch_row.CONTROL_TYPE]
        for index in range(start, end):
            store32(controls, index, control)
    if frame.to_epochs != 0:
        epochs, epoch = pointer(frame.to_epochs), table[row + batch_row.LEADER_EPOCH]
        bits = pointer(frame.to_epoch_validity)
        for index in range(start, end):
            store32(epochs, index, epoch)
            begin_bits(bits, index)
        if epoch < 0:
            for index in range(start, end):
                clear_bit(bits, index)
            frame.null_epochs += end - start
