"""The rows about `loglake latest` as a whole command: against Spark's `row_number` and MERGE, and its memory.

Spark reads `records` of the same lake, keeps the newest row of each key by `row_number`, and merges it into a Delta
table by the key: the first time into an empty table, then with 1 % new rows, of which it knows the first offset.
It has the memory, the collector and the compilers of a server. Each command is a process of its own, from its start to
its end. Rows of both tables are compared before a figure is shown.

python -m tests.bench.latest_by_spark LAKE TABLE OFFSET        what Spark does, from this offset on
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import duckdb
import numpy as np
from deltalake import DeltaTable

from tests.bench.corpora import MIB, SEED, home
from tests.bench.decoding import Asked
from tests.bench.latest import publish, write
from tests.bench.processes import environment
from tests.bench.results import Line, Unit, seconds
from tests.bench.rounds import MOST_SPREAD, Contender, Times, take_turns
from tests.bench.totals import Differ
from tests.bench.watched import Watched, watched

SPARK, KEYS = "latest-spark", "latest-keys"
_REPOSITORY = Path(__file__).resolve().parents[2]
_OURS, _MERGE = "loglake latest", "Spark's row_number and MERGE"
_COLUMNS = ("log_id", "partition", '"offset"', "timestamp", "headers", "published_at", "key", "value", "is_deleted")
_CONF = {
    "spark.driver.memory": "6g",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.sql.shuffle.partitions": "16",
}


def lines(count: int, rounds: int) -> Iterator[Line]:
    """How many times as fast as Spark the first table is made, and 1 % new rows are added.

    :raises Differ: the tables have other rows.
    """
    random = np.random.default_rng([SEED, count])
    with tempfile.TemporaryDirectory(prefix="latest-", dir=home()) as scratch:
        place = _Place(Path(scratch))
        newest = np.full(count // 4, -1, np.int64)
        place.append(random, random.integers(0, count // 4, count), newest)

        def first(way: str) -> float:
            place.forget(way)
            return place.run(way, 0).seconds

        contenders = [Contender(way, lambda way=way: first(way)) for way in (_OURS, _MERGE)]  # type: ignore[misc]
        times = take_turns(contenders, rounds=rounds, warm_ups=0).times
        keys = place.compare(newest)
        yield place.line(f"first {count:,} rows, {keys:,} keys", times, Asked(3, 6))
        end = place.end
        place.append(random, random.integers(0, count // 4, count // 100), newest)
        added = {way: Times((place.run(way, end).seconds,)) for way in (_OURS, _MERGE)}
        place.compare(newest)
        yield place.line(f"{count // 100:,} new rows, {keys:,} keys", added, Asked())


def keys_lines(count: int) -> Iterator[Line]:
    """The memory of a first run over so many keys, each of one row.

    :raises Differ: the table has other rows.
    """
    random = np.random.default_rng([SEED, count])
    with tempfile.TemporaryDirectory(prefix="latest-", dir=home()) as scratch:
        place = _Place(Path(scratch))
        newest = np.full(count, -1, np.int64)
        place.append(random, random.permutation(count), newest)
        taken = place.run(_OURS, 0)
        place.check(place.ours, newest)
    yield Line(
        f"{KEYS}: `loglake latest`, {count:,} keys, memory of all its processes",
        "–",
        Unit.MIB,
        taken.together / MIB,
        taken.together / MIB,
        taken.together / MIB,
        f"{count / taken.seconds / 1e6:.2f} Mrec/s, {seconds(taken.seconds)}",
        "–",
        4096,
    )


class _Place:
    """A source, its lake, and the table that Spark keeps."""

    def __init__(self, scratch: Path) -> None:
        self.source, self.lake, self.merged = scratch / "source", scratch / "lake", scratch / "merged"
        self.ours = self.lake / "tables" / "latest" / "latest"
        self.policies = scratch / "policies.yaml"
        self.policies.write_text('topics: {"*": {latest: soft-delete}}')
        self.end = self.runs = 0

    def append(self, random: np.random.Generator, keys: np.ndarray, newest: np.ndarray) -> None:
        """Publish records of these keys."""
        write(self.source / "latest-0", random, keys, self.end, newest)
        self.end, self.runs = self.end + len(keys), self.runs + 1
        publish(self.source, self.lake, self.runs)

    def forget(self, way: str) -> None:
        """Remove the table of a way."""
        shutil.rmtree(self.ours if way == _OURS else self.merged, ignore_errors=True)

    def run(self, way: str, first: int) -> Watched:
        """Bring the table of a way up to the lake, whose rows are new from an offset on."""
        if way == _OURS:
            command = [str(Path(sys.executable).with_name("loglake")), "latest", str(self.lake)]
            command += ["--policies", str(self.policies)]
        else:
            command = [sys.executable, "-m", "tests.bench.latest_by_spark", str(self.lake), str(self.merged)]
            command.append(str(first))
        return watched(command, _REPOSITORY, environment())

    @staticmethod
    def line(what: str, times: Mapping[str, Times], asked: Asked) -> Line:
        """The line of a comparison."""
        ours, theirs = times[_OURS], times[_MERGE]
        ratios = [b / a for a, b in zip(ours.rounds, theirs.rounds, strict=True)]
        return Line(
            f"{SPARK}: `loglake latest`, {what}",
            _MERGE,
            Unit.TIMES_AS_FAST,
            theirs.median / ours.median,
            min(ratios),
            max(ratios),
            seconds(ours.median),
            seconds(theirs.median),
            asked.must,
            asked.aim,
            max(ours.spread, theirs.spread) > MOST_SPREAD,
        )

    def compare(self, newest: np.ndarray) -> int:
        """Compare the rows of both tables, and the newest offset of each key; return the number of keys."""
        digests = {_digest(table) for table in (self.ours, self.merged)}
        if len(digests) > 1:
            raise Differ(f"{SPARK}: the tables have other rows: {sorted(digests)}")
        return self.check(self.ours, newest)

    def check(self, table: Path, newest: np.ndarray) -> int:
        """Compare the offsets of a table with the newest one of each key."""
        expected = np.sort(newest[newest >= 0])
        offsets = DeltaTable(str(table)).to_pyarrow_table(columns=["offset"])["offset"].to_numpy()
        if not np.array_equal(np.sort(offsets), expected):
            raise Differ(f"the table does not have the newest row of each of {len(expected):,} keys")
        return len(expected)


def _digest(table: Path) -> tuple[int, int]:
    """The number of rows, and a sum over hashes of whole rows."""
    dataset = DeltaTable(str(table)).to_pyarrow_dataset()
    with duckdb.connect(":memory:") as connection:
        rows = connection.from_arrow(dataset)
        [(count, digest)] = rows.aggregate(f"count(*), sum(hash({', '.join(_COLUMNS)}))").fetchall()
    return int(count), int(digest)


def _merge(lake: str, table: str, first: int) -> None:
    """Merge the newest rows from an offset on into a table, as one writes it for Spark."""
    from spark_jobs.engine.session import get_session, stop_session

    columns = ", ".join(_COLUMNS).replace('"', "`")
    spark = get_session(lake, conf=_CONF)
    try:
        newest = spark.sql(
            f"""
            select {columns} from (
                select *, value is null as is_deleted,
                    row_number() over (partition by log_id, partition, key order by `offset` desc) as number
                from delta.`{lake}/tables/records`
                where topic = 'latest' and `offset` >= {first} and key is not null
            ) where number = 1
            """
        )
        newest.limit(0).write.format("delta").mode("ignore").save(table)
        newest.createOrReplaceTempView("newest")
        spark.sql(
            f"""
            merge into delta.`{table}` kept using newest
            on kept.log_id = newest.log_id and kept.partition = newest.partition and kept.key = newest.key
            when matched then update set * when not matched then insert *
            """
        )
    finally:
        stop_session()


if __name__ == "__main__":
    _merge(sys.argv[1], sys.argv[2], int(sys.argv[3]))
