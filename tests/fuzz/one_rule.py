"""Batches that break one rule: one field of the header, of a record, of a message or of the stream is not what it
should be, in every format and codec; all others, the checksum too, are right.

A case is a function of (seed, number) alone. It comes twice: as a producer sends it, and as it lies at offset 100.
"""

from __future__ import annotations

import random
import struct
from typing import NamedTuple

from tests import handmade
from tests.fuzz import streams

AT = 100
"""Where the batch is stored."""
_INTS = (-(1 << 31), -3, -2, -1, 0, 1, 2, 3, 5, 100, 1 << 20, (1 << 31) - 1)
_LONGS = (*_INTS, -(1 << 63), (1 << 63) - 1, 253_402_300_800_000, -62_135_596_800_001)
_SHORTS = (-(1 << 15), -2, -1, 0, 1, (1 << 15) - 1)
_TIME = 1_600_000_000_000

HEADER = {
    "length": (8, ">i", (-1, 0, 13, 14, 22, 48, 49)),
    "leader epoch": (12, ">i", _INTS),
    "magic": (16, ">b", (-128, -1, 0, 1, 3, 127)),
    "attributes": (21, ">H", (5, 6, 7, 8, 0x10, 0x20, 0x30, 0x40, 0x70, 0x80, 0x100, 0x8000)),
    "last offset delta": (23, ">i", _INTS),
    "base timestamp": (27, ">q", _LONGS),
    "max timestamp": (35, ">q", _LONGS),
    "producer id": (43, ">q", _LONGS),
    "producer epoch": (51, ">h", _SHORTS),
    "base sequence": (53, ">i", _INTS),
    "record count": (57, ">i", _INTS),
}
RECORD = (
    "record length",
    "record attributes",
    "timestamp delta",
    "offset delta",
    "key length",
    "value length",
    "header count",
    "header name length",
    "header value length",
    "padded integer",
    "record missing",
    "record twice",
    "bytes after the records",
)
STREAM = ("bytes after the stream", "stream cut", "stream twice", "stream flipped", "stream empty", "other codec")
MESSAGE = (
    "message size",
    "message crc",
    "message magic",
    "message attributes",
    "message timestamp",
    "message key length",
    "message value length",
    "bytes after the value",
)
WRAPPER = (
    *(f"inner {name}" for name in MESSAGE),
    "inner offset",
    "inner missing",
    "inner twice",
    "inner reversed",
    "inner cut",
    "wrapper key",
    "wrapper null",
    "wrapper size",
    "wrapper crc",
    "wrapper attributes",
    "wrapper timestamp",
)


class Case(NamedTuple):
    """One batch, and the rule that it breaks."""

    number: int
    magic: int
    codec: int
    rule: str
    sent: bytes
    lying: bytes
    """The same at offset `AT`; messages keep their offsets."""


def case(seed: int, number: int) -> Case:
    """That case; the same for ever."""
    draw = random.Random(f"{seed}:{number}")
    magic = draw.choice((2, 2, 1, 0))
    codec = draw.randrange(5 if magic == 2 else 4)
    if magic == 2:
        rule = draw.choice((*HEADER, "crc", *RECORD, *(STREAM if codec else ())))
        sent = _batch(draw, codec, rule)
        return Case(number, magic, codec, rule, sent, handmade.patch(sent, 0, struct.pack(">q", AT)))
    rule = draw.choice((*WRAPPER, *STREAM) if codec else MESSAGE)
    sent = _wrapper(draw, magic, codec, rule) if codec else _message(draw, magic, AT, rule)
    return Case(number, magic, codec, rule, sent, sent)


def _wrong(draw: random.Random, right: int, values: tuple[int, ...] = _INTS) -> int:
    return draw.choice([value for value in (*values, right - 1, right + 1) if value != right])


