"""What kernels and the reference give for the same bytes, and records that are damaged."""

from typing import Any

import pyarrow as pa

from logcore.columns.engines import Engine
from logcore.segments.scanning.scan import Stretch
from tests import handmade
from tests.unit.logcore.columns.decoded_rows import decoded


def agreed(data: bytes, **how: Any) -> tuple[pa.Table, list[Stretch], int]:
    """What the kernels give, which is what the reference gives."""
    rows, stretches, asked = decoded(data, **how)
    expected, expected_stretches, _ = decoded(data, Engine.REFERENCE, **how)
    assert rows.equals(expected)
    assert stretches == expected_stretches
    return rows, stretches, asked


RECORD = handmade.record(0, b"key", b"value", headers=[(b"h", b"c")])

BODY = RECORD[1:]


def of_body(body: bytes) -> bytes:
    return handmade.varint(len(body)) + body


def injured_records() -> dict[str, bytes]:
    good = [handmade.record(at, b"key%d" % at, b"value", headers=[(b"h", b"c")]) for at in range(4)]
    return {
        "one fewer than counted": handmade.batch(good, count=5, last_offset_delta=4),
        "one more than counted": handmade.batch(good, count=3),
        "offset falls": handmade.batch([good[1], good[0]]),
        "offset twice": handmade.batch([good[0], good[0]]),
        "offset beyond the batch": handmade.batch([good[0], good[3]]),
        "offset below the batch": handmade.batch([handmade.record(-1), good[0]]),
        "length too small": handmade.batch([good[0], handmade.record(1, length=9), good[2]]),
        "length too great": handmade.batch([good[0], handmade.record(1, length=40), good[2]]),
        "length zero": handmade.batch([good[0], b"\x00", good[2]]),
        "length negative": handmade.batch([good[0], handmade.varint(-5) + good[1]]),
        "length very negative": handmade.batch([handmade.varint(-(1 << 31)) + good[0], good[1], good[2]]),
        "length of six bytes": handmade.batch([good[0], b"\xff" * 6 + good[1]]),
        "key beyond the record": handmade.batch([good[0], of_body(BODY[:3] + handmade.varint(99) + BODY[4:])]),
        "key beyond anything": handmade.batch([good[0], of_body(BODY[:3] + handmade.varint(2**31 - 1) + BODY[4:])]),
        "header count negative": handmade.batch([handmade.record(0, header_count=-1)]),
        "header count too great": handmade.batch([handmade.record(0, header_count=2**31 - 1)]),
        "header name null": handmade.batch([handmade.record(0, headers=[(None, b"c")])]),
        "header missing": handmade.batch([handmade.record(0, headers=[(b"a", b"c")], header_count=2)]),
        "header uncounted": handmade.batch([handmade.record(0, headers=[(b"a", b"c")], header_count=0)]),
        "bytes behind": handmade.batch([*good, b"\x00"], count=4, last_offset_delta=3),
        "checksum": handmade.batch(good, crc=1),
        "count negative": handmade.batch(good, count=-1),
        "count beyond the span": handmade.batch(good, last_offset_delta=2),
        "reserved codec": handmade.batch(good, attributes=5),
        "no stream": handmade.batch(body=b"", count=1, attributes=handmade.LZ4),
        "broken stream": handmade.batch(body=b"\x00" * 40, count=1, attributes=handmade.GZIP),
        "too many for the stream": handmade.batch(
            body=handmade.stored_gzip(good[0]), count=1 << 30, last_offset_delta=1 << 30, attributes=handmade.GZIP
        ),
    }
