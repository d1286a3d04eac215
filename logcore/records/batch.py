"""The header of a v2 record batch, and its checksum.

    off len field                  type    under the CRC
    0   8   baseOffset             int64   no
    8   4   batchLength            int32   no     bytes behind this field: the batch's size is batchLength + 12
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

The broker assigns base offset and leader epoch after the producer has computed the checksum, and must not touch all
bytes again to do so: that is why the checksum comes after them and leaves them out. A flipped bit in those two fields
is therefore invisible here; only the batch's neighbours can show it. Length and magic lie at the same place in every
format version, so that a reader can tell them apart. All integers are big-endian two's complement.

Source: org.apache.kafka.common.record.internal.DefaultRecordBatch, KIP-98. Belongs here: what can be said from the
header and the checksum alone. Records are read in `record.py`.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

import crc32c

from logcore.errors import CorruptionReason, CorruptRecordError, UnsupportedFormatError
from logcore.records.compression import Codec
from logcore.records.varint import Buffer

BASE_OFFSET_AT = 0
LENGTH_AT = BASE_OFFSET_AT + 8
LEADER_EPOCH_AT = LENGTH_AT + 4
MAGIC_AT = LEADER_EPOCH_AT + 4
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

LOG_OVERHEAD = LEADER_EPOCH_AT
"""Bytes in front of what batchLength counts."""
MINIMUM_LENGTH_FIELD = 14
"""The smallest batchLength of any format version (a v0 message); Kafka refuses to go on below it."""
SMALLEST_RECORD = 7
"""Bytes of a v2 record with null key, null value and no headers."""
MAGIC_V2 = 2

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
KNOWN_ATTRIBUTES = CODEC_MASK | TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT

HEADER = struct.Struct(">q i i b I h i q q q h i i")
_INT32 = struct.Struct(">i")
_MAX_INT64 = (1 << 63) - 1


class TimestampType(IntEnum):
    """What a record's timestamp means. The numbers are those of Kafka's TimestampType and of Spark's timestampType."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def kafka_name(self) -> str:
        """The name Kafka prints: NoTimestampType, CreateTime or LogAppendTime."""
        return _TIMESTAMP_TYPE_NAMES[self]


