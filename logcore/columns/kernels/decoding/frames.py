"""Decompression of a group of batches into one arena, without a call from Python for each batch.

The codecs' own libraries decode the blocks (LZ4_decompress_safe, ZSTD_decompressDCtx, called by address). The kernel
reads the frames around them, so the end and the greatest output are known before anything is decoded. Only one plain
frame that fills the batch is accepted: everything else ends with DOUBT.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import batch_row
from logcore.columns.kernels import codec_numbers as codecs
from logcore.columns.kernels.call_frames import DONE, DOUBT, FOREIGN, FULL
from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.intrinsics import (
    big_int32,
    byte,
    call_block_decoder,
    call_frame_decoder,
    copy,
    load32,
    load64,
    moved,
    numbers,
    pointer,
)

_LZ4_MAGIC = 0x184D2204
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK = 128 * 1024
_ZSTD_MAX_WINDOW = 1 << 27
_LOW32 = nb.uint64(0xFFFFFFFF)
_P2, _P3 = nb.uint64(2246822519), nb.uint64(3266489917)
_P4, _P5 = nb.uint64(668265263), nb.uint64(374761393)
_P1 = nb.uint64(2654435761)


@inlined
def _rotated(value, by):
    return ((value << nb.uint64(by)) | (value >> nb.uint64(32 - by))) & _LOW32


@called
def xxh32_of_few(source, at, size):
    """XXH32 with seed 0 of fewer than 16 bytes."""
    value = (_P5 + nb.uint64(size)) & _LOW32
    while size >= 4:
        value = (value + load32(source, at) * _P3) & _LOW32
        value = (_rotated(value, 17) * _P4) & _LOW32
        at += 4
        size -= 4
    while size > 0:
        value = (value + byte(source, at) * _P5) & _LOW32
        value = (_rotated(value, 11) * _P1) & _LOW32
        at += 1
        size -= 1
    value = ((value ^ (value >> nb.uint64(15))) * _P2) & _LOW32
    value = ((value ^ (value >> nb.uint64(13))) * _P3) & _LOW32
    return value ^ (value >> nb.uint64(16))


@called
def lz4_blocks(source, at, end, magic):
    """(position of the first block, largest block, most output) of the frame that fills [at, end); -1 if in doubt."""
    none = nb.int64(-1)
    if end - at < 11 or nb.int64(load32(source, at)) != _LZ4_MAGIC:
        return none, none, none
    flags, sizes = nb.int64(byte(source, at + 4)), nb.int64(byte(source, at + 5))
    # Version 1, independent blocks, no block checksums, no reserved bits.
    if flags & 0xF3 != 0x60 or sizes & 0x8F != 0 or sizes < 0x40:
        return none, none, none
    descriptor = 10 if flags & 0x08 else 2
    if end - at < 4 + descriptor + 1 + 4:
        return none, none, none
    stated = nb.int64(byte(source, at + 4 + descriptor))
    # The first clients hashed the frame's magic too; messages of format v0 still contain that hash.
    if magic > 0 and nb.int64((xxh32_of_few(source, at + 4, descriptor) >> nb.uint64(8)) & nb.uint64(255)) != stated:
        return none, none, none
    largest = nb.int64(1) << (8 + 2 * (sizes >> 4))
    first = at + 4 + descriptor + 1
    at, most = first, nb.int64(0)
    while True:
        if end - at < 4:
            return none, none, none
        size = nb.int64(load32(source, at))
        at += 4
        if size == 0:
            break
        plain = size & 0x80000000 != 0
        size &= 0x7FFFFFFF
        # For Kafka, an empty stored block is an end mark too.
        if size == 0 or size > largest or size > end - at:
            return none, none, none
        most += size if plain else largest
        at += size
    if flags & 0x04:
        at += 4  # the content's checksum, which Kafka does not check
    if at != end:
        return none, none, none
    return first, largest, most


@called
def zstd_most(source, at, end):
    """The most output of the zstd frame that fills [at, end); -1 if in doubt."""
    if end - at < 9 or nb.int64(load32(source, at)) != _ZSTD_MAGIC:
        return nb.int64(-1)
    descriptor = nb.int64(byte(source, at + 4))
    at += 5
    if descriptor & 0x0B != 0:  # a dictionary, or a reserved bit
        return nb.int64(-1)
    single = descriptor & 0x20 != 0
    window = nb.int64(_ZSTD_BLOCK)
    if not single:
        code = nb.int64(byte(source, at))
        at += 1
        exponent = 10 + (code >> 3)
        if exponent > 27:
            return nb.int64(-1)
        window = (nb.int64(1) << exponent) + ((nb.int64(1) << exponent) >> 3) * (code & 7)
        if window > _ZSTD_MAX_WINDOW:
            return nb.int64(-1)
    size_code = descriptor >> 6
    if size_code == 0:
        at += 1 if single else 0
    else:
        at += 1 << size_code
    if at > end:
        return nb.int64(-1)
    if single:
        window = nb.int64(byte(source, at - 1))
        if size_code == 1:
            window = nb.int64(byte(source, at - 2)) + (window << 8) + 256
        elif size_code == 2:
            window = nb.int64(load32(source, at - 4))
        elif size_code == 3:
            window = nb.int64(load64(source, at - 8))
        if window < 0 or window > _ZSTD_MAX_WINDOW:
            return nb.int64(-1)
    most = nb.int64(0)
    last = False
    while not last:
        if end - at < 3:
            return nb.int64(-1)
        header = nb.int64(byte(source, at)) | nb.int64(byte(source, at + 1)) << 8 | nb.int64(byte(source, at + 2)) << 16
        at += 3
        last = header & 1 != 0
        kind, size = (header >> 1) & 3, header >> 3
        if kind == 3 or size > _ZSTD_BLOCK:
            return nb.int64(-1)
        if kind == 2:
            most += min(_ZSTD_BLOCK, window)
        else:
            most += size
        at += 1 if kind == 1 else size
        if at > end:
            return nb.int64(-1)
    if descriptor & 0x04:
        at += 4
    if at != end:
        return nb.int64(-1)
    return most


@called
def lz4_into(decode, source, first, largest, target, used):
    """Decode the blocks of a frame. Returns the end of the output, or -1 if a block is damaged."""
    at = first
    while True:
        size = nb.int64(load32(source, at))
        at += 4
        if size == 0:
            return used
        plain = size & 0x80000000 != 0
        size &= 0x7FFFFFFF
        if plain:
            copy(target, used, source, at, size)
            used += size
        else:
            given = call_block_decoder(decode, moved(source, at), moved(target, used), size, largest)
            if given < 0:
                return nb.int64(-1)
            used += given
        at += size


def inflate(frame):
    """Decompress batches `first`..`end` of the table until one needs more room or a missing codec; copy markers."""
    source, target = pointer(frame.source), pointer(frame.target)
    table = numbers(frame.table)
    room, cap = frame.room, frame.cap
    used = frame.used
    batch, last_batch = frame.first, frame.end
    status = nb.int64(DONE)
    while batch < last_batch:
        row = batch * batch_row.WIDTH
        at, end = table[row + batch_row.BODY], table[row + batch_row.BODY_END]
        if at == batch_row.UNWANTED:
            table[row + batch_row.BODY] = used
            table[row + batch_row.BODY_END] = used
            batch += 1
            continue
        magic = table[row + batch_row.MAGIC]
        if magic < 2:
            # A wrapper has no key, and its value extends to its end.
            if end - at < 8 or big_int32(source, at) != -1 or big_int32(source, at + 4) != end - at - 8:
                status = DOUBT
                break
            at += 8
        codec = table[row + batch_row.ATTRIBUTES] & codecs.MASK
        decode = frame.decoders[codec]
        first, largest, most = nb.int64(0), nb.int64(0), nb.int64(0)
        if codec == codecs.NONE:
            most = end - at
        elif decode != 0 and codec == codecs.LZ4:
            first, largest, most = lz4_blocks(source, at, end, magic)
        elif decode != 0 and codec == codecs.ZSTD:
            most = zstd_most(source, at, end)
        else:
            status = FOREIGN
            break
        if most < 0 or (most > cap and codec != codecs.NONE):
            status = DOUBT
            break
        if most > room - used:
            status = FULL
            frame.needed = most
            break
        if codec == codecs.NONE:
            copy(target, used, source, at, most)
            behind = used + most
        elif codec == codecs.LZ4:
            behind = lz4_into(decode, source, first, largest, target, used)
        else:
            state = frame.states[codec]
            given = call_frame_decoder(decode, state, moved(target, used), most, moved(source, at), end - at)
            behind = used + given if 0 <= given <= most else nb.int64(-1)
        if behind < 0:
            status = DOUBT
            break
        table[row + batch_row.BODY] = used
        table[row + batch_row.BODY_END] = behind
        used = behind
        batch += 1
    frame.first = batch
    frame.used = used
    frame.status = status
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"inflate": inflate}
