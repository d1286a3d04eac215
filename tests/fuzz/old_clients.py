"""Logs that brokers stored and that a strict reader would refuse, with what is in them as it was packed.

A log is a function of (seed, number) alone. Its batches are of these kinds, mixed with ordinary ones:

    short       v2 batches of clients that left the last offset delta 0 or too small; the broker set the base offset so
                that base offset + last offset delta is the last offset that it counted
    overlap     compressed message sets that begin below the end of the one before (KAFKA-3919)
    junk        bytes after the end of a compressed stream
"""

from __future__ import annotations

import random
from typing import NamedTuple

from tests import handmade
from tests.fuzz import streams

KINDS = ("short", "overlap", "junk")
_TIME = 1_600_000_000_000


class Packed(NamedTuple):
    """A record as it was packed.

    counted: its offset in the log: as the broker counted it. read: the offset that Kafka's readers give it.
    """

    counted: int
    read: int
    key: bytes
    value: bytes


class OldLog(NamedTuple):
    """The bytes of a segment of base 0, and what a consumer gets of it, in order. `warned` batches of it are odd."""

    kind: str
    data: bytes
    records: tuple[Packed, ...]
    end: int
    warned: int


def old_log(seed: int, number: int) -> OldLog:
    """That log; the same for ever."""
    draw = random.Random(f"{seed}:{number}")
    kind = KINDS[number % len(KINDS)]
    make = {"short": _short, "overlap": _overlap, "junk": _junk}[kind]
    magic = 2 if kind == "short" else draw.randrange(2) if kind == "overlap" else draw.randrange(3)
    data, records, end, warned = b"", list[Packed](), 0, 0
    for _ in range(draw.randrange(2, 9)):
        is_odd = draw.random() < 0.7
        batch, found, is_warned = make(draw, magic, end, is_odd)
        data += batch
        records += found
        end = found[-1].counted + 1
        warned += is_warned
    return OldLog(kind, data, tuple(records), end, warned)


def _content(draw: random.Random, count: int) -> list[tuple[bytes, bytes]]:
    return [(b"k%d" % draw.randrange(9), draw.randbytes(draw.randrange(20))) for _ in range(count)]


def _v2(content: list[tuple[bytes, bytes]], codec: int, junk: bytes = b"", **fields: int) -> bytes:
    plain = b"".join(handmade.record(delta, key, value) for delta, (key, value) in enumerate(content))
    stream = streams.STREAMS[codec](plain) + junk
    return handmade.batch(
        body=stream, count=len(content), attributes=codec, base_timestamp=_TIME, max_timestamp=_TIME, **fields
    )


def _short(draw: random.Random, magic: int, end: int, is_odd: bool) -> tuple[bytes, list[Packed], bool]:
    content = _content(draw, draw.randrange(1, 8))
    right = len(content) - 1
    delta = draw.choice((0, 0, draw.randrange(right + 1))) if is_odd else right
    base = end + right - delta
    data = _v2(content, draw.randrange(5), base_offset=base, last_offset_delta=delta)
    records = [Packed(end + at, base + at, key, value) for at, (key, value) in enumerate(content)]
    return data, records, delta < right


def _wrapper(
    draw: random.Random, magic: int, first: int, content: list[tuple[bytes, bytes]], codec: int, junk: bytes = b""
) -> bytes:
    inside = 0 if magic else first
    plain = b"".join(
        handmade.message(inside + at, key, value, magic=magic, timestamp=_TIME)
        for at, (key, value) in enumerate(content)
    )
    is_old_lz4 = codec == streams.LZ4 and magic == 0
    pack = streams.lz4_stream_of_v0 if is_old_lz4 else streams.STREAMS[codec]
    last = first + len(content) - 1
    return handmade.message(last, None, pack(plain) + junk, magic=magic, timestamp=_TIME, attributes=codec)


def _overlap(draw: random.Random, magic: int, end: int, is_odd: bool) -> tuple[bytes, list[Packed], bool]:
    below = draw.randrange(1, end + 1) if is_odd and end else 0
    content = _content(draw, below + draw.randrange(1, 6))
    first = end - below
    data = _wrapper(draw, magic, first, content, draw.randrange(1, 4))
    records = [Packed(first + at, first + at, key, value) for at, (key, value) in enumerate(content)]
    return data, records[below:], below > 0


def _junk(draw: random.Random, magic: int, end: int, is_odd: bool) -> tuple[bytes, list[Packed], bool]:
    content = _content(draw, draw.randrange(1, 6))
    codec = draw.choice((streams.GZIP, streams.GZIP, streams.SNAPPY, streams.LZ4))
    most = 3 if codec == streams.SNAPPY else 40
    junk = draw.choice((bytes(draw.randrange(1, most + 1)), draw.randbytes(draw.randrange(1, most + 1))))
    junk = b"" if not is_odd else b"x" + junk[1:] if codec == streams.GZIP else junk
    if magic == 2:
        data = _v2(content, codec, junk, base_offset=end, last_offset_delta=len(content) - 1)
    else:
        data = _wrapper(draw, magic, end, content, codec, junk)
    return data, [Packed(end + at, end + at, key, value) for at, (key, value) in enumerate(content)], bool(junk)
