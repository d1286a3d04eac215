"""Messages of format v0 and v1: brokers before 0.11 wrote them, and later ones by configuration.

    off len field        type    under the CRC
    0   8   offset       int64   no     of a compressed message: that of the last message inside
    8   4   size         int32   no     bytes after this field, at least 14 (v0) or 22 (v1)
    12  4   crc          uint32  no     CRC-32 (that of zlib) of everything from `magic` to the message's end
    16  1   magic        int8    yes    0 or 1
    17  1   attributes   int8    yes    0-2 codec (0 none, 1 gzip, 2 snappy, 3 lz4) · v1: 3 timestamp type · rest unused
    18  8   timestamp    int64   yes    v1 only: ms, -1 = none
    ..  4   keyLength    int32   yes    negative = null; then the key
    ..  4   valueLength  int32   yes    negative = null; then the value

The checksum does not cover the offset, because the broker assigns it. Unlike in v2 it covers the magic byte.

A compressed message (a wrapper) contains a message set: its value, decompressed, is a sequence of whole messages.

    v0      messages inside have their own offsets
    v1      they have offsets relative to the batch: true offset = wrapper's offset - last one inside + own
    0       if the wrapper's offset is 0, the offsets inside are true: some clients left it 0, and brokers kept it
    time    LogAppendTime of the wrapper counts for all messages inside; else each has its own

Both kinds may have gaps where compaction removed messages. As in Kafka's reader, checksums inside are ignored, messages
of the other format version are accepted inside, and an incomplete last message is dropped. A wrapper is refused if it
is empty, contains another wrapper, or has a codec that is newer than its format. Unlike Kafka's reader, this one also
refuses a v0 wrapper whose own offset is not that of the last message inside. The checksum covers only the offset
inside, so this finds a flipped bit in the wrapper's offset.

Source: org.apache.kafka.common.record.internal.{LegacyRecord, AbstractLegacyRecordBatch}. Belongs here: everything
that only these two versions have.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.compression import decompress
from logcore.records.model import (
    CODEC_MASK,
    DEFAULT_LIMITS,
    LOG_OVERHEAD,
    MAGIC_AT,
    BatchHeader,
    Limits,
    Oddities,
    Record,
    TimestampType,
)
from logcore.records.varint import Buffer

PREFIX = struct.Struct(">q i I b b")
"""offset, size, crc, magic, attributes: the same in both versions."""
CRC_FROM = MAGIC_AT
TIMESTAMP_AT = PREFIX.size
SMALLEST_SIZE_FIELD = {0: 14, 1: 22}
"""The size field of a message with null key and null value, by magic."""
FIXED_BYTES = {0: 18, 1: 26}
"""Bytes of a message before the key's length, by magic."""

_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_OFFSET_AND_SIZE = struct.Struct(">q i")
_NONE = -1


def read_message_header(buf: Buffer, position: int) -> BatchHeader:
    """Read the folded header of the message at `position`. The fixed bytes must be there, and the magic 0 or 1."""
    offset, size, crc, magic, attributes = PREFIX.unpack_from(buf, position)
    timestamp = _INT64.unpack_from(buf, position + TIMESTAMP_AT)[0] if magic == 1 else _NONE
    return BatchHeader(offset, size, _NONE, magic, crc, attributes, 0, _NONE, timestamp, _NONE, _NONE, _NONE, 1)


def message_crc(covered: memoryview) -> int:
    """Compute the CRC-32 of a message's bytes from its magic on."""
    return zlib.crc32(covered)


