"""The records of v2 batches: checked to the last byte, and copied into Arrow's buffers in the same pass.

Two kernels from one source. `inspect` only checks, and leaves each batch's timestamps, headers and control type in the
table; `emit` also copies what is wanted. A batch that is not plainly good gives no row: the kernel goes back to where
it began and ends in doubt.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import slots
from logcore.columns.kernels.intrinsics import (
    big_int16,
    byte,
    copy,
    copy32,
    load64,
    numbers,
    pointer,
    store8,
    store32,
    store64,
)

_STEPPED = 256
"""Up to so many bytes, a multiple of 32, copying in steps beats a call of memcpy."""

_HIGH_BITS = nb.uint64(0x8080808080808080)


@nb.njit(inline="always")
def varint(source, at, end):
    """An int32 in its shortest encoding, and the position behind it; -1 for that if it is not there."""
    if at >= end:
        return nb.int64(0), nb.int64(-1)
    low = byte(source, at)
    at += 1
    if low < nb.uint64(128):
        return nb.int64(low >> nb.uint64(1)) ^ -nb.int64(low & nb.uint64(1)), at
    value = low & nb.uint64(127)
    shift = nb.uint64(7)
    while True:
        if at >= end or shift > nb.uint64(28):
            return nb.int64(0), nb.int64(-1)
        low = byte(source, at)
        at += 1
        value |= (low & nb.uint64(127)) << shift
        if low < nb.uint64(128):
            break
        shift += nb.uint64(7)
    if low == nb.uint64(0) or value > nb.uint64(0xFFFFFFFF):
        return nb.int64(0), nb.int64(-1)
    return nb.int64(value >> nb.uint64(1)) ^ -nb.int64(value & nb.uint64(1)), at


@nb.njit(inline="always")
def varlong(source, at, end):
    """An int64 in its shortest encoding, and the position behind it; -1 for that if it is not there."""
    if at >= end:
        return nb.int64(0), nb.int64(-1)
    low = byte(source, at)
    at += 1
    if low < nb.uint64(128):
        return nb.int64(low >> nb.uint64(1)) ^ -nb.int64(low & nb.uint64(1)), at
    value = low & nb.uint64(127)
    shift = nb.uint64(7)
    while True:
        if at >= end or shift > nb.uint64(63):
            return nb.int64(0), nb.int64(-1)
        low = byte(source, at)
        at += 1
        value |= (low & nb.uint64(127)) << shift
        if low < nb.uint64(128):
            break
        shift += nb.uint64(7)
    if low == nb.uint64(0) or (shift == nb.uint64(63) and low > nb.uint64(1)):
        return nb.int64(0), nb.int64(-1)
    return nb.int64(value >> nb.uint64(1)) ^ -nb.int64(value & nb.uint64(1)), at


@nb.njit(inline="always")
def copy_bytes(target, to, source, at, size, source_end):
    """Copy in steps of 32 bytes where both sides have room for whole steps, else exactly."""
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


@nb.njit(inline="always")
def clear_bit(bits, index):
    """Mark element `index` as null."""
    place = index >> 3
    store8(bits, place, nb.int64(byte(bits, place)) & ~(nb.int64(1) << (index & 7)))


@nb.njit(inline="always")
def set_bit(bits, index):
    """Mark element `index` as not null."""
    place = index >> 3
    store8(bits, place, nb.int64(byte(bits, place)) | (nb.int64(1) << (index & 7)))


@nb.njit(inline="always")
def begin_bits(bits, index):
    """Mark eight elements as not null, at the first of them."""
    if index & 7 == 0:
        store8(bits, index >> 3, nb.int64(255))


@nb.njit
def is_utf8(source, at, end):
    """Whether the bytes are well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF)."""
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


@nb.njit
def same_bytes(source, at, other, size):
    """Whether the bytes at a position equal `size` bytes elsewhere."""
    for index in range(size):  # noqa: SIM110 - Numba compiles no generators
        if byte(source, at + index) != byte(other, index):
            return False
    return True


@nb.njit
def in_ranges(ranges, count, offset):
    """Whether an offset lies in one of the ascending half-open ranges."""
    low, high = nb.int64(0), count
    while low < high:
        middle = (low + high) >> 1
        if ranges[2 * middle + 1] <= offset:
            low = middle + 1
        else:
            high = middle
    return low < count and ranges[2 * low] <= offset


def records_kernel(emits: bool) -> Any:
    """`emit` if `emits`, else `inspect`."""

    def records(frame):
        source = pointer(frame, slots.SOURCE)
        source_end = frame[slots.SOURCE_SIZE]
        table = numbers(frame, slots.TABLE)
        capacity = frame[slots.ROW_CAPACITY]
        filtered = frame[slots.FILTERED] != 0
        ranges = numbers(frame, slots.RANGES)
        range_count = frame[slots.RANGE_COUNT]
        since, until, until_open = frame[slots.SINCE], frame[slots.UNTIL], frame[slots.UNTIL_OPEN] != 0
        wanted_key = pointer(frame, slots.WANTED_KEY)
        wanted_key_size = frame[slots.WANTED_KEY_SIZE]
        with_control = frame[slots.WITH_CONTROL] != 0
        offsets = pointer(frame, slots.TO_OFFSETS)
        stamps = pointer(frame, slots.TO_TIMESTAMPS)
        stamp_bits = pointer(frame, slots.TO_TIMESTAMP_VALIDITY)
        stamps_ms = pointer(frame, slots.TO_TIMESTAMPS_MS)
        key_ends, keys = pointer(frame, slots.TO_KEY_ENDS), pointer(frame, slots.TO_KEYS)
        key_bits = pointer(frame, slots.TO_KEY_VALIDITY)
        value_ends, values = pointer(frame, slots.TO_VALUE_ENDS), pointer(frame, slots.TO_VALUES)
        value_bits = pointer(frame, slots.TO_VALUE_VALIDITY)
        header_ends, header_bits = pointer(frame, slots.TO_HEADER_ENDS), pointer(frame, slots.TO_HEADER_VALIDITY)
        name_ends, names = pointer(frame, slots.TO_NAME_ENDS), pointer(frame, slots.TO_NAMES)
        content_ends, contents = pointer(frame, slots.TO_HEADER_VALUE_ENDS), pointer(frame, slots.TO_HEADER_VALUES)
        content_bits = pointer(frame, slots.TO_HEADER_VALUE_VALIDITY)
        with_offsets, with_stamps = frame[slots.TO_OFFSETS] != 0, frame[slots.TO_TIMESTAMPS] != 0
        with_stamps_ms, with_keys = frame[slots.TO_TIMESTAMPS_MS] != 0, frame[slots.TO_KEYS] != 0
        with_values, with_headers = frame[slots.TO_VALUES] != 0, frame[slots.TO_HEADER_ENDS] != 0

        rows, key_at, value_at = nb.int64(0), nb.int64(0), nb.int64(0)
        header_at, name_at, content_at = nb.int64(0), nb.int64(0), nb.int64(0)
        null_keys, null_values, null_stamps = nb.int64(0), nb.int64(0), nb.int64(0)
        null_headers, null_contents = nb.int64(0), nb.int64(0)
        status = nb.int64(slots.DONE)
        batch, last_batch = frame[slots.FIRST], frame[slots.END]
        record, at, previous = frame[slots.RECORD], frame[slots.AT], frame[slots.PREVIOUS]
        if emits:
            if with_keys:
                store32(key_ends, 0, 0)
            if with_values:
                store32(value_ends, 0, 0)
            if with_headers:
                store32(header_ends, 0, 0)
                store32(name_ends, 0, 0)
                store32(content_ends, 0, 0)

        while batch < last_batch:
            row = batch * slots.WIDTH
            end = table[row + slots.BODY_END]
            base, last = table[row + slots.BASE_OFFSET], table[row + slots.LAST_OFFSET]
            count = table[row + slots.RECORD_COUNT]
            attributes = table[row + slots.ATTRIBUTES]
            appended = attributes & 8 != 0
            base_stamp, max_stamp = table[row + slots.BASE_TIMESTAMP], table[row + slots.MAX_TIMESTAMP]
            is_control = attributes & 32 != 0
            shown = emits and (with_control or not is_control)
            if record == 0:
                at, previous = table[row + slots.BODY], base - 1
            # What to go back to if this batch turns out not to be good.
            rows_0, key_0, value_0, header_0, name_0, content_0 = rows, key_at, value_at, header_at, name_at, content_at
            nulls_0 = (null_keys, null_values, null_stamps, null_headers, null_contents)
            least, greatest = nb.int64(slots.NONE), nb.int64(slots.NONE)
            out_of_range, negative, headers_seen = nb.int64(0), nb.int64(0), nb.int64(0)
            control_type = nb.int64(-1)
            good = True
            while record < count:
                if emits and rows >= capacity:
                    status = slots.FULL
                    break
                length, at = varint(source, at, end)
                if at < 0 or length < 1 or length > end - at:
                    good = False
                    break
                record_end = at + length
                at += 1  # attributes, unused
                delta, at = varlong(source, at, record_end)
                if at < 0:
                    good = False
                    break
                offset, at = varint(source, at, record_end)
                if at < 0:
                    good = False
                    break
                offset += base
                if offset <= previous or offset > last:
                    good = False
                    break
                previous = offset
                stamp = max_stamp if appended else base_stamp + delta
                key_size, at = varint(source, at, record_end)
                if at < 0 or key_size < -1 or key_size > record_end - at:
                    good = False
                    break
                key_from = at
                if key_size > 0:
                    at += key_size
                value_size, at = varint(source, at, record_end)
                if at < 0 or value_size < -1 or value_size > record_end - at:
                    good = False
                    break
                value_from = at
                if value_size > 0:
                    at += value_size
                header_count, at = varint(source, at, record_end)
                if at < 0 or header_count < 0 or header_count > (record_end - at) >> 1 or header_count > 1_000_000:
                    good = False
                    break
                in_range = slots.MIN_TIMESTAMP_MS <= stamp <= slots.MAX_TIMESTAMP_MS and stamp != -1
                if not emits:
                    if stamp > greatest:
                        greatest = stamp
                    if stamp >= 0 and (least == slots.NONE or stamp < least):
                        least = stamp
                    if not in_range and stamp != -1:
                        out_of_range += 1
                    if stamp < -1:
                        negative += 1
                    headers_seen += header_count
                if is_control and (with_control or not emits):
                    # Only the two markers with a key of exactly four bytes are plain.
                    if key_size != 4 or count != 1 or big_int16(source, key_from) != 0:
                        good = False
                        break
                    control_type = big_int16(source, key_from + 2)
                    if control_type != 0 and control_type != 1:
                        good = False
                        break
                keep = shown
                if shown and filtered:
                    keep = (
                        (range_count < 0 or in_ranges(ranges, range_count, offset))
                        and since <= stamp
                        and (until_open or stamp < until)
                        and (
                            wanted_key_size < 0
                            or (key_size == wanted_key_size and same_bytes(source, key_from, wanted_key, key_size))
                        )
                    )
                if emits and keep:
                    if with_offsets:
                        store64(offsets, rows, offset)
                    if with_stamps_ms:
                        store64(stamps_ms, rows, stamp)
                    if with_stamps:
                        begin_bits(stamp_bits, rows)
                        if in_range:
                            store64(stamps, rows, stamp * 1000)
                        else:
                            store64(stamps, rows, 0)
                            clear_bit(stamp_bits, rows)
                            null_stamps += 1
                    if with_keys:
                        begin_bits(key_bits, rows)
                        if key_size > 0:
                            copy_bytes(keys, key_at, source, key_from, key_size, source_end)
                            key_at += key_size
                        elif key_size < 0:
                            clear_bit(key_bits, rows)
                            null_keys += 1
                        store32(key_ends, rows + 1, key_at)
                    if with_values:
                        begin_bits(value_bits, rows)
                        if value_size > 0:
                            copy_bytes(values, value_at, source, value_from, value_size, source_end)
                            value_at += value_size
                        elif value_size < 0:
                            clear_bit(value_bits, rows)
                            null_values += 1
                        store32(value_ends, rows + 1, value_at)
                for _ in range(header_count):
                    name_size, at = varint(source, at, record_end)
                    if (
                        at < 0
                        or name_size < 0
                        or name_size > record_end - at
                        or not is_utf8(source, at, at + name_size)
                    ):
                        good = False
                        break
                    name_from = at
                    at += name_size
                    content_size, at = varint(source, at, record_end)
                    if at < 0 or content_size < -1 or content_size > record_end - at:
                        good = False
                        break
                    if emits and keep and with_headers:
                        copy_bytes(names, name_at, source, name_from, name_size, source_end)
                        name_at += name_size
                        begin_bits(content_bits, header_at)
                        if content_size > 0:
                            copy_bytes(contents, content_at, source, at, content_size, source_end)
                            content_at += content_size
                        elif content_size < 0:
                            clear_bit(content_bits, header_at)
                            null_contents += 1
                        header_at += 1
                        store32(name_ends, header_at, name_at)
                        store32(content_ends, header_at, content_at)
                    if content_size > 0:
                        at += content_size
                if not good or at != record_end:
                    good = False
                    break
                if emits and keep:
                    if with_headers:
                        # Most records have none, so these bits begin as null and are set.
                        if rows & 7 == 0:
                            store8(header_bits, rows >> 3, 0)
                        if header_count:
                            set_bit(header_bits, rows)
                        else:
                            null_headers += 1
                        store32(header_ends, rows + 1, header_at)
                    rows += 1
                record += 1
            if status == slots.FULL and good:
                if emits:
                    fill_constants(frame, table, row, rows_0, rows)
                break
            if not good or at != end:
                rows, key_at, value_at, header_at, name_at, content_at = (
                    rows_0,
                    key_0,
                    value_0,
                    header_0,
                    name_0,
                    content_0,
                )
                null_keys, null_values, null_stamps, null_headers, null_contents = nulls_0
                status = slots.DOUBT
                break
            if emits:
                fill_constants(frame, table, row, rows_0, rows)
            else:
                table[row + slots.LEAST_TIMESTAMP] = least
                table[row + slots.GREATEST_TIMESTAMP] = greatest
                table[row + slots.OUT_OF_RANGE] = out_of_range
                table[row + slots.NEGATIVE] = negative
                table[row + slots.HEADERS] = headers_seen
                table[row + slots.CONTROL_TYPE] = control_type
            record = nb.int64(0)
            batch += 1

        frame[slots.FIRST] = batch
        frame[slots.STATUS] = status
        frame[slots.RECORD] = record if status == slots.FULL else 0
        frame[slots.AT] = at
        frame[slots.PREVIOUS] = previous
        frame[slots.ROWS] = rows
        frame[slots.KEY_BYTES] = key_at
        frame[slots.VALUE_BYTES] = value_at
        frame[slots.HEADER_COUNT] = header_at
        frame[slots.NAME_BYTES] = name_at
        frame[slots.HEADER_VALUE_BYTES] = content_at
        frame[slots.NULL_KEYS] = null_keys
        frame[slots.NULL_VALUES] = null_values
        frame[slots.NULL_TIMESTAMPS] = null_stamps
        frame[slots.NULL_HEADERS] = null_headers
        frame[slots.NULL_HEADER_VALUES] = null_contents
        return nb.int64(0)

    return records


@nb.njit
def fill_constants(frame, table, row, start, end):
    """What all rows of a batch share: its position, its leader epoch, its timestamp type."""
    if frame[slots.TO_POSITIONS] != 0:
        positions = numbers(frame, slots.TO_POSITIONS)
        position = frame[slots.POSITION_BASE] + table[row + slots.POSITION]
        for index in range(start, end):
            positions[index] = position
    if frame[slots.TO_TYPES] != 0:
        types = pointer(frame, slots.TO_TYPES)
        kind = (table[row + slots.ATTRIBUTES] >> 3) & 1 if table[row + slots.MAGIC] > 0 else nb.int64(-1)
        for index in range(start, end):
            store32(types, index, kind)
    if frame[slots.TO_EPOCHS] != 0:
        epochs, epoch = pointer(frame, slots.TO_EPOCHS), table[row + slots.LEADER_EPOCH]
        bits = pointer(frame, slots.TO_EPOCH_VALIDITY)
        for index in range(start, end):
            store32(epochs, index, epoch)
            begin_bits(bits, index)
        if epoch < 0:
            for index in range(start, end):
                clear_bit(bits, index)
            frame[slots.NULL_EPOCHS] += end - start
