"""The records of a v2 batch, one at a time: slow, obvious, and the specification that every faster engine equals.

    length          varint   bytes behind this field
    attributes      int8     unused
    timestampDelta  varlong  from the batch's baseTimestamp; may be negative
    offsetDelta     varint   from the batch's baseOffset
    keyLength       varint   negative = null, 0 = empty; then the key
    valueLength     varint   negative = null (a tombstone), 0 = empty (not a tombstone); then the value
    headerCount     varint
    per header:     keyLength varint (null is illegal), key in UTF-8; valueLength varint (negative = null), value

The bytes carry no checksum of their own: the batch's covers them, compressed as stored. Sums with a delta wrap at 64
bits, as in the broker. A LogAppendTime batch gives every record its maxTimestamp and ignores the deltas.

Source: org.apache.kafka.common.record.internal.DefaultRecord. Belongs here: bytes of one batch to values. Whether the
offsets of a batch rise and lie in its span is for a segment's scan to ask: Kafka's record reader does not ask either.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.batch import HEADER_SIZE, SMALLEST_RECORD, BatchHeader, TimestampType, check_header
from logcore.records.compression import Codec, decompress
from logcore.records.varint import Buffer, read_varint, read_varlong

_SMALLEST_HEADER = 2


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
    """What a reader is willing to hold in memory for the sake of bytes it has not checked yet."""

    decoded_batch_bytes: int = 256 * 1024 * 1024
    """Output of one compressed batch."""
    record_bytes: int = 64 * 1024 * 1024
    """Declared length of one record."""
    headers_per_record: int = 10_000


DEFAULT_LIMITS = Limits()


def read_records(buf: Buffer, position: int, header: BatchHeader, limits: Limits = DEFAULT_LIMITS) -> Iterator[Record]:
    """Yield the records of the batch at `position` whose header is `header`, control records included.

    The checksum is the caller's business (`crc_matches`). Damage may show only after some records were yielded; a
    caller that wants all or nothing collects first.

    Raises CorruptRecordError, placed at the batch's position and base offset: COUNT, CODEC, CODEC_STREAM, OUTPUT_CAP,
    VARINT, RECORD_LENGTH, RECORD_HEADER, TRAILING_BYTES or TRUNCATED.
    """
    try:
        yield from _read(buf, position, header, limits)
    except CorruptRecordError as error:
        raise error.at(position=position, offset=header.base_offset) from error.__cause__


def record_bytes(buf: Buffer, position: int, header: BatchHeader, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """The batch's record section, decompressed.

    Raises CorruptRecordError: TRUNCATED, CODEC, CODEC_STREAM, OUTPUT_CAP.
    """
    start, end = position + HEADER_SIZE, position + header.size
    if end > len(buf) or start > end:
        raise CorruptRecordError(
            CorruptionReason.TRUNCATED,
            f"the batch takes {header.size} bytes by its length field, {max(len(buf) - position, 0)} are left",
        )
    if header.codec is Codec.NONE:
        return bytes(buf[start:end])
    with memoryview(buf) as view, view[start:end] as stored:
        return decompress(header.codec, stored, limits.decoded_batch_bytes)


def _read(buf: Buffer, position: int, header: BatchHeader, limits: Limits) -> Iterator[Record]:
    check_header(header)
    if header.record_count == 0 and header.size == HEADER_SIZE:
        return  # emptied by compaction; such a batch has no stream even if a codec were set
    data = record_bytes(buf, position, header, limits)
    if header.record_count > len(data) // SMALLEST_RECORD:
        raise CorruptRecordError(
            CorruptionReason.COUNT, f"{header.record_count} records cannot fit {len(data)} decoded bytes"
        )
    at = 0
    for index in range(header.record_count):
        if at == len(data):
            raise CorruptRecordError(
                CorruptionReason.COUNT, f"the batch counts {header.record_count} records and holds {index}"
            )
        record, at = _read_record(data, at, header, limits)
        yield record
    if at != len(data):
        raise CorruptRecordError(
            CorruptionReason.TRAILING_BYTES,
            f"{len(data) - at} bytes follow the last of {header.record_count} counted records",
        )


def _read_record(data: bytes, at: int, header: BatchHeader, limits: Limits) -> tuple[Record, int]:
    length, at = read_varint(data, at, len(data))
    if not 0 <= length <= len(data) - at:
        raise CorruptRecordError(
            CorruptionReason.RECORD_LENGTH, f"a record declares {length} bytes where {len(data) - at} are left"
        )
    if length > limits.record_bytes:
        raise CorruptRecordError(
            CorruptionReason.OUTPUT_CAP, f"a record declares {length} bytes, {limits.record_bytes} are allowed"
        )
    end = at + length
    if length == 0:
        raise CorruptRecordError(CorruptionReason.TRUNCATED, "a record without any bytes")
    at += 1  # attributes, unused
    timestamp_delta, at = read_varlong(data, at, end)
    offset_delta, at = read_varint(data, at, end)
    key, at = _read_nullable(data, at, end, "key")
    value, at = _read_nullable(data, at, end, "value")
    headers, at = _read_headers(data, at, end, limits)
    if at != end:
        raise CorruptRecordError(
            CorruptionReason.RECORD_LENGTH, f"a record declares {length} bytes and takes {length - (end - at)}"
        )
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        timestamp = header.max_timestamp
    else:
        timestamp = _wrap(header.base_timestamp + timestamp_delta)
    offset = _wrap(header.base_offset + offset_delta)
    return Record(offset, timestamp, header.timestamp_type, key, value, headers), end


def _read_headers(data: bytes, at: int, end: int, limits: Limits) -> tuple[tuple[tuple[bytes, bytes | None], ...], int]:
    count, at = read_varint(data, at, end)
    if not 0 <= count <= (end - at) // _SMALLEST_HEADER:
        raise CorruptRecordError(CorruptionReason.RECORD_HEADER, f"a record counts {count} headers in {end - at} bytes")
    if count > limits.headers_per_record:
        raise CorruptRecordError(
            CorruptionReason.OUTPUT_CAP, f"a record has {count} headers, {limits.headers_per_record} are allowed"
        )
    headers = []
    for _ in range(count):
        length, at = read_varint(data, at, end)
        if not 0 <= length <= end - at:
            raise CorruptRecordError(
                CorruptionReason.RECORD_HEADER, f"a record header's name declares {length} bytes of {end - at}"
            )
        name, at = data[at : at + length], at + length
        value, at = _read_nullable(data, at, end, "header value")
        headers.append((name, value))
    return tuple(headers), at


def _read_nullable(data: bytes, at: int, end: int, what: str) -> tuple[bytes | None, int]:
    """A length and as many bytes; every negative length is null, as in Kafka's reader."""
    length, at = read_varint(data, at, end)
    if length < 0:
        return None, at
    if length > end - at:
        raise CorruptRecordError(
            CorruptionReason.RECORD_LENGTH, f"a record's {what} declares {length} bytes where {end - at} are left"
        )
    return data[at : at + length], at + length


def _wrap(value: int) -> int:
    """Two's complement of 64 bits, as the sum would be in Java."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
