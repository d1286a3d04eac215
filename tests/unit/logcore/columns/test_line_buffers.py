"""Lines of JSON that a kernel writes: what Python's encoder makes of the same record, without what terminals obey."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import crc32c
import pytest

from logcore.columns.decoding.compiled import CompiledLane
from logcore.columns.decoding.line_buffers import LineBuffers, TextPool
from logcore.columns.wanted import EVERYTHING, Place
from logcore.records.model import DEFAULT_LIMITS
from tests import handmade
from tests.terminal_escapes import json_escaped

pytestmark = pytest.mark.slow

PLACE = Place("orders", 3, "l", "s")
CREATE, APPEND, NONE = "CreateTime", "LogAppendTime", "NoTimestampType"


def texts(data: bytes, *, place: Place = PLACE, pool: TextPool | None = None) -> bytes:
    """All lines of a segment that the kernels take whole."""
    pool = pool or TextPool()
    output = LineBuffers(place, pool)
    lane: CompiledLane[list[memoryview]] = CompiledLane(data, (1 << 63) - 2, EVERYTHING, DEFAULT_LIMITS, 0, output)
    found = []
    for pieces in lane.rows():
        for piece in pieces:
            found.append(bytes(piece))
            pool.give(piece)
    assert lane.position == len(data)
    return b"".join(found)


def line(
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] = (),
    *,
    kind: str = CREATE,
    epoch: int | None = 0,
    topic: str = "orders",
    partition: int = 3,
) -> bytes:
    fields: dict[str, Any] = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp,
        "timestamp_type": kind,
        "key": packed(key),
        "value": packed(value),
        "headers": [[name, packed(content)] for name, content in headers],
        "leader_epoch": epoch,
    }
    return json_escaped(json.dumps(fields, ensure_ascii=False, separators=(",", ":"))).encode() + b"\n"


def packed(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def test_a_line_of_every_kind_of_record() -> None:
    data = (
        handmade.batch(
            [handmade.record(0, None, b""), handmade.record(1, b"", None, timestamp_delta=7)], leader_epoch=9
        )
        + handmade.simple_batch(2, [(b"k", b"v")], attributes=handmade.LOG_APPEND_TIME, max_timestamp=5)
        + handmade.simple_batch(3, [(b"k", b"v")], leader_epoch=-1)
    )
    assert texts(data) == (
        line(0, 1000, None, b"", epoch=9)
        + line(1, 1007, b"", None, epoch=9)
        + line(2, 5, b"k", b"v", kind=APPEND)
        + line(3, 1000, b"k", b"v", epoch=None)
    )


def test_lines_of_old_messages() -> None:
    assert texts(handmade.message_v0(4, None, b"v")) == line(4, -1, None, b"v", kind=NONE, epoch=None)
    assert texts(handmade.wrapper_v1([5, 7])) == (
        line(5, 1005, b"k", b"5", epoch=None) + line(7, 1007, b"k", b"7", epoch=None)
    )
    assert texts(handmade.wrapper_append_time([5], 77)) == line(5, 77, b"k", b"5", kind=APPEND, epoch=None)


NAMES = [
    "",
    '"',
    "\\",
    '\\"\\\\"',
    *(chr(code) for code in range(0x21)),
    "".join(chr(code) for code in range(0x80)),
    "\x7f",
    "\x80\x9f\xa0",
    "ключ",
    "\u2028\u2029\ufeff\ufffd\uffff",
    "".join(chr(code) for code in range(0x80, 0x800)),
    *("".join(chr(code) for code in range(first, first + 0x100)) for first in (0x1F00, 0x2000, 0x2100, 0xFE00, 0xFF00)),
    "\U0001f600\U0010ffff",
    "a" * 31 + "\n",
    "b" * 32 + '"',
    "c" * 1000,
    "\x00" * 1000,
    "\U0001f600" * 300,
]


def test_header_names_of_any_characters() -> None:
    headers = [(name.encode(), b"%d" % at) for at, name in enumerate(NAMES)]
    data = handmade.batch(
        [handmade.record(0, headers=headers), handmade.record(1, headers=headers[::-1]), handmade.record(2)]
    )
    named = [(name.decode(), content) for name, content in headers]
    assert texts(data) == (
        line(0, 1000, b"k", b"v", named) + line(1, 1000, b"k", b"v", named[::-1]) + line(2, 1000, b"k", b"v")
    )
    for name in NAMES:
        data = handmade.batch([handmade.record(0, headers=[(name.encode(), None)])])
        assert texts(data) == line(0, 1000, b"k", b"v", [(name, None)])


def int64s() -> Iterator[int]:
    for digits in range(19):
        yield from (10**digits - 1, 10**digits, -(10**digits), 1 - 10**digits)
    yield from ((1 << 63) - 1, -(1 << 63), 1 - (1 << 63))


def test_timestamps_of_any_length() -> None:
    for timestamp in int64s():
        data = handmade.batch([handmade.record(0)], base_timestamp=timestamp)
        assert texts(data) == line(0, timestamp, b"k", b"v")


def test_offsets_epochs_and_partitions_of_any_length() -> None:
    for offset in int64s():
        if 0 <= offset < (1 << 63) - 1:
            data = handmade.simple_batch(offset, [(None, None)])
            assert texts(data) == line(offset, 1000, None, None)
    for epoch in (0, 9, 10, 99, 100, 65_536, (1 << 31) - 1):
        place = Place("t", epoch, "l", "s")
        data = handmade.simple_batch(0, [(None, None)], leader_epoch=epoch)
        assert texts(data, place=place) == line(0, 1000, None, None, epoch=epoch, topic="t", partition=epoch)


@pytest.mark.parametrize("codec", [0, handmade.GZIP])
@pytest.mark.parametrize("column", ["key", "value", "header name", "header"])
def test_contents_of_every_length_to_300_at_any_position(column: str, codec: int) -> None:
    """Copies go in wide steps where there is room; at the end of the bytes there is none."""
    expected, records = b"", []
    for size in range(301):
        content = bytes((size + 7 * at) % 251 for at in range(size))
        name = "".join(chr(97 + (size + at) % 26) for at in range(size))
        if column == "key":
            records.append(handmade.record(size, content, None))
            expected += line(size, 1000, content, None)
        elif column == "value":
            records.append(handmade.record(size, None, content))
            expected += line(size, 1000, None, content)
        elif column == "header":
            records.append(handmade.record(size, None, None, headers=[(b"", content)]))
            expected += line(size, 1000, None, None, [("", content)])
        else:
            records.append(handmade.record(size, None, None, headers=[(name.encode(), None)]))
            expected += line(size, 1000, None, None, [(name, None)])
    body = b"".join(records) if codec == 0 else handmade.stored_gzip(b"".join(records))
    data = handmade.batch(body=body, count=301, last_offset_delta=300, attributes=codec)
    assert texts(data) == expected
    for size in range(0, 301, 7):
        alone = records[size]
        data = handmade.batch(
            body=alone if codec == 0 else handmade.stored_gzip(alone), count=1, attributes=codec, last_offset_delta=300
        )
        assert texts(data) == expected.splitlines(keepends=True)[size]


@pytest.mark.parametrize("topic", ["t", "t" * 6, "t" * 20, "t" * 30, "t" * 34, "t" * 35, "t" * 36, "t" * 249])
def test_topics_of_any_length(topic: str) -> None:
    data = handmade.simple_batch(0, [(b"k", b"v")] * 3)
    place = Place(topic, 100, "l", "s")
    expected = [line(at, 1000, b"k", b"v", topic=topic, partition=100) for at in range(3)]
    assert texts(data, place=place) == b"".join(expected)


@pytest.mark.long
def test_values_of_ten_million_bytes() -> None:
    value = bytes(range(256)) * 40_000
    record = handmade.record(0, b"k", value)
    data = handmade.batch(body=handmade.stored_lz4(record), count=1, attributes=handmade.LZ4, crc=0)
    data = handmade.patch(data, 17, struct.pack(">I", crc32c.crc32c(data[21:])))
    data += handmade.simple_batch(1, [(b"k", b"v")])
    assert texts(data) == line(0, 1000, b"k", value) + line(1, 1000, b"k", b"v")


def test_more_lines_than_fit_one_buffer() -> None:
    rows = [(b"key", b"x" * (at % 100)) for at in range(20_000)]
    data, expected = b"", []
    for start in range(0, 20_000, 500):
        data += handmade.simple_batch(start, rows[start : start + 500])
        expected += [line(start + at, 1000, *row) for at, row in enumerate(rows[start : start + 500])]
    assert texts(data) == b"".join(expected)


def test_texts_that_were_given_back_are_used_again_and_others_are_left_alone() -> None:
    pool = TextPool()
    first = handmade.simple_batch(0, [(b"k", b"long value " * 100)])
    second = handmade.simple_batch(0, [(b"k", b"short")])
    assert texts(first, pool=pool) == line(0, 1000, b"k", b"long value " * 100)
    assert texts(second, pool=pool) == line(0, 1000, b"k", b"short")
    output = LineBuffers(PLACE, pool)
    held = []
    for data in (first, second, first):
        held += next(iter(CompiledLane(data, 9, EVERYTHING, DEFAULT_LIMITS, 0, output).rows()))
    assert [bytes(each) for each in held] == [texts(data) for data in (first, second, first)]


def test_headers_of_one_group_do_not_reach_into_the_next() -> None:
    with_headers = handmade.batch([handmade.record(0, headers=[(b"h", b"c")])])
    data = with_headers + handmade.message_v1(1, 5, b"k", b"v") + handmade.simple_batch(2, [(b"k", b"v")])
    assert texts(data) == (
        line(0, 1000, b"k", b"v", [("h", b"c")]) + line(1, 5, b"k", b"v", epoch=None) + line(2, 1000, b"k", b"v")
    )
