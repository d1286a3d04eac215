"""Cleaning by key: select the records that stay, rewrite their batches, and index the written batches.

A record that stays keeps its bytes from the offset delta on, because `hash_keys` accepts only numbers as Kafka's
encoder writes them. Before these bytes are a new length, no attributes, and the difference from the new base timestamp.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import batch_row
from logcore.columns.kernels import codec_numbers as codecs
from logcore.columns.kernels.call_frames import DONE, DOUBT, FULL, SLACK
from logcore.columns.kernels.cleaning.cleaning_frames import ALL_STAY, BY_KEY, NO_KEY, NO_VALUE, STAYS, WRITTEN_WIDTH
from logcore.columns.kernels.machine.checksums import crc32, crc32c_by_instruction, crc32c_by_tables
from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.intrinsics import (
    byte,
    call_with_five,
    call_with_four,
    copy,
    load64,
    moved,
    numbers,
    pointer,
    store8,
    store_big16,
    store_big32,
    store_big64,
    stored64,
    to_address,
    to_bytes,
)
from logcore.columns.kernels.machine.values import copy_bytes, varint, varlong

_HEADER = 61
_LZ4_BLOCK = 64 * 1024
_LZ4_HEADER = nb.uint64(0x824060184D2204)
"""`lz4_frames.HEADER`, lowest byte first."""
_XERIAL_MAGIC, _XERIAL_VERSIONS = nb.uint64(0x595050414E5382), nb.uint64(0x01000000_01000000)
"""`compression.XERIAL_HEADER`, lowest byte first."""
_XERIAL_BLOCK = 32 * 1024
_FLUSH, _END = 1, 2
"""ZSTD_e_flush, ZSTD_e_end."""
_FINISH, _STREAM_END = 4, 1
"""Z_FINISH, Z_STREAM_END."""
_GZIP_HEADER = nb.uint64(0x00000000_00088B1F)
"""The first eight bytes of `compression.GZIP_HEADER`, lowest first."""
_SESSION = 1
"""ZSTD_reset_session_only."""
_LOW_BITS = 0xFFFFFFFF
_LATEST_STAMP = 1 << 62
"""From this time on differences might not fit 64 bits; the slow way handles such a batch."""


def survivors(frame):
    """Set STAYS on the rows of batches 0..`end` that stay, and count them."""
    offsets, flags = pointer(frame.offsets), pointer(frame.flags)
    newest, first_rows = numbers(frame.newest), numbers(frame.first_rows)
    modes, needs, kept = numbers(frame.modes), numbers(frame.needs), numbers(frame.kept)
    latest, frozen = frame.latest, frame.frozen
    for batch in range(frame.end):
        mode, needed = modes[batch], needs[batch] != 0
        count, without_value = nb.int64(0), nb.int64(0)
        for row in range(first_rows[batch], first_rows[batch + 1]):
            kind = nb.int64(byte(flags, row)) & ~STAYS
            if mode == BY_KEY:
                offset = nb.int64(load64(offsets, row * 8))
                if offset > latest:
                    stays = True
                elif offset >= frozen:
                    stays = kind & (NO_KEY | NO_VALUE) != 0 or offset >= newest[row]
                else:
                    stays = kind & NO_KEY == 0 and offset >= newest[row] and (kind & NO_VALUE == 0 or needed)
            else:
                stays = mode == ALL_STAY
            if stays:
                kind |= STAYS
                count += 1
                if kind & NO_VALUE != 0:
                    without_value += 1
            store8(flags, row, kind)
        kept[2 * batch] = count
        kept[2 * batch + 1] = without_value
    return nb.int64(0)


@inlined
def _write_varlong(target, at, value):
    """Write an int64 in zigzag base 128. Returns the position after it."""
    left = nb.uint64((value << 1) ^ (value >> 63))
    while left >= nb.uint64(128):
        store8(target, at, nb.int64((left & nb.uint64(127)) | nb.uint64(128)))
        left >>= nb.uint64(7)
        at += 1
    store8(target, at, nb.int64(left))
    return at + 1


@inlined
def _varlong_size(value):
    left = nb.uint64((value << 1) ^ (value >> 63))
    size = nb.int64(1)
    while left >= nb.uint64(128):
        left >>= nb.uint64(7)
        size += 1
    return size


@called
def _lz4_frame(compress, source, size, target, at):
    """Write a frame as Kafka's producer does, with blocks of 64 KiB. Returns its end."""
    stored64(target, at, _LZ4_HEADER)
    at += 7
    done = nb.int64(0)
    while done < size:
        plain = min(size - done, _LZ4_BLOCK)
        room = plain + plain // 255 + 16
        taken = call_with_four(
            compress,
            to_address(moved(source, done)),
            to_address(moved(target, at + 4)),
            plain,
            room,
        )
        taken &= _LOW_BITS
        word = taken
        if taken <= 0 or taken >= plain:
            copy(target, at + 4, source, done, plain)
            taken, word = plain, plain | 0x80000000
        for index in range(4):
            store8(target, at + index, (word >> (8 * index)) & 255)
        at += 4 + taken
        done += plain
    for index in range(4):
        store8(target, at + index, 0)
    return at + 4


