"""Names of record headers that are not UTF-8: legal in Kafka, and no doubt for the kernels where rows can have them."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from logcore.columns.decoding import compiled
from logcore.columns.decoding.compiled import CompiledLane
from logcore.columns.decoding.line_buffers import LineBuffers, TextPool
from logcore.columns.decoding.line_forms import LineForm, LineFormat
from logcore.columns.engines import Engine, decode_segment
from logcore.columns.wanted import EVERYTHING, Place, Wanted
from logcore.records.model import DEFAULT_LIMITS
from tests import handmade
from tests.fuzz.engines_compared import disagreeing
from tests.unit.logcore.columns.test_checked import agreed

pytestmark = pytest.mark.slow

PLACE = Place("orders", 3, "l", "s")
DATA = handmade.batch(
    [
        handmade.record(0, headers=[(b"\xff\xfe", b"1"), (b"name", None)]),
        handmade.record(1, headers=[(b"name", b"2")]),
        handmade.record(2),
        handmade.record(3, headers=[("ключ".encode(), b""), (b"a\xed\xa0\x80b", b"3"), (b"", b"4")]),
    ]
)
HEADERS = [
    [{"key": "\ufffd\ufffd", "value": b"1"}, {"key": "name", "value": None}],
    [{"key": "name", "value": b"2"}],
    None,
    [{"key": "ключ", "value": b""}, {"key": "a\ufffdb", "value": b"3"}, {"key": "", "value": b"4"}],
]
RAW = [[b"\xff\xfe", b"name"], None, None, ["ключ".encode(), b"a\xed\xa0\x80b", b""]]


def by_kernels(data: bytes, wanted: Wanted = EVERYTHING) -> pa.Table:
    """The rows, none of which took the slow lane."""
    walk = decode_segment(data, place=PLACE, base_offset=0, sealed=True, wanted=wanted, engine=Engine.KERNELS)
    table = pa.Table.from_batches([each for each in walk if isinstance(each, pa.RecordBatch)], wanted.schema)
    table.validate(full=True)
    assert walk.careful_steps == 0
    return table


@pytest.mark.parametrize(
    "columns", [None, ("headers", "header_keys_raw"), ("headers",), ("header_keys_raw",), ("offset",)]
)
def test_the_kernels_give_the_text_and_the_bytes_of_every_name(columns: tuple[str, ...] | None) -> None:
    found = by_kernels(DATA, Wanted(columns=columns)).to_pydict()
    for name, expected in (("headers", HEADERS), ("header_keys_raw", RAW), ("offset", [0, 1, 2, 3])):
        assert found.get(name, expected) == expected
    assert columns is None or set(found) == set(columns)


def test_only_wanted_rows_count() -> None:
    assert by_kernels(DATA, Wanted(visible=((1, 3),)))["header_keys_raw"].to_pylist() == [None, None]
    found = by_kernels(DATA, Wanted(header=(b"\xff\xfe", None)))
    assert found["header_keys_raw"].to_pylist() == RAW[:1]


def test_a_damaged_batch_leaves_no_trace_in_the_rows_before_it() -> None:
    good = handmade.batch([handmade.record(0, headers=[(b"name", b"1")])])
    damaged = handmade.batch(
        [handmade.record(0, headers=[(b"\xff", b"2")]), handmade.record(1, header_count=3)], base_offset=1
    )
    assert disagreeing(good + damaged, 0) == []


def test_a_check_counts_such_names_in_the_batch_s_row() -> None:
    slow, in_tables = agreed(DATA)
    assert in_tables == 1
    assert [(each.rule, each.message) for each in slow.findings] == [
        ("header-name-not-utf8", "2 names of record headers are not UTF-8")
    ]


def lines(data: bytes, form: LineForm) -> tuple[bytes, int]:
    """The lines of the kernels before their first doubt, and its position."""
    output = LineBuffers(PLACE, TextPool(), form)
    lane: CompiledLane[list[memoryview]] = CompiledLane(data, 99, EVERYTHING, DEFAULT_LIMITS, 0, output)
    return b"".join(bytes(piece) for pieces in lane.rows() for piece in pieces), lane.position


def test_text_shows_the_bytes_in_hex() -> None:
    text, position = lines(DATA, LineForm(LineFormat.TEXT))
    assert position == len(DATA)
    assert text.decode().splitlines()[0].endswith('headers 0xfffe="1" "name"=null')
    assert text.decode().splitlines()[3].endswith('headers "ключ"="" 0x61eda08062="3" ""="4"')


def test_lines_of_json_are_left_to_the_slow_lane() -> None:
    assert lines(DATA, LineForm(LineFormat.JSONL)) == (b"", 0)


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("row_limit", [1 << 18, 2])
def test_any_names_are_those_of_the_reference(seed: int, row_limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "ROW_LIMIT", row_limit)
    draw = random.Random(seed)
    names = [b"", b"name", "é".encode(), b"\xff", b"\xed\xa0\x80", b"\xc3", draw.randbytes(9)]
    data = b""
    for number in range(draw.randrange(1, 6)):
        records = [
            handmade.record(
                delta,
                draw.choice([b"k", b"j", None]),
                headers=[(draw.choice(names), draw.choice([None, b"", b"x"])) for _ in range(draw.randrange(3))],
                header_count=9 if draw.random() < 0.1 else None,
            )
            for delta in range(4)
        ]
        data += handmade.batch(records, base_offset=4 * number)
    for wanted in (EVERYTHING, Wanted(key=b"k"), Wanted(columns=("header_keys_raw",)), Wanted(header=(b"\xff", None))):
        assert disagreeing(data, 0, wanted=wanted) == []
    agreed(data)
