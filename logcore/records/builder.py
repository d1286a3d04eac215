"""The only encoder: records to the bytes of a v2 batch, or of messages v0 and v1, by the rules of Kafka's own builder.

The base timestamp is the first record's, or the delete horizon if one is given. The max timestamp is the greatest
record timestamp (CreateTime) or the append time (LogAppendTime). With LogAppendTime every record gets the append time
before deltas are computed. Offsets strictly increase. A batch without records is the 61 bytes that compaction leaves to
keep an offset span.

In formats v0 and v1 records are messages, or a compressed message that contains them. A wrapper's offset is its last
record's. Inside, v0 messages keep their offsets; v1 offsets are relative to the first. A v1 wrapper's timestamp is the
greatest inside, or the append time. In the second case the messages inside have the append time too, as brokers of 2.x
write them (those of 0.10 left the produced timestamps).

Source: org.apache.kafka.common.record.internal.{MemoryRecordsBuilder, LegacyRecord},
DefaultRecordBatch.writeEmptyHeader. Belongs here: writing. A value that does not fit is a ValueError, because it is the
caller's mistake.
"""

import struct
from collections.abc import Iterable, Sequence

from logcore.records.batch import (
    ATTRIBUTES_AT,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    TimestampType,
    castagnoli,
)
from logcore.records.compression import Codec, compress
from logcore.records.legacy import CRC_FROM, PREFIX, message_crc
from logcore.records.record import Record
from logcore.records.varint import write_varint, write_varlong

NO_TIMESTAMP = -1
_NULL = write_varint(-1)
_CRC = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_CRC_AT = LOG_OVERHEAD


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int | None = None,
    codec: int = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: int = -1,
    delete_horizon_ms: int | None = None,
    last_offset_delta: int | None = None,
    max_timestamp: int | None = None,
) -> bytes:
    """Encode one record batch of format v2.

    Args:
        records: In the order of their offsets. Their `timestamp_type` is not used.
        base_offset: Default: the first record's offset. Required without records.
        codec: How the records are compressed; not used without records.
        timestamp_type: CREATE_TIME or LOG_APPEND_TIME, for the whole batch.
        producer_id: -1 for none.
        producer_epoch: -1 for none.
        base_sequence: The sequence number of the first record; -1 for none.
        is_transactional: The batch belongs to a transaction of the producer.
        is_control: The records are control records.
        leader_epoch: -1 for none.
        delete_horizon_ms: When compaction may drop tombstones of the batch, epoch milliseconds.
        last_offset_delta: Default: the last record's. Required without records.
        max_timestamp: With LOG_APPEND_TIME the append time. Default: the greatest timestamp.

    Returns:
        The bytes of the batch, as they lie in a segment.

    Raises:
        ValueError: The format cannot express the input, or a broker would refuse it.

    Example:
        >>> record = Record(0, 1_700_000_000_000, TimestampType.CREATE_TIME, b"key", b"value")
        >>> batch = build_batch([record], codec=Codec.ZSTD, leader_epoch=0)
    """
    rows = list(records)
    if base_offset is None:
        if not rows:
            raise ValueError("a batch without records needs a base offset")
        base_offset = rows[0].offset
    if last_offset_delta is None:
        if not rows:
            raise ValueError("a batch without records needs a last offset delta")
        last_offset_delta = rows[-1].offset - base_offset
    _check_rows(rows, base_offset, last_offset_delta)
    _check_producer(producer_id, producer_epoch, base_sequence, is_transactional, is_control)
    if Codec(codec).is_reserved:
        raise ValueError(f"codec {codec} is reserved")

    attributes = 0
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE_BIT
    elif timestamp_type is not TimestampType.CREATE_TIME:
        raise ValueError("a v2 batch has CreateTime or LogAppendTime")
    if is_transactional:
        attributes |= TRANSACTIONAL_BIT
    if is_control:
        attributes |= CONTROL_BIT

    if rows:
        times = [row.timestamp for row in rows]
        if timestamp_type is TimestampType.LOG_APPEND_TIME:
            max_timestamp = max(times) if max_timestamp is None else max_timestamp
            times = [max_timestamp] * len(rows)
        elif max_timestamp is None:
            max_timestamp = max(times)
        base_timestamp = times[0]
        if delete_horizon_ms is not None:
            base_timestamp = delete_horizon_ms
            attributes |= DELETE_HORIZON_BIT
        attributes |= codec
        plain = b"".join(
            encode_record(row, row.offset - base_offset, time - base_timestamp)
            for row, time in zip(rows, times, strict=True)
        )
        body = compress(codec, plain)
    else:
        base_timestamp = NO_TIMESTAMP
        max_timestamp = NO_TIMESTAMP if max_timestamp is None else max_timestamp
        body = b""

    try:
        header = HEADER.pack(
            base_offset,
            HEADER_SIZE - LOG_OVERHEAD + len(body),
            leader_epoch,
            MAGIC_V2,
            0,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            len(rows),
        )
    except struct.error as error:
        raise ValueError(f"a header field does not fit its width: {error}") from error
    covered = header[ATTRIBUTES_AT:] + body
    checksum = castagnoli(covered).to_bytes(4, "big")
    return header[: ATTRIBUTES_AT - len(checksum)] + checksum + covered


