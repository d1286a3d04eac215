"""`spark.read.format("loglake")` and `spark.readStream`, in Spark itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import LongType, StructField, StructType

from logcore.columns.records_columns import RECORDS_SCHEMA
from logcore.errors import LogError, OffsetOutOfRange
from logcore.library.damage import DamageFound
from pyspark_loglake import DefaultSource, register
from spark_jobs.contracts import CompactionConfig, IngestConfig
from spark_jobs.engine.session import get_session
from spark_jobs.errors import UsageError
from spark_jobs.launch import run
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.daemons import WAIT_SECONDS
from tests.sampling import drawn
from tests.spark.cycle import AS_OF_MS, Lake

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = get_session()
    before = session.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    yield session
    session.conf.set("spark.sql.session.timeZone", before)


@pytest.fixture
def orders(source: LogDirectory) -> Partition:
    """Forty records in two segments, below the high watermark."""
    log = source.partition("orders-0")
    log.append(20)
    log.roll()
    log.append(20)
    source.high_watermarks(orders_0=40)
    return log


def load(spark: SparkSession, source: LogDirectory, **options: Any) -> DataFrame:
    dotted = {name.replace("__", "."): str(value) for name, value in options.items()}
    return spark.read.format("loglake").options(**dotted).load(str(source.path))


def planned(source: LogDirectory, **options: str) -> Sequence[InputPartition]:
    """The parts of a read, as Spark's process for plans makes them."""
    schema = StructType([StructField("offset", LongType())])
    return DefaultSource({"path": str(source.path), **options}).reader(schema).partitions()


def read_in_process(source: LogDirectory, path: Path | None = None, **options: str) -> list[int]:
    """The offsets of all parts, in their order."""
    schema = StructType([StructField("offset", LongType())])
    reader = DefaultSource({"path": str(path or source.path), **options}).reader(schema)
    return [row["offset"] for part in reader.partitions() for rows in reader.read(part) for row in rows.to_pylist()]


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row.offset for row in frame.select("offset").collect())


def damaged(log: Partition, at: int) -> None:
    """A byte of the batch at the fourth part of the first segment."""
    path = log.segments()[0]
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_the_columns_are_those_of_sparks_kafka_source(
    spark: SparkSession, source: LogDirectory, orders: Partition
) -> None:
    frame = load(spark, source, subscribe="orders")
    kinds = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
    assert frame.schema.simpleString() == f"struct<{kinds.replace(' ', ':').replace(',:', ',')},timestampType:int>"
    assert {row.offset: (bytes(row.key), bytes(row.value)) for row in frame.collect()} == orders.rows
    with_headers = load(spark, source, includeHeaders="true").schema["headers"].dataType.simpleString()
    assert with_headers == "array<struct<key:string,value:binary>>"


def test_a_schema_of_the_user_is_the_projection(spark: SparkSession, source: LogDirectory, orders: Partition) -> None:
    frame = spark.read.format("loglake").schema("timestamp_ms bigint, offset bigint").load(str(source.path))
    assert frame.columns == ["timestamp_ms", "offset"]
    assert offsets(frame) == list(range(40))
    for schema, said in (("offset int", "the column offset as bigint"), ("offsets bigint", "no column offsets")):
        with pytest.raises(PySparkException, match=said):
            spark.read.format("loglake").schema(schema).load(str(source.path)).collect()


def test_a_schema_of_the_user_may_name_every_column_of_records(source: LogDirectory) -> None:
    log = source.partition("orders-0")
    log.roll()
    written = handmade.record(headers=[(b"trace", b"1"), (b"\xff", None)])
    log.write(handmade.batch([written], base_offset=0, leader_epoch=0))
    source.high_watermarks(orders_0=1)
    schema = StructType([StructField(field.name, from_arrow_type(field.type)) for field in RECORDS_SCHEMA])
    reader = DefaultSource({"path": str(source.path)}).reader(schema)
    [rows] = [rows for part in reader.partitions() for rows in reader.read(part)]
    assert rows.schema.names == RECORDS_SCHEMA.names
    [row] = rows.to_pylist()
    assert (row["header_keys_raw"], row["leader_epoch"], row["position"]) == ([b"trace", b"\xff"], 0, 0)


def test_spark_finds_the_source_by_its_name_in_a_view(
    spark: SparkSession, source: LogDirectory, orders: Partition
) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW logs USING loglake OPTIONS (path '{source.path}', subscribe 'orders')")
    assert spark.sql("SELECT count(*), max(offset) FROM logs").first() == (40, 39)


