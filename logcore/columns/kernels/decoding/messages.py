"""Messages of formats v0 and v1, alone or in decompressed sets: checked by one kernel, copied by the other.

`unfold` finds the base offset and the number of messages of each wrapper and checks everything in it; `emit_messages`
copies the wanted records of batches that `unfold` accepted.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import codec_numbers as codecs
from logcore.columns.kernels import slots
from logcore.columns.kernels.machine.checksums import crc32
from logcore.columns.kernels.machine.functions import inlined
from logcore.columns.kernels.machine.intrinsics import big_int32, big_int64, byte, numbers, pointer, store32, store64
from logcore.columns.kernels.machine.values import (
    begin_bits,
    clear_bit,
    copy_bytes,
    fill_constants,
    in_ranges,
    same_bytes,
)

_OVERHEAD = 12


@inlined
def content(source, at, end):
    """Return (key position, key size, value position, value size) of a message with its key length at `at`.

    The value position is -1 if the message does not end at `end`. Sizes are -1 for null.
    """
    none = nb.int64(-1)
    if end - at < 8:
        return none, none, none, none
    key_size = big_int32(source, at)
    at += 4
    key_at = at
    if key_size < -1 or key_size > end - at - 4:
        return none, none, none, none
    if key_size > 0:
        at += key_size
    value_size = big_int32(source, at)
    at += 4
    if value_size < -1 or at + max(value_size, nb.int64(0)) != end:
        return none, none, none, none
    return key_at, key_size, at, value_size


@inlined
def inner(source, at, end, magic, tables, checked):
    """Return (position of the key length, end) of the set's message at a position; end -1 without a valid message."""
    none = nb.int64(-1)
    if end - at < _OVERHEAD + 14:
        return none, none
    size = big_int32(source, at + 8)
    if size < (22 if magic == 1 else 14) or size > end - at - _OVERHEAD:
        return none, none
    behind = at + _OVERHEAD + size
    if nb.int64(byte(source, at + 16)) != magic or nb.int64(byte(source, at + 17)) & codecs.MASK != 0:
        return none, none
    if checked and crc32(source, at + 16, behind, tables) != big_int32(source, at + 12) & 0xFFFFFFFF:
        return none, none
    return at + (26 if magic == 1 else 18), behind


