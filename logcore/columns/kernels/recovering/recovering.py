"""The recovery of a segment in one pass: checksums, index entries, and events of producers and epochs.

Only certainly good batches are accepted. Before any other batch the kernel stops with DOUBT and uses nothing of it.
Then the specification handles one batch.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import codec_numbers as codecs
from logcore.columns.kernels.call_frames import DONE, DOUBT, FULL
from logcore.columns.kernels.machine.checksums import crc32, crc32c_by_instruction, crc32c_by_tables
from logcore.columns.kernels.machine.functions import inlined
from logcore.columns.kernels.machine.intrinsics import (
    big_int16,
    big_int32,
    big_int64,
    byte,
    call_checksum,
    moved,
    numbers,
    pointer,
    store32,
)
from logcore.columns.kernels.recovering import event_row
from logcore.columns.kernels.recovering.recovery_frame import RUNS

_V2_HEADER = 61
_OVERHEAD = 12
_TO_MAGIC = 17
_SMALLEST_V0, _SMALLEST_V1 = 14, 22
_MESSAGE_HEADER = 18
_MARKER_SIZE = 78
_MOST = (1 << 31) - 1
_WORTH_A_CALL = 256


def recover_kernel(by_instruction: bool) -> Any:
    """The kernel, for processors with or without an instruction for CRC-32C."""
    crc32c = crc32c_by_instruction if by_instruction else crc32c_by_tables

    @inlined
    def swapped(value):
        low = nb.uint64(value) & nb.uint64(0xFFFFFFFF)
        a = (low & nb.uint64(0xFF)) << nb.uint64(24)
        b = (low & nb.uint64(0xFF00)) << nb.uint64(8)
        c = (low >> nb.uint64(8)) & nb.uint64(0xFF00)
        return nb.int64(a | b | c | (low >> nb.uint64(24)))

    @inlined
    def is_plain_marker(source, position):
        """Whether the 78 bytes are a marker as coordinators write it: one ABORT or COMMIT record, nothing unusual."""
        body = position + _V2_HEADER
        return (
            big_int16(source, position + 21) & codecs.MASK == codecs.NONE
            and big_int32(source, position + 57) == 1
            and big_int32(source, position + 23) == 0
            and nb.int64(byte(source, body)) == 0x20  # record of 16 bytes; then no timestamp delta, no offset delta
            and big_int16(source, body + 2) == 0
            and nb.int64(byte(source, body + 4)) == 8  # key of 4 bytes: version 0, type 0 or 1
            and big_int32(source, body + 5) >> 1 == 0
            and nb.int64(byte(source, body + 9)) == 12  # value of 6 bytes: version 0, coordinator epoch; no headers
            and big_int16(source, body + 10) == 0
            and nb.int64(byte(source, body + 16)) == 0
        )

    @inlined
    def is_good(source, position, size, magic, tables, faster):
        """Whether the size is possible and the checksum matches."""
        if magic == 2:
            stored = big_int32(source, position + 17) & 0xFFFFFFFF
            return crc32c(source, position + 21, position + size, tables) == stored
        stored = big_int32(source, position + 12) & 0xFFFFFFFF
        if faster != 0 and size > _WORTH_A_CALL:
            return call_checksum(faster, nb.int64(0), moved(source, position + 16), size - 16) == stored
        return crc32(source, position + 16, position + size, tables) == stored

    def recover(frame):
        source = pointer(frame.source)
        end = frame.size
        position = frame.position
        base_offset = frame.base_offset
        interval = frame.interval
        last_offset = frame.last_offset
        last_entry_at = frame.last_entry_at
        greatest, greatest_offset = frame.greatest, frame.greatest_offset
        last_timed = frame.last_timed
        epoch = frame.epoch
        replayed_to = frame.replayed_to
        tables = numbers(frame.checksum_tables)
        faster = frame.crc32
        offsets, times = pointer(frame.offsets), pointer(frame.times)
        offset_room, time_room = frame.offset_room, frame.time_room
        offset_count, time_count = nb.int64(0), nb.int64(0)
        events, runs = numbers(frame.events), numbers(frame.runs)
        event_room, event_count = frame.event_room, nb.int64(0)
        status = nb.int64(DONE)
        while end - position > _TO_MAGIC:
            length = big_int32(source, position + 8)
            size = length + _OVERHEAD
            magic = nb.int64(byte(source, position + 16))
            if length < _SMALLEST_V0 or size > end - position or magic > 2:
                status = DOUBT
                break
            first = big_int64(source, position)
            last = first
            producer = nb.int64(-1)
            attributes = nb.int64(0)
            if magic == 2:
                delta = big_int32(source, position + 23) if size >= _V2_HEADER else nb.int64(-1)
                if delta < 0 or first > (1 << 62):
                    status = DOUBT
                    break
                last = first + delta
                producer = big_int64(source, position + 43)
                attributes = big_int16(source, position + 21)
                timestamp = big_int64(source, position + 35)
            else:
                if magic == 1 and length < _SMALLEST_V1:
                    status = DOUBT
                    break
                timestamp = big_int64(source, position + _MESSAGE_HEADER) if magic == 1 else nb.int64(-1)
            if first <= last_offset or last - base_offset > _MOST:
                status = DOUBT
                break
            is_control = attributes & 32 != 0
            if producer >= 0 and is_control and (size != _MARKER_SIZE or not is_plain_marker(source, position)):
                status = DOUBT
                break
            is_indexed = position - last_entry_at > interval
            if event_count + 2 > event_room or (
                is_indexed and (offset_count >= offset_room or time_count >= time_room)
            ):
                status = FULL
                break
            if not is_good(source, position, size, magic, tables, faster):
                status = DOUBT
                break
            if timestamp > greatest:
                greatest, greatest_offset = timestamp, last
            if is_indexed:
                store32(offsets, 2 * offset_count, swapped(last - base_offset))
                store32(offsets, 2 * offset_count + 1, swapped(position))
                offset_count += 1
                if greatest > last_timed:
                    store32(times, 3 * time_count, swapped(greatest >> 32))
                    store32(times, 3 * time_count + 1, swapped(greatest))
                    store32(times, 3 * time_count + 2, swapped(greatest_offset - base_offset))
                    time_count += 1
                    last_timed = greatest
                last_entry_at = position
            if magic == 2:
                leader_epoch = big_int32(source, position + 12)
                if leader_epoch > epoch:
                    row = event_count * event_row.WIDTH
                    events[row + event_row.KIND] = event_row.NEW_EPOCH
                    events[row + event_row.PRODUCER_EPOCH] = leader_epoch
                    events[row + event_row.BASE] = first
                    event_count += 1
                    epoch = leader_epoch
                if producer >= 0:
                    run = (producer ^ (producer >> 10)) & (RUNS - 1)
                    row = runs[run] * event_row.WIDTH
                    producer_epoch = big_int16(source, position + 51)
                    flag = (attributes >> 4) & 1
                    if is_control:
                        if row >= 0 and events[row + event_row.PRODUCER_ID] == producer:
                            runs[run] = -1
                        flag = nb.int64(1) if big_int16(source, position + _V2_HEADER + 7) == 0 else nb.int64(0)
                        row = nb.int64(-1)
                    elif (
                        row < 0
                        or events[row + event_row.PRODUCER_ID] != producer
                        or events[row + event_row.PRODUCER_EPOCH] != producer_epoch
                        or events[row + event_row.FLAG] != flag
                    ):
                        row = nb.int64(-1)
                        runs[run] = event_count
                    if row < 0:
                        row = event_count * event_row.WIDTH
                        events[row + event_row.KIND] = event_row.MARKER if is_control else event_row.DATA
                        events[row + event_row.PRODUCER_ID] = producer
                        events[row + event_row.PRODUCER_EPOCH] = producer_epoch
                        events[row + event_row.FIRST_BASE] = first
                        events[row + event_row.FLAG] = flag
                        events[row + event_row.FIRST_POSITION] = position
                        event_count += 1
                    events[row + event_row.BASE] = first
                    events[row + event_row.LAST] = last
                    events[row + event_row.SEQUENCE] = big_int32(source, position + 53)
                    events[row + event_row.TIMESTAMP] = timestamp
                    if is_control:
                        events[row + event_row.COORDINATOR_EPOCH] = big_int32(source, position + _V2_HEADER + 12)
                        if attributes & 8 == 0:
                            events[row + event_row.TIMESTAMP] = big_int64(source, position + 27)
                replayed_to = last + 1
            last_offset = last
            position += size
        frame.position = position
        frame.last_offset = last_offset
        frame.last_entry_at = last_entry_at
        frame.greatest, frame.greatest_offset = greatest, greatest_offset
        frame.last_timed = last_timed
        frame.epoch = epoch
        frame.replayed_to = replayed_to
        frame.offset_count, frame.time_count, frame.event_count = offset_count, time_count, event_count
        frame.status = status
        return nb.int64(0)

    return recover


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name, for processors with or without an instruction for CRC-32C."""
    return {"recover": recover_kernel(has_crc32c)}