@pytest.mark.long
def test_pushed_filters_choose_the_rows_that_spark_chooses(
    spark: SparkSession, source: LogDirectory, orders: Partition
) -> None:
    source.partition("orders-1").append(30)
    source.partition("payments-0").append(30)
    old = source.partition("old-0")
    old.roll()
    for number, stamp in enumerate((-2, -1, 0, 1)):
        old.write(handmade.simple_batch(number, [(b"k", b"v")], base_timestamp=stamp, leader_epoch=0))
    source.high_watermarks(orders_0=40, orders_1=30, payments_0=30, old_0=4)
    frame = load(spark, source)
    conditions = [
        "topic = 'orders'",
        "topic IN ('orders', 'nothing') AND partition = 1",
        "partition IN (1, 2) AND offset >= 7 AND offset < 19",
        "offset = 3",
        "offset > 3 AND offset <= 9 AND topic <> 'payments'",
        "timestamp >= timestamp'2023-11-14 22:13:20.001'",
        "timestamp > timestamp'2023-11-14 22:13:20.0005' AND timestamp <= timestamp'2023-11-14 22:13:20.002'",
        "timestamp < timestamp'2023-11-14 22:13:20.0015' AND key = X'6b31'",
        "timestamp >= timestamp'1970-01-01 00:00:00'",
        "timestamp > timestamp'1969-12-31 23:59:59.9995' AND topic = 'old'",
        "offset < 0",
        "offset IS NOT NULL AND length(value) > 2",
    ]

    def counted() -> list[Any]:
        chosen = [frame.where(each).selectExpr("count(*)", "sum(offset)", "sum(partition)") for each in conditions]
        return [each.first() for each in chosen]

    filtered_by_spark = counted()
    register(spark)
    try:
        frame = load(spark, source)
        plan = frame.where(conditions[2])._jdf.queryExecution().optimizedPlan().toString()
        assert "Filter" not in plan, "the source took them all"
        assert counted() == filtered_by_spark
        everywhere = {"startingOffsets": '{"orders": {"0": 5, "1": 5}}', "subscribe": "orders"}
        assert load(spark, source, **everywhere).where("partition = 0").count() == 35
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
        spark.dataSource.register(DefaultSource)
    assert len(set(filtered_by_spark)) > 5