def encode_record(record: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    """Encode one record, with its length.

    Raises:
        ValueError: A delta or length does not fit.
    """
    parts = [b"\0", write_varlong(timestamp_delta), write_varint(offset_delta)]
    parts += [_nullable(record.key), _nullable(record.value), write_varint(len(record.headers))]
    for name, value in record.headers:
        parts += [write_varint(len(name)), name, _nullable(value)]
    body = b"".join(parts)
    return write_varint(len(body)) + body


def _nullable(data: bytes | None) -> bytes:
    return _NULL if data is None else write_varint(len(data)) + data


def _check_rows(rows: Sequence[Record], base_offset: int, last_offset_delta: int) -> None:
    if base_offset < 0:
        raise ValueError("offsets are not negative")
    last = _check_ascending(rows, base_offset - 1)
    if last_offset_delta < 0:
        raise ValueError("the last offset delta is negative")
    if last > base_offset + last_offset_delta:
        raise ValueError(f"offset {last} lies after the batch's last offset {base_offset + last_offset_delta}")


def _check_ascending(rows: Sequence[Record], before: int) -> int:
    """Check offsets and timestamps, where the offset `before` is taken; return the last offset."""
    for row in rows:
        if row.offset <= before:
            raise ValueError(f"offset {row.offset} does not rise above {before}")
        if row.timestamp < NO_TIMESTAMP:
            raise ValueError(f"timestamp {row.timestamp} is negative and not -1")
        before = row.offset
    return before


def _check_producer(
    producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool, is_control: bool
) -> None:
    if producer_id >= 0 and producer_epoch < 0:
        raise ValueError("a producer id needs an epoch")
    if producer_id >= 0 and base_sequence < 0 and not is_control:
        raise ValueError("a producer id needs a base sequence")
    if is_transactional and producer_id < 0:
        raise ValueError("a transactional batch needs a producer id")


def build_message_set(
    records: Iterable[Record],
    *,
    magic: int,
    codec: int = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    append_time: int | None = None,
) -> bytes:
    """Build a message for each record, or with a codec one message that contains them all.

    Args:
        records: The records, by offset. Their own `timestamp_type` is ignored.
        magic: The format version, 0 or 1. v0 has no timestamps.
        codec: The codec of the wrapper; NONE for no wrapper.
        timestamp_type: The timestamp type of all messages.
        append_time: The timestamp of all messages with LOG_APPEND_TIME; by default the greatest of the records.

    Returns:
        The bytes; none without records.

    Raises:
        ValueError: The format cannot express the input: record headers, zstd, LogAppendTime in v0, offsets that do not
            increase, numbers that do not fit.
    """
    rows = list(records)
    known = Codec(codec)
    if magic not in (0, 1):
        raise ValueError(f"magic {magic} is not 0 or 1")
    if not known.is_allowed(magic):
        raise ValueError(f"codec {known.kafka_name} is not one of format v{magic}")
    appended = timestamp_type is TimestampType.LOG_APPEND_TIME
    if appended and magic == 0:
        raise ValueError("format v0 has no LogAppendTime")
    _check_messages(rows)
    if not rows:
        return b""
    times = [row.timestamp for row in rows]
    if appended:
        times = [max(times) if append_time is None else append_time] * len(rows)
    attributes = TIMESTAMP_TYPE_BIT if appended else 0
    base = rows[0].offset if known and magic == 1 else 0
    messages = b"".join(
        _message(row.offset - base, magic, attributes, time, row.key, row.value)
        for row, time in zip(rows, times, strict=True)
    )
    if not known:
        return messages
    value = compress(known, messages, magic=magic)
    return _message(rows[-1].offset, magic, attributes | known, max(times), None, value)


def _message(offset: int, magic: int, attributes: int, time: int, key: bytes | None, value: bytes | None) -> bytes:
    try:
        content = _INT64.pack(time) if magic == 1 else b""
        content += _sized(key) + _sized(value)
        prefix = PREFIX.pack(offset, PREFIX.size - LOG_OVERHEAD + len(content), 0, magic, attributes)
    except struct.error as error:
        raise ValueError(f"a field does not fit its width: {error}") from error
    with memoryview(prefix[CRC_FROM:] + content) as covered:
        return prefix[:_CRC_AT] + _CRC.pack(message_crc(covered)) + bytes(covered)


def _sized(data: bytes | None) -> bytes:
    return _INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data


def _check_messages(rows: Sequence[Record]) -> None:
    _check_ascending(rows, -1)
    if any(row.headers for row in rows):
        raise ValueError("a message of format v0 or v1 has no headers")
