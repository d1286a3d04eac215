"""Streams of Arrow batches: what DuckDB and Polars read from a log directory is what its logs hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import logcore
from logcore.cli.main import main
from logcore.cli.output import column_files
from logcore.columns.decoding import batch_table
from logcore.columns.engines import Engine
from logcore.library import record_columns
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.conftest import Sample
from tests.unit.logcore.library.conftest import T, segment

COLUMNS = [
    *("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"),
    *("timestamp_ms", "leader_epoch", "log_id", "segment_id", "position", "header_keys_raw"),
]


def test_columns_of_a_stream_are_those_of_the_table_records(tmp_path: Path, engine: Engine) -> None:
    content = handmade.batch(
        [handmade.record(0, b"k", None, headers=[(b"\xff", b"x")])], base_offset=4, leader_epoch=4, base_timestamp=T
    )
    first = handmade.simple_batch(3, [(None, b"v")])
    log = logcore.open_segment(segment(tmp_path / "orders-2", 3, first + content))
    reader = log.record_batches()
    assert reader.schema.equals(logcore.RECORDS_SCHEMA)
    assert reader.schema.names == COLUMNS
    assert reader.read_all().slice(1).to_pylist() == [
        {
            "topic": "orders",
            "partition": 2,
            "offset": 4,
            "timestamp": pa.scalar(T * 1000, pa.timestamp("us", tz="UTC")).as_py(),
            "timestampType": 0,
            "key": b"k",
            "value": None,
            "headers": [{"key": "\ufffd", "value": b"x"}],
            "timestamp_ms": T,
            "leader_epoch": 4,
            "log_id": "orders@unknown.0",
            "segment_id": "00000000000000000003",
            "position": len(first),
            "header_keys_raw": [b"\xff"],
        }
    ]


def test_chosen_columns_come_in_the_callers_order(orders: Partition) -> None:
    log = logcore.open_partition(orders.path)
    reader = log.record_batches(["value", "offset", "topic"], start_offset=59)
    assert reader.schema.names == ["value", "offset", "topic"]
    assert reader.read_all().to_pylist() == [{"value": b"v59", "offset": 59, "topic": "orders"}]
    assert log.record_batches(iter(["key"])).read_all().num_rows == 60


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (["offset", "colour"], ValueError, "no column 'colour'; they have topic, partition"),
        (["offset", "offset"], ValueError, "each only once"),
        ([], ValueError, "at least one column"),
        ("offset", TypeError, r"write \['offset'\]"),
    ],
)
def test_columns_that_are_none_are_refused(
    orders: Partition, columns: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        logcore.open_partition(orders.path).record_batches(columns)


def test_only_the_chosen_columns_are_decoded(orders: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    from logcore.columns import engines

    asked: list[list[str]] = []
    real = engines.decode_segment
    monkeypatch.setattr(
        engines, "decode_segment", lambda *a, **how: asked.append(how["wanted"].schema.names) or real(*a, **how)
    )
    logcore.open_partition(orders.path).record_batches(["value", "offset"]).read_all()
    assert asked == [["offset", "value"]] * 3


def test_a_stream_equals_the_parquet_file_of_dump(
    sample: Callable[[str], Sample], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("codecs-v2-4.3.1", "transactions-4.4.0"):
        logdir = sample(name).logdir
        file = tmp_path / f"{name}.parquet"
        arguments = ["dump", "--isolation.level", "read_committed", "--format", "parquet", "-o", str(file), str(logdir)]
        assert main(arguments) == 0
        stream = logcore.open_log_directory(logdir, isolation_level="read_committed").record_batches()
        assert stream.read_all().equals(pq.read_table(file))


def test_many_small_batches_become_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference engine gives a batch for each batch of the log."""
    monkeypatch.setenv("LOGLAKE_ENGINE", "reference")
    content = [handmade.simple_batch(at, [(b"k%d" % at, b"v")]) for at in range(100)]
    log = logcore.open_segment(segment(tmp_path / "orders-0", 0, content))
    sizes = [batch.num_rows for batch in log.record_batches(["offset", "key"])]
    assert sizes == [32, 32, 32, 4]
    assert log.record_batches(["offset"]).read_all().column("offset").to_pylist() == list(range(100))


def test_large_batches_are_not_copied(orders: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_columns, "LEAST_ROWS", 20)
    given = logcore.RECORDS_SCHEMA.empty_table().to_batches()
    large = pa.RecordBatch.from_pylist([{"offset": at} for at in range(20)], logcore.RECORDS_SCHEMA)
    (same,) = record_columns.joined([large], logcore.RECORDS_SCHEMA)
    assert same.column("offset").buffers()[1].address == large.column("offset").buffers()[1].address
    assert list(record_columns.joined(given, logcore.RECORDS_SCHEMA)) == []


# Query engines. DuckDB finds the readers by the names of the variables.


@pytest.fixture
def shop(logdir: LogDirectory, orders: Partition) -> LogDirectory:
    """`orders-0` with 60 records, `orders-1` with 7, `payments-0` with 11."""
    logdir.partition("orders-1").append(7)
    logdir.partition("payments-0").append(11)
    (logdir.path / "replication-offset-checkpoint").write_text("0\n3\norders 0 60\norders 1 7\npayments 0 11\n")
    return logdir


