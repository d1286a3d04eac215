"""The header of a record batch of any format version, and its checksum. This is v2; `legacy.py` has v0 and v1.

    off len field                  type    under the CRC
    0   8   baseOffset             int64   no
    8   4   batchLength            int32   no     bytes after this field: the batch's size is batchLength + 12
    12  4   partitionLeaderEpoch   int32   no     -1 = none
    16  1   magic                  int8    no     2
    17  4   crc                    uint32  no     CRC-32C of everything from `attributes` to the batch's end
    21  2   attributes             int16   yes    below
    23  4   lastOffsetDelta        int32   yes    last offset = baseOffset + this; survives compaction
    27  8   baseTimestamp          int64   yes    ms; the delete horizon if bit 6 is set
    35  8   maxTimestamp           int64   yes    ms; the append time if bit 3 is set
    43  8   producerId             int64   yes    -1 = none
    51  2   producerEpoch          int16   yes    -1 = none
    53  4   baseSequence           int32   yes    -1 = none
    57  4   recordCount            int32   yes    0 in a batch that compaction emptied
    61  -   records                        yes    one compressed stream if the codec is not 0

    attributes  0-2 codec · 3 timestamp type (0 create, 1 log append) · 4 transactional · 5 control
                6 baseTimestamp is the delete horizon (KIP-534) · 7-15 unused

The broker assigns base offset and leader epoch after the producer has computed the checksum. It must not read all bytes
again to do so. So the checksum comes after these two fields and does not cover them. A flipped bit in them cannot be
found here; only the neighbours of the batch can show it. Length and magic lie at the same place in every format
version, so a reader can distinguish the versions. All integers are big-endian two's complement.

Some old clients left lastOffsetDelta 0, and brokers up to 1.0 stored such batches. A broker gave each record an offset,
and then stored the batch so that baseOffset + lastOffsetDelta is the last one. So the log ends there for every broker,
but Kafka's readers count the records upwards from baseOffset: five records of the offsets [0, 5) are stored with
baseOffset 4, and read as [4, 9). `counted` gives the offsets that the broker counted.

Source: org.apache.kafka.common.record.internal.{DefaultRecordBatch, FileLogInputStream}, KIP-98. Belongs here: what
the header and the checksum show. `record.py` reads the records.
"""

import struct
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.compression import Codec, reserved_codec
from logcore.records.legacy import (
    CRC_FROM,
    FIXED_BYTES,
    SMALLEST_SIZE_FIELD,
    check_codec,
    message_crc,
    read_message_header,
)
from logcore.records.model import CODEC_MASK as CODEC_MASK
from logcore.records.model import CONTROL_BIT as CONTROL_BIT
from logcore.records.model import DELETE_HORIZON_BIT as DELETE_HORIZON_BIT
from logcore.records.model import KNOWN_ATTRIBUTES as KNOWN_ATTRIBUTES
from logcore.records.model import LENGTH_AT as LENGTH_AT
from logcore.records.model import LOG_OVERHEAD as LOG_OVERHEAD
from logcore.records.model import MAGIC_AT as MAGIC_AT
from logcore.records.model import MAGIC_V2 as MAGIC_V2
from logcore.records.model import TIMESTAMP_TYPE_BIT as TIMESTAMP_TYPE_BIT
from logcore.records.model import TRANSACTIONAL_BIT as TRANSACTIONAL_BIT
from logcore.records.model import BatchHeader as BatchHeader
from logcore.records.model import TimestampType as TimestampType
from logcore.records.varint import Buffer

BASE_OFFSET_AT = 0
LEADER_EPOCH_AT = LENGTH_AT + 4
CRC_AT = MAGIC_AT + 1
ATTRIBUTES_AT = CRC_AT + 4
LAST_OFFSET_DELTA_AT = ATTRIBUTES_AT + 2
BASE_TIMESTAMP_AT = LAST_OFFSET_DELTA_AT + 4
MAX_TIMESTAMP_AT = BASE_TIMESTAMP_AT + 8
PRODUCER_ID_AT = MAX_TIMESTAMP_AT + 8
PRODUCER_EPOCH_AT = PRODUCER_ID_AT + 8
BASE_SEQUENCE_AT = PRODUCER_EPOCH_AT + 2
RECORD_COUNT_AT = BASE_SEQUENCE_AT + 4
HEADER_SIZE = RECORD_COUNT_AT + 4

MINIMUM_LENGTH_FIELD = SMALLEST_SIZE_FIELD[0]
"""The smallest length field of any format version (a v0 message); Kafka refuses a smaller one."""
SMALLEST_RECORD = 7
"""Bytes of a v2 record with null key, null value and no headers."""

HEADER = struct.Struct(">q i i b I h i q q q h i i")
_SMALLEST = {**SMALLEST_SIZE_FIELD, MAGIC_V2: HEADER_SIZE - LOG_OVERHEAD}
_FIXED = {**FIXED_BYTES, MAGIC_V2: HEADER_SIZE}
_INT32 = struct.Struct(">i")
_MAX_INT64 = (1 << 63) - 1