def unfold(
    buf: Buffer, position: int, header: BatchHeader, limits: Limits = DEFAULT_LIMITS, lowest: int | None = None
) -> BatchHeader:
    """Fill in the base offset, last offset delta and record count of the messages inside a wrapper.

    The base offset is that of the first message inside. The last offset is the wrapper's; if that is 0, it is the last
    message's. Messages inside below the offset `lowest` are left out, as a consumer skips them.

    Returns:
        The unfolded header. A header that is unfolded already or is not a wrapper's is returned unchanged.

    Raises:
        CorruptRecordError: With its place, as `message_set` and `read_messages`.
    """
    if not header.is_wrapper or header.record_count != 1 or header.last_offset_delta or header.skipped:
        return header
    try:
        data = message_set(buf, position, header, limits)
        inner = _inner(data)
        shift = _shift(header, inner, _left(data, inner))
    except CorruptRecordError as error:
        raise error.at(position=position, offset=header.base_offset) from error.__cause__
    skipped = 0 if lowest is None else sum(message.base_offset + shift < lowest for message, _ in inner[:-1])
    first, last = inner[skipped][0].base_offset + shift, header.base_offset or inner[-1][0].base_offset
    count = len(inner) - skipped
    return replace(header, base_offset=first, last_offset_delta=last - first, record_count=count, skipped=skipped)


def message_set(
    buf: Buffer,
    position: int,
    header: BatchHeader,
    limits: Limits = DEFAULT_LIMITS,
    ignored: list[int] | None = None,
) -> bytes:
    """The message set of a message: the decompressed value of a wrapper; any other message is its own set.

    `ignored` gets the number of bytes after the compressed stream, if there are any.

    Raises:
        CorruptRecordError: TRUNCATED, RECORD_LENGTH, COUNT for a null value, CODEC, CODEC_STREAM, OUTPUT_CAP.
    """
    if header.size > len(buf) - position:
        raise CorruptRecordError(
            CorruptionReason.TRUNCATED,
            f"the message takes {header.size} bytes by its size field, {max(len(buf) - position, 0)} are left",
        )
    message = bytes(buf[position : position + header.size])
    if not header.is_wrapper:
        return message
    check_codec(header)
    _, start, end = _key_and_value(message, 0, header)
    if start is None:
        raise CorruptRecordError(CorruptionReason.COUNT, "a compressed message without a value")
    with memoryview(message) as view, view[start:end] as stored:
        left = [] if ignored is None else ignored
        left.append(len(message) - end)
        return decompress(header.codec, stored, limits.decoded_batch_bytes, magic=header.magic, ignored=left)


def read_messages(
    buf: Buffer, position: int, header: BatchHeader, limits: Limits, oddities: Oddities | None = None
) -> Iterator[Record]:
    """Yield the records of the message at `position`: itself, or those inside it. `header` may be folded or not.

    Raises:
        CorruptRecordError: Without a place, as `message_set`. LENGTH or MAGIC if bytes inside are not a message, COUNT
            for an empty set, CODEC for a wrapper inside, OFFSET_ORDER for offsets that contradict the wrapper's.
    """
    ignored: list[int] = []
    data = message_set(buf, position, header, limits, ignored)
    if not header.is_wrapper:
        yield _record(data, 0, header, header.base_offset, header.max_timestamp, header.timestamp_type, oddities)
        return
    inner = _inner(data)
    (outer_offset,) = _INT64.unpack_from(buf, position)
    shift = _shift(replace(header, base_offset=outer_offset), inner, _left(data, inner))
    if oddities is not None:
        _note(data, inner, header, oddities)
        oddities.ignored_bytes = sum(ignored)
        oddities.is_wrapper_at_zero = outer_offset == 0 != inner[-1][0].base_offset
    for message, at in inner[header.skipped :]:
        timestamp, kind = message.max_timestamp, message.timestamp_type
        if message.magic == 1:
            kind = header.timestamp_type
            if kind is TimestampType.LOG_APPEND_TIME:
                timestamp = header.max_timestamp
        yield _record(data, at, message, message.base_offset + shift, timestamp, kind, oddities)


def check_codec(header: BatchHeader) -> None:
    """Refuse a message in a codec that came after its format version. Raises CorruptRecordError CODEC, not placed."""
    if not header.codec.is_allowed(header.magic):
        raise CorruptRecordError(
            CorruptionReason.CODEC,
            f"a message of format v{header.magic} in codec {header.codec.kafka_name}, which it does not have",
        )


