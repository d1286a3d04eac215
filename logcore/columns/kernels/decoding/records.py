"""The records of v2 batches: checked to the last byte, and copied into Arrow's buffers in the same pass.

Two kernels from one source. `inspect` only checks, and writes each batch's timestamps, headers and control type to the
table; `emit` also copies the wanted records. A batch that is not certainly good gives no row: the kernel returns to its
beginning and ends with DOUBT.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import batch_row
from logcore.columns.kernels.call_frames import DONE, DOUBT, FULL
from logcore.columns.kernels.machine.functions import called
from logcore.columns.kernels.machine.intrinsics import big_int16, numbers, pointer, store8, store32, store64
from logcore.columns.kernels.machine.values import (
    begin_bits,
    clear_bit,
    copy_bytes,
    fill_constants,
    in_ranges,
    is_utf8,
    same_bytes,
    set_bit,
    varint,
    varlong,
)


@called
def has_header(source, at, end, count, name, name_size, content, content_size):
    """Whether one of a record's headers has a name and a content (size -1: any). Malformed headers end the search."""
    for _ in range(count):
        size, at = varint(source, at, end)
        if at < 0 or size < 0 or size > end - at:
            return False
        is_named = size == name_size and same_bytes(source, at, name, size)
        size, at = varint(source, at + size, end)
        if at < 0 or size < -1 or size > end - at:
            return False
        if is_named and (content_size < 0 or (size == content_size and same_bytes(source, at, content, size))):
            return True
        if size > 0:
            at += size
    return False