def read_header(buf: Buffer, position: int = 0, end: int | None = None, *, whole: bool = True) -> BatchHeader:
    """Read the batch header at `position`.

    This does not check the checksum and the counts: see `crc_matches` and `check_header`. The header of a compressed v0
    or v1 message has its last offset only: see `legacy.unfold`.

    Args:
        buf: The bytes that contain the batch.
        position: Where the batch begins in `buf`.
        end: The batch must end here or earlier; by default the buffer's end.
        whole: Whether the whole batch must be there. If not, the fixed bytes are enough: 61, or 18 for a v0 message
            and 26 for a v1 message.

    Raises:
        CorruptRecordError: TRUNCATED if fewer bytes are left than the header or the declared size needs. LENGTH if the
            length field is below the minimum. MAGIC if the magic byte is not 0, 1 or 2.
    """
    end = len(buf) if end is None else min(end, len(buf))
    left = end - position
    # Not the whole header: these bytes may be no header, but a piece of someone's data.
    nearby = bytes(buf[position : position + min(left, CRC_AT)]) if left > 0 else None
    if left <= MAGIC_AT:
        raise CorruptRecordError(
            CorruptionReason.TRUNCATED,
            f"{max(left, 0)} bytes are left, too few to read length and format of a batch",
            position=position,
            nearby=nearby,
        )
    (length,) = _INT32.unpack_from(buf, position + LENGTH_AT)
    magic = buf[position + MAGIC_AT]
    if length < MINIMUM_LENGTH_FIELD:
        raise CorruptRecordError(
            CorruptionReason.LENGTH,
            f"the batch's length field says {length}, the smallest possible value is {MINIMUM_LENGTH_FIELD}",
            position=position,
            nearby=nearby,
        )
    if magic not in _SMALLEST:
        raise CorruptRecordError(
            CorruptionReason.MAGIC,
            f"the batch's magic byte is {magic}; Kafka has written 0, 1 and 2",
            position=position,
            nearby=nearby,
        )
    if length < _SMALLEST[magic]:
        raise CorruptRecordError(
            CorruptionReason.LENGTH,
            f"the batch's length field says {length}, a v{magic} batch has at least {_SMALLEST[magic]}",
            position=position,
            nearby=nearby,
        )
    needed = length + LOG_OVERHEAD if whole else _FIXED[magic]
    if needed > left:
        raise CorruptRecordError(
            CorruptionReason.TRUNCATED,
            f"the batch takes {needed} bytes by its length field, {left} are left",
            position=position,
            nearby=nearby,
        )
    if magic != MAGIC_V2:
        return read_message_header(buf, position)
    return BatchHeader(*HEADER.unpack_from(buf, position))


def computed_crc(buf: Buffer, position: int, header: BatchHeader) -> int:
    """Compute the checksum of the batch at `position`.

    Returns:
        For v2 the CRC-32C from the attributes to the batch's end. For v0 and v1 the CRC-32 from the magic byte on.

    Raises:
        CorruptRecordError: TRUNCATED if the buffer ends inside the batch.
    """
    if header.size > len(buf) - position:
        raise CorruptRecordError(
            CorruptionReason.TRUNCATED,
            f"the batch takes {header.size} bytes by its length field, {max(len(buf) - position, 0)} are left",
            position=position,
            offset=header.base_offset,
        )
    if header.magic != MAGIC_V2:
        with memoryview(buf) as view, view[position + CRC_FROM : position + header.size] as covered:
            return message_crc(covered)
    with memoryview(buf) as view, view[position + ATTRIBUTES_AT : position + header.size] as covered:
        return castagnoli(covered)


def castagnoli(data: bytes | memoryview) -> int:
    """Compute the CRC-32C of some bytes."""
    return _crc32c()(data)


def extended_castagnoli(data: bytes | memoryview, crc: int) -> int:
    """Compute the CRC-32C of bytes that follow others. `crc` is the checksum of those others."""
    return _crc32c()(data, crc)


@cache
def _crc32c() -> Callable[..., int]:
    import crc32c  # importing it takes longer than reading most files, and the kernels do not need it

    return crc32c.crc32c


def crc_matches(buf: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the stored checksum equals the computed one.

    Raises:
        CorruptRecordError: As `computed_crc`.
    """
    return computed_crc(buf, position, header) == header.crc


def counted(header: BatchHeader) -> BatchHeader:
    """The header of a v2 batch with the offsets that the broker counted: those up to its last offset, one a record.

    They differ from what the header says only if its last offset delta is too small for its records.
    """
    missing = header.record_count - header.last_offset_delta - 1
    if header.magic != MAGIC_V2 or missing <= 0 or header.last_offset_delta < 0 or missing > header.base_offset:
        return header
    first, delta = header.base_offset - missing, header.last_offset_delta + missing
    return replace(header, base_offset=first, last_offset_delta=delta, reader_shift=missing)


def check_header(header: BatchHeader, position: int | None = None) -> None:
    """Refuse counts and codecs that no batch can have, before anything is decoded or allocated.

    The record count may be below the offset span, and 0: compaction removes records and keeps the span. It cannot be
    above the span, or above what the bytes can contain.

    Raises:
        CorruptRecordError: COUNT or CODEC.
    """
    if header.magic != MAGIC_V2:
        try:
            check_codec(header)
        except CorruptRecordError as error:
            raise error.at(position=position, offset=header.base_offset) from None
    span = header.last_offset_delta + 1
    problem = None
    if header.last_offset_delta < 0:
        problem = f"the last offset delta is {header.last_offset_delta}"
    elif header.last_offset > _MAX_INT64:
        problem = "the last offset is above the greatest possible offset"
    elif header.record_count < 0:
        problem = f"the record count is {header.record_count}"
    elif header.record_count > span:
        problem = f"the record count is {header.record_count}, but the batch spans only {span} offsets"
    elif (
        header.magic == MAGIC_V2
        and header.codec is Codec.NONE
        and header.record_count > (header.size - HEADER_SIZE) // SMALLEST_RECORD
    ):
        problem = f"{header.record_count} records cannot fit the batch's {header.size - HEADER_SIZE} record bytes"
    if problem is not None:
        raise CorruptRecordError(CorruptionReason.COUNT, problem, position=position, offset=header.base_offset)
    if header.codec.is_reserved:
        raise CorruptRecordError(
            CorruptionReason.CODEC,
            reserved_codec(header.codec),
            position=position,
            offset=header.base_offset,
        )