def unfold(frame):
    """Check the messages of batches FIRST..END and of their wrappers."""
    source = pointer(frame, slots.SOURCE)
    table = numbers(frame, slots.TABLE)
    tables = numbers(frame, slots.CHECKSUM_TABLES)
    checked = frame[slots.CHECK_INNER] != 0
    wrapped = frame[slots.WRAPPED] != 0
    batch, last_batch = frame[slots.FIRST], frame[slots.END]
    previous = frame[slots.PREVIOUS_LAST]
    behind_gap = False
    status = nb.int64(slots.DONE)
    while batch < last_batch:
        row = batch * slots.WIDTH
        at, end = table[row + slots.BODY], table[row + slots.BODY_END]
        magic, outer = table[row + slots.MAGIC], table[row + slots.LAST_OFFSET]
        appended = magic == 1 and table[row + slots.ATTRIBUTES] & 8 != 0
        max_stamp = table[row + slots.MAX_TIMESTAMP]
        least, greatest = nb.int64(slots.NONE), nb.int64(slots.NONE)
        out_of_range, negative = nb.int64(0), nb.int64(0)
        good = True
        count = nb.int64(1)
        if not wrapped:
            _, _, value_at, _ = content(source, at, end)
            good = value_at >= 0
            greatest = max_stamp
            least = max_stamp if max_stamp >= 0 else nb.int64(slots.NONE)
            negative = nb.int64(max_stamp < -1)
            out_of_range = nb.int64(
                max_stamp != -1 and not slots.MIN_TIMESTAMP_MS <= max_stamp <= slots.MAX_TIMESTAMP_MS
            )
        else:
            count, first, last = nb.int64(0), nb.int64(-1), nb.int64(-1)
            while at < end and good:
                key_at, behind = inner(source, at, end, magic, tables, checked)
                if behind < 0:
                    good = False
                    break
                _, _, value_at, _ = content(source, key_at, behind)
                offset = big_int64(source, at)
                if value_at < 0 or offset <= last:
                    good = False
                    break
                stamp = nb.int64(-1)
                if magic == 1:
                    stamp = max_stamp if appended else big_int64(source, at + 18)
                greatest = max(greatest, stamp)
                if stamp >= 0 and (least == slots.NONE or stamp < least):
                    least = stamp
                if stamp != -1 and not slots.MIN_TIMESTAMP_MS <= stamp <= slots.MAX_TIMESTAMP_MS:
                    out_of_range += 1
                if stamp < -1:
                    negative += 1
                if count == 0:
                    first = offset
                last = offset
                count += 1
                at = behind
            # The wrapper's offset is that of its last message; in v1 the inner offsets begin anywhere.
            if good:
                good = count > 0 and (last == outer if magic == 0 else last <= outer and (outer > 0 or last == 0))
            if good:
                base = first if magic == 0 else outer - last + first
                good = base > previous
                table[row + slots.BASE_OFFSET] = base
                table[row + slots.RECORD_COUNT] = count
        table[row + slots.LEAST_TIMESTAMP] = least
        table[row + slots.GREATEST_TIMESTAMP] = greatest
        table[row + slots.OUT_OF_RANGE] = out_of_range
        table[row + slots.NEGATIVE] = negative
        table[row + slots.HEADERS] = 0
        table[row + slots.NAMES_NOT_UTF8] = 0
        if not good:
            # If the batch before could be lower, it may be the wrong one: the scan validates from there on.
            if behind_gap and batch > frame[slots.FIRST]:
                batch -= 1
            status = slots.DOUBT
            break
        behind_gap = wrapped and table[row + slots.BASE_OFFSET] > previous + 1
        if behind_gap and batch + 1 == last_batch and table[row + slots.BEFORE_WRAPPER] != 0:
            status = slots.DOUBT
            break
        previous = outer
        batch += 1
    frame[slots.FIRST] = batch
    frame[slots.STATUS] = status
    return nb.int64(0)


