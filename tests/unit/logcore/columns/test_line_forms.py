"""Lines for people and of JSON that kernels write: to the byte what plain Python makes of the same record."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from logcore.columns.decoding import line_buffers
from logcore.columns.decoding.compiled import CompiledLane
from logcore.columns.decoding.line_buffers import LineBuffers, TextPool
from logcore.columns.decoding.line_forms import LineForm, LineFormat
from logcore.columns.wanted import Place, Wanted
from logcore.records.model import DEFAULT_LIMITS
from tests import handmade
from tests.terminal_escapes import json_escaped

pytestmark = pytest.mark.slow

Bytes = bytes | None
Row = tuple[int, Bytes, Bytes, Sequence[tuple[bytes, Bytes]]]
PLACE = Place("orders", 3, "l", "s")
TEXT, JSONL = (LineForm(form) for form in (LineFormat.TEXT, LineFormat.JSONL))


def texts(data: bytes, form: LineForm, *, place: Place = PLACE, left: int | None = None, **wanted: bool) -> str:
    """All lines of a segment that the kernels take whole."""
    output = LineBuffers(place, TextPool(), form, left)
    lane: CompiledLane[list[memoryview]] = CompiledLane(
        data, (1 << 63) - 2, Wanted(**wanted), DEFAULT_LIMITS, 0, output
    )
    found = b"".join(bytes(piece) for pieces in lane.rows() for piece in pieces)
    assert lane.position == len(data)
    return found.decode()


def time_of(timestamp: int) -> str:
    if timestamp == -1:
        return "no-timestamp"
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp)
    except OverflowError:
        return str(timestamp)
    date = f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}"
    return f"{date}T{moment.hour:02d}:{moment.minute:02d}:{moment.second:02d}.{moment.microsecond // 1000:03d}Z"


def readable(content: Bytes) -> str:
    if content is None:
        return "null"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "0x" + content.hex()
    if not all(char.isprintable() for char in text):
        return "0x" + content.hex()
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def text_line(row: Row, offset: int, kind: str = "CreateTime") -> str:
    timestamp, key, value, headers = row
    line = f"orders-3 offset {offset}  {time_of(timestamp)}  {kind}  key {readable(key)}  value {readable(value)}"
    if headers:
        line += "  headers " + " ".join(f"{readable(name)}={readable(content)}" for name, content in headers)
    return line + "\n"


def packed(content: Bytes) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def json_line(row: Row, offset: int) -> str:
    timestamp, key, value, headers = row
    fields: dict[str, object] = {"topic": "orders", "partition": 3, "offset": offset, "timestamp": timestamp}
    fields["timestamp_type"] = "CreateTime"
    for name, content in (("key", key), ("value", value)):
        try:
            fields[name] = None if content is None else content.decode()
        except UnicodeDecodeError:
            fields[f"{name}_base64"] = packed(content)
    fields["headers"] = [[name.decode(), packed(content)] for name, content in headers]
    return json_escaped(json.dumps(fields | {"leader_epoch": 0}, ensure_ascii=False, separators=(",", ":"))) + "\n"


def segment(rows: Sequence[Row], attributes: int = 0) -> bytes:
    records = [
        handmade.record(at, key, value, timestamp_delta=timestamp, headers=headers)
        for at, (timestamp, key, value, headers) in enumerate(rows)
    ]
    body = b"".join(records)
    return handmade.batch(
        base_timestamp=0,
        count=len(rows),
        last_offset_delta=len(rows) - 1,
        attributes=attributes,
        body=handmade.stored_gzip(body) if attributes else body,
    )


CONTENTS: list[Bytes] = [
    None,
    b"",
    *(bytes([char]) for char in range(256)),
    *(b"a" * at + bytes([char]) + b"b" * (9 - at) for at in range(10) for char in (0, 31, 32, 34, 92, 126, 127, 128)),
    *(b'"\\' * size for size in (1, 2, 3, 4, 5, 8, 100)),
    *(("ü" * size + "x").encode() for size in (1, 3, 4, 7)),
    *(char.encode() for char in "\u0080\u00a0\u00ad\u0378\u2028\u2029\ufeff\ufffd\uffff\ue000\U0001f600\U000e0001"),
    "ключ 鍵 \U0001f511".encode(),
    "ключ\n".encode(),
    b"caf\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xc0\x80",
    b'plain, "quoted"\r\n',
    b"one,two",
    b"line\nline",
    b"cr\rcr",
    bytes(range(256)) * 40,
]
NAMES = [each for each in CONTENTS if each is not None and is_utf8(each)]


@pytest.mark.parametrize("codec", [0, handmade.GZIP])
def test_keys_values_and_headers_of_any_bytes(codec: int) -> None:
    rows: list[Row] = [(at, key, CONTENTS[-at], []) for at, key in enumerate(CONTENTS)]
    rows += [(at, b"k", b"v", [(name, CONTENTS[-at]), (name, None)]) for at, name in enumerate(NAMES)]
    data = segment(rows, codec)
    assert texts(data, TEXT) == "".join(text_line(row, at) for at, row in enumerate(rows))
    as_text = LineForm(LineFormat.JSONL, as_text=True)
    assert texts(data, as_text) == "".join(json_line(row, at) for at, row in enumerate(rows))


@pytest.mark.long
def test_every_code_point_is_shown_as_text_or_in_hex() -> None:
    blocks = [[chr(point) for point in range(start, start + 4096)] for start in range(0, 0x30000, 4096)]
    contents = [each.encode() for block in blocks for each in block if not 0xD800 <= ord(each) <= 0xDFFF]
    rows: list[Row] = [(0, None, content, []) for content in contents]
    data = segment(rows, handmade.GZIP)
    assert texts(data, TEXT) == "".join(text_line(row, at) for at, row in enumerate(rows))


def test_contents_of_every_length_at_any_position() -> None:
    """Copies go in wide steps where there is room; at the end of the bytes there is none."""
    for size in range(130):
        content = bytes(97 + at % 26 for at in range(size))
        data = segment([(0, None, content, [])])
        assert texts(data, TEXT) == text_line((0, None, content, []), 0)
        data = segment([(0, content, b"\xff" + content, [(content, content)])])
        assert texts(data, TEXT) == text_line((0, content, b"\xff" + content, [(content, content)]), 0)


def test_times_of_all_years() -> None:
    draw = random.Random(5)
    first = -62_135_596_800_000
    stamps = [draw.randrange(first, 253_402_300_800_000) for _ in range(3000)]
    for year in (1, 4, 99, 100, 400, 999, 1000, 1600, 1899, 1900, 1970, 2000, 2024, 2100, 9996, 9999):
        for month, day in ((1, 1), (2, 28), (2, 29), (3, 1), (12, 31)):
            leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
            if (month, day) == (2, 29) and not leap:
                continue
            start = (datetime(year, month, day, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
                milliseconds=1
            )
            stamps += [start, start + 86_399_999]
    stamps += [-2, -1, 0, 1, first - 1, 253_402_300_799_999, 253_402_300_800_000, (1 << 63) - 1, -(1 << 63)]
    rows: list[Row] = [(stamp, None, b"", []) for stamp in stamps]
    data = segment(rows, handmade.GZIP)
    assert texts(data, TEXT) == "".join(text_line(row, at) for at, row in enumerate(rows))


def test_old_messages_append_time_and_no_leader_epoch() -> None:
    row: Row = (1000, b"k", b"v", [])
    cases: list[tuple[bytes, list[Row], int, str]] = [
        (handmade.message_v0(4, None, b"v"), [(-1, None, b"v", [])], 4, "NoTimestampType"),
        (handmade.wrapper_v1([5, 6]), [(1005, b"k", b"5", []), (1006, b"k", b"6", [])], 5, "CreateTime"),
        (handmade.wrapper_append_time([8], 77), [(77, b"k", b"8", [])], 8, "LogAppendTime"),
        (
            handmade.simple_batch(9, [(b"k", b"v")], attributes=handmade.LOG_APPEND_TIME, max_timestamp=5),
            [(5, b"k", b"v", [])],
            9,
            "LogAppendTime",
        ),
        (handmade.simple_batch(10, [(b"k", b"v")], leader_epoch=-1), [row], 10, "CreateTime"),
    ]
    for data, rows, offset, kind in cases:
        assert texts(data, TEXT) == "".join(text_line(each, offset + at, kind) for at, each in enumerate(rows))


def test_control_records_name_their_type() -> None:
    data = handmade.simple_batch(0, [(b"k", b"v")])
    data += handmade.marker(1, handmade.ABORT, producer_id=9) + handmade.marker(2, handmade.COMMIT, producer_id=9)
    data += handmade.message_v1(3, 1000, b"k", b"v")
    shown = {form: LineForm(form, with_control=True) for form in LineFormat}
    lines = texts(data, shown[LineFormat.TEXT], control=True).splitlines()
    assert [line.split("  ")[3] for line in lines] == ['key "k"', "ABORT", "COMMIT", 'key "k"']
    lines = texts(data, shown[LineFormat.JSONL], control=True).splitlines()
    assert [json.loads(line).get("control_type") for line in lines] == [None, "ABORT", "COMMIT", None]
    assert all(list(json.loads(line))[-1] == "control_type" for line in lines[1:3])
    assert len(texts(data, shown[LineFormat.TEXT]).splitlines()) == 2


@pytest.mark.parametrize("topic", ["t" * 34, "t" * 60, "t" * 249, 'a,"b"'])
def test_topics_of_any_length(topic: str) -> None:
    data = handmade.simple_batch(0, [(b"k", b"v")] * 3)
    place = Place(topic, 100, "l", "s")
    lines = texts(data, TEXT, place=place).splitlines()
    assert [line.split("  ")[0] for line in lines] == [f"{topic}-100 offset {at}" for at in range(3)]


@pytest.mark.parametrize("form", [TEXT, JSONL])
@pytest.mark.parametrize("left", [0, 1, 599, 600, 601, 5000])
def test_no_more_lines_than_are_left(form: LineForm, left: int) -> None:
    data = b"".join(handmade.simple_batch(start, [(b"key", b"v\n")] * 100) for start in range(0, 1000, 100))
    whole = texts(data, form)
    assert whole.startswith(texts(data, form, left=left))
    assert texts(data, form, left=left).count("orders") == min(left, 1000)


@pytest.mark.parametrize("form", [TEXT, LineForm(LineFormat.JSONL, as_text=True)])
def test_values_larger_than_the_first_buffer(form: LineForm) -> None:
    for value in (b"\x00" * 2_000_000, b'"' * 2_000_000):
        data = segment([(0, None, value, []), (0, None, b"v", [])], handmade.GZIP)
        first, second = texts(data, form).splitlines()
        assert len(first) > 2_000_000
        assert len(second) < 200


@pytest.mark.parametrize("form", [TEXT, JSONL])
def test_tables_stay_in_memory_after_a_cache_dropped_them(form: LineForm) -> None:
    """Two threads may make a table at once. The cache keeps that of one."""
    row: Row = (1234, "ключ".encode(), b"\xff\x00value", [(b"name", b"content")])
    data = segment([row] * 50)
    output = LineBuffers(PLACE, TextPool(), form)
    expected = texts(data, form)
    for rows in range(2):
        for table in (line_buffers.digit_pairs, line_buffers.hex_pairs, line_buffers.base64_couples):
            table.cache_clear()
        line_buffers.printable_bits.cache_clear()
        churned = [bytearray(b"@") * size for size in (200, 512, 4096, 8192, 16384, 139264) for _ in range(20)]
        lane: CompiledLane[list[memoryview]] = CompiledLane(data, 99, Wanted(), DEFAULT_LIMITS, 0, output)
        found = b"".join(bytes(piece) for pieces in lane.rows() for piece in pieces)
        assert (rows, found.decode()) == (rows, expected)
        del churned
