"""Kafka's bytes, packed by hand: the reference that the library's own encoder has no part in.

Everything is written out with `struct`, including the checksum, so that an expectation built here shares no code with
what it is compared to. Fields can be set to lies. Injuries have names: `flip`, `cut`, `zero_tail`, `fix_crc`.
"""

import struct
from collections.abc import Sequence
from typing import Any

HEADER = struct.Struct(">qiibIhiqqqhii")
MESSAGE = struct.Struct(">qiIbb")
MESSAGE_CRC_AT, MESSAGE_CRC_FROM = 12, 16
CRC_AT, CRC_FROM = 17, 21

CREATE_TIME, LOG_APPEND_TIME = 0x00, 0x08
TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x10, 0x20, 0x40
ABORT, COMMIT = 0, 1

Headers = Sequence[tuple[bytes | None, bytes | None]]


def _crc_table(polynomial: int) -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (polynomial if byte & 1 else 0)
        table.append(byte)
    return table


_CASTAGNOLI = _crc_table(0x82F63B78)
_IEEE = _crc_table(0xEDB88320)


def _crc(data: bytes, table: list[int]) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), a byte at a time."""
    return _crc(data, _CASTAGNOLI)


def crc32(data: bytes) -> int:
    """CRC-32 (IEEE 802.3, that of zlib), a byte at a time."""
    return _crc(data, _IEEE)


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


def message(
    offset: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    magic: int = 1,
    timestamp: int = 1000,
    attributes: int = 0,
    size: int | None = None,
    key_length: int | None = None,
    value_length: int | None = None,
    after: bytes = b"",
    crc: int | None = None,
) -> bytes:
    """A message of format v0 or v1 (`timestamp` is v1's alone). Sizes, lengths and checksum may lie.

    `after` are bytes after its value.
    """
    content = struct.pack(">q", timestamp) if magic == 1 else b""
    for data, length in ((key, key_length), (value, value_length)):
        stated = (-1 if data is None else len(data)) if length is None else length
        content += struct.pack(">i", stated) + (data or b"")
    content += after
    whole = MESSAGE.pack(offset, 6 + len(content) if size is None else size, 0, magic, attributes) + content
    return fix_message_crc(whole) if crc is None else patch(whole, MESSAGE_CRC_AT, struct.pack(">I", crc))


def message_v0(offset: int, key: bytes | None, value: bytes | None) -> bytes:
    """An uncompressed message of format v0."""
    return message(offset, key, value, magic=0)


def message_v1(offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    """An uncompressed message of format v1."""
    return message(offset, key, value, timestamp=timestamp)


def stored_snappy(data: bytes, *, block: int = 32 * 1024, framed: bool = True) -> bytes:
    """A snappy stream of literals only: xerial blocks of this many bytes, or one raw block."""

    def raw(plain: bytes) -> bytes:
        out, length = b"", len(plain)
        while length > 0x7F:
            out, length = out + bytes([length & 0x7F | 0x80]), length >> 7
        out += bytes([length])
        for at in range(0, len(plain), 60):
            piece = plain[at : at + 60]
            out += bytes([len(piece) - 1 << 2]) + piece
        return out

    if not framed:
        return raw(data)
    out = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for at in range(0, len(data), block):
        body = raw(data[at : at + block])
        out += struct.pack(">i", len(body)) + body
    return out


def stored_gzip(data: bytes) -> bytes:
    """A gzip member of stored deflate blocks, with the header that Java writes."""
    out = bytes.fromhex("1f8b08000000000000ff")
    pieces = [data[at : at + 0xFFFF] for at in range(0, len(data), 0xFFFF)] or [b""]
    for piece in pieces:
        out += bytes([piece is pieces[-1]]) + struct.pack("<HH", len(piece), len(piece) ^ 0xFFFF) + piece
    return out + struct.pack("<II", crc32(data), len(data) & 0xFFFFFFFF)


def stored_lz4(data: bytes, *, header: bytes = b"\x60\x40\x82") -> bytes:
    """An LZ4 frame of stored blocks. `header`: flags and checksum, by default those Kafka writes."""
    out = b"\x04\x22\x4d\x18" + header
    for at in range(0, len(data), 65536):
        piece = data[at : at + 65536]
        out += struct.pack("<I", len(piece) | 1 << 31) + piece
    return out + bytes(4)


GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
BROKEN_LZ4_HEADER = b"\x60\x40\x1a"
"""The frame descriptor as it stands in v0 messages, its checksum computed over the magic too."""


def wrapper(
    inner: Sequence[bytes],
    *,
    offset: int,
    codec: int = GZIP,
    magic: int = 1,
    attributes: int = 0,
    value: bytes | None = None,
    **fields: Any,
) -> bytes:
    """A compressed message around these messages, which carry their offsets as they stand: absolute ones in v0,
    relative ones in v1. `value` replaces the compressed stream."""
    if value is None:
        plain = b"".join(inner)
        if codec == LZ4:
            value = stored_lz4(plain, header=BROKEN_LZ4_HEADER) if magic == 0 else stored_lz4(plain)
        else:
            value = stored_gzip(plain) if codec == GZIP else stored_snappy(plain)
    return message(offset, None, value, magic=magic, attributes=attributes | codec, **fields)


def wrapper_v0(offsets: Sequence[int], *, codec: int = GZIP, **fields: Any) -> bytes:
    """A v0 wrapper around messages at these offsets."""
    inner = [message_v0(offset, b"k", b"%d" % offset) for offset in offsets]
    fields.setdefault("offset", offsets[-1])
    return wrapper(inner, codec=codec, magic=0, **fields)


def wrapper_v1(
    offsets: Sequence[int],
    *,
    codec: int = GZIP,
    timestamps: Sequence[int] | None = None,
    base: int | None = None,
    inner_attributes: int = 0,
    **fields: Any,
) -> bytes:
    """A v1 wrapper around messages at these offsets, stored relative to `base` (default: the first)."""
    base = offsets[0] if base is None else base
    times = [1000 + offset for offset in offsets] if timestamps is None else timestamps
    inner = [
        message(offset - base, b"k", b"%d" % offset, timestamp=time, attributes=inner_attributes)
        for offset, time in zip(offsets, times, strict=True)
    ]
    fields.setdefault("timestamp", max(times))
    fields.setdefault("offset", offsets[-1])
    return wrapper(inner, codec=codec, **fields)


def wrapper_append_time(offsets: Sequence[int], append_time: int, *, converted: bool = False, **fields: Any) -> bytes:
    """A v1 wrapper with LogAppendTime. As brokers of 0.10 leave it, the messages inside keep the producer's time and no
    attributes; as 2.x makes it of a v2 batch (`converted`), they carry the append time and the attribute too."""
    return wrapper_v1(
        offsets,
        timestamps=[append_time] * len(offsets) if converted else None,
        inner_attributes=LOG_APPEND_TIME if converted else 0,
        attributes=LOG_APPEND_TIME,
        timestamp=append_time,
        **fields,
    )


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
    """`count` zero bytes after the data, as preallocation leaves them."""
    return data + bytes(count)


def patch(data: bytes, position: int, replacement: bytes) -> bytes:
    """Bytes overwritten in place."""
    return data[:position] + replacement + data[position + len(replacement) :]


def fix_message_crc(data: bytes) -> bytes:
    """The right checksum for a v0 or v1 message, whatever its bytes say."""
    return patch(data, MESSAGE_CRC_AT, struct.pack(">I", crc32(data[MESSAGE_CRC_FROM:])))


def fix_crc(data: bytes, position: int = 0, end: int | None = None) -> bytes:
    """The right checksum for the batch from `position` to `end` (default: the end), whatever its bytes say."""
    checksum = crc32c(data[position + CRC_FROM : end])
    return patch(data, position + CRC_AT, struct.pack(">I", checksum))
