"""Mutants with a right checksum: no CRC can refuse them, so a decoder must check their structure.

A mutant is a function of (seed, number) alone. It starts from a canonical batch, or from random records whose
fields may be wrong, and is injured in one to three of these ways: in the records before they are compressed, in the
compressed stream, in the fields of the header. Then its length field and its checksum are made right again.
"""

import random
import struct
import zlib
from typing import NamedTuple

from tests import handmade
from tests.fuzz import streams
from tests.fuzz.canonical import CANONICAL, Canonical, message

_BYTES = (0x00, 0x01, 0x02, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
_INTS = (-(1 << 31), -(1 << 31) + 1, -2, -1, 0, 1, 2, 3, 7, 8, 63, 64, 127, 128, 1 << 15, 1 << 20, (1 << 31) - 1)
_LONGS = (*_INTS, -(1 << 63), -(1 << 63) + 1, (1 << 63) - 1, (1 << 63) - 2, 253_402_300_800_000, -62_135_596_800_001)
_NAMES = (b"", b"h", b"h", b"\xff", b"\xc3\x28", b"\xed\xa0\x80", "é".encode(), b"\xf4\x90\x80\x80", b"\0")

# Where the fields of a v2 header lie under the checksum: (position, struct code, values worth trying).
_FIELDS = (
    (
        21,
        ">H",
        (*range(9), 0x10, 0x18, 0x20, 0x28, 0x30, 0x40, 0x48, 0x70, 0x80, 0x100, 0x8000, 0xFFF8),
    ),
    (23, ">i", _INTS),
    (27, ">q", _LONGS),
    (35, ">q", _LONGS),
    (43, ">q", _LONGS),
    (51, ">h", (-2, -1, 0, 1, (1 << 15) - 1)),
    (53, ">i", _INTS),
    (57, ">i", _INTS),
)


class Mutant(NamedTuple):
    """One batch whose checksum is right, and how it came about."""

    number: int
    parent: str
    ways: tuple[str, ...]
    base_offset: int
    """Its parent's."""
    data: bytes

    @property
    def magic(self) -> int:
        """The format that the bytes claim."""
        return self.data[16]

    @property
    def segment_base(self) -> int:
        """The name of a segment that holds it alone: messages may have had their offset changed, downwards too."""
        return self.base_offset if self.magic == 2 else 0


def mutant(seed: int, number: int) -> Mutant:
    """That mutant; the same for ever."""
    draw = random.Random(f"{seed}:{number}")
    parent = draw.choice(CANONICAL)
    make = _v2 if parent.magic == 2 else _legacy
    ways, data = make(parent, draw)
    return Mutant(number, parent.name, tuple(ways), parent.base_offset, data)


def repaired(data: bytes) -> bytes:
    """Length field and checksum made right for all the bytes there are."""
    data = handmade.patch(data, 8, struct.pack(">i", len(data) - 12))
    if data[16] == 2:
        return handmade.fix_crc(data)
    return handmade.fix_message_crc(data)


def _v2(parent: Canonical, draw: random.Random) -> tuple[list[str], bytes]:
    ways: list[str] = []
    header, stream = parent.data[:61], parent.data[61:]
    codec = parent.codec
    plain = parent.plain
    changed = False
    if draw.random() < 0.25:
        ways.append("grammar")
        plain, count = _lying_records(draw)
        last = min(max(count - 1, 0) + draw.choice((0, 0, 0, 1, 5)), (1 << 31) - 1)
        header = handmade.patch(header, 57, struct.pack(">i", count))
        header = handmade.patch(header, 23, struct.pack(">i", last))
        changed = True
    if draw.random() < 0.5:
        ways.append("records")
        plain = _edited(plain, draw)
        changed = True
    if draw.random() < 0.1:
        ways.append("codec")
        codec = draw.randrange(5)
        header = header[:22] + bytes([header[22] & ~7 | codec]) + header[23:]
        changed = True
    if changed:
        stream = _compressed(codec, plain, draw)
    if codec and draw.random() < 0.25:
        ways.append("stream")
        stream = _edited(stream, draw)
    if not ways or draw.random() < 0.25:
        ways.append("header")
        for _ in range(draw.choice((1, 1, 2))):
            at, code, values = draw.choice(_FIELDS)
            header = handmade.patch(header, at, struct.pack(code, draw.choice(values)))
    return ways, repaired(header + stream)


def _compressed(codec: int, plain: bytes, draw: random.Random) -> bytes:
    how = draw.random()
    if codec == streams.SNAPPY and how < 0.3:
        return streams.snappy_raw(plain)
    if codec == streams.SNAPPY and how < 0.5:
        return streams.snappy_stream(plain, draw.randrange(1, 60))
    pack = streams.STREAMS[codec]
    if codec == streams.LZ4 and how > 0.95:
        # An empty block, stored or not, before the end mark, and sometimes the last block again after it.
        stream = pack(plain)[:-4]
        nothing = draw.choice((b"\0\0\0\x80", b"\1\0\0\0\0"))
        return stream + nothing + draw.choice((b"", b"", stream[7:])) + bytes(4)
    if codec and how < 0.1:
        middle = draw.randrange(len(plain) + 1)
        return pack(plain[:middle]) + pack(plain[middle:])
    return pack(plain)


def _lying_records(draw: random.Random) -> tuple[bytes, int]:
    """Zero to five records and how many the header shall count; about one field in twelve is not what it should be."""

    def lies() -> bool:
        return draw.random() < 0.08

    records = []
    for delta in range(draw.randrange(6)):
        key = _content(draw)
        headers = [(_name(draw), _content(draw)) for _ in range(draw.choice((0, 0, 1, 2)))]
        parts = [
            bytes([draw.choice(_BYTES) if lies() else 0]),
            _integer(draw.choice(_LONGS) if lies() else draw.randrange(-9, 99), draw),
            _integer(draw.choice(_INTS) if lies() else delta, draw),
            _sized(key, draw, lies()),
            _sized(_content(draw), draw, lies()),
            _integer(draw.choice(_INTS) if lies() else len(headers), draw),
        ]
        for name, content in headers:
            parts += [_sized(name, draw, lies()), _sized(content, draw, lies())]
        body = b"".join(parts)
        declared = draw.choice((*_INTS, len(body) - 1, len(body) + 1)) if lies() else len(body)
        records.append(_integer(declared, draw) + body)
    count = draw.choice((*_INTS, len(records) - 1, len(records) + 1)) if lies() else len(records)
    return b"".join(records), count


def _content(draw: random.Random) -> bytes | None:
    return draw.choice((None, b"", b"a", b"some value", bytes(20), draw.randbytes(draw.randrange(9))))


def _name(draw: random.Random) -> bytes:
    return draw.choice(_NAMES)


def _integer(value: int, draw: random.Random) -> bytes:
    return handmade.varint(value, padding=draw.choice((0,) * 20 + (1, 2, 4, 9)))


def _sized(content: bytes | None, draw: random.Random, lying: bool) -> bytes:
    true = -1 if content is None else len(content)
    declared = draw.choice((*_INTS, true - 1, true + 1)) if lying else true
    return _integer(declared, draw) + (content or b"")


def _edited(data: bytes, draw: random.Random) -> bytes:
    """One to three edits of some bytes."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        at = draw.randrange(len(data)) if data else 0
        match draw.randrange(8):
            case 0 | 1 if data:
                data = handmade.flip(data, at, draw.randrange(8))
            case 2 if data:
                data = handmade.patch(data, at, bytes([draw.choice(_BYTES)]))
            case 3:
                data = data[:at] + bytes([draw.choice(_BYTES)]) + data[at:]
            case 4:
                data = data[:at] + data[at + draw.choice((1, 1, 2, 5)) :]
            case 5:
                data = data[:at] + handmade.varint(draw.choice(_LONGS)) + data[at + draw.choice((0, 1, 1)) :]
            case 6:
                other = draw.randrange(len(data) + 1)
                data = data[:other] + data[at : at + draw.randrange(12)] + data[other:]
            case 7:
                data = data[:at] if draw.random() < 0.5 else data + draw.randbytes(draw.choice((1, 1, 4, 16)))
    return data


def _legacy(parent: Canonical, draw: random.Random) -> tuple[list[str], bytes]:
    ways: list[str] = []
    magic, codec = parent.magic, parent.codec
    head = 26 if magic else 18
    if not codec:
        body = parent.data[16:]
        if draw.random() < 0.6:
            ways.append("fields")
            body = _legacy_field(body, magic, draw)
        if not ways or draw.random() < 0.3:
            ways.append("message")
            body = _edited(body, draw)
        body = body if len(body) > 1 else b"\0\0"
        return ways, _message(parent.data[:16] + body)
    plain = parent.plain
    if draw.random() < 0.6:
        ways.append("inner")
        plain = _edited_set(plain, magic, draw) if draw.random() < 0.6 else _edited(plain, draw)
    pack = streams.STREAMS[codec]
    if codec == streams.LZ4 and magic == 0 and draw.random() < 0.7:
        pack = streams.lz4_stream_of_v0
    stream = pack(plain)
    if draw.random() < 0.25:
        ways.append("stream")
        stream = _edited(stream, draw)
    key = b""
    if draw.random() < 0.03:
        ways.append("keyed wrapper")
        key = b"key"
    front = parent.data[:head] + struct.pack(">i", len(key) if key else -1) + key
    data = front + struct.pack(">i", len(stream)) + stream
    if not ways or draw.random() < 0.15:
        ways.append("outer fields")
        data = data[:16] + _legacy_field(data[16:], magic, draw)
    if draw.random() < 0.1:
        ways.append("outer offset")
        data = handmade.patch(data, 0, struct.pack(">q", draw.choice((0, 1, 99, 100, 101, 102, 103, 1 << 40))))
    return ways, _message(data)


def _message(data: bytes) -> bytes:
    """Repaired as what its magic says: no magic of another world, which no checksum is defined for."""
    if data[16] not in (0, 1):
        data = data[:16] + bytes([data[16] & 1]) + data[17:]
    return repaired(data)


def _legacy_field(body: bytes, magic: int, draw: random.Random) -> bytes:
    """Magic, attributes, timestamp, or one of the lengths changed; `body` begins at the magic."""
    key_at = 10 if magic else 2
    match draw.randrange(5):
        case 0:
            return bytes([body[0] ^ 1]) + body[1:]
        case 1:
            return handmade.patch(body, 1, bytes([draw.choice((0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 16, 0x80, 0xFF))]))
        case 2 if magic:
            return handmade.patch(body, 2, struct.pack(">q", draw.choice(_LONGS)))
        case 3:
            (length,) = struct.unpack_from(">i", body, key_at)
            at = key_at + 4 + max(length, 0)
            return handmade.patch(body, at, struct.pack(">i", draw.choice(_INTS)))
        case _:
            return handmade.patch(body, key_at, struct.pack(">i", draw.choice(_INTS)))


def _edited_set(plain: bytes, magic: int, draw: random.Random) -> bytes:
    """The inner messages of a wrapper with fields changed, dropped, doubled, swapped or nested; CRCs right or not."""
    parts = []
    position = 0
    while position + 12 <= len(plain):
        size = struct.unpack_from(">i", plain, position + 8)[0] + 12
        parts.append(plain[position : position + size])
        position += size
    index = draw.randrange(len(parts))
    part = parts[index]
    match draw.randrange(8):
        case 0:
            part = struct.pack(">q", draw.choice((-1, 0, 1, 2, 3, 5, 99, 100, 101, 104, 1 << 31, 1 << 40))) + part[8:]
        case 1:
            part = part[:8] + struct.pack(">i", draw.choice((*_INTS, 13, 14, 21, 22, len(part) - 13))) + part[12:]
        case 2 if len(part) > 18:
            part = part[:16] + _legacy_field(part[16:], magic, draw)
        case 3:
            part = b""
        case 4:
            part += part
        case 5:
            parts.reverse()
            part = parts[index]
        case 6:
            inner = streams.gzip_stream(message(magic, 0, b"k", b"nested", 0))
            part = message(magic, struct.unpack_from(">q", part)[0], None, inner, 0, 1)
        case 7:
            part = part[: draw.randrange(len(part))]
    if len(part) > 16 and draw.random() < 0.7:
        part = part[:12] + struct.pack(">I", zlib.crc32(part[16:])) + part[16:]
    parts[index] = part
    return b"".join(parts)
