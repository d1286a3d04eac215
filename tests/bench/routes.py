"""The ways from a topic to a Delta table that are compared, in a process of their own; prints a line of JSON.

    A   Spark's Kafka source, live broker, into Spark's Delta writer, both at their defaults
    C   the same, tuned: larger fetches, no dictionary for what does not repeat
    E   our decoder inside Spark into Spark's Delta writer, dictionaries as in C
    F   the job `publish` as users run it: worker processes write Parquet files, one commit, the ledger
    G   the same job with its tasks on Spark's workers

A, C and E write six columns, F and G all fifteen of `records`. For F and G the segments were registered where they
lie and validated beforehand. Spark's session, the broker, the workers of F and all code are warm.

python -m tests.bench.routes TOPIC MIB ROUNDS
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, PublishConfig, ValidateConfig
from spark_jobs.engine.jars import delta_jars
from spark_jobs.engine.session import get_session, stop_session
from tests.bench.corpora import SEGMENT_NAME, home
from tests.bench.rounds import Contender, clocked, take_turns
from tests.bench.topics import PARTITIONS, Topic, Topics, topics
from tests.bench.totals import Differ
from tests.kafka import distribution

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

A, C, E, F, G = "Kafka source", "tuned Kafka source", "our decode, Spark's writer", "publish", "publish on Spark"

AS_OF_MS = 1_800_000_000_000
FETCHES = {
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.fetch.min.bytes": str(1 << 20),
    "kafka.max.poll.records": "10000",
    "kafka.receive.buffer.bytes": str(4 << 20),
}
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
NO_DICTIONARY = {f"parquet.enable.dictionary#{name}": "false" for name in COLUMNS[2:]}
"""For columns whose values do not repeat. Settings of the session: Delta drops what a writer's option says of it."""
_CONTENT = "sum(cast(xxhash64(partition, offset, unix_millis(timestamp), key, value) as decimal(38, 0)))"