def emit_messages(frame):
    """Copy the wanted records of batches FIRST..END, all accepted by `unfold`, until the rows are full."""
    source = pointer(frame, slots.SOURCE)
    source_end = frame[slots.SOURCE_SIZE]
    table = numbers(frame, slots.TABLE)
    wrapped = frame[slots.WRAPPED] != 0
    capacity = frame[slots.ROW_CAPACITY]
    filtered = frame[slots.FILTERED] != 0
    ranges = numbers(frame, slots.RANGES)
    range_count = frame[slots.RANGE_COUNT]
    since, until, until_open = frame[slots.SINCE], frame[slots.UNTIL], frame[slots.UNTIL_OPEN] != 0
    wanted_key = pointer(frame, slots.WANTED_KEY)
    wanted_key_size = frame[slots.WANTED_KEY_SIZE]
    offsets, stamps_ms = pointer(frame, slots.TO_OFFSETS), pointer(frame, slots.TO_TIMESTAMPS_MS)
    stamps, stamp_bits = pointer(frame, slots.TO_TIMESTAMPS), pointer(frame, slots.TO_TIMESTAMP_VALIDITY)
    key_ends, keys = pointer(frame, slots.TO_KEY_ENDS), pointer(frame, slots.TO_KEYS)
    key_bits = pointer(frame, slots.TO_KEY_VALIDITY)
    value_ends, values = pointer(frame, slots.TO_VALUE_ENDS), pointer(frame, slots.TO_VALUES)
    value_bits = pointer(frame, slots.TO_VALUE_VALIDITY)
    with_offsets, with_stamps = frame[slots.TO_OFFSETS] != 0, frame[slots.TO_TIMESTAMPS] != 0
    with_stamps_ms, with_keys = frame[slots.TO_TIMESTAMPS_MS] != 0, frame[slots.TO_KEYS] != 0
    with_values = frame[slots.TO_VALUES] != 0
    rows, key_to, value_to = nb.int64(0), nb.int64(0), nb.int64(0)
    null_keys, null_values, null_stamps = nb.int64(0), nb.int64(0), nb.int64(0)
    if with_keys:
        store32(key_ends, 0, 0)
    if with_values:
        store32(value_ends, 0, 0)
    status = nb.int64(slots.DONE)
    batch, last_batch = frame[slots.FIRST], frame[slots.END]
    record, at = frame[slots.RECORD], frame[slots.AT]
    while batch < last_batch:
        row = batch * slots.WIDTH
        end, magic = table[row + slots.BODY_END], table[row + slots.MAGIC]
        count, outer = table[row + slots.RECORD_COUNT], table[row + slots.LAST_OFFSET]
        appended = magic == 1 and table[row + slots.ATTRIBUTES] & 8 != 0
        max_stamp = table[row + slots.MAX_TIMESTAMP]
        if record == 0:
            at = table[row + slots.BODY]
        # Inner offsets of v1 begin anywhere; the first message has the batch's base offset.
        shift = nb.int64(0)
        if wrapped and magic == 1:
            shift = table[row + slots.BASE_OFFSET] - big_int64(source, table[row + slots.BODY])
        rows_0 = rows
        while record < count:
            if rows >= capacity:
                status = slots.FULL
                break
            key_at, behind, offset, stamp = at, end, outer, max_stamp
            if wrapped:
                behind = at + _OVERHEAD + big_int32(source, at + 8)
                offset = big_int64(source, at) + shift
                key_at = at + (26 if magic == 1 else 18)
                if magic == 1 and not appended:
                    stamp = big_int64(source, at + 18)
            key_from, key_size, value_from, value_size = content(source, key_at, behind)
            at = behind
            record += 1
            if filtered and not (
                (range_count < 0 or in_ranges(ranges, range_count, offset))
                and since <= stamp
                and (until_open or stamp < until)
                and (
                    wanted_key_size < 0
                    or (key_size == wanted_key_size and same_bytes(source, key_from, wanted_key, key_size))
                )
            ):
                continue
            if with_offsets:
                store64(offsets, rows, offset)
            if with_stamps_ms:
                store64(stamps_ms, rows, stamp)
            if with_stamps:
                begin_bits(stamp_bits, rows)
                if stamp != -1 and slots.MIN_TIMESTAMP_MS <= stamp <= slots.MAX_TIMESTAMP_MS:
                    store64(stamps, rows, stamp * 1000)
                else:
                    store64(stamps, rows, 0)
                    clear_bit(stamp_bits, rows)
                    null_stamps += 1
            if with_keys:
                begin_bits(key_bits, rows)
                if key_size > 0:
                    copy_bytes(keys, key_to, source, key_from, key_size, source_end)
                    key_to += key_size
                elif key_size < 0:
                    clear_bit(key_bits, rows)
                    null_keys += 1
                store32(key_ends, rows + 1, key_to)
            if with_values:
                begin_bits(value_bits, rows)
                if value_size > 0:
                    copy_bytes(values, value_to, source, value_from, value_size, source_end)
                    value_to += value_size
                elif value_size < 0:
                    clear_bit(value_bits, rows)
                    null_values += 1
                store32(value_ends, rows + 1, value_to)
            rows += 1
        fill_constants(frame, table, row, rows_0, rows)
        if status == slots.FULL:
            break
        record = nb.int64(0)
        batch += 1
    frame[slots.FIRST] = batch
    frame[slots.STATUS] = status
    frame[slots.RECORD] = record if status == slots.FULL else 0
    frame[slots.AT] = at
    frame[slots.ROWS] = rows
    frame[slots.KEY_BYTES] = key_to
    frame[slots.VALUE_BYTES] = value_to
    frame[slots.HEADER_COUNT] = 0
    frame[slots.NAME_BYTES] = 0
    frame[slots.HEADER_VALUE_BYTES] = 0
    frame[slots.NULL_KEYS] = null_keys
    frame[slots.NULL_VALUES] = null_values
    frame[slots.NULL_TIMESTAMPS] = null_stamps
    frame[slots.NULL_HEADERS] = rows
    frame[slots.NULL_HEADER_VALUES] = 0
    frame[slots.EMITTED_NOT_UTF8] = 0
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"unfold": unfold, "emit_messages": emit_messages}
