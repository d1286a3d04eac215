"""What the bytes of every format version become: a header for each batch, a record for each record, and their limits.

A v0 or v1 message is a batch of one record, or, compressed, of the messages inside it; see `legacy.py` for its bytes
and `batch.py` for those of v2. Belongs here: values and what they say about themselves. Reading bytes does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from logcore.records.compression import Codec

LENGTH_AT = 8
MAGIC_AT = 16
"""The length field and the magic byte lie at the same place in every format version: so a reader can tell them
apart, and step over what it does not know."""
LOG_OVERHEAD = 12
"""Bytes in front of what the length field counts, the length field included."""

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
KNOWN_ATTRIBUTES = CODEC_MASK | TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT
_KNOWN_BY_MAGIC = {0: CODEC_MASK, 1: CODEC_MASK | TIMESTAMP_TYPE_BIT}
MAGIC_V2 = 2


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
    """The fixed fields of a v2 batch, one attribute a field, in their order on disk. Nothing in it is checked yet.

    Of a v0 or v1 message: `crc` is a CRC-32, `max_timestamp` its timestamp (-1 in v0), and what the message does not
    have is -1. Folded, as `read_header` gives it, a message is taken for one record at `base_offset`. Of a compressed
    one that is the last of the records inside; `legacy.unfold` tells the true base, span and count.
    """

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
        """With LOG_APPEND_TIME every record's timestamp is `max_timestamp`; NO_TIMESTAMP_TYPE in v0."""
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        return TimestampType(self.attributes >> 3 & 1)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction (records or its marker)."""
        return self.magic >= MAGIC_V2 and bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the records are control records, which no consumer is ever given."""
        return self.magic >= MAGIC_V2 and bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which compaction may drop the batch's tombstones or marker; None if not set yet."""
        return self.base_timestamp if self.magic >= MAGIC_V2 and self.attributes & DELETE_HORIZON_BIT else None

    @property
    def is_wrapper(self) -> bool:
        """Whether this is a compressed v0 or v1 message, whose value is a message set."""
        return self.magic < MAGIC_V2 and bool(self.attributes & CODEC_MASK)

    @property
    def unknown_attribute_bits(self) -> int:
        """The attribute bits without a meaning in this format version, in place. Kafka's readers ignore them."""
        width = 0xFFFF if self.magic >= MAGIC_V2 else 0xFF
        return self.attributes & width & ~_KNOWN_BY_MAGIC.get(self.magic, KNOWN_ATTRIBUTES)


@dataclass(frozen=True, slots=True)
class Record:
    """One record, as stored."""

    offset: int
    timestamp: int
    """Milliseconds since the epoch, or -1 for none; any int64, unchecked."""
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    """Pairs of name (raw bytes, meant to be UTF-8) and value, in their order, duplicates kept."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a reader is willing to hold in memory for the sake of bytes it has not checked yet.

    A record has no limit of its own: uncompressed it is no longer than its file says, compressed than its batch.
    """

    decoded_batch_bytes: int = 256 * 1024 * 1024
    """Output of one compressed batch."""
    headers_per_record: int = 1_000_000


DEFAULT_LIMITS = Limits()


@dataclass(slots=True)
class Oddities:
    """What in one batch reads well and yet no writer of Kafka's would write. Filled in by `read_records`."""

    unusual_encoding: bool = False
    """v2: a varint longer than needed or with bits that do not fit, or null written as another number than -1."""
    inner_crcs_differ: int = 0
    """v0, v1: messages inside a compressed one whose own checksum is wrong. Kafka's readers do not look at it."""
    inner_magics_differ: int = 0
    """v0, v1: messages inside a compressed one that are of another format version than it."""
    is_wrapper_at_zero: bool = False
    """v0, v1: a compressed message that says offset 0, though a message inside has another. A broker takes it to end at
    0, and passes over it for whoever begins behind."""
    inner_bytes_left: int = 0
    """v0, v1: bytes of a last message inside a compressed one that is not whole; Kafka's readers drop them."""