def _batch(draw: random.Random, codec: int, rule: str) -> bytes:
    count = draw.randrange(1, 6)
    records = [_record(draw, delta, rule if delta == count // 2 else "") for delta in range(count)]
    if rule == "record missing":
        del records[draw.randrange(count)]
    if rule == "record twice":
        records.insert(count // 2, records[count // 2])
    plain = b"".join(records)
    if rule == "bytes after the records":
        plain += draw.choice((bytes(1), b"\x01", bytes(7), draw.randbytes(9)))
    data = handmade.batch(
        body=_packed(draw, codec, plain, rule),
        attributes=codec,
        last_offset_delta=count - 1,
        count=count,
        base_timestamp=_TIME,
        max_timestamp=_TIME + 99,
    )
    if rule == "other codec":
        data = data[:22] + bytes([draw.choice([other for other in range(5) if other != codec])]) + data[23:]
    if rule in HEADER:
        at, code, values = HEADER[rule]
        right = struct.unpack_from(code, data, at)[0]
        value = draw.choice([value for value in values if value != right])
        if rule in ("last offset delta", "record count"):
            value = draw.choice((value, right - 1, right + 1, right + 2))
        value = value | codec if rule == "attributes" and value > 7 else value
        data = handmade.patch(data, at, struct.pack(code, value))
        if rule == "length":
            data = handmade.patch(data, at, struct.pack(code, draw.choice((value, right - 1, right + 1))))
    data = handmade.fix_crc(data)
    return handmade.flip(data, draw.randrange(17, 21), draw.randrange(8)) if rule == "crc" else data


def _record(draw: random.Random, delta: int, rule: str) -> bytes:
    headers = [(b"name", draw.choice((None, b"", b"content"))) for _ in range(draw.randrange(3))]
    if rule.startswith("header"):
        headers = headers or [(b"name", b"content")]
    key, value = (draw.choice((None, b"", b"a", draw.randbytes(9))) for _ in range(2))

    def sized(content: bytes | None, name: str) -> bytes:
        right = -1 if content is None else len(content)
        length = _wrong(draw, right) if rule == name else right
        return handmade.varint(length) + (content or b"")

    def integer(right: int, name: str, values: tuple[int, ...] = _INTS) -> bytes:
        padding = draw.choice((1, 3, 5, 9)) if rule == "padded integer" and name == "offset delta" else 0
        return handmade.varint(_wrong(draw, right, values) if rule == name else right, padding=padding)

    body = bytes([draw.randrange(1, 256) if rule == "record attributes" else 0])
    body += integer(delta, "timestamp delta", _LONGS) + integer(delta, "offset delta")
    body += sized(key, "key length") + sized(value, "value length") + integer(len(headers), "header count")
    for name, content in headers:
        body += sized(name, "header name length") + sized(content, "header value length")
    return integer(len(body), "record length") + body


def _packed(draw: random.Random, codec: int, plain: bytes, rule: str, pack_v0: bool = False) -> bytes:
    """The compressed stream of what a batch holds."""
    pack = streams.lz4_stream_of_v0 if codec == streams.LZ4 and pack_v0 else streams.STREAMS[codec]
    stream = pack(plain)
    match rule:
        case "bytes after the stream":
            junk = (bytes(1), bytes(3), bytes(4), b"\x1f\x8b", bytes(20), draw.randbytes(draw.randrange(1, 40)))
            return stream + draw.choice(junk)
        case "stream cut":
            return stream[: draw.randrange(len(stream))]
        case "stream twice":
            middle = draw.randrange(len(plain) + 1)
            return draw.choice((stream + stream, pack(plain[:middle]) + pack(plain[middle:])))
        case "stream flipped":
            return handmade.flip(stream, draw.randrange(len(stream)), draw.randrange(8))
        case "stream empty":
            return draw.choice((b"", pack(b"")))
        case _:
            return stream


def _message(draw: random.Random, magic: int, offset: int, rule: str) -> bytes:
    key, value = (draw.choice((None, b"", b"a", draw.randbytes(9))) for _ in range(2))
    fields: dict[str, int | bytes] = {}
    length = {"message key length": key, "message value length": value}
    if rule in length:
        right = -1 if length[rule] is None else len(length[rule])
        fields["key_length" if "key" in rule else "value_length"] = _wrong(draw, right)
    if rule == "bytes after the value":
        fields["after"] = draw.randbytes(draw.randrange(1, 9))
    if rule == "message attributes":
        fields["attributes"] = draw.choice((1, 2, 3, 4, 5, 8, 16, 0x40))
    time = draw.choice(_LONGS) if rule == "message timestamp" else _TIME
    data = handmade.message(offset, key, value, magic=magic, timestamp=time, **fields)
    if rule == "message magic":
        other = draw.choice([each for each in (0, 1, 2, 3, 127) if each != magic])
        data = handmade.fix_message_crc(data[:16] + bytes([other]) + data[17:])
    if rule == "message size":
        data = handmade.patch(data, 8, struct.pack(">i", _wrong(draw, len(data) - 12, (-1, 0, 13, 14, 21, 22))))
    if rule == "message crc":
        data = handmade.flip(data, draw.randrange(12, 16), draw.randrange(8))
    return data


def _wrapper(draw: random.Random, magic: int, codec: int, rule: str) -> bytes:
    count = draw.randrange(1, 5)
    first = 0 if magic else AT
    wrong = (
        rule.removeprefix("inner ") if rule.startswith("inner message") or rule == "inner bytes after the value" else ""
    )
    inner = [_message(draw, magic, first + delta, wrong if delta == count // 2 else "") for delta in range(count)]
    at = count // 2
    if rule == "inner offset":
        inner[at] = struct.pack(">q", _wrong(draw, first + at, (-1, 0, 1, 2, 99, 100, 101, 1 << 40))) + inner[at][8:]
    if rule == "inner missing":
        del inner[draw.randrange(count)]
    if rule == "inner twice":
        inner.insert(at, inner[at])
    if rule == "inner reversed":
        inner = inner[::-1] if count > 1 else [*inner, *inner]
    plain = b"".join(inner)
    if rule == "inner cut":
        plain = plain[: -draw.randrange(1, len(inner[-1]))]
    value = None if rule == "wrapper null" else _packed(draw, codec, plain, rule, pack_v0=magic == 0)
    key = b"key" if rule == "wrapper key" else None
    attributes = codec
    if rule in ("wrapper attributes", "other codec"):
        attributes = draw.choice([other for other in (0, 1, 2, 3, 4, 5, codec | 8, codec | 16) if other != codec])
    time = draw.choice(_LONGS) if rule == "wrapper timestamp" else _TIME
    data = handmade.message(AT + count - 1, key, value, magic=magic, timestamp=time, attributes=attributes)
    if rule == "wrapper size":
        data = handmade.patch(data, 8, struct.pack(">i", _wrong(draw, len(data) - 12, (-1, 0, 13, 14, 21, 22))))
    return handmade.flip(data, draw.randrange(12, 16), draw.randrange(8)) if rule == "wrapper crc" else data
