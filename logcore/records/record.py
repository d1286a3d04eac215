"""The records of a batch, one at a time: slow, obvious, and the specification of every faster engine.

A record of format v2:

    length          varint   bytes after this field
    attributes      int8     unused
    timestampDelta  varlong  from the batch's baseTimestamp; may be negative
    offsetDelta     varint   from the batch's baseOffset
    keyLength       varint   negative = null, 0 = empty; then the key
    valueLength     varint   negative = null (a tombstone), 0 = empty (not a tombstone); then the value
    headerCount     varint
    per header:     keyLength varint (null is illegal), key in UTF-8; valueLength varint (negative = null), value

Records have no checksum of their own: the batch's covers them as they are stored. Sums with a delta wrap at 64 bits, as
in the broker. A LogAppendTime batch gives every record its maxTimestamp and ignores the deltas.

Source: org.apache.kafka.common.record.internal.DefaultRecord. Belongs here: bytes of one batch to values. The scan of a
segment checks that offsets increase and lie in the batch's span: Kafka's record reader does not check it either.
"""

from collections.abc import Iterator

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records import legacy
from logcore.records.batch import HEADER_SIZE, MAGIC_V2, SMALLEST_RECORD, BatchHeader, TimestampType, check_header
from logcore.records.compression import Codec, decompress
from logcore.records.model import DEFAULT_LIMITS as DEFAULT_LIMITS
from logcore.records.model import Limits as Limits
from logcore.records.model import Oddities as Oddities
from logcore.records.model import Record as Record
from logcore.records.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES, Buffer, read_varint, read_varlong

_SMALLEST_HEADER = 2


def read_records(
    buf: Buffer,
    position: int,
    header: BatchHeader,
    limits: Limits = DEFAULT_LIMITS,
    oddities: Oddities | None = None,
) -> Iterator[Record]:
    """Yield the records of the batch at `position`, control records included, for any format version.

    The caller checks the checksum (`crc_matches`). Damage may show only after some records were yielded; a caller that
    needs all or nothing must collect them first.

    Args:
        buf: The bytes that contain the batch.
        position: Where the batch begins in `buf`.
        header: The batch's header; for a compressed v0 or v1 message unfolded or not.
        limits: The most that is kept in memory.
        oddities: Filled in if given; complete after the last record.

    Raises:
        CorruptRecordError: With position and base offset of the batch. COUNT, CODEC, CODEC_STREAM, OUTPUT_CAP, VARINT,
            RECORD_LENGTH, RECORD_HEADER, TRAILING_BYTES or TRUNCATED; in v0 and v1 also LENGTH, MAGIC, OFFSET_ORDER.
    """
    try:
        if header.magic == MAGIC_V2:
            yield from _read(buf, position, header, limits, oddities)
        else:
            yield from legacy.read_messages(buf, position, header, limits, oddities)
    except CorruptRecordError as error:
        raise error.at(position=position, offset=header.base_offset) from error.__cause__


def record_bytes(
    buf: Buffer,
    position: int,
    header: BatchHeader,
    limits: Limits = DEFAULT_LIMITS,
    ignored: list[int] | None = None,
) -> bytes:
    """The batch's record section, decompressed; for a v0 or v1 message its message set.

    `ignored` gets the number of bytes after the compressed stream, if there are any.

    Raises:
        CorruptRecordError: TRUNCATED, CODEC, CODEC_STREAM, OUTPUT_CAP; in v0 and v1 also RECORD_LENGTH and COUNT.
    """
    if header.magic != MAGIC_V2:
        return legacy.message_set(buf, position, header, limits, ignored)
    start, end = position + HEADER_SIZE, position + header.size
    if end > len(buf) or start > end:
        raise CorruptRecordError(
            CorruptionReason.TRUNCATED,
            f"the batch takes {header.size} bytes by its length field, {max(len(buf) - position, 0)} are left",
        )
    if header.codec is Codec.NONE:
        return bytes(buf[start:end])
    with memoryview(buf) as view, view[start:end] as stored:
        left = [] if ignored is None else ignored
        return decompress(header.codec, stored, limits.decoded_batch_bytes, ignored=left)


