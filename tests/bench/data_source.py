"""The rows about the data source: a topic into Spark's `noop` sink, against Spark's Kafka source.

Each way is a process of its own, and the JVM's start counts. A figure is processor time of all its processes, and of
the broker meanwhile, which works for the Kafka source.

python -m tests.bench.data_source WAY COLUMNS PLACE TOPIC          one way into `noop`, in this process
python -m tests.bench.data_source WAY COLUMNS PLACE TOPIC --sums   rows, sum of the offsets and of a hash of each row
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.processes import environment
from tests.bench.results import Line, compared
from tests.bench.rounds import Contender, take_turns
from tests.bench.routes import FETCHES
from tests.bench.topics import Topic, topics
from tests.bench.totals import Differ
from tests.bench.watched import Watched, processor_seconds, watched
from tests.kafka import distribution

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "source-noop"
_REPOSITORY = Path(__file__).resolve().parents[2]
OURS, DEFAULTS, TUNED = "the data source", "Spark's Kafka source, defaults", "Spark's Kafka source, tuned"
_WAYS = {OURS: "loglake", DEFAULTS: "defaults", TUNED: "tuned"}
COLUMNS = {
    "7 columns": ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"),
    "offset and timestamp": ("offset", "timestamp"),
}
_WANTED = {
    ("7 columns", DEFAULTS): (1.0, 1.8),
    ("7 columns", TUNED): (0.6, 1.0),
    ("offset and timestamp", DEFAULTS): (1.8, 4.0),
    ("offset and timestamp", TUNED): (1.0, 2.0),
}


def lines(mib: int, rounds: int) -> Iterator[Line]:
    """Both sets of columns against both settings of the Kafka source.

    :raises Differ: the ways read other rows. :raises distribution.Unavailable: Kafka or Spark's Kafka source cannot be
        had here.
    """
    distribution.spark_source()
    made = topics(mib)
    topic = made.named("small-none")
    with made.broker() as broker:
        places = {OURS: str(made.source), DEFAULTS: broker.servers, TUNED: broker.servers}
        expected = ""
        for name, place in places.items():  # also fills the page cache
            sums = _run(name, "7 columns", place, topic, "--sums").stdout.strip()
            expected = expected or sums
            if sums != expected or not sums.startswith(f"{topic.records} {topic.offset_sum} "):
                raise Differ(f"{NAME}: {name} gives {sums}, expected is {expected}")
        for columns in COLUMNS:
            contenders = [
                Contender(name, partial(_busy, broker.pid, name, columns, place, topic))
                for name, place in places.items()
            ]
            outcome = take_turns(contenders, rounds=rounds, warm_ups=0)
            for opponent in (DEFAULTS, TUNED):
                must, aim = _WANTED[columns, opponent]
                yield compared(
                    f"{NAME}: {columns}, processor time",
                    outcome,
                    OURS,
                    opponent,
                    raw_bytes=topic.payload_bytes,
                    records=topic.records,
                    must=must,
                    aim=aim,
                )


def _run(name: str, columns: str, place: str, topic: Topic, *options: str) -> Watched:
    command = [sys.executable, "-m", "tests.bench.data_source", _WAYS[name], columns, place, topic.name, *options]
    variables = environment() | {"PYSPARK_PYTHON": sys.executable}
    return watched(command, _REPOSITORY, variables)


def _busy(broker: int, name: str, columns: str, place: str, topic: Topic) -> float:
    """Processor seconds of one way and of the broker while it runs."""
    before = processor_seconds(broker)
    return _run(name, columns, place, topic).processor + processor_seconds(broker) - before


def _rows(session: SparkSession, way: str, place: str, topic: str) -> DataFrame:
    if way == "loglake":
        from pyspark_loglake import register

        register(session)
        return session.read.format("loglake").option("path", place).option("subscribe", topic).load()
    reader = session.read.format("kafka").option("kafka.bootstrap.servers", place).option("subscribe", topic)
    return reader.options(**(FETCHES if way == "tuned" else {})).load()


def main() -> int:
    """Read the topic in one way; the parent takes the time."""
    from pyspark.sql import SparkSession, functions

    way, columns, place, topic, *options = sys.argv[1:]
    jars = ",".join(map(str, distribution.spark_source()))
    builder = SparkSession.builder.master("local[*]").config("spark.jars", jars).config("spark.driver.memory", "2g")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    wanted = COLUMNS[columns]
    rows = _rows(session, way, place, topic).select(*wanted)
    if options:
        hashed = functions.sum(functions.xxhash64(*wanted).cast("decimal(38,0)"))
        found = rows.agg(functions.count("*"), functions.sum("offset"), hashed).first()
        sys.stdout.write(" ".join(map(str, found or ())) + "\n")
    else:
        rows.write.format("noop").mode("overwrite").save()
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