def test_duckdb_queries_a_log_directory_in_three_lines(shop: LogDirectory) -> None:
    records = logcore.open_log_directory(shop.path).record_batches(["topic", "partition", "offset", "value"])  # noqa: F841
    rows = duckdb.sql("select topic, partition, count(*), max(value) from records group by all order by all").fetchall()
    assert rows == [("orders", 0, 60, b"v9"), ("orders", 1, 7, b"v6"), ("payments", 0, 11, b"v9")]


def test_polars_queries_a_log_directory_in_three_lines(shop: LogDirectory) -> None:
    records = logcore.open_log_directory(shop.path).record_batches(["topic", "partition", "offset"], key=b"k3")
    table = polars.from_arrow(records)
    assert isinstance(table, polars.DataFrame)
    assert table.group_by("topic", "partition").agg(polars.col("offset").sum()).sort("topic", "partition").rows() == [
        ("orders", 0, sum(range(3, 60, 7))),
        ("orders", 1, 3),
        ("payments", 0, 3 + 10),
    ]


def test_all_columns_reach_both_engines(sample: Callable[[str], Sample]) -> None:
    directory = logcore.open_log_directory(sample("codecs-v2-4.3.1").logdir, topics=["codec-*"])
    reader = directory.record_batches()  # noqa: F841
    counted = duckdb.sql("select topic, count(*), count(headers) from reader group by all").fetchall()
    table = polars.from_arrow(directory.record_batches())
    assert isinstance(table, polars.DataFrame)
    expected = Counter(line["topic"] for line in sample("codecs-v2-4.3.1").consumed() if "codec-" in line["topic"])
    assert {topic: rows for topic, rows, _ in counted} == expected
    assert {topic: len(rows) for (topic,), rows in table.group_by("topic")} == expected
    assert sum(headers for _, _, headers in counted) == table["headers"].count() > 0


def test_an_engine_that_stops_early_leaves_the_rest_unread(shop: LogDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    from logcore.reading import consumer_log

    opened: list[str] = []
    real = consumer_log.segment_bytes
    monkeypatch.setattr(record_columns, "LEAST_ROWS", 1)
    monkeypatch.setattr(consumer_log, "segment_bytes", lambda *a: opened.append(a[1].path) or real(*a))
    reader = logcore.open_log_directory(shop.path).record_batches(["offset"])
    reader.read_next_batch()
    reader.close()
    assert len(opened) == 1


def test_damage_ends_a_query_with_an_error_that_names_the_place(shop: LogDirectory, engine: Engine) -> None:
    path = shop.path / "orders-0" / "00000000000000000020.log"
    path.write_bytes(handmade.flip(path.read_bytes(), 70))
    directory = logcore.open_log_directory(shop.path)
    reader = directory.record_batches(["offset"])  # noqa: F841
    with pytest.raises(duckdb.Error, match=r"00000000000000000020\.log: \d+ bytes from position 0, where offset 20"):
        duckdb.sql("select count(*) from reader").fetchall()
    with pytest.raises(Exception, match="where offset 20 was expected"):
        polars.from_arrow(directory.record_batches(["offset"]))
    found: list[logcore.Finding] = []
    skipping = directory.record_batches(["offset"], on_finding=found.append)  # noqa: F841
    assert duckdb.sql("select count(*) from skipping").fetchall() == [(60 - 5 + 7 + 11,)]
    assert [finding.rule for finding in found] == ["corrupt-bytes"]


def sparse(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of 100 groups, as the kernels cut it, with one wanted record (of key `k`) in each."""
    monkeypatch.setenv("LOGLAKE_ENGINE", "kernels")
    monkeypatch.setattr(batch_table, "TABLE_BYTES", 1 << 15)
    filler = [(b"other", bytes(100))] * 300
    batches = [handmade.simple_batch(number * 301, [(b"k", b"v"), *filler]) for number in range(100)]
    return segment(folder / "orders-0", 0, batches)


def test_a_few_rows_of_large_groups_do_not_keep_the_memory_of_the_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sparse(tmp_path, monkeypatch)
    batches = list(logcore.open_segment(path).record_batches(key=b"k"))
    assert [batch.num_rows for batch in batches] == [32, 32, 32, 4]
    assert sum(batch.get_total_buffer_size() for batch in batches) < 100_000


def test_nor_do_they_in_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sparse(tmp_path, monkeypatch)
    sizes: list[int] = []
    real = column_files.ColumnSink.add

    def watched(sink: column_files.ColumnSink, columns: pa.RecordBatch, *more: Any) -> None:
        sizes.append(columns.get_total_buffer_size())
        real(sink, columns, *more)

    monkeypatch.setattr(column_files.ColumnSink, "add", watched)
    out = tmp_path / "records.parquet"
    assert main(["dump", "--format", "parquet", "--key", "k", "-o", str(out), str(path)]) == 0
    assert pq.read_table(out).num_rows == 100
    assert sum(sizes) < 100_000
