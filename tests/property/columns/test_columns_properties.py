"""For all bytes: columns of the one schema, or exactly our family of errors; never one of Arrow's."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from logcore.columns.engines import Engine, decode_segment
from logcore.columns.records_columns import RECORDS_SCHEMA
from logcore.columns.wanted import Place, Wanted
from logcore.records.record import DEFAULT_LIMITS, Limits
from logcore.segments.scanning.scan import Stretch
from logcore.texts import java_text, utf8_text
from tests import handmade
from tests.property.strategies import batch_bytes, injured_batch_bytes
from tests.sampling import examples

stable = settings(deadline=None, derandomize=True, max_examples=examples(200))
SMALL = Limits(decoded_batch_bytes=1 << 16, headers_per_record=50)


def read(
    data: bytes, visible: list[tuple[int, int]] | None = None, limits: Limits = DEFAULT_LIMITS
) -> list[pa.RecordBatch | Stretch]:
    walk = decode_segment(
        data,
        place=Place("t", 0, "id.0", "s"),
        base_offset=0,
        sealed=True,
        wanted=Wanted(visible=None if visible is None else tuple(visible)),
        limits=limits,
        engine=Engine.REFERENCE,
    )
    return list(walk)


def rows(data: bytes, visible: list[tuple[int, int]] | None = None) -> list[dict[str, object]]:
    return [row for item in read(data, visible) if isinstance(item, pa.RecordBatch) for row in item.to_pylist()]


@stable
@given(injured_batch_bytes())
def test_an_injured_batch_gives_columns_or_is_refused(data: bytes) -> None:
    for item in read(handmade.fix_crc(data) if len(data) > 61 else data, limits=SMALL):
        if isinstance(item, pa.RecordBatch):
            assert item.schema.equals(RECORDS_SCHEMA)
            item.validate(full=True)


@stable
@given(batch_bytes(), st.lists(st.integers(0, 6), min_size=2, max_size=6))
def test_visible_ranges_choose_rows_and_change_none(data: bytes, edges: list[int]) -> None:
    base_offset = int.from_bytes(data[:8], "big")
    edges = sorted(base_offset + edge for edge in edges)
    visible = list(zip(edges[::2], edges[1::2], strict=False))
    everything, chosen = rows(data), rows(data, visible)
    assert chosen == [row for row in everything if any(a <= row["offset"] < b for a, b in visible)]


@stable
@given(st.text(max_size=20))
def test_names_that_are_text_come_back_as_they_were(text: str) -> None:
    assert utf8_text(text.encode()) == text
    assert java_text(text.encode()) == text


@stable
@given(st.binary(max_size=12))
def test_any_name_decodes_to_text_that_arrow_takes(name: bytes) -> None:
    columns = java_text(name)
    assert pa.array([columns], pa.string())[0].as_py() == columns
    assert ("\N{REPLACEMENT CHARACTER}" in columns) or columns.encode("utf-8") == name
    if utf8_text(name) is None:
        data = handmade.batch([handmade.record(0, headers=[(name, None)])])
        assert [row["header_keys_raw"] for row in rows(data)] == [[name]]