def records_kernel(emits: bool) -> Any:
    """Return `emit` if `emits`, else `inspect`."""

    def records(frame):
        source = pointer(frame.source)
        source_end = frame.source_size
        table = numbers(frame.table)
        capacity = frame.row_capacity
        filtered = frame.filtered != 0
        ranges = numbers(frame.ranges)
        range_count = frame.range_count
        since, until, until_open = frame.since, frame.until, frame.until_open != 0
        wanted_key = pointer(frame.wanted_key)
        wanted_key_size = frame.wanted_key_size
        wanted_name, wanted_name_size = pointer(frame.wanted_name), frame.wanted_name_size
        wanted_content = pointer(frame.wanted_content)
        wanted_content_size = frame.wanted_content_size
        with_control = frame.with_control != 0
        takes_any_name = frame.takes_any_name != 0
        offsets = pointer(frame.to_offsets)
        stamps = pointer(frame.to_timestamps)
        stamp_bits = pointer(frame.to_timestamp_validity)
        stamps_ms = pointer(frame.to_timestamps_ms)
        key_ends, keys = pointer(frame.to_key_ends), pointer(frame.to_keys)
        key_bits = pointer(frame.to_key_validity)
        value_ends, values = pointer(frame.to_value_ends), pointer(frame.to_values)
        value_bits = pointer(frame.to_value_validity)
        header_ends, header_bits = pointer(frame.to_header_ends), pointer(frame.to_header_validity)
        name_ends, names = pointer(frame.to_name_ends), pointer(frame.to_names)
        content_ends, contents = pointer(frame.to_header_value_ends), pointer(frame.to_header_values)
        content_bits = pointer(frame.to_header_value_validity)
        with_offsets, with_stamps = frame.to_offsets != 0, frame.to_timestamps != 0
        with_stamps_ms, with_keys = frame.to_timestamps_ms != 0, frame.to_keys != 0
        with_values, with_headers = frame.to_values != 0, frame.to_header_ends != 0

        rows, key_at, value_at = nb.int64(0), nb.int64(0), nb.int64(0)
        header_at, name_at, content_at = nb.int64(0), nb.int64(0), nb.int64(0)
        null_keys, null_values, null_stamps = nb.int64(0), nb.int64(0), nb.int64(0)
        null_headers, null_contents, emitted_not_utf8 = nb.int64(0), nb.int64(0), nb.int64(0)
        status = nb.int64(DONE)
        batch, last_batch = frame.first, frame.end
        record, at, previous = frame.record, frame.at, frame.previous
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
            row = batch * batch_row.WIDTH
            end = table[row + batch_row.BODY_END]
            base, last = table[row + batch_row.BASE_OFFSET], table[row + batch_row.LAST_OFFSET]
            count = table[row + batch_row.RECORD_COUNT]
            attributes = table[row + batch_row.ATTRIBUTES]
            appended = attributes & 8 != 0
            base_stamp, max_stamp = table[row + batch_row.BASE_TIMESTAMP], table[row + batch_row.MAX_TIMESTAMP]
            is_control = attributes & 32 != 0
            shown = emits and (with_control or not is_control)
            if record == 0:
                at, previous = table[row + batch_row.BODY], base - 1
            # The state to restore if this batch is not good.
            rows_0, key_0, value_0, header_0, name_0, content_0 = rows, key_at, value_at, header_at, name_at, content_at
            nulls_0 = (null_keys, null_values, null_stamps, null_headers, null_contents, emitted_not_utf8)
            least, greatest = nb.int64(batch_row.NONE), nb.int64(batch_row.NONE)
            out_of_range, negative, headers_seen = nb.int64(0), nb.int64(0), nb.int64(0)
            names_not_utf8 = nb.int64(0)
            control_type = nb.int64(-1)
            good = True
            while record < count:
                if emits and rows >= capacity:
                    status = FULL
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
                in_range = batch_row.MIN_TIMESTAMP_MS <= stamp <= batch_row.MAX_TIMESTAMP_MS and stamp != -1
                if not emits:
                    if stamp > greatest:
                        greatest = stamp
                    if stamp >= 0 and (least == batch_row.NONE or stamp < least):
                        least = stamp
                    if not in_range and stamp != -1:
                        out_of_range += 1
                    if stamp < -1:
                        negative += 1
                    headers_seen += header_count
                if is_control:
                    # Only the two markers with a key of exactly four bytes are accepted.
                    if key_size != 4 or count != 1 or big_int16(source, key_from) != 0:
                        good = False
                        break
                    control_type = big_int16(source, key_from + 2)
                    if control_type != 0 and control_type != 1:
                        good = False
                        break
                    if emits:
                        table[row + batch_row.CONTROL_TYPE] = control_type
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
                        and (
                            wanted_name_size < 0
                            or has_header(
                                source,
                                at,
                                record_end,
                                header_count,
                                wanted_name,
                                wanted_name_size,
                                wanted_content,
                                wanted_content_size,
                            )
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
                    if at < 0 or name_size < 0 or name_size > record_end - at:
                        good = False
                        break
                    if not is_utf8(source, at, at + name_size):
                        if not takes_any_name:
                            good = False
                            break
                        if not emits:
                            names_not_utf8 += 1
                        elif keep and with_headers:
                            emitted_not_utf8 += 1
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
                        # Most records have no headers, so these bits begin as null and are set.
                        if rows & 7 == 0:
                            store8(header_bits, rows >> 3, 0)
                        if header_count:
                            set_bit(header_bits, rows)
                        else:
                            null_headers += 1
                        store32(header_ends, rows + 1, header_at)
                    rows += 1
                record += 1
            if status == FULL and good:
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
                null_keys, null_values, null_stamps, null_headers, null_contents, emitted_not_utf8 = nulls_0
                status = DOUBT
                break
            if emits:
                fill_constants(frame, table, row, rows_0, rows)
            else:
                table[row + batch_row.LEAST_TIMESTAMP] = least
                table[row + batch_row.GREATEST_TIMESTAMP] = greatest
                table[row + batch_row.OUT_OF_RANGE] = out_of_range
                table[row + batch_row.NEGATIVE] = negative
                table[row + batch_row.HEADERS] = headers_seen
                table[row + batch_row.NAMES_NOT_UTF8] = names_not_utf8
                table[row + batch_row.CONTROL_TYPE] = control_type
            record = nb.int64(0)
            batch += 1

        frame.first = batch
        frame.status = status
        frame.record = record if status == FULL else 0
        frame.at = at
        frame.previous = previous
        frame.rows = rows
        frame.key_bytes = key_at
        frame.value_bytes = value_at
        frame.header_count = header_at
        frame.name_bytes = name_at
        frame.header_value_bytes = content_at
        frame.null_keys = null_keys
        frame.null_values = null_values
        frame.null_timestamps = null_stamps
        frame.null_headers = null_headers
        frame.null_header_values = null_contents
        frame.names_not_utf8 = emitted_not_utf8
        return nb.int64(0)

    return records


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"inspect": records_kernel(emits=False), "emit": records_kernel(emits=True)}