def _read(
    buf: Buffer, position: int, header: BatchHeader, limits: Limits, oddities: Oddities | None
) -> Iterator[Record]:
    check_header(header)
    if header.record_count == 0 and header.size == HEADER_SIZE:
        return  # emptied by compaction; such a batch has no stream even if a codec is set
    ignored: list[int] = []
    data = record_bytes(buf, position, header, limits, ignored)
    if header.record_count > len(data) // SMALLEST_RECORD:
        raise CorruptRecordError(
            CorruptionReason.COUNT, f"{header.record_count} records cannot fit {len(data)} decoded bytes"
        )
    at = 0
    for index in range(header.record_count):
        if at == len(data):
            raise CorruptRecordError(
                CorruptionReason.COUNT, f"the batch counts {header.record_count} records and contains {index}"
            )
        record, at = _read_record(data, at, header, limits)
        yield record
    if at != len(data):
        raise CorruptRecordError(
            CorruptionReason.TRAILING_BYTES,
            f"{len(data) - at} bytes follow the last of {header.record_count} counted records",
        )
    if oddities is not None:
        oddities.unusual_encoding = _is_unusual(data)
        oddities.ignored_bytes = sum(ignored)


def _read_record(data: bytes, at: int, header: BatchHeader, limits: Limits) -> tuple[Record, int]:
    length, at = read_varint(data, at, len(data))
    if not 0 <= length <= len(data) - at:
        raise CorruptRecordError(
            CorruptionReason.RECORD_LENGTH, f"a record declares {length} bytes where {len(data) - at} are left"
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
    offset = _wrap(header.base_offset + header.reader_shift + offset_delta)
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
    """Read a length and so many bytes. Every negative length is null, as in Kafka's reader."""
    length, at = read_varint(data, at, end)
    if length < 0:
        return None, at
    if length > end - at:
        raise CorruptRecordError(
            CorruptionReason.RECORD_LENGTH, f"a record's {what} declares {length} bytes where {end - at} are left"
        )
    return data[at : at + length], at + length


def _is_unusual(data: bytes) -> bool:
    """Whether a readable record section contains a number that Kafka would have encoded differently."""
    at = 0
    while at < len(data):
        _, at, odd = _number(data, at, MAX_VARINT_BYTES)
        at += 1
        _, at, odd_timestamp = _number(data, at, MAX_VARLONG_BYTES)
        _, at, odd_offset = _number(data, at, MAX_VARINT_BYTES)
        at, odd_key = _skip_nullable(data, at)
        at, odd_value = _skip_nullable(data, at)
        count, at, odd_count = _number(data, at, MAX_VARINT_BYTES)
        if odd or odd_timestamp or odd_offset or odd_key or odd_value or odd_count:
            return True
        for _ in range(count):
            at, odd_name = _skip_nullable(data, at)
            at, odd_value = _skip_nullable(data, at)
            if odd_name or odd_value:
                return True
    return False


def _skip_nullable(data: bytes, at: int) -> tuple[int, bool]:
    length, at, odd = _number(data, at, MAX_VARINT_BYTES)
    return at + max(length, 0), odd or length < -1


def _number(data: bytes, at: int, longest: int) -> tuple[int, int, bool]:
    """A varint's (value, position after it, whether it is longer than needed or has bits that do not fit its type)."""
    read = read_varint if longest == MAX_VARINT_BYTES else read_varlong
    value, end = read(data, at, len(data))
    last, size = data[end - 1], end - at
    # 5 groups of 7 bits leave 4 bits for the last group of an int; 10 groups leave 1 bit for that of a long.
    spare = size == longest and last >> (4 if longest == MAX_VARINT_BYTES else 1) != 0
    return value, end, spare or (size > 1 and last == 0)


def _wrap(value: int) -> int:
    """Two's complement of 64 bits, as the sum in Java."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
