"""The values that are read from every format version: batch headers, records, and the limits of a reader.

A v0 or v1 message is a batch of one record. If it is compressed, it is a batch of the messages inside it.
`legacy.py` describes its bytes, `batch.py` those of v2. Belongs here: values and their properties, not reading bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from logcore.records.compression import Codec

LENGTH_AT = 8
MAGIC_AT = 16
"""The length field and the magic byte lie at the same place in every format version. So a reader can distinguish the
versions, and skip a batch of an unknown one."""
LOG_OVERHEAD = 12
"""Bytes that the length field does not count: the base offset and the length field itself."""

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
KNOWN_ATTRIBUTES = CODEC_MASK | TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT
_KNOWN_BY_MAGIC = {0: CODEC_MASK, 1: CODEC_MASK | TIMESTAMP_TYPE_BIT}
MAGIC_V2 = 2


class TimestampType(IntEnum):
    """The meaning of a record's timestamp. The numbers are those of Kafka's TimestampType and Spark's timestampType."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def kafka_name(self) -> str:
        """The name that Kafka prints: NoTimestampType, CreateTime or LogAppendTime."""
        return _TIMESTAMP_TYPE_NAMES[self]


_TIMESTAMP_TYPE_NAMES = {
    TimestampType.NO_TIMESTAMP_TYPE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


BatchIdentity = tuple[int, int, int]
"""Base offset, leader epoch and crc of a batch."""


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The fixed fields of a v2 batch, one attribute for each field, in their order on disk. They are not checked.

    For a v0 or v1 message, `crc` is a CRC-32, `max_timestamp` is its timestamp (-1 in v0), and fields that the message
    does not have are -1. `read_header` gives a folded header: it describes one record at `base_offset`. For a
    compressed message this is the last record inside; `legacy.unfold` gives the true base offset, span and count.

    The last two attributes are no fields of the batch. `legacy.unfold` and `batch.counted` set them.
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
    skipped: int = 0
    """v0, v1: messages inside that lie below the end of the batch before. A consumer skips them, and so does a reader
    of this header."""
    reader_shift: int = 0
    """v2: how far above its offsets in the log Kafka's readers see the batch's records."""

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The last offset of the batch, whether or not a record is left there."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after the batch."""
        return self.last_offset + 1

    @property
    def identity(self) -> BatchIdentity:
        """What is equal in all copies of the batch, and in no other one. The crc covers neither offset nor epoch."""
        return self.base_offset, self.partition_leader_epoch, self.crc

    def first_from(self, expected: int) -> int:
        """The first offset of the batch in a log that continues at `expected`.

        Messages inside a compressed one may lie below it (KAFKA-3919). They do not count.
        """
        overlaps = self.is_wrapper and 0 <= self.base_offset < expected <= self.last_offset
        return expected if overlaps else self.base_offset

    @property
    def codec(self) -> Codec:
        """The compression of the records. Reserved numbers are members too; using one is an error."""
        return Codec(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        """LOG_APPEND_TIME means that every record's timestamp is `max_timestamp`. NO_TIMESTAMP_TYPE in v0."""
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        return TimestampType(self.attributes >> 3 & 1)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction: its records or its marker."""
        return self.magic >= MAGIC_V2 and bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the records are control records. A consumer never gets them."""
        return self.magic >= MAGIC_V2 and bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which compaction may remove the batch's tombstones or marker; None if not set yet."""
        return self.base_timestamp if self.magic >= MAGIC_V2 and self.attributes & DELETE_HORIZON_BIT else None

    def columns(self, control_type: object = None) -> dict[str, Any]:
        """The fields by their names in `loglake dump --batches` and in the table `batches`, which add a few.

        Args:
            control_type: What the marker says, if it is one.
        """
        return {
            "size": self.size,
            "magic": self.magic,
            "base_offset": self.base_offset,
            "last_offset": self.last_offset,
            "record_count": self.record_count,
            "codec": self.codec.kafka_name,
            "timestamp_type": self.timestamp_type.kafka_name,
            "max_timestamp": self.max_timestamp,
            "delete_horizon_ms": self.delete_horizon_ms,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "base_sequence": self.base_sequence,
            "is_transactional": self.is_transactional,
            "is_control": self.is_control,
            "control_type": None if control_type is None else str(control_type),
            "leader_epoch": self.partition_leader_epoch,
            "crc": self.crc,
        }

    @property
    def is_wrapper(self) -> bool:
        """Whether this is a compressed v0 or v1 message. Its value is a message set."""
        return self.magic < MAGIC_V2 and bool(self.attributes & CODEC_MASK)

    @property
    def unknown_attribute_bits(self) -> int:
        """The attribute bits that have no meaning in this format version. Kafka's readers ignore them."""
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
    """The most that a reader keeps in memory for bytes that are not checked yet.

    A single record needs no limit: it is at most as long as its file (uncompressed) or its decoded batch (compressed).
    """

    decoded_batch_bytes: int = 256 * 1024 * 1024
    """Output of one compressed batch."""
    headers_per_record: int = 1_000_000


DEFAULT_LIMITS = Limits()


@dataclass(slots=True)
class Oddities:
    """Properties of a batch that are readable but that no Kafka writer produces. `read_records` fills them in."""

    unusual_encoding: bool = False
    """v2: a varint that is longer than needed or has bits that do not fit, or a null length other than -1."""
    inner_crcs_differ: int = 0
    """v0, v1: how many messages inside a compressed one have a wrong checksum. Kafka's readers do not check it."""
    inner_magics_differ: int = 0
    """v0, v1: how many messages inside a compressed one have another format version than it."""
    is_wrapper_at_zero: bool = False
    """v0, v1: a compressed message has offset 0, but a message inside has another offset. A broker takes 0 as its last
    offset, so a fetch from a later offset skips it."""
    inner_bytes_left: int = 0
    """v0, v1: bytes of an incomplete last message inside a compressed one. Kafka's readers drop them."""
    ignored_bytes: int = 0
    """Bytes after the end of the compressed stream, in v0 and v1 also after a value. Kafka's readers ignore them."""
