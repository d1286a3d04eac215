"""The walk over batch headers: it finds batches that are certainly good, and verifies their checksums.

It is never less strict than the scan: anything that is not certainly a good batch ends the walk with DOUBT, and the
scan validates it.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import batch_row
from logcore.columns.kernels import codec_numbers as codecs
from logcore.columns.kernels.call_frames import DONE, DOUBT
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
)

_V2_HEADER = 61
_OVERHEAD = 12
_SMALLEST_RECORD = 7
_MESSAGE_HEADER = 18  # to the end of the attributes
_SMALLEST_V0, _SMALLEST_V1 = 14, 22
_CONTROL = 32
_WORTH_A_CALL = 256
"""From this size on, a library computes a message's CRC-32 if one is available."""


def walk_kernel(by_instruction: bool) -> Any:
    """The kernel, for processors with or without an instruction for CRC-32C."""
    crc32c = crc32c_by_instruction if by_instruction else crc32c_by_tables

    @inlined
    def kind_of(source, at):
        """Kind of the batch at a position that 23 bytes follow; -1 if no such batch exists."""
        magic = nb.int64(byte(source, at + 16))
        if magic == 2:
            codec = nb.int64(byte(source, at + 22)) & codecs.MASK
            if (codecs.OF_BATCHES >> codec) & 1 == 0:
                return nb.int64(-1)
            return nb.int64(batch_row.PLAIN) if codec == codecs.NONE else nb.int64(batch_row.COMPRESSED)
        if magic > 2:
            return nb.int64(-1)
        codec = nb.int64(byte(source, at + 17)) & codecs.MASK
        if (codecs.OF_MESSAGES >> codec) & 1 == 0:
            return nb.int64(-1)
        return nb.int64(batch_row.PLAIN_MESSAGES) if codec == codecs.NONE else nb.int64(batch_row.COMPRESSED_MESSAGES)

    @inlined
    def v2_header(source, at, size, expected, ceiling, table, row, tables):
        """Whether a v2 batch is here; its row is written."""
        base = big_int64(source, at)
        delta = big_int32(source, at + 23)
        count = big_int32(source, at + 57)
        if delta < 0 or base < expected or base > ceiling or delta > ceiling - base:
            return False
        attributes = big_int16(source, at + 21) & 0xFFFF
        body = size - _V2_HEADER
        if count < 0 or count > delta + 1:
            return False
        if attributes & codecs.MASK == codecs.NONE and count > body // _SMALLEST_RECORD:
            return False
        crc = big_int32(source, at + 17) & 0xFFFFFFFF
        if crc32c(source, at + 21, at + size, tables) != crc:
            return False
        table[row + batch_row.BASE_OFFSET] = base
        table[row + batch_row.LAST_OFFSET] = base + delta
        table[row + batch_row.RECORD_COUNT] = count
        table[row + batch_row.ATTRIBUTES] = attributes
        table[row + batch_row.BASE_TIMESTAMP] = big_int64(source, at + 27)
        table[row + batch_row.MAX_TIMESTAMP] = big_int64(source, at + 35)
        table[row + batch_row.PRODUCER_ID] = big_int64(source, at + 43)
        table[row + batch_row.PRODUCER_EPOCH] = big_int16(source, at + 51)
        table[row + batch_row.BASE_SEQUENCE] = big_int32(source, at + 53)
        table[row + batch_row.LEADER_EPOCH] = big_int32(source, at + 12)
        table[row + batch_row.CRC] = crc
        table[row + batch_row.MAGIC] = 2
        table[row + batch_row.BODY] = at + _V2_HEADER
        return True

    @inlined
    def message(source, at, size, expected, ceiling, table, row, tables, faster):
        """Whether a v0 or v1 message is here; its row is written. A wrapper's base offset is still unknown."""
        magic = nb.int64(byte(source, at + 16))
        if size < _OVERHEAD + (_SMALLEST_V1 if magic == 1 else _SMALLEST_V0):
            return False
        offset = big_int64(source, at)
        if offset < expected or offset > ceiling:
            return False
        crc = big_int32(source, at + 12) & 0xFFFFFFFF
        if faster != 0 and size > _WORTH_A_CALL:
            if call_checksum(faster, nb.int64(0), moved(source, at + 16), size - 16) != crc:
                return False
        elif crc32(source, at + 16, at + size, tables) != crc:
            return False
        table[row + batch_row.BASE_OFFSET] = offset
        table[row + batch_row.LAST_OFFSET] = offset
        table[row + batch_row.RECORD_COUNT] = 1
        table[row + batch_row.ATTRIBUTES] = nb.int64(byte(source, at + 17))
        table[row + batch_row.BASE_TIMESTAMP] = -1
        table[row + batch_row.MAX_TIMESTAMP] = big_int64(source, at + 18) if magic == 1 else nb.int64(-1)
        table[row + batch_row.PRODUCER_ID] = -1
        table[row + batch_row.PRODUCER_EPOCH] = -1
        table[row + batch_row.BASE_SEQUENCE] = -1
        table[row + batch_row.LEADER_EPOCH] = -1
        table[row + batch_row.CRC] = crc
        table[row + batch_row.MAGIC] = magic
        table[row + batch_row.BODY] = at + (_MESSAGE_HEADER + 8 if magic == 1 else _MESSAGE_HEADER)
        return True

    def walk(frame):
        source = pointer(frame.source)
        end = frame.size
        at = frame.position
        begun = at
        expected = frame.expected
        ceiling = frame.ceiling
        most = frame.max_batches
        most_bytes = frame.max_bytes
        tables = numbers(frame.checksum_tables)
        table = numbers(frame.table)
        faster = frame.crc32
        kind, codec = nb.int64(-1), nb.int64(-2)
        has_data = nb.int64(0)
        found = nb.int64(0)
        records = nb.int64(0)
        body = nb.int64(0)
        status = nb.int64(DONE)
        while at < end and found < most and at - begun < most_bytes:
            if end - at < _MESSAGE_HEADER + 8:
                status = DOUBT
                break
            here = kind_of(source, at)
            # Markers are never compressed. They join the table of the compressed batches around them.
            is_marker = here == batch_row.PLAIN and byte(source, at + 22) & nb.uint64(_CONTROL) != nb.uint64(0)
            if kind >= 0 and here != kind:
                joins = is_marker if kind == batch_row.COMPRESSED else here == batch_row.COMPRESSED and has_data == 0
                if here < 0:
                    status = DOUBT
                if here < 0 or kind > batch_row.COMPRESSED or not joins:
                    break
            length = big_int32(source, at + 8)
            size = length + _OVERHEAD
            if here < 0 or length < _SMALLEST_V0 or size > end - at:
                status = DOUBT
                break
            row = found * batch_row.WIDTH
            if here <= batch_row.COMPRESSED:
                good = size >= _V2_HEADER and v2_header(source, at, size, expected, ceiling, table, row, tables)
            else:
                good = message(source, at, size, expected, ceiling, table, row, tables, faster)
            behind = at + size
            # A successor that claims offsets of this batch: the scan decides which of the two is wrong.
            table[row + batch_row.BEFORE_WRAPPER] = 0
            if good and end - behind >= _OVERHEAD and big_int32(source, behind + 8) >= _SMALLEST_V0:
                good = big_int64(source, behind) > table[row + batch_row.LAST_OFFSET]
                if end - behind >= _MESSAGE_HEADER + 8 and kind_of(source, behind) == batch_row.COMPRESSED_MESSAGES:
                    # It may begin anywhere; only a batch without a gap before it cannot be the wrong one.
                    table[row + batch_row.BEFORE_WRAPPER] = 1
                    if here != batch_row.COMPRESSED_MESSAGES and table[row + batch_row.BASE_OFFSET] > expected:
                        good = False
            if not good:
                status = DOUBT
                break
            if here == batch_row.COMPRESSED or here == batch_row.COMPRESSED_MESSAGES:
                most_bytes = frame.max_compressed
                codec = nb.int64(-2) if kind == batch_row.PLAIN else codec
                kind = here
            elif kind < 0:
                kind = here
            attributes = table[row + batch_row.ATTRIBUTES]
            if not is_marker:
                has_data = 1
            if here == kind:
                own = attributes & codecs.MASK
                codec = own if codec == -2 or codec == own else nb.int64(-1)
            table[row + batch_row.POSITION] = at
            table[row + batch_row.SIZE] = size
            table[row + batch_row.BODY_END] = at + size
            table[row + batch_row.CONTROL_TYPE] = -1
            expected = table[row + batch_row.LAST_OFFSET] + 1
            records += table[row + batch_row.RECORD_COUNT]
            body += at + size - table[row + batch_row.BODY]
            at = behind
            found += 1
        frame.position = at
        frame.expected = expected
        frame.status = status
        frame.count = found
        frame.kind = kind
        frame.records = records
        frame.body_bytes = body
        frame.codec = codec
        return nb.int64(0)

    return walk


def hop(frame):
    """Follow the batches' length fields to the first one that begins at or after the target, without checks."""
    source, end = pointer(frame.source), frame.size
    at, target = frame.position, frame.target
    next_offset = frame.next_offset
    while at < target and end - at >= _MESSAGE_HEADER + 8:
        length = big_int32(source, at + 8)
        if length < _SMALLEST_V0 or length > end - at - _OVERHEAD:
            break
        next_offset = big_int64(source, at) + 1
        if byte(source, at + 16) == nb.uint64(2) and length >= _V2_HEADER - _OVERHEAD:
            next_offset += big_int32(source, at + 23)
        at += length + _OVERHEAD
    frame.position = at
    frame.next_offset = next_offset
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name, for processors with or without an instruction for CRC-32C."""
    return {"walk": walk_kernel(has_crc32c), "hop": hop}
