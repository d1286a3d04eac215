"""The row digest depends on every value and on nothing else: not on chunks, slices, dictionaries or hidden bytes."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xxhash import xxh3_128

from logcore.columns.records_columns import RECORDS_SCHEMA
from spark_jobs.lake.delta.files import row_digest
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import TABLES

SCHEMA = pa.schema(
    [
        *(field for field in RECORDS_SCHEMA if field.name != "topic"),
        pa.field("published", pa.bool_()),
        pa.field("text", pa.large_string()),
    ]
)

HEADER = st.fixed_dictionaries({"key": st.sampled_from(["", "a", "trace"]), "value": st.none() | st.binary(max_size=3)})
SMALL = st.integers(-2, 2)
MOMENT = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 1, 1), timezones=st.just(datetime.UTC))
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "partition": SMALL,
    "offset": st.integers(-(2**63), 2**63 - 1),
    "timestamp": MOMENT,
    "timestampType": SMALL,
    "key": st.binary(max_size=4),
    "value": st.binary(max_size=20),
    "headers": st.lists(st.none() | HEADER, max_size=3),
    "timestamp_ms": SMALL,
    "leader_epoch": SMALL,
    "log_id": st.sampled_from(["", "a", "b"]),
    "segment_id": st.text(max_size=3),
    "position": SMALL,
    "header_keys_raw": st.lists(st.none() | st.binary(max_size=3), max_size=3),
    "published": st.booleans(),
    "text": st.text(max_size=3),
}
ROW = st.fixed_dictionaries({name: st.none() | cells for name, cells in CELLS.items()})
ROWS = st.lists(ROW, max_size=12) | st.tuples(ROW, st.integers(1, 9)).map(lambda pair: [pair[0]] * pair[1])


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def digest(*batches: pa.RecordBatch) -> str:
    return row_digest.of_rows(batches, SCHEMA)


def as_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        column.dictionary_encode() if pa.types.is_string(column.type) or pa.types.is_binary(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def as_words_of_two_copies(column: pa.Array) -> pa.Array:
    """A dictionary that has every word twice and a null word, used by turns."""
    plain = column.dictionary_encode()
    words = pa.concat_arrays([plain.dictionary, plain.dictionary, pa.nulls(1, pa.string())])
    codes = [
        len(words) - 1 if code is None else code + (row % 2) * len(plain.dictionary)
        for row, code in enumerate(plain.indices.to_pylist())
    ]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), words)


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first text makes Hypothesis read its table of characters
@given(ROWS, ROWS, st.lists(st.integers(0, 12), max_size=4), st.booleans())
def test_chunks_slices_and_dictionaries_do_not_change_the_digest(rows, around, cuts, encoded):
    expected = digest(batch_of(rows))
    sliced = batch_of([*around, *rows, *around]).slice(len(around), len(rows))
    if encoded:
        whole = as_dictionaries(batch_of([*around, *rows, *around]))
        sliced = whole.slice(len(around), len(rows))
    bounds = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    parts = [sliced.slice(start, end - start) for start, end in itertools.pairwise(bounds)]
    assert digest(*parts) == expected


@given(ROWS)
def test_a_dictionary_with_words_twice_and_a_null_word_counts_as_its_values(rows):
    batch = batch_of(rows)
    at = batch.schema.names.index("log_id")
    assert digest(batch.set_column(at, "log_id", as_words_of_two_copies(batch.column("log_id")))) == digest(batch)


@given(st.lists(ROW, min_size=1, max_size=8), st.data())
def test_a_changed_cell_changes_the_digest(rows, data):
    changed = [dict(row) for row in rows]
    row, name = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.sampled_from(sorted(CELLS)))
    changed[row][name] = data.draw((st.none() | CELLS[name]).filter(lambda value: value != rows[row][name]))
    assert digest(batch_of(changed)) != digest(batch_of(rows))


@given(st.lists(ROW, min_size=1, max_size=8), st.data())
def test_a_row_that_is_gone_doubled_or_moved_changes_the_digest(rows, data):
    expected = digest(batch_of(rows))
    row = data.draw(st.integers(0, len(rows) - 1))
    assert digest(batch_of([*rows[:row], *rows[row + 1 :]])) != expected
    assert digest(batch_of([*rows[: row + 1], *rows[row:]])) != expected
    turned = rows[::-1]
    assert (digest(batch_of(turned)) == expected) == (turned == rows)


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.bool_(), pa.string(), pa.binary(), pa.list_(pa.int32())])
def test_what_lies_under_a_null_does_not_change_the_digest(kind):
    """Readers may leave anything in the place of a null."""
    values = {pa.int32(): [1, 7, 2], pa.int64(): [1, 7, 2], pa.bool_(): [True, True, False]}.get(
        kind, [[1], [7, 7], [2]] if pa.types.is_list(kind) else ["a", "hidden", "b"]
    )
    full = pa.array(values, kind)
    hidden = pa.Array.from_buffers(
        kind,
        3,
        [pa.py_buffer(b"\x05"), *full.buffers()[1 : 2 if pa.types.is_list(kind) else 3]],
        null_count=1,
        children=[full.values] if pa.types.is_list(kind) else None,
    )
    plain = pa.array([values[0], None, values[2]], kind)
    schema = pa.schema([pa.field("c", kind)])
    digests = {row_digest.of_rows([pa.RecordBatch.from_arrays([c], schema=schema)], schema) for c in (hidden, plain)}
    assert hidden.to_pylist() == plain.to_pylist()
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int32(), [1, 7, 8, 8, 2]),
        (pa.int64(), [1, 7, 8, 8, 2]),
        (pa.bool_(), [True, True, False, False, True]),
        (pa.string(), ["a", "hidden", "other", "other", "b"]),
    ],
)
def test_nulls_that_follow_each_other_are_one_run_whatever_lies_under_them(kind: Any, values: list[Any]) -> None:
    full = pa.array(values, kind)
    hidden = pa.Array.from_buffers(kind, 5, [pa.py_buffer(b"\x11"), *full.buffers()[1:]], null_count=3)
    plain = pa.array([values[0], None, None, None, values[4]], kind)
    schema = pa.schema([pa.field("c", kind)])
    digests = {
        row_digest.of_rows([pa.RecordBatch.from_arrays([part], schema=schema) for part in parts], schema)
        for parts in ([hidden], [plain], [hidden.slice(0, 2), hidden.slice(2)], [plain.slice(0, 3), plain.slice(3)])
    }
    assert hidden.to_pylist() == plain.to_pylist()
    assert len(digests) == 1


@given(ROWS)
def test_a_column_that_is_null_everywhere_is_as_one_that_is_not_there(rows):
    empty = [row | {"published": None, "headers": None} for row in rows]
    without = batch_of(empty).drop_columns(["published", "headers"])
    assert digest(without) == digest(batch_of(empty))


@given(ROWS.filter(len))
def test_a_written_file_carries_the_digest_of_the_rows_that_it_gives_back(tmp_path_factory, rows):
    lake = str(tmp_path_factory.mktemp("lake"))
    spec = TABLES["records"]
    batch = batch_of(rows).select(spec.content_schema.names)
    written = write_file(table_uri(lake, "records"), spec, [batch.slice(0, 1), batch.slice(1)], {"topic": "t"})
    assert written is not None
    path = f"{table_uri(lake, 'records')}/{written.path}"
    assert row_digest.of_file(path) == written.digest
    with pq.ParquetFile(path) as file:
        assert row_digest.of_rows(file.iter_batches(2), spec.content_schema) == written.digest


def test_the_run_that_wrote_a_row_is_left_out_of_the_digest(tmp_path):
    spec = TABLES["records"]
    rows = [{"partition": 0, "offset": 7, "value": b"v", "log_id": "l"}]
    plain = write_file(str(tmp_path), spec, [pa.RecordBatch.from_pylist(rows, schema=RECORDS_SCHEMA)], {"topic": "t"})
    at = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    timed = [row | {"published_at": at} for row in rows]
    run = write_file(str(tmp_path), spec, [pa.RecordBatch.from_pylist(timed, schema=spec.schema)], {"topic": "t"})
    assert plain is not None
    assert run is not None
    assert plain.digest == run.digest
    assert pq.read_table(tmp_path / run.path)["published_at"].to_pylist() == [at]


def test_a_column_of_the_user_is_left_out_of_the_digest(tmp_path):
    spec = TABLES["quarantine"]
    wider = TableSpec(spec.name, spec.schema.append(pa.field("note", pa.string())), spec.statistics)
    rows = [{"segment_id": "s", "position": 1, "note": "kept by hand"}]
    plain = write_file(str(tmp_path), spec, [pa.RecordBatch.from_pylist(rows, schema=spec.schema)], {})
    noted = write_file(str(tmp_path), wider, [pa.RecordBatch.from_pylist(rows, schema=wider.schema)], {})
    assert plain is not None
    assert noted is not None
    assert plain.digest == noted.digest
    assert pq.read_table(tmp_path / noted.path)["note"].to_pylist() == ["kept by hand"]


def test_a_footer_of_other_rules_or_another_count_gives_no_digest(tmp_path):
    table = pa.table({"a": [1, 2]})
    for number, entry in enumerate(
        ('{"v": 99, "xxh3_128": "x", "rows": 2}', '{"v": 1, "xxh3_128": "x", "rows": 3}', "{")
    ):
        path = tmp_path / f"{number}.parquet"
        with pq.ParquetWriter(path, table.schema) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({row_digest.FOOTER_KEY: entry})
        assert row_digest.of_file(str(path)) is None


def test_the_digest_of_two_rows_is_that_of_their_bytes_by_hand():
    """Files that were written once keep their digests: new rules need a new version."""

    def hashed(content: bytes) -> bytes:
        return xxh3_128(content).digest()

    def int64(value: int) -> bytes:
        return value.to_bytes(8, "little", signed=True)

    two_valid, nothing = hashed(int64(2)), hashed(b"")
    position = hashed(two_valid + nothing + hashed(int64(3) + int64(-1)))
    value = hashed(hashed(int64(1) + int64(1)) + hashed((2).to_bytes(4, "little")) + hashed(b"ab"))
    # a run of two equal numbers: none ended before, one may go on
    one = hashed(hashed(int64(1)) + nothing + hashed((5).to_bytes(4, "little")))
    partition = hashed(hashed(hashed(int64(0)) + nothing + nothing) + nothing + one + int64(2))
    lines = b'1:2\n"partition":int32:' + partition + b'\n"position":int64:' + position + b'\n"value":binary:' + value
    rows = [{"partition": 5, "position": 3, "value": b"ab"}, {"partition": 5, "position": -1}]
    assert digest(batch_of(rows)) == xxh3_128(lines).hexdigest()
