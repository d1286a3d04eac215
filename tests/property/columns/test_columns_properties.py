"""For all bytes: columns of the one schema, or exactly our family of errors; never one of Arrow's."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from logcore.columns.reference import decode, decode_batches, decode_header_name, is_utf8
from logcore.columns.schema import RECORDS_SCHEMA
from logcore.errors import LogError
from logcore.records.batch import read_header
from logcore.records.record import Limits
from tests import handmade
from tests.property.strategies import batch_bytes, injured_batch_bytes

stable = settings(deadline=None, derandomize=True, max_examples=200)
SMALL = Limits(decoded_batch_bytes=1 << 16, headers_per_record=50)
PLACE = {"topic": "t", "partition": 0, "log_id": "id.0", "segment_id": "s"}


@stable
@given(injured_batch_bytes())
def test_an_injured_batch_gives_columns_or_is_refused(data: bytes) -> None:
    try:
        columns = decode(data, 0, read_header(data), **PLACE, limits=SMALL, verify_crc=False)
    except LogError:
        return
    assert columns.schema.equals(RECORDS_SCHEMA)
    columns.validate(full=True)


@stable
@given(st.lists(batch_bytes(), max_size=5), st.integers(1, 2000))
def test_pieces_of_any_size_hold_the_same_rows(batches: list[bytes], chunk_bytes: int) -> None:
    data, spans = b"".join(batches), []
    for batch in batches:
        position = sum(header.size for _, header in spans)
        spans.append((position, read_header(batch)))
    pieces = list(decode_batches(data, spans, **PLACE, chunk_bytes=chunk_bytes))
    singles = [decode(data, position, header, **PLACE) for position, header in spans]
    assert all(piece.num_rows for piece in pieces)
    together = pa.Table.from_batches(pieces, RECORDS_SCHEMA).combine_chunks()
    assert together.equals(pa.Table.from_batches(singles, RECORDS_SCHEMA).combine_chunks())


@stable
@given(batch_bytes(), st.lists(st.integers(0, 6), min_size=2, max_size=6))
def test_visible_ranges_choose_rows_and_change_none(data: bytes, edges: list[int]) -> None:
    header = read_header(data)
    edges = sorted(header.base_offset + edge for edge in edges)
    visible = list(zip(edges[::2], edges[1::2], strict=False))
    everything = decode(data, 0, header, **PLACE).to_pylist()
    chosen = decode(data, 0, header, **PLACE, visible=visible).to_pylist()
    assert chosen == [row for row in everything if any(a <= row["offset"] < b for a, b in visible)]


@stable
@given(st.text(max_size=20))
def test_names_that_are_text_come_back_as_they_were(text: str) -> None:
    assert is_utf8(text.encode())
    assert decode_header_name(text.encode()) == text


@stable
@given(st.binary(max_size=12))
def test_any_name_decodes_to_text_that_arrow_takes(name: bytes) -> None:
    columns = decode_header_name(name)
    assert pa.array([columns], pa.string())[0].as_py() == columns
    assert ("\N{REPLACEMENT CHARACTER}" in columns) or columns.encode("utf-8") == name
    if not is_utf8(name):
        data = handmade.batch([handmade.record(0, headers=[(name, None)])])
        assert decode(data, 0, read_header(data), **PLACE)["header_keys_raw"].to_pylist() == [[name]]