def test_damage_ends_a_read_unless_fail_on_data_loss_is_off(
    spark: SparkSession, source: LogDirectory, orders: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    path = orders.segments()[0]
    damaged(orders, path.stat().st_size // 2)
    good = list(range(10))

    with pytest.raises(PySparkException, match="failOnDataLoss=false") as raised:
        load(spark, source).collect()
    assert str(path) in str(raised.value)
    assert offsets(load(spark, source, failOnDataLoss="false", minPartitions=4)) == good
    after = offsets(load(spark, source, mode="permissive", minPartitions=4))

    assert after == [*good, *range(15, 40)]
    planned(source, failOnDataLoss="false")
    assert f"rows of the log end at offset 10: {path}" in caplog.text


def test_offsets_that_are_missing_between_segments_are_lost_or_skipped(source: LogDirectory) -> None:
    log = source.partition("orders-0")
    log.append(10)
    log.roll()
    log.append(10)
    log.roll()
    log.append(10)
    log.segments()[1].unlink()
    source.high_watermarks(orders_0=30)
    with pytest.raises(DamageFound, match=re.escape("offsets [10, 20) are missing")):
        read_in_process(source)
    assert read_in_process(source, failOnDataLoss="false") == [*range(10), *range(20, 30)]


@pytest.mark.parametrize("parts", ["1", "7", "30"])
def test_gaps_that_cleaning_left_are_no_loss_in_any_part(source: LogDirectory, parts: str) -> None:
    """Only a batch of the last segment shows that the log was cleaned: its last offset has no record."""
    log = source.partition("orders-0")
    log.append(5)
    log.next_offset = 10
    log.roll()
    log.append(5)
    log.next_offset = 20
    log.roll()
    log.write(handmade.simple_batch(20, [(b"k", b"v")], leader_epoch=0, last_offset_delta=4))
    log.rows[20] = (b"k", b"v")
    log.next_offset = 25
    log.roll()
    log.append(5)
    source.high_watermarks(orders_0=30)
    assert read_in_process(source, minPartitions=parts) == sorted(log.rows)
    assert read_in_process(source, minPartitions=parts, endingOffsets='{"orders": {"0": 12}}') == [*range(5), 10, 11]


def test_a_micro_batch_whose_end_is_gone_is_a_loss(source: LogDirectory, orders: Partition) -> None:
    """The high watermark fell after the micro-batch was planned, or it is planned again on an older copy."""
    source.high_watermarks(orders_0=33)
    schema = StructType([StructField("offset", LongType())])
    span = ({"orders": {"0": 30}}, {"orders": {"0": 40}})
    strict, lenient = (
        DefaultSource({"path": str(source.path), "subscribe": "orders", "failOnDataLoss": fails}).streamReader(schema)
        for fails in ("true", "false")
    )
    with pytest.raises(OffsetOutOfRange, match="the log ends at offset 33"):
        strict.partitions(*span)
    rows = [row for part in lenient.partitions(*span) for each in lenient.read(part) for row in each.to_pylist()]
    assert [row["offset"] for row in rows] == [30, 31, 32]
    shutil.rmtree(orders.path)
    assert lenient.latestOffset(span[0], lenient.getDefaultReadLimit()) == span[0]
    with pytest.raises(UsageError, match="matches no topic"):
        strict.latestOffset(span[0], strict.getDefaultReadLimit())


def test_a_pattern_matches_no_internal_topic(source: LogDirectory, orders: Partition) -> None:
    source.partition("__consumer_offsets-0").append(5)
    assert read_in_process(source, subscribePattern=".*") == list(range(40))


def test_a_lake_gives_the_rows_of_its_archive(
    spark: SparkSession, source: LogDirectory, orders: Partition, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    run(IngestConfig(lake, (str(source.path),), "ingest", 1_800_000_000_000))
    shutil.rmtree(source.path)
    frame = spark.read.format("loglake").option("subscribe", "orders").option("minPartitions", "3").load(lake)
    assert {row.offset: (bytes(row.key), bytes(row.value)) for row in frame.collect()} == orders.rows


def test_a_segment_file_and_a_partition_directory_are_read_where_they_lie(
    source: LogDirectory, orders: Partition
) -> None:
    assert read_in_process(source, orders.path) == list(range(40))
    assert read_in_process(source, orders.segments()[1]) == list(range(20, 40))


def test_segments_that_are_not_read_are_named_in_a_warning(
    source: LogDirectory, orders: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    source.partition("orders-1").append(5)
    (source.path / "orders-1").rename(source.path / "orders-1.bak")
    source.high_watermarks(orders_0=40, orders_1=5)
    planned(source)
    assert "orders-1" in caplog.text


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_path_without_logs_is_refused(source: LogDirectory, orders: Partition, fails: str) -> None:
    missing = LogDirectory(source.path / "beside")
    shutil.rmtree(missing.path)
    with pytest.raises(UsageError, match="does not exist"):
        planned(missing, failOnDataLoss=fails)


@pytest.mark.long
def test_a_lake_that_was_compacted_gives_the_rows_that_are_left(source: LogDirectory, tmp_path: Path) -> None:
    log, lake, policies = source.partition("orders-0"), Lake(tmp_path / "lake"), tmp_path / "policies.yaml"
    for count in (1, 20, 7, 7):
        log.roll()
        log.append(count)
    source.high_watermarks(orders_0=35)
    policies.write_text("topics: {orders: {cleanup.policy: compact, segment.bytes: 100}}")
    lake.turn(source.path)
    run(CompactionConfig(str(lake.path), "compact", AS_OF_MS, read_policies(str(policies)), apply=True))
    left = {key: offset for offset, (key, _) in sorted(log.rows.items()) if offset < 28}
    for parts in ("1", "9"):
        read = read_in_process(source, lake.path, minPartitions=parts)
        assert read == sorted({*left.values(), *range(28, 35)}), "the last segment is never cleaned"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "order"}, "'order' matches no topic; the nearest names are orders"),
        ({"assign": '{"orders": [7]}'}, "there is no partition orders-7"),
        ({"subscribePattern": "none.*"}, "matches no topic"),
        ({"mode": "lenient"}, "the option mode is strict or permissive"),
        ({"mode": "permissive", "failOnDataLoss": "true"}, "contradict"),
        ({"topics": "orders"}, "no option topics"),
        ({"startingOffsets": '{"orders": {"0": 41}}'}, "the log ends at offset 40"),
    ],
)
def test_options_that_cannot_be_met_are_refused(
    source: LogDirectory, orders: Partition, options: dict[str, str], said: str
) -> None:
    with pytest.raises((UsageError, LogError), match=re.escape(said)):
        planned(source, **options)