class Routes:
    """One topic, and a folder whose tables are created again for every measurement."""

    def __init__(self, spark: SparkSession, servers: str, made: Topics, topic: Topic, folder: Path) -> None:
        self.spark, self.servers, self.made, self.topic = spark, servers, made, topic
        self.validated = folder / "validated"
        self.table, self.lake = folder / "table", folder / "lake"

    def prepare(self) -> float:
        """Register and validate the segments once; seconds."""
        lake, source = str(self.validated), (str(self.made.source),)
        ingest = IngestConfig(lake, source, "ingest", AS_OF_MS, mode="reference", topics=(self.topic.name,))

        def work() -> None:
            launch.run(ingest)
            launch.run(ValidateConfig(lake, "validate", AS_OF_MS))

        return clocked(work)()

    def kafka_source(self, **options: str) -> DataFrame:
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.servers)
        reader = reader.option("subscribe", self.topic.name)
        reader = reader.option("startingOffsets", "earliest").option("endingOffsets", "latest")
        return reader.options(**options).load().select(*COLUMNS)

    def decoded(self) -> DataFrame:
        """Our decoder as a source: one Spark task for each segment, as the Kafka source has one for each partition."""
        name, source = self.topic.name, self.made.source
        paths = [str(source / f"{name}-{partition}" / SEGMENT_NAME) for partition in range(PARTITIONS)]

        def decode(chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for chunk in chunks:
                for partition in chunk.column("id").to_pylist():
                    yield from rows_of(paths[partition], name, partition)

        schema = "topic string, partition int, offset long, timestamp timestamp, key binary, value binary"
        return self.spark.range(0, PARTITIONS, 1, PARTITIONS).mapInArrow(decode, schema)

    def seconds_of_spark(self, read: Callable[[], DataFrame], settings: dict[str, str]) -> float:
        shutil.rmtree(self.table, ignore_errors=True)
        for name, value in settings.items():
            self.spark.conf.set(name, value)
        seconds = clocked(lambda: read().write.format("delta").mode("append").save(str(self.table)))()
        for name in settings:
            self.spark.conf.unset(name)
        _settle()
        return seconds

    def seconds_of_publish(self, engine: str = "local") -> float:
        """Of the whole job: plan, files, commit, ledger."""
        shutil.rmtree(self.lake, ignore_errors=True)
        shutil.copytree(self.validated, self.lake)
        config = PublishConfig(str(self.lake), "publish", AS_OF_MS)
        seconds = clocked(lambda: launch.run(config, engine=engine))()
        _settle()
        return seconds

    def contenders(self) -> dict[str, tuple[Callable[[], float], Path]]:
        """What takes part, and where each leaves its table."""
        ours = self.lake / "tables" / "records"
        return {
            A: (lambda: self.seconds_of_spark(self.kafka_source, {}), self.table),
            C: (lambda: self.seconds_of_spark(lambda: self.kafka_source(**FETCHES), NO_DICTIONARY), self.table),
            E: (lambda: self.seconds_of_spark(self.decoded, NO_DICTIONARY), self.table),
            F: (self.seconds_of_publish, ours),
            G: (lambda: self.seconds_of_publish("spark"), ours),
        }

    def content(self, table: Path) -> list[Any]:
        """Rows, sum of the offsets, sum of a 64-bit hash of every row."""
        rows = self.spark.read.format("delta").load(str(table))
        row = rows.selectExpr("count(*)", "sum(offset)", _CONTENT).collect()[0]
        return [None if value is None else int(value) for value in row]


def _settle() -> None:
    """What one route wrote must not reach the disk while the next one is timed."""
    os.sync()


def rows_of(path: str, topic: str, partition: int) -> Iterator[pa.RecordBatch]:
    """Rows of a segment with the columns of Spark's Kafka source."""
    from logcore.columns.engines import decode_segment
    from logcore.columns.wanted import Place, Wanted
    from logcore.segments.scanning.scan import Stretch
    from logcore.storage.discovery import map_file

    with map_file(path) as mapped, memoryview(mapped) as content:
        place = Place(topic, partition, "", "")
        rows = decode_segment(content, place=place, base_offset=0, sealed=True, wanted=Wanted(columns=COLUMNS))
        for item in rows:
            if isinstance(item, Stretch):
                raise Differ(f"{path} is damaged at position {item.position}")
            yield item
        del rows


def measured(name: str, mib: int, rounds: int) -> dict[str, Any]:
    """Seconds of every route by round; before them, one by one, whether their tables hold the same.

    :raises Differ: they do not. :raises distribution.Unavailable: Kafka, or Spark's source, cannot be had.
    """
    source = distribution.spark_source()
    made = topics(mib)
    topic = made.named(name)
    conf = {
        "spark.jars": ",".join(map(str, (*delta_jars(), *source))),
        "spark.driver.memory": "2g",
        # What our jobs set for short local runs would slow the others down: the JVM's own defaults, for all.
        "spark.driver.extraJavaOptions": "",
    }
    cores = len(os.sched_getaffinity(0))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="publishing-", dir=home())))
        broker = stack.enter_context(made.broker())
        begun = time.perf_counter()
        spark = get_session(conf=conf)
        session_seconds = time.perf_counter() - begun
        stack.callback(stop_session)
        routes = Routes(spark, broker.servers, made, topic, folder)
        prepare_seconds = routes.prepare()
        contenders = routes.contenders()
        tables: dict[str, dict[str, int]] = {}
        contents = {}
        for contender, (seconds, table) in contenders.items():  # the warm-up
            seconds()
            contents[contender] = routes.content(table)
            files = [path.stat().st_size for path in table.rglob("*.parquet")]
            tables[contender] = {"files": len(files), "bytes": sum(files)}
        expected = [topic.records, topic.offset_sum, contents[A][2]]
        for contender, content in contents.items():
            if content != expected:
                raise Differ(f"{name}: the table of {contender} holds {content}, expected is {expected}")
        taken = take_turns([Contender(each, run) for each, (run, _) in contenders.items()], rounds=rounds, warm_ups=0)
        return {
            "seconds": {contender: list(times.rounds) for contender, times in taken.times.items()},
            "void_sets": taken.void_sets,
            "tables": tables,
            "prepare_seconds": prepare_seconds,
            "session_seconds": session_seconds,
            "cores": cores,
        }


def main() -> int:
    name, mib, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    try:
        found = measured(name, mib, rounds)
    except (Differ, distribution.Unavailable) as error:
        found = {"void": str(error), "unavailable": isinstance(error, distribution.Unavailable)}
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
