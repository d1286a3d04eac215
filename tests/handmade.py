"""Kafka's bytes, packed by hand: the reference that the library's own encoder has no part in.

Everything is written out with `struct`, including the checksum, so that an expectation built here shares no code with
what it is compared to. Fields can be set to lies. Injuries have names: `flip`, `cut`, `zero_tail`, `fix_crc`.
"""

import struct
from collections.abc import Sequence

HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_AT, CRC_FROM = 17, 21

CREATE_TIME, LOG_APPEND_TIME = 0x00, 0x08
TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x10, 0x20, 0x40
ABORT, COMMIT = 0, 1

Headers = Sequence[tuple[bytes | None, bytes | None]]


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), a byte at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(value: int, *, padding: int = 0) -> bytes:
    """Zigzag base 128; `padding` more bytes than needed."""
    raw = value * 2 if value >= 0 else -value * 2 - 1
    groups = [raw & 0x7F]
    while raw := raw >> 7:
        groups.append(raw & 0x7F)
    groups += [0] * padding
    return bytes([group | 0x80 for group in groups[:-1]] + [groups[-1]])


def nullable(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    offset_delta: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    timestamp_delta: int = 0,
    headers: Headers = (),
    header_count: int | None = None,
    attributes: int = 0,
    length: int | None = None,
) -> bytes:
    """One v2 record. `length` and `header_count` may lie."""
    body = bytes([attributes]) + varint(timestamp_delta) + varint(offset_delta) + nullable(key) + nullable(value)
    body += varint(len(headers) if header_count is None else header_count)
    for name, content in headers:
        body += nullable(name) + nullable(content)
    return varint(len(body) if length is None else length) + body


def batch(
    records: Sequence[bytes] = (),
    *,
    base_offset: int = 0,
    leader_epoch: int = 0,
    magic: int = 2,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int = 1000,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    count: int | None = None,
    length: int | None = None,
    body: bytes | None = None,
    crc: int | None = None,
) -> bytes:
    """A v2 batch of these records. Every field may lie; `body` replaces the records' bytes (a compressed stream)."""
    content = b"".join(records) if body is None else body
    data = HEADER.pack(
        base_offset,
        49 + len(content) if length is None else length,
        leader_epoch,
        magic,
        0,
        attributes if attributes < 1 << 15 else attributes - (1 << 16),
        max(len(records) - 1, 0) if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        base_timestamp if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records) if count is None else count,
    )
    data += content
    return fix_crc(data) if crc is None else data[:CRC_AT] + struct.pack(">I", crc) + data[CRC_FROM:]


def simple_batch(base_offset: int, rows: Sequence[tuple[bytes | None, bytes | None]], **fields: int) -> bytes:
    """A batch of (key, value) rows at successive offsets."""
    records = [record(delta, key, value) for delta, (key, value) in enumerate(rows)]
    return batch(records, base_offset=base_offset, **fields)


def empty_batch(base_offset: int, last_offset_delta: int, **fields: int) -> bytes:
    """What compaction leaves to keep an offset span: 61 bytes, no records, base timestamp -1."""
    return batch((), base_offset=base_offset, last_offset_delta=last_offset_delta, base_timestamp=-1, **fields)


def control_batch(base_offset: int, key: bytes | None, value: bytes | None, **fields: int) -> bytes:
    """A control batch of one record; transactional only if `attributes` says so."""
    fields["attributes"] = fields.get("attributes", 0) | CONTROL
    return batch([record(0, key, value)], base_offset=base_offset, **fields)


def marker(
    base_offset: int, kind: int, *, producer_id: int, producer_epoch: int = 0, coordinator_epoch: int = 0, **fields: int
) -> bytes:
    """A transaction marker, 78 bytes; `kind` is ABORT or COMMIT."""
    return control_batch(
        base_offset,
        struct.pack(">hh", 0, kind),
        struct.pack(">hi", 0, coordinator_epoch),
        attributes=TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        **fields,
    )


def message_v0(offset: int, key: bytes, value: bytes) -> bytes:
    """An uncompressed message of format v0; its checksum is left 0."""
    content = struct.pack(">Ibbi", 0, 0, 0, len(key)) + key + struct.pack(">i", len(value)) + value
    return struct.pack(">qi", offset, len(content)) + content


def message_v1(offset: int, timestamp: int, key: bytes, value: bytes) -> bytes:
    """An uncompressed message of format v1; its checksum is left 0."""
    content = struct.pack(">Ibbqi", 0, 1, 0, timestamp, len(key)) + key + struct.pack(">i", len(value)) + value
    return struct.pack(">qi", offset, len(content)) + content


def size_of(data: bytes, position: int = 0) -> int:
    """The size that the batch at `position` declares."""
    (length,) = struct.unpack_from(">i", data, position + 8)
    return int(length) + 12


def flip(data: bytes, position: int, bit: int = 0) -> bytes:
    """One bit turned over."""
    return data[:position] + bytes([data[position] ^ 1 << bit]) + data[position + 1 :]


def cut(data: bytes, length: int) -> bytes:
    """Only the first `length` bytes."""
    return data[:length]


def zero_tail(data: bytes, count: int) -> bytes:
    """`count` zero bytes behind, as preallocation leaves them."""
    return data + bytes(count)


def patch(data: bytes, position: int, replacement: bytes) -> bytes:
    """Bytes overwritten in place."""
    return data[:position] + replacement + data[position + len(replacement) :]


def fix_crc(data: bytes, position: int = 0, end: int | None = None) -> bytes:
    """The right checksum for the batch from `position` to `end` (default: the end), whatever its bytes say."""
    checksum = crc32c(data[position + CRC_FROM : end])
    return patch(data, position + CRC_AT, struct.pack(">I", checksum))