_TIMESTAMP_TYPE_NAMES = {
    TimestampType.NO_TIMESTAMP_TYPE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The 61 fixed bytes of a v2 batch, one attribute a field, in their order on disk. Nothing in it is checked yet."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The last offset the batch takes up, whether or not a record is left there."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset behind the batch."""
        return self.last_offset + 1

    @property
    def codec(self) -> Codec:
        """How the records are compressed; reserved numbers are members too, and fail when used."""
        return Codec(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        """CREATE_TIME or LOG_APPEND_TIME; with the latter every record's timestamp is `max_timestamp`."""
        return TimestampType(self.attributes >> 3 & 1)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction (records or its marker)."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the records are control records, which no consumer is ever given."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which compaction may drop the batch's tombstones or marker; None if not set yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def unknown_attribute_bits(self) -> int:
        """Bits 7 to 15 of the attributes, in place (0 or a multiple of 128). Kafka's readers ignore them."""
        return self.attributes & 0xFFFF & ~KNOWN_ATTRIBUTES


def read_header(buf: Buffer, position: int = 0, end: int | None = None, *, whole: bool = True) -> BatchHeader:
    """Read the batch header at `position`; the batch must end at or before `end` (default: the buffer's end).

    With `whole=False` only the 61 header bytes need be there. The checksum and the counts are not looked at: see
    `crc_matches` and `check_header`.

    Raises CorruptRecordError: TRUNCATED if fewer bytes are left than the header or the declared size, LENGTH if the
    length field is below the minimum, MAGIC if the magic is none of 0, 1, 2. UnsupportedFormatError for magic 0 and 1.
    """
    end = len(buf) if end is None else min(end, len(buf))
    left = end - position
    # Not the whole header: what is refused here may be no header at all but a stretch of someone's data.
    nearby = bytes(buf[position : position + min(left, CRC_AT)]) if left > 0 else None
    if left <= MAGIC_AT:
        raise CorruptRecordError(
            CorruptionReason.TRUNCATED,
            f"{max(left, 0)} bytes are left, too few to tell length and format of a batch",
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
    if magic in (0, 1):
        raise UnsupportedFormatError(
            f"message format v{magic} (written by brokers before 0.11, or with an old message.format.version) "
            "is not read yet",
            position=position,
            nearby=nearby,
        )
    if magic != MAGIC_V2:
        raise CorruptRecordError(
            CorruptionReason.MAGIC,
            f"the batch's magic byte is {magic}; Kafka has written 0, 1 and 2",
            position=position,
            nearby=nearby,
        )
    if length + LOG_OVERHEAD < HEADER_SIZE:
        raise CorruptRecordError(
            CorruptionReason.LENGTH,
            f"the batch's length field says {length}, a v2 batch has at least {HEADER_SIZE - LOG_OVERHEAD}",
            position=position,
            nearby=nearby,
        )
    needed = length + LOG_OVERHEAD if whole else HEADER_SIZE
    if needed > left:
        raise CorruptRecordError(
            CorruptionReason.TRUNCATED,
            f"the batch takes {needed} bytes by its length field, {left} are left",
            position=position,
            nearby=nearby,
        )
    return BatchHeader(*HEADER.unpack_from(buf, position))


def declared_size(buf: Buffer, position: int, end: int | None = None) -> int | None:
    """The size the length field at `position` claims, if it is possible: at least 26 bytes, and not past `end`.

    This is all one may still ask of a batch that is damaged otherwise. None if the bytes cannot say.
    """
    end = len(buf) if end is None else min(end, len(buf))
    if end - position < LOG_OVERHEAD:
        return None
    (length,) = _INT32.unpack_from(buf, position + LENGTH_AT)
    if length < MINIMUM_LENGTH_FIELD or length + LOG_OVERHEAD > end - position:
        return None
    return int(length) + LOG_OVERHEAD


def computed_crc(buf: Buffer, position: int, header: BatchHeader) -> int:
    """CRC-32C of the batch at `position`, from its attributes to its end.

    Raises CorruptRecordError TRUNCATED if the buffer ends inside the batch.
    """
    if header.size > len(buf) - position:
        raise CorruptRecordError(
            CorruptionReason.TRUNCATED,
            f"the batch takes {header.size} bytes by its length field, {max(len(buf) - position, 0)} are left",
            position=position,
            offset=header.base_offset,
        )
    with memoryview(buf) as view, view[position + ATTRIBUTES_AT : position + header.size] as covered:
        return int(crc32c.crc32c(covered))


def crc_matches(buf: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the stored checksum is that of the batch's bytes. Raises like `computed_crc`."""
    return computed_crc(buf, position, header) == header.crc


def check_header(header: BatchHeader, position: int | None = None) -> None:
    """Refuse counts and codecs that no batch can have, before anything is decoded or allocated by them.

    The record count may be below the offset span, and 0: compaction removes records and keeps the span. It cannot be
    above it, nor above what the bytes could hold.

    Raises CorruptRecordError: COUNT or CODEC.
    """
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
    elif header.codec is Codec.NONE and header.record_count > (header.size - HEADER_SIZE) // SMALLEST_RECORD:
        problem = f"{header.record_count} records cannot fit the batch's {header.size - HEADER_SIZE} record bytes"
    if problem is not None:
        raise CorruptRecordError(CorruptionReason.COUNT, problem, position=position, offset=header.base_offset)
    if header.codec.is_reserved:
        raise CorruptRecordError(
            CorruptionReason.CODEC,
            f"codec {int(header.codec)} is reserved; Kafka has written 0 to 4",
            position=position,
            offset=header.base_offset,
        )