def _split(data: bytes) -> Iterator[tuple[BatchHeader, int]]:
    """The messages of a set and where they begin, up to an incomplete one."""
    at = 0
    while len(data) - at >= LOG_OVERHEAD:
        _, size = _OFFSET_AND_SIZE.unpack_from(data, at)
        if size < SMALLEST_SIZE_FIELD[0]:
            raise CorruptRecordError(
                CorruptionReason.LENGTH, f"a message inside a compressed one declares a size of {size} bytes"
            )
        if size > len(data) - at - LOG_OVERHEAD:
            return
        magic = data[at + MAGIC_AT]
        if magic not in SMALLEST_SIZE_FIELD:
            raise CorruptRecordError(
                CorruptionReason.MAGIC, f"a message inside a compressed one has the magic byte {magic}"
            )
        if size < SMALLEST_SIZE_FIELD[magic]:
            raise CorruptRecordError(
                CorruptionReason.LENGTH, f"a v{magic} message inside a compressed one has a size of {size} bytes"
            )
        yield read_message_header(data, at), at
        at += LOG_OVERHEAD + size


def _inner(data: bytes) -> list[tuple[BatchHeader, int]]:
    """The messages of a wrapper's set and where they begin."""
    inner = list(_split(data))
    if not inner:
        raise CorruptRecordError(CorruptionReason.COUNT, "a compressed message with no message inside")
    if any(message.attributes & CODEC_MASK for message, _ in inner):
        raise CorruptRecordError(CorruptionReason.CODEC, "a compressed message inside a compressed one")
    return inner


def _left(data: bytes, inner: list[tuple[BatchHeader, int]]) -> int:
    """Bytes after the last whole message."""
    last, at = inner[-1]
    return len(data) - at - last.size


def _shift(header: BatchHeader, inner: list[tuple[BatchHeader, int]], left: int) -> int:
    """What to add to the offsets inside. `header` is folded; `left` bytes belong to an incomplete message."""
    if header.base_offset == 0:
        return 0
    last = inner[-1][0].base_offset
    if header.magic == 0:
        if last != header.base_offset and not (left and last < header.base_offset):
            raise CorruptRecordError(
                CorruptionReason.OFFSET_ORDER,
                f"the last message inside has offset {last}, but the compressed message {header.base_offset}",
            )
        return 0
    if last > header.base_offset:
        raise CorruptRecordError(
            CorruptionReason.OFFSET_ORDER,
            f"the last message inside is number {last}, but the compressed message has offset {header.base_offset}",
        )
    return header.base_offset - last


def _note(data: bytes, inner: list[tuple[BatchHeader, int]], header: BatchHeader, oddities: Oddities) -> None:
    with memoryview(data) as view:
        for message, at in inner:
            with view[at + CRC_FROM : at + message.size] as covered:
                oddities.inner_crcs_differ += message_crc(covered) != message.crc
            oddities.inner_magics_differ += message.magic != header.magic
    oddities.inner_bytes_left = _left(data, inner)


def _record(
    data: bytes,
    at: int,
    header: BatchHeader,
    offset: int,
    timestamp: int,
    kind: TimestampType,
    oddities: Oddities | None,
) -> Record:
    key, start, end = _key_and_value(data, at, header)
    if oddities is not None:
        oddities.ignored_bytes += at + header.size - end
    return Record(offset, timestamp, kind, key, None if start is None else data[start:end])


def _key_and_value(data: bytes, at: int, header: BatchHeader) -> tuple[bytes | None, int | None, int]:
    """The key of the message at `at`, and where its value begins (None: null) and ends."""
    end = at + header.size
    key_start, key_end = _sized(data, at + FIXED_BYTES[header.magic], end, "key")
    value_start, value_end = _sized(data, key_end, end, "value")
    return None if key_start is None else data[key_start:key_end], value_start, value_end


def _sized(data: bytes, at: int, end: int, what: str) -> tuple[int | None, int]:
    """Where the bytes of a length begin (None: null) and end. Every negative length is null, as in Kafka's reader."""
    if end - at < _INT32.size:
        raise CorruptRecordError(CorruptionReason.TRUNCATED, f"a message ends inside the length of its {what}")
    (length,) = _INT32.unpack_from(data, at)
    at += _INT32.size
    if length < 0:
        return None, at
    if length > end - at:
        raise CorruptRecordError(
            CorruptionReason.RECORD_LENGTH, f"a message's {what} declares {length} bytes where {end - at} are left"
        )
    return at, at + length