@called
def _snappy_stream(compress, source, size, target, at):
    """Write a xerial stream as Kafka's producer does. Returns its end, or -1 if the encoder fails."""
    stored64(target, at, _XERIAL_MAGIC)
    stored64(target, at + 8, _XERIAL_VERSIONS)
    at += 16
    done = nb.int64(0)
    while done < size:
        plain = min(size - done, _XERIAL_BLOCK)
        from_there, to_there = to_address(moved(source, done)), to_address(moved(target, at + 4))
        taken = call_with_five(compress, nb.int64(0), nb.int64(0), from_there, plain, to_there)
        if taken <= 0:
            return nb.int64(-1)
        store_big32(target, at, taken)
        at += 4 + taken
        done += plain
    return at


@called
def _zstd_frame(compress, reset, state, source, size, target, at, room, frame):
    """Write a streamed frame, flushed and then ended, as Kafka closes its stream. Returns its end, or -1 without room.

    The first words of `frame`'s scratch contain the library's two buffers.
    """
    call_with_four(reset, state, nb.int64(_SESSION), nb.int64(0), nb.int64(0))
    buffers = numbers(frame.scratch)
    output, source_buffer = pointer(frame.scratch), moved(pointer(frame.scratch), 24)
    buffers[0] = to_address(moved(target, at))
    buffers[1] = room
    buffers[2] = 0
    buffers[3] = to_address(source)
    buffers[4] = size
    buffers[5] = 0
    left = call_with_four(compress, state, to_address(output), to_address(source_buffer), nb.int64(_FLUSH))
    if left != 0 or buffers[5] != size:
        return nb.int64(-1)
    left = call_with_four(compress, state, to_address(output), to_address(source_buffer), nb.int64(_END))
    if left != 0:
        return nb.int64(-1)
    return at + buffers[2]


@called
def _gzip_member(deflate, reset, state, source, size, target, at, room, tables):
    """Write a member as Kafka's stream does, deflated at once with a reused state. Returns its end; -1: failure."""
    stream = to_bytes(state)
    call_with_four(reset, state, nb.int64(0), nb.int64(0), nb.int64(0))
    stored64(stream, 0, nb.uint64(to_address(source)))
    stored64(stream, 8, nb.uint64(size))
    stored64(stream, 24, nb.uint64(to_address(moved(target, at + 10))))
    stored64(stream, 32, nb.uint64(room - 18))
    if call_with_four(deflate, state, nb.int64(_FINISH), nb.int64(0), nb.int64(0)) & _LOW_BITS != _STREAM_END:
        return nb.int64(-1)
    used = nb.int64(load64(stream, 40))
    stored64(target, at, _GZIP_HEADER)
    store_big16(target, at + 8, 0x00FF)
    at += 10 + used
    stored64(target, at, nb.uint64(crc32(source, nb.int64(0), size, tables)) | (nb.uint64(size) << nb.uint64(32)))
    return at + 8


