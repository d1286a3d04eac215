"""The reference engine: the records of a batch, one by one, as Arrow columns.

It is the specification of what a faster engine gives, on damaged input too: same rows or the same error. It is slow on
purpose; nothing in it is clever. Belongs here: Record to columns. Reading bytes is in `logcore.records`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from logcore.columns.schema import HEADER_TYPE, MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, RECORDS_SCHEMA
from logcore.columns.wanted import Place
from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.batch import BatchHeader, crc_matches
from logcore.records.record import DEFAULT_LIMITS, Limits, Record, read_records
from logcore.records.varint import Buffer

CHUNK_BYTES = 8 * 1024 * 1024
"""About how much payload one Arrow batch of `decode_batches` holds."""
_ROW_BYTES = 64
"""What a row counts for beside its payload, so that tiny records do not make endless chunks."""

# An encoded surrogate (CESU-8, or half of one). Java's decoder replaces its bytes as one; Python's, each on its own.
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode(
    buf: Buffer,
    position: int,
    header: BatchHeader,
    *,
    topic: str,
    partition: int,
    log_id: str,
    segment_id: str,
    visible: Sequence[tuple[int, int]] | None = None,
    position_base: int = 0,
    limits: Limits = DEFAULT_LIMITS,
    verify_crc: bool = True,
) -> pa.RecordBatch:
    """The records of the batch at `position` as RECORDS_SCHEMA rows, in stored order.

    `visible` are ascending half-open offset ranges to keep; None keeps all. A control batch gives no rows either way.
    Every record is parsed, kept or not: a damaged batch raises, whichever of its records are asked for.

    Raises CorruptRecordError: CRC (unless `verify_crc` is False) or what `read_records` raises.
    """
    place = Place(topic, partition, log_id, segment_id, position_base)
    rows = list(_visible_rows(buf, position, header, visible, limits, verify_crc))
    return to_columns(rows, place, header.partition_leader_epoch, position)


def decode_batches(
    buf: Buffer,
    spans: Iterable[tuple[int, BatchHeader]],
    *,
    topic: str,
    partition: int,
    log_id: str,
    segment_id: str,
    visible: Sequence[tuple[int, int]] | None = None,
    position_base: int = 0,
    limits: Limits = DEFAULT_LIMITS,
    verify_crc: bool = True,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The same for many batches of one segment, given as (position, header), lazily and joined to larger pieces.

    A piece is given out as soon as it holds `chunk_bytes` of payload (64 bytes a row added), so it exceeds that by one
    record at most; the last may be small, none is empty. One batch is held in memory at a time, whole: of a damaged
    batch no row is given out, and the error comes after all rows of the batches before it were.
    """
    place = Place(topic, partition, log_id, segment_id, position_base)
    pending = _Columns(place)
    for position, header in spans:
        try:
            rows = list(_visible_rows(buf, position, header, visible, limits, verify_crc))
        except CorruptRecordError:
            if pending:
                yield pending.finish()
            raise
        for row in rows:
            pending.add(row, header.partition_leader_epoch, position)
            if pending.nbytes >= chunk_bytes:
                yield pending.finish()
    if pending:
        yield pending.finish()


def to_columns(records: Iterable[Record], place: Place, leader_epoch: int, position: int) -> pa.RecordBatch:
    """Records of one batch (its leader epoch, its position in the buffer) as RECORDS_SCHEMA rows, all of them."""
    columns = _Columns(place)
    for record in records:
        columns.add(record, leader_epoch, position)
    return columns.finish()


def decode_header_name(name: bytes) -> str:
    """A record header's name as a Java consumer sees it: `new String(name, UTF_8)`, malformed input as U+FFFD.

    Java and Python agree on what one malformed piece is, but for encoded surrogates.
    """
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return _ENCODED_SURROGATE.sub(b"\xff", name).decode("utf-8", errors="replace")


def is_utf8(name: bytes) -> bool:
    """Whether the name decodes without replacement, so that the string alone says what was stored."""
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def table_timestamp(timestamp_ms: int) -> int | None:
    """Microseconds for the table's `timestamp`; None for -1 and for what lies outside of years 1 to 9999."""
    if timestamp_ms == -1 or not MIN_TIMESTAMP_MS <= timestamp_ms <= MAX_TIMESTAMP_MS:
        return None
    return timestamp_ms * 1000


def _visible_rows(
    buf: Buffer,
    position: int,
    header: BatchHeader,
    visible: Sequence[tuple[int, int]] | None,
    limits: Limits,
    verify_crc: bool,
) -> Iterator[Record]:
    if verify_crc and not crc_matches(buf, position, header):
        raise CorruptRecordError(
            CorruptionReason.CRC,
            "the checksum over the batch differs from the stored one",
            position=position,
            offset=header.base_offset,
        )
    for record in read_records(buf, position, header, limits):
        if header.is_control:
            continue
        if visible is None or any(start <= record.offset < end for start, end in visible):
            yield record


class _Columns:
    """Lists that grow by a record at a time and become one Arrow batch."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._clear()

    def _clear(self) -> None:
        self.nbytes = 0
        self._records: list[Record] = []
        self._epochs: list[int | None] = []
        self._positions: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._records)

    def add(self, record: Record, leader_epoch: int, position: int) -> None:
        self._records.append(record)
        self._epochs.append(None if leader_epoch < 0 else leader_epoch)
        self._positions.append(self._place.position_base + position)
        self.nbytes += _ROW_BYTES + len(record.key or b"") + len(record.value or b"")
        self.nbytes += sum(len(name) + len(value or b"") for name, value in record.headers)

    def finish(self) -> pa.RecordBatch:
        rows, place = self._records, self._place
        count = len(rows)
        columns: dict[str, pa.Array] = {
            "topic": pa.array([place.topic] * count, pa.string()),
            "partition": pa.array([place.partition] * count, pa.int32()),
            "offset": pa.array([row.offset for row in rows], pa.int64()),
            "timestamp": pa.array([table_timestamp(row.timestamp) for row in rows], pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array([int(row.timestamp_type) for row in rows], pa.int32()),
            "key": pa.array([row.key for row in rows], pa.binary()),
            "value": pa.array([row.value for row in rows], pa.binary()),
            "headers": pa.array([_headers(row) for row in rows], pa.list_(HEADER_TYPE)),
            "timestamp_ms": pa.array([row.timestamp for row in rows], pa.int64()),
            "leader_epoch": pa.array(self._epochs, pa.int32()),
            "log_id": pa.array([place.log_id] * count, pa.string()),
            "segment_id": pa.array([place.segment_id] * count, pa.string()),
            "position": pa.array(self._positions, pa.int64()),
            "header_keys_raw": pa.array([_raw_names(row) for row in rows], pa.list_(pa.binary())),
        }
        self._clear()
        return pa.RecordBatch.from_arrays([columns[name] for name in RECORDS_SCHEMA.names], schema=RECORDS_SCHEMA)


def _headers(record: Record) -> list[dict[str, str | bytes | None]] | None:
    if not record.headers:
        return None
    return [{"key": decode_header_name(name), "value": value} for name, value in record.headers]


def _raw_names(record: Record) -> list[bytes] | None:
    if all(is_utf8(name) for name, _ in record.headers):
        return None
    return [name for name, _ in record.headers]
