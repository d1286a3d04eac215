"""The rows about decoding values against Spark: the job `decode`, and `from_json` or `from_avro` over `records`.

Both read `records` of the same lake and write a Delta table with the same columns. Spark's mode is PERMISSIVE. Its time
begins when its session is there and has decoded one partition already: only the query counts, in a warm JVM. Ours is
the time of the job, with the start of its workers.

python -m tests.bench.spark_decoding FORMAT RECORDS TARGET        Spark's query, in this process
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable

from tests.bench.corpora import home
from tests.bench.decoded_values import SCHEMAS, DecodedCase, DecodedPlace
from tests.bench.decoding import Asked
from tests.bench.results import Line, compared
from tests.bench.rounds import Contender, take_turns
from tests.bench.totals import Differ
from tests.kafka import distribution

_REPOSITORY = Path(__file__).resolve().parents[2]
_DDL = (
    "id BIGINT, user STRING, email STRING, amount DOUBLE, currency STRING, paid BOOLEAN, created BIGINT, "
    "address STRUCT<city: STRING, zip: STRING>, tags ARRAY<STRING>"
)
_FIELDS = ("id", "user", "email", "amount", "currency", "paid", "created", "address", "tags")
_COORDINATES = ("log_id", "partition", "offset", "timestamp", "headers", "published_at", "key")
_HASHED = ", ".join(['"partition"', '"offset"', "timestamp", "key", *(f'value."{name}"' for name in _FIELDS)])


@dataclass(frozen=True, slots=True)
class SparkCase:
    """A format, and how many times as fast as Spark is asked."""

    format: str
    asked: Asked

    @property
    def name(self) -> str:
        return f"decode-{self.format}-spark"

    @property
    def opponent(self) -> str:
        return f"Spark `from_{self.format}`"


CASES = (SparkCase("json", Asked(2.5, 5)), SparkCase("avro", Asked(3, 6)))


def lines(case: SparkCase, mib: int, rounds: int) -> Iterator[Line]:
    """The job against Spark's query, after both tables were compared.

    :raises Differ: the tables differ. :raises distribution.Unavailable: there is no jar of Spark's functions for Avro.
    """
    distribution.spark_avro()
    ours = f"decode, {case.format}"
    with tempfile.TemporaryDirectory(prefix="decode-", dir=home()) as scratch:
        place = DecodedPlace(Path(scratch), DecodedCase(case.format, case.asked))
        place.prepare(mib)
        place.compare()
        records, target = place.published / "tables" / "records", Path(scratch, "spark")

        def query() -> float:
            shutil.rmtree(target, ignore_errors=True)
            command = [sys.executable, "-m", "tests.bench.spark_decoding", case.format, str(records), str(target)]
            done = subprocess.run(command, cwd=_REPOSITORY, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Differ(f"{case.name}: {done.stderr[-2000:]}")
            return float(done.stdout.splitlines()[-1])

        query()
        mine, theirs = _content(place.lake / "tables" / "decoded" / "rows"), _content(target)
        if mine != theirs or mine[0] != place.records:
            raise Differ(f"{case.name}: the tables hold {mine} and {theirs}, of {place.records} rows")
        outcome = take_turns(
            [Contender(ours, place.decode), Contender(case.opponent, query)], rounds=rounds, warm_ups=0
        )
    yield compared(
        case.name,
        outcome,
        ours,
        case.opponent,
        raw_bytes=place.raw_bytes,
        records=place.records,
        must=case.asked.must,
        aim=case.asked.aim,
    )


def _content(table: Path) -> list[int]:
    """Rows, sum of the offsets, sum of a 64-bit hash of every row."""
    files = DeltaTable(str(table)).file_uris()  # DuckDB refuses Arrow's batches of large row groups with nested structs
    with duckdb.connect(":memory:") as connection:
        sums = connection.read_parquet(files).aggregate(f'count(*), sum("offset"), sum(hash({_HASHED}))')
        return [int(value) for value in sums.fetchall()[0]]


def _query(format: str, records: str, target: str) -> float:
    from pyspark.sql import functions
    from pyspark.sql.avro.functions import from_avro

    from spark_jobs.engine.jars import delta_jars
    from spark_jobs.engine.session import get_session

    jars = ",".join(map(str, (*delta_jars(), *distribution.spark_avro())))
    # What our jobs set for short local runs would slow Spark down: the JVM's own defaults, and the parallel collector.
    java = {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": "-XX:+UseParallelGC"}
    spark: Any = get_session(conf={"spark.jars": jars, **java})
    rows = spark.read.format("delta").load(records).where("topic = 'rows'")
    permissive = {"mode": "PERMISSIVE"}
    if format == "json":
        value = functions.from_json(functions.col("value").cast("string"), _DDL, permissive)
    else:
        value = from_avro(functions.col("value"), SCHEMAS["avro"][1], permissive)
    columns = (*_COORDINATES, value.alias("value"), functions.col("value").isNull().alias("is_tombstone"))
    rows.where("partition = 0").select(*columns).write.format("delta").save(f"{target}-warm-up")
    shutil.rmtree(f"{target}-warm-up")
    begun = time.perf_counter()
    rows.select(*columns).write.format("delta").save(target)
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.stdout.write(f"{_query(*sys.argv[1:])}\n")