def stream(spark: SparkSession, source: LogDirectory, **options: Any) -> DataFrame:
    return spark.readStream.format("loglake").options(**{k: str(v) for k, v in options.items()}).load(str(source.path))


def written(frame: DataFrame, folder: Path) -> list[dict[str, Any]]:
    """Run a stream to the present end, into a Delta table; the progress of its micro-batches."""
    query = (
        frame.writeStream.format("delta")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "table"))
    )
    query.awaitTermination(10 * WAIT_SECONDS)
    return [json.loads(each.json) for each in query.recentProgress]


@pytest.mark.long
def test_a_stream_reads_each_offset_once_with_a_limit_a_trigger(
    spark: SparkSession, source: LogDirectory, orders: Partition, tmp_path: Path
) -> None:
    frame = stream(spark, source, startingOffsets="earliest", maxOffsetsPerTrigger=15, minOffsetsPerTrigger=10)
    first = written(frame, tmp_path)
    orders.append(7)
    other = source.partition("orders-1")
    other.append(3)
    source.high_watermarks(orders_0=47, orders_1=3)
    second = written(frame, tmp_path)

    assert [each["numInputRows"] for each in first if each["numInputRows"]] == [15, 15, 10]
    assert json.loads(str(second[-1]["sources"][0]["endOffset"]).replace("'", '"')) == {"orders": {"0": 47, "1": 3}}
    rows = spark.read.format("delta").load(str(tmp_path / "table")).select("partition", "offset").collect()
    assert sorted(tuple(row) for row in rows) == [*((0, at) for at in range(47)), *((1, at) for at in range(3))]


@pytest.mark.long
def test_a_stream_whose_log_was_cut_or_is_gone_fails_or_goes_on(
    spark: SparkSession, source: LogDirectory, orders: Partition, tmp_path: Path
) -> None:
    written(stream(spark, source, startingOffsets="earliest"), tmp_path)
    strict, lenient = (stream(spark, source, failOnDataLoss=fails) for fails in ("true", "false"))

    orders.truncate(30)
    source.high_watermarks(orders_0=30)
    with pytest.raises(PySparkException, match="the log ends at offset 30"):
        written(strict, tmp_path)
    orders.append(20)
    source.high_watermarks(orders_0=50)
    written(lenient, tmp_path)
    shutil.rmtree(orders.path)
    source.partition("payments-0").append(1)
    source.high_watermarks(payments_0=1)
    with pytest.raises(PySparkException, match="the log is gone"):
        written(strict, tmp_path)
    written(lenient, tmp_path)

    rows = spark.read.format("delta").load(str(tmp_path / "table")).select("topic", "offset").collect()
    assert sorted(tuple(row) for row in rows) == [*(("orders", at) for at in range(50)), ("payments", 0)]


KILLS = int(os.environ.get("LOGLAKE_TEST_STREAM_KILLS", "10"))
STREAMED = """
import sys
from spark_jobs.engine.session import get_session
from spark_jobs.policies.policies_file import read_policies
source, folder = sys.argv[1:]
frame = get_session().readStream.format("loglake").option("startingOffsets", "earliest")
frame = frame.option("maxOffsetsPerTrigger", "40").load(source)
query = frame.writeStream.format("delta").option("checkpointLocation", f"{folder}/checkpoint")
query.trigger(availableNow=True).start(f"{folder}/table").awaitTermination()
"""


@pytest.mark.long
@pytest.mark.crash
def test_a_stream_that_is_killed_and_started_again_has_each_row_once(
    spark: SparkSession, source: LogDirectory, orders: Partition, tmp_path: Path
) -> None:
    orders.append(960)
    source.high_watermarks(orders_0=1000)
    table, waits = tmp_path / "table", drawn(range(100), KILLS, "when a stream is killed")

    def started() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", STREAMED, str(source.path), str(tmp_path)],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def commits() -> int:
        return len(list(table.glob("_delta_log/*.json")))

    killed = 0
    for wait in waits:
        process, before = started(), commits()
        end = time.monotonic() + 10 * WAIT_SECONDS
        while process.poll() is None and commits() <= before and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(wait / 100)
        killed += process.poll() is None
        if process.poll() is None:
            os.killpg(process.pid, 9)
        process.wait()
    process = started()
    assert process.wait(20 * WAIT_SECONDS) == 0
    assert killed, "the stream ended before it could be killed"
    rows = spark.read.format("delta").load(str(table)).select("offset").collect()
    assert sorted(row.offset for row in rows) == list(range(1000))
