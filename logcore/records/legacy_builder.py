"""The encoder for formats v0 and v1: records to messages, or to a compressed message that contains them.

A wrapper's offset is its last record's. Inside, v0 messages keep their offsets; v1 offsets are relative to the first.
A v1 wrapper's timestamp is the greatest inside, or the append time. In the second case the messages inside have the
append time too, as brokers of 2.x write them (those of 0.10 left the produced timestamps).

Source: org.apache.kafka.common.record.internal.{MemoryRecordsBuilder, LegacyRecord}. Belongs here: writing these two
formats. A value that does not fit is a ValueError, as in `builder.py`.
"""

import struct
from collections.abc import Iterable, Sequence

from logcore.records.compression import Codec, compress
from logcore.records.legacy import CRC_FROM, PREFIX, message_crc
from logcore.records.model import LOG_OVERHEAD, TIMESTAMP_TYPE_BIT, Record, TimestampType

_CRC = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_CRC_AT = LOG_OVERHEAD
_NO_TIMESTAMP = -1


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
    _check_rows(rows)
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


def _check_rows(rows: Sequence[Record]) -> None:
    previous = -1
    for row in rows:
        if row.offset <= previous:
            raise ValueError(f"offset {row.offset} does not rise above {previous}")
        if row.timestamp < _NO_TIMESTAMP:
            raise ValueError(f"timestamp {row.timestamp} is negative and not -1")
        if row.headers:
            raise ValueError("a message of format v0 or v1 has no headers")
        previous = row.offset