def rewrite_kernel(by_instruction: bool) -> Any:
    """The kernel, for processors with or without an instruction for CRC-32C."""
    crc32c = crc32c_by_instruction if by_instruction else crc32c_by_tables

    def rewrite(frame):
        source, source_end = pointer(frame.source), frame.source_size
        table, tables = numbers(frame.table), numbers(frame.checksum_tables)
        starts, flags = numbers(frame.starts), pointer(frame.flags)
        first_rows, kept = numbers(frame.first_rows), numbers(frame.kept)
        chosen, horizons = numbers(frame.chosen), numbers(frame.horizons)
        ends, greatest_of = numbers(frame.ends), numbers(frame.stamps)
        target, room, used = pointer(frame.target), frame.room, frame.used
        # The first words of the scratch are for the libraries' structures.
        scratch, scratch_size = moved(pointer(frame.scratch), 64), frame.scratch_size - 64
        step, last_step = frame.first, frame.end
        status = nb.int64(DONE)
        while step < last_step:
            batch = chosen[step]
            row = batch * batch_row.WIDTH
            attributes = table[row + batch_row.ATTRIBUTES]
            codec = attributes & codecs.MASK
            body_end = table[row + batch_row.BODY_END]
            body = body_end - table[row + batch_row.BODY]
            count = kept[2 * batch]
            if count == 0:
                codec = nb.int64(codecs.NONE)
            encode = frame.encoders[codec]
            native = encode != 0
            most = body + 11 * count
            if native and most + SLACK > scratch_size:
                status = nb.int64(FULL)
                break
            # The most that an encoder may add to incompressible bytes.
            spare = most // 5 if codec == codecs.SNAPPY else most >> 6
            if _HEADER + most + spare + 1024 > room - used:
                status = nb.int64(FULL)
                break
            appended = attributes & 8 != 0
            old_base, max_stamp = table[row + batch_row.BASE_TIMESTAMP], table[row + batch_row.MAX_TIMESTAMP]
            horizon = horizons[step] if count else nb.int64(batch_row.NONE)
            base_stamp = horizon if count else nb.int64(-1)
            has_base = horizon != batch_row.NONE
            greatest = nb.int64(-1)
            good = True
            to = nb.int64(0)
            section = scratch if native else moved(target, used + _HEADER)
            for each in range(first_rows[batch], first_rows[batch + 1]):
                kind = nb.int64(byte(flags, each))
                if kind & STAYS == 0:
                    continue
                # The bytes were checked when the rows were made, but a file may have changed since. If the bytes
                # no longer fit the buffers, the slow way refuses them.
                length, at = varint(source, starts[each], body_end)
                good = at >= 0 and 1 <= length <= body_end - at
                if not good:
                    break
                record_end = at + length
                delta, rest = varlong(source, at + 1, record_end)
                if rest < 0:
                    good = False
                    break
                stamp = max_stamp if appended else old_base + delta
                if stamp < -1 or stamp > _LATEST_STAMP:
                    good = False
                    break
                if stamp > greatest:
                    greatest = stamp
                if not has_base:
                    base_stamp, has_base = stamp, True
                # Almost always the new length has as many bytes as the old one.
                change = stamp - base_stamp
                tail = record_end - rest
                size = 1 + _varlong_size(change) + tail
                if to + _varlong_size(size) + size > most:
                    good = False
                    break
                to = _write_varlong(section, to, size)
                store8(section, to, 0)
                to = _write_varlong(section, to + 1, change)
                copy_bytes(section, to, source, rest, tail, source_end)
                to += tail
            if not good:
                status = nb.int64(DOUBT)
                break
            end = used + _HEADER + to
            if native and codec == codecs.LZ4:
                end = _lz4_frame(encode, section, to, target, used + _HEADER)
            elif native and codec == codecs.SNAPPY:
                end = _snappy_stream(encode, section, to, target, used + _HEADER)
            elif native:
                at, left = used + _HEADER, room - used - _HEADER
                reset, state = frame.resets[codec], frame.states[codec]
                if codec == codecs.ZSTD:
                    end = _zstd_frame(encode, reset, state, section, to, target, at, left, frame)
                else:
                    end = _gzip_member(encode, reset, state, section, to, target, at, left, tables)
            if end < 0:
                status = nb.int64(DOUBT)
                break
            here = moved(target, used)
            stated = max_stamp if appended or count == 0 else greatest
            store_big64(here, 0, table[row + batch_row.BASE_OFFSET])
            store_big32(here, 8, end - used - 12)
            store_big32(here, 12, table[row + batch_row.LEADER_EPOCH])
            store8(here, 16, 2)
            store_big16(here, 21, (attributes & 0x38) | codec | (0x40 if horizon != batch_row.NONE else 0))
            store_big32(here, 23, table[row + batch_row.LAST_OFFSET] - table[row + batch_row.BASE_OFFSET])
            store_big64(here, 27, base_stamp)
            store_big64(here, 35, stated)
            store_big64(here, 43, table[row + batch_row.PRODUCER_ID])
            store_big16(here, 51, table[row + batch_row.PRODUCER_EPOCH])
            store_big32(here, 53, table[row + batch_row.BASE_SEQUENCE])
            store_big32(here, 57, count)
            if native or codec == codecs.NONE:
                # If the codec is missing, the caller compresses the section and computes the checksum.
                store_big32(here, 17, crc32c(target, used + 21, end, tables))
            greatest_of[step] = stated
            ends[step] = end
            used = end
            step += 1
        frame.first = step
        frame.used = used
        frame.status = status
        return nb.int64(0)

    return rewrite


def index(frame):
    """Write the offset and time index entries of appended batches.

    One of each is written before a batch if the last entry is more than `interval` bytes earlier.
    """
    written = numbers(frame.positions)
    interval, base = frame.interval, frame.base
    since, stamp = frame.since, frame.stamp
    stamp_offset, last_stamp = frame.stamp_offset, frame.last_stamp
    offsets, times = pointer(frame.offsets), pointer(frame.times)
    offset_count, time_count = frame.offset_count, frame.time_count
    for batch in range(frame.count):
        row = batch * WRITTEN_WIDTH
        last_offset, greatest = written[row + 2], written[row + 3]
        if greatest > stamp:
            stamp, stamp_offset = greatest, last_offset
        if since > interval:
            store_big32(offsets, offset_count * 8, last_offset - base)
            store_big32(offsets, offset_count * 8 + 4, written[row])
            offset_count += 1
            if stamp > last_stamp:
                store_big64(times, time_count * 12, stamp)
                store_big32(times, time_count * 12 + 8, stamp_offset - base)
                time_count += 1
                last_stamp = stamp
            since = nb.int64(0)
        since += written[row + 1]
    frame.since = since
    frame.stamp = stamp
    frame.stamp_offset = stamp_offset
    frame.last_stamp = last_stamp
    frame.offset_count = offset_count
    frame.time_count = time_count
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name, for processors with or without an instruction for CRC-32C."""
    return {"survivors": survivors, "rewrite": rewrite_kernel(has_crc32c), "index": index}
