"""The rows about the whole journey: one command from its start to the prompt, a topic becoming a new Delta table.

    ours       `loglake run`: archive copy, every byte validated, ledger, all fifteen columns, checks, Dagster
    reference  the same with `--mode reference`: no archive copy, the segments stay at their source
    on Spark   the same with `--engine spark`: the tasks run on Spark, and the JVM's start counts
    spark      a new process: Spark's Kafka source into Delta, six columns, from a broker that runs already
    consumers  a new process: two consumers with large fetches, Arrow, delta-rs, six columns

python -m tests.bench.journey WAY SERVERS TOPIC TABLE       one way of the others, in this process
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.bench.corpora import MIB, home
from tests.bench.processes import environment
from tests.bench.results import Line, Unit, compared, number
from tests.bench.rounds import Contender, take_turns
from tests.bench.routes import COLUMNS, FETCHES, NO_DICTIONARY
from tests.bench.topics import PARTITIONS, Topic, Topics, topics
from tests.bench.totals import Differ
from tests.bench.watched import Watched, watched
from tests.kafka import distribution

_REPOSITORY = Path(__file__).resolve().parents[2]

OURS, REFERENCE = "`loglake run`", "`loglake run --mode reference`"
ON_SPARK = "`loglake run --engine spark`"
DEFAULTS, TUNED, CONSUMERS = "Spark job, defaults", "Spark job, tuned", "Python consumers and delta-rs"
WAYS = {DEFAULTS: "defaults", TUNED: "tuned", CONSUMERS: "consumers"}


@dataclass(frozen=True, slots=True)
class Case:
    """A topic, and what is wanted against each opponent: (must, aim)."""

    topic: str
    wanted: dict[str, tuple[float, float] | tuple[None, None]]
    wanted_on_spark: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"journey-{self.topic}"


CASES = (
    Case(
        "small-none",
        {DEFAULTS: (4.5, 7.0), TUNED: (3.0, 4.5), CONSUMERS: (None, None)},
        {DEFAULTS: (3.0, 4.0), TUNED: (2.0, 2.7)},
    ),
    Case("small-lz4", {DEFAULTS: (4.5, 7.0), TUNED: (None, None)}),
    Case("medium-zstd", {DEFAULTS: (3.0, 4.0), TUNED: (None, None)}),
)


def lines(case: Case, mib: int, rounds: int) -> Iterator[Line]:
    """Every opponent of one topic, and the memory of our command.

    :raises Differ: the tables do not hold the same rows. :raises distribution.Unavailable: Kafka or Spark's Kafka
        source cannot be had here.
    """
    distribution.spark_source()
    made = topics(mib)
    topic = made.named(case.topic)
    taken: list[Watched] = []
    with tempfile.TemporaryDirectory(prefix="journey-", dir=home()) as scratch, made.broker() as broker:
        table, lake = Path(scratch, "table"), Path(scratch, "lake")
        ways: dict[str, Callable[[], float]] = {
            name: lambda way=way: _other(way, broker.servers, topic, table)  # type: ignore[misc]
            for name, way in WAYS.items()
            if name in case.wanted
        }
        ways[OURS] = lambda: ours(made, topic, lake, taken)
        ways[REFERENCE] = lambda: ours(made, topic, lake, [], "--mode", "reference")
        if case.wanted_on_spark:
            ways[ON_SPARK] = lambda: ours(made, topic, lake, [], engine="spark")
        expected: list[int] = []
        for name, seconds in ways.items():  # also fills the page cache
            seconds()
            content = _content(table if name in WAYS else lake / "tables" / "records")
            expected = expected or content
            if content != expected or content[:2] != [topic.records, topic.offset_sum]:
                raise Differ(f"{case.name}: the table of {name} holds {content}, expected is {expected}")
        outcome = take_turns([Contender(name, run) for name, run in ways.items()], rounds=rounds, warm_ups=0)
    for opponent, (must, aim) in case.wanted.items():
        yield compared(
            case.name,
            outcome,
            OURS,
            opponent,
            raw_bytes=topic.payload_bytes,
            records=topic.records,
            must=must,
            aim=aim,
        )
    for opponent, (must, aim) in case.wanted_on_spark.items():
        yield compared(
            f"{case.name}: on Spark",
            outcome,
            ON_SPARK,
            opponent,
            raw_bytes=topic.payload_bytes,
            records=topic.records,
            must=must,
            aim=aim,
        )
    for opponent in (DEFAULTS, OURS):
        yield compared(
            f"{case.name}: reference mode",
            outcome,
            REFERENCE,
            opponent,
            raw_bytes=topic.payload_bytes,
            records=topic.records,
            must=None,
            aim=None,
        )
    peaks = [each.together / MIB for each in taken]
    yield Line(
        f"{case.name}: peak of RssAnon of all processes of {OURS}",
        "700 MiB",
        Unit.MIB,
        max(peaks),
        min(peaks),
        max(peaks),
        f"driver {number(max(each.driver for each in taken) / MIB)} MiB, largest worker "
        f"{number(max(each.worker for each in taken) / MIB)} MiB",
        f"{topic.segment_bytes / 1e6:,.0f} MB of segments",
        700,
        450,
    )


def ours(made: Topics, topic: Topic, lake: Path, taken: list[Watched], *options: str, engine: str = "local") -> float:
    """Run the whole command on one topic into a new lake; the seconds."""
    shutil.rmtree(lake, ignore_errors=True)
    command = [str(Path(sys.executable).with_name("loglake")), "run", str(made.source), "--topic", topic.name]
    variables = environment() | {"DAGSTER_HOME": str(lake.parent / "dagster")}
    each = watched([*command, "--lake", str(lake), "--engine", engine, *options], lake.parent, variables)
    taken.append(each)
    os.sync()
    return each.seconds


def _other(way: str, servers: str, topic: Topic, table: Path) -> float:
    shutil.rmtree(table, ignore_errors=True)
    command = [sys.executable, "-m", "tests.bench.journey", way, servers, topic.name, str(table)]
    each = watched(command, _REPOSITORY, environment())
    os.sync()
    return each.seconds


def _content(table: Path) -> list[int]:
    """Rows, sum of the offsets, sum of a 64-bit hash of every row."""
    import duckdb
    from deltalake import DeltaTable

    rows = DeltaTable(str(table)).to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by its name
    sums = duckdb.sql(
        'select count(*), sum("offset"), sum(hash(partition, "offset", epoch_ms(timestamp), key, value)) from rows'
    ).fetchall()
    return [int(value) for value in sums[0]]


def spark(way: str, servers: str, topic: str, table: str) -> None:
    """Copy a topic with Spark's Kafka source, as a job that a user submits."""
    from pyspark.sql import SparkSession

    from spark_jobs.engine.jars import delta_jars

    jars = ",".join(map(str, (*delta_jars(), *distribution.spark_source())))
    builder = SparkSession.builder.master("local[*]").config("spark.jars", jars).config("spark.driver.memory", "2g")
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    builder = builder.config("spark.ui.enabled", "false")
    is_tuned = way == "tuned"
    if is_tuned:
        builder = builder.config("spark.driver.extraJavaOptions", "-XX:+UseParallelGC")
    session = builder.getOrCreate()
    for name, value in (NO_DICTIONARY if is_tuned else {}).items():
        session.conf.set(name, value)
    reader = session.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    reader = reader.option("startingOffsets", "earliest").option("endingOffsets", "latest")
    rows = reader.options(**(FETCHES if is_tuned else {})).load().select(*COLUMNS)
    rows.write.format("delta").mode("append").save(table)
    session.stop()


SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


def consume(servers: str, topic: str, table: str) -> None:
    """Copy a topic with one consumer for each core and delta-rs."""
    from concurrent.futures import ProcessPoolExecutor

    from deltalake import write_deltalake

    cores = len(os.sched_getaffinity(0))
    numbers = [list(range(PARTITIONS))[at::cores] for at in range(cores)]
    with ProcessPoolExecutor(cores) as pool:
        parts = list(
            pool.map(_consumed, [servers] * cores, [topic] * cores, numbers, [f"{table}.{n}" for n in range(cores)])
        )
    batches = (batch for part in parts for batch in pa.ipc.open_stream(pa.memory_map(part)))
    write_deltalake(table, pa.RecordBatchReader.from_batches(SCHEMA, batches))
    for part in parts:
        os.unlink(part)


def _consumed(servers: str, topic: str, numbers: list[int], path: str) -> str:
    from confluent_kafka import Consumer, TopicPartition

    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": "journey",
        "enable.auto.commit": False,
        "fetch.min.bytes": 1 << 20,
        "fetch.max.bytes": 64 << 20,
        "max.partition.fetch.bytes": 16 << 20,
        "queued.max.messages.kbytes": 1 << 18,
    }
    consumer = Consumer(settings)
    ends = {number: consumer.get_watermark_offsets(TopicPartition(topic, number))[1] for number in numbers}
    consumer.assign([TopicPartition(topic, number, 0) for number, end in ends.items() if end])
    left = {number for number, end in ends.items() if end}
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, SCHEMA) as writer:
        while left:
            messages = consumer.consume(100_000, 1.0)
            columns: list[list[Any]] = [[] for _ in SCHEMA]
            for message in messages:
                row = (
                    topic,
                    message.partition(),
                    message.offset(),
                    message.timestamp()[1] * 1000,
                    message.key(),
                    message.value(),
                )
                for column, value in zip(columns, row, strict=True):
                    column.append(value)
                if message.offset() + 1 >= ends[message.partition()]:
                    left.discard(message.partition())
            if messages:
                arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    consumer.close()
    return path


def main() -> int:
    """Do one of the other ways; the parent takes the time."""
    way, servers, topic, table = sys.argv[1:]
    consume(servers, topic, table) if way == "consumers" else spark(way, servers, topic, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
