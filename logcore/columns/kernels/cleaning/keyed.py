"""The records of v2 batches as the cleaner sees them: checked to the last byte, with hashed keys, one row each.

As strict as `records`: a batch that is not certainly good gives no row, and the kernel ends with DOUBT before it.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import batch_row
from logcore.columns.kernels.call_frames import DONE, DOUBT
from logcore.columns.kernels.cleaning.cleaning_frames import LEFT_OUT, NO_KEY, NO_VALUE
from logcore.columns.kernels.machine.hashing import LANES, hash_rows
from logcore.columns.kernels.machine.intrinsics import big_int16, numbers, pointer, store8, store64
from logcore.columns.kernels.machine.values import is_utf8, varint, varlong


def hash_keys(frame):
    """Write a row for every record of batches `first`..`end`."""
    source = pointer(frame.source)
    source_end = frame.source_size
    table = numbers(frame.table)
    highs, lows = pointer(frame.high), pointer(frame.low)
    offsets, starts = pointer(frame.offsets), pointer(frame.starts)
    flags, first_rows = pointer(frame.flags), numbers(frame.first_rows)
    key_0, key_1 = nb.uint64(frame.key_0), nb.uint64(frame.key_1)
    rows, capacity = frame.rows, frame.capacity
    batch, last_batch = frame.first, frame.end
    hashed = rows
    status = nb.int64(DONE)
    while batch < last_batch:
        row = batch * batch_row.WIDTH
        at, end = table[row + batch_row.BODY], table[row + batch_row.BODY_END]
        base, last = table[row + batch_row.BASE_OFFSET], table[row + batch_row.LAST_OFFSET]
        count = table[row + batch_row.RECORD_COUNT]
        is_control = table[row + batch_row.ATTRIBUTES] & 32 != 0
        constant = nb.int64(LEFT_OUT) if is_control else nb.int64(0)
        control_type = nb.int64(-1)
        previous = base - 1
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
            kind = constant
            at += 1  # attributes, unused
            _, at = varlong(source, at, record_end)
            if at < 0:
                break
            offset, at = varint(source, at, record_end)
            if at < 0:
                break
            offset += base
            if offset <= previous or offset > last:
                break
            previous = offset
            key_size, at = varint(source, at, record_end)
            if at < 0 or key_size < -1 or key_size > record_end - at:
                break
            # Store the key's position for now: many keys are hashed at once.
            store64(highs, to, at)
            store64(lows, to, max(key_size, nb.int64(0)))
            if key_size < 0:
                kind |= NO_KEY
            else:
                if is_control:
                    # Only the two markers with a key of exactly four bytes are accepted.
                    if key_size != 4 or big_int16(source, at) != 0:
                        break
                    control_type = big_int16(source, at + 2)
                at += key_size
            value_size, at = varint(source, at, record_end)
            if at < 0 or value_size < -1 or value_size > record_end - at:
                break
            if value_size < 0:
                kind |= NO_VALUE
            else:
                at += value_size
            header_count, at = varint(source, at, record_end)
            if at < 0 or header_count < 0 or header_count > (record_end - at) >> 1 or header_count > 1_000_000:
                break
            whole = True
            for _ in range(header_count):
                name_size, at = varint(source, at, record_end)
                whole = at >= 0 and 0 <= name_size <= record_end - at and is_utf8(source, at, at + name_size)
                if not whole:
                    break
                at += name_size
                content_size, at = varint(source, at, record_end)
                whole = at >= 0 and -1 <= content_size <= record_end - at
                if not whole:
                    break
                if content_size > 0:
                    at += content_size
            if not whole or at != record_end:
                break
            store64(offsets, to, offset)
            store64(starts, to, begun)
            store8(flags, to, kind)
            to += 1
            done += 1
            good = True
        if good and is_control and count > 0:
            good = count == 1 and (control_type == 0 or control_type == 1)
        if not good or at != end:
            status = DOUBT
            break
        table[row + batch_row.CONTROL_TYPE] = control_type
        rows = to
        batch += 1
        # Hash while the keys are in the cache, except a few that wait for more.
        together = (rows - hashed) & ~nb.int64(LANES - 1)
        hash_rows(source, source_end, highs, lows, hashed, hashed + together, key_0, key_1)
        hashed += together
    hash_rows(source, source_end, highs, lows, hashed, rows, key_0, key_1)
    first_rows[batch] = rows
    frame.first = batch
    frame.rows = rows
    frame.status = status
    return nb.int64(0)


def hash_bytes(frame):
    """Hash the byte strings, which are stored without gaps: string n ends at number n + 1 of `starts`."""
    source, source_end = pointer(frame.source), frame.source_size
    highs, lows, starts = pointer(frame.high), pointer(frame.low), numbers(frame.starts)
    key_0, key_1 = nb.uint64(frame.key_0), nb.uint64(frame.key_1)
    for row in range(frame.count):
        store64(highs, row, starts[row])
        store64(lows, row, starts[row + 1] - starts[row])
    hash_rows(source, source_end, highs, lows, nb.int64(0), frame.count, key_0, key_1)
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"hash_keys": hash_keys, "hash_bytes": hash_bytes}
