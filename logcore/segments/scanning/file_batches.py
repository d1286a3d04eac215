"""The walk over a segment as a broker's own file reader does it, almost without checks.

    17 bytes or fewer left                 the end, silently
    size field below 14                    CorruptRecordError: nothing after it can be found
    size field that runs past the file     the end, silently
    magic 2 or above                       read as a v2 batch
    magic 0, 1 or negative                 read as a v0 or v1 message

Checksum, offsets and magic are not checked, and wrappers of v0 and v1 are not opened: a recovery and the replay of
producers use their outer offset. `logcore.segments.scanning.scan` decides which bytes can be trusted. This module shows
what a broker would do.

Source: Kafka FileLogInputStream, DefaultRecordBatch.ensureValid, LegacyRecord.ensureValid.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.batch import HEADER, HEADER_SIZE, MINIMUM_LENGTH_FIELD, crc_matches
from logcore.records.legacy import FIXED_BYTES, SMALLEST_SIZE_FIELD
from logcore.records.model import LENGTH_AT, LOG_OVERHEAD, MAGIC_AT, MAGIC_V2, BatchHeader
from logcore.records.varint import Buffer

_PREFIX = struct.Struct(">q i I b b")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_NONE = -1


def file_batches(buf: Buffer, start: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each batch from `start` on.

    The magic of a header is signed, as the broker reads it.

    Args:
        buf: The segment's bytes.
        start: Where the first batch begins.
        end: The end of the file; by default that of the bytes.

    Raises:
        CorruptRecordError: LENGTH if a broker cannot continue, also for a v2 batch that is smaller than its header.
    """
    end = len(buf) if end is None else min(end, len(buf))
    position = start
    while position < end - (MAGIC_AT + 1):
        header = _header(buf, position, end)
        if header is None:
            return
        yield position, header
        position += header.size


def ensure_valid(buf: Buffer, position: int, header: BatchHeader) -> None:
    """Check a batch as a recovery does: its size must be possible and its checksum right. Nothing else is checked.

    Raises:
        CorruptRecordError: LENGTH or CRC.
    """
    least = HEADER_SIZE - LOG_OVERHEAD if header.magic >= MAGIC_V2 else SMALLEST_SIZE_FIELD[_legacy(header.magic)]
    if header.batch_length < least:
        message = f"the batch's length field says {header.batch_length}, the least for its format is {least}"
        raise CorruptRecordError(CorruptionReason.LENGTH, message, position=position)
    if not crc_matches(buf, position, _of_known_format(header)):
        raise CorruptRecordError(CorruptionReason.CRC, "the batch's crc does not match its bytes", position=position)


def _header(buf: Buffer, position: int, end: int) -> BatchHeader | None:
    (length,) = _INT32.unpack_from(buf, position + LENGTH_AT)
    if length < MINIMUM_LENGTH_FIELD:
        message = f"the batch's length field says {length}, the smallest possible value is {MINIMUM_LENGTH_FIELD}"
        raise CorruptRecordError(CorruptionReason.LENGTH, message, position=position)
    if length > end - position - LOG_OVERHEAD:
        return None
    magic = buf[position + MAGIC_AT]
    magic = magic if magic < 128 else magic - 256
    if magic < MAGIC_V2:
        offset, length, crc, magic, attributes = _PREFIX.unpack_from(buf, position)
        has_time = magic != 0 and length >= SMALLEST_SIZE_FIELD[1]
        timestamp = _INT64.unpack_from(buf, position + FIXED_BYTES[0])[0] if has_time else _NONE
        return BatchHeader(offset, length, _NONE, magic, crc, attributes, 0, _NONE, timestamp, _NONE, _NONE, _NONE, 1)
    if length < HEADER_SIZE - LOG_OVERHEAD:
        message = f"the batch's length field says {length}, too little for the header of a v2 batch"
        raise CorruptRecordError(CorruptionReason.LENGTH, message, position=position)
    return BatchHeader(*HEADER.unpack_from(buf, position))


def _legacy(magic: int) -> int:
    return 0 if magic == 0 else 1


def _of_known_format(header: BatchHeader) -> BatchHeader:
    """A header whose format selects the same bytes and checksum as the broker's reader would."""
    if header.magic <= MAGIC_V2:
        return header
    return replace(header, magic=MAGIC_V2)
