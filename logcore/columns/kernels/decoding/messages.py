"""Messages of formats v0 and v1, alone or in decompressed sets: checked by one kernel, copied by the other.

`unfold` finds the base offset and the number of messages of each wrapper and checks everything in it; `emit_messages`
copies the wanted records of batches that `unfold` accepted.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import batch_row
from logcore.columns.kernels import codec_numbers as codecs
from logcore.columns.kernels.call_frames import DONE, DOUBT, FULL
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
    """Check the messages of batches `first`..`end` and of their wrappers."""
    source = pointer(frame.source)
    table = numbers(frame.table)
    tables = numbers(frame.checksum_tables)
    checked = frame.check_inner != 0
    wrapped = frame.wrapped != 0
    batch, last_batch = frame.first, frame.end
    previous = frame.previous_last
    behind_gap = False
    status = nb.int64(DONE)
    while batch < last_batch:
        row = batch * batch_row.WIDTH
        at, end = table[row + batch_row.BODY], table[row + batch_row.BODY_END]
        magic, outer = table[row + batch_row.MAGIC], table[row + batch_row.LAST_OFFSET]
        appended = magic == 1 and table[row + batch_row.ATTRIBUTES] & 8 != 0
        max_stamp = table[row + batch_row.MAX_TIMESTAMP]
        least, greatest = nb.int64(batch_row.NONE), nb.int64(batch_row.NONE)
        out_of_range, negative = nb.int64(0), nb.int64(0)
        good = True
        count = nb.int64(1)
        if not wrapped:
            _, _, value_at, _ = content(source, at, end)
            good = value_at >= 0
            greatest = max_stamp
            least = max_stamp if max_stamp >= 0 else nb.int64(batch_row.NONE)
            negative = nb.int64(max_stamp < -1)
            out_of_range = nb.int64(
                max_stamp != -1 and not batch_row.MIN_TIMESTAMP_MS <= max_stamp <= batch_row.MAX_TIMESTAMP_MS
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
                if stamp >= 0 and (least == batch_row.NONE or stamp < least):
                    least = stamp
                if stamp != -1 and not batch_row.MIN_TIMESTAMP_MS <= stamp <= batch_row.MAX_TIMESTAMP_MS:
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
                table[row + batch_row.BASE_OFFSET] = base
                table[row + batch_row.RECORD_COUNT] = count
        table[row + batch_row.LEAST_TIMESTAMP] = least
        table[row + batch_row.GREATEST_TIMESTAMP] = greatest
        table[row + batch_row.OUT_OF_RANGE] = out_of_range
        table[row + batch_row.NEGATIVE] = negative
        table[row + batch_row.HEADERS] = 0
        table[row + batch_row.NAMES_NOT_UTF8] = 0
        if not good:
            # If the batch before could be lower, it may be the wrong one: the scan validates from there on.
            if behind_gap and batch > frame.first:
                batch -= 1
            status = DOUBT
            break
        behind_gap = wrapped and table[row + batch_row.BASE_OFFSET] > previous + 1
        if behind_gap and batch + 1 == last_batch and table[row + batch_row.BEFORE_WRAPPER] != 0:
            status = DOUBT
            break
        previous = outer
        batch += 1
    frame.first = batch
    frame.status = status
    return nb.int64(0)


def emit_messages(frame):
    """Copy the wanted records of batches `first`..`end`, all accepted by `unfold`, until the rows are full."""
    source = pointer(frame.source)
    source_end = frame.source_size
    table = numbers(frame.table)
    wrapped = frame.wrapped != 0
    capacity = frame.row_capacity
    filtered = frame.filtered != 0
    ranges = numbers(frame.ranges)
    range_count = frame.range_count
    since, until, until_open = frame.since, frame.until, frame.until_open != 0
    wanted_key = pointer(frame.wanted_key)
    wanted_key_size = frame.wanted_key_size
    offsets, stamps_ms = pointer(frame.to_offsets), pointer(frame.to_timestamps_ms)
    stamps, stamp_bits = pointer(frame.to_timestamps), pointer(frame.to_timestamp_validity)
    key_ends, keys = pointer(frame.to_key_ends), pointer(frame.to_keys)
    key_bits = pointer(frame.to_key_validity)
    value_ends, values = pointer(frame.to_value_ends), pointer(frame.to_values)
    value_bits = pointer(frame.to_value_validity)
    with_offsets, with_stamps = frame.to_offsets != 0, frame.to_timestamps != 0
    with_stamps_ms, with_keys = frame.to_timestamps_ms != 0, frame.to_keys != 0
    with_values = frame.to_values != 0
    rows, key_to, value_to = nb.int64(0), nb.int64(0), nb.int64(0)
    null_keys, null_values, null_stamps = nb.int64(0), nb.int64(0), nb.int64(0)
    if with_keys:
        store32(key_ends, 0, 0)
    if with_values:
        store32(value_ends, 0, 0)
    status = nb.int64(DONE)
    batch, last_batch = frame.first, frame.end
    record, at = frame.record, frame.at
    while batch < last_batch:
        row = batch * batch_row.WIDTH
        end, magic = table[row + batch_row.BODY_END], table[row + batch_row.MAGIC]
        count, outer = table[row + batch_row.RECORD_COUNT], table[row + batch_row.LAST_OFFSET]
        appended = magic == 1 and table[row + batch_row.ATTRIBUTES] & 8 != 0
        max_stamp = table[row + batch_row.MAX_TIMESTAMP]
        if record == 0:
            at = table[row + batch_row.BODY]
        # Inner offsets of v1 begin anywhere; the first message has the batch's base offset.
        shift = nb.int64(0)
        if wrapped and magic == 1:
            shift = table[row + batch_row.BASE_OFFSET] - big_int64(source, table[row + batch_row.BODY])
        rows_0 = rows
        while record < count:
            if rows >= capacity:
                status = FULL
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
                if stamp != -1 and batch_row.MIN_TIMESTAMP_MS <= stamp <= batch_row.MAX_TIMESTAMP_MS:
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
        if status == FULL:
            break
        record = nb.int64(0)
        batch += 1
    frame.first = batch
    frame.status = status
    frame.record = record if status == FULL else 0
    frame.at = at
    frame.rows = rows
    frame.key_bytes = key_to
    frame.value_bytes = value_to
    frame.header_count = 0
    frame.name_bytes = 0
    frame.header_value_bytes = 0
    frame.null_keys = null_keys
    frame.null_values = null_values
    frame.null_timestamps = null_stamps
    frame.null_headers = rows
    frame.null_header_values = 0
    frame.names_not_utf8 = 0
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"unfold": unfold, "emit_messages": emit_messages}
