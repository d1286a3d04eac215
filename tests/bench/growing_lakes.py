"""The rows about lakes that grow: by megabytes, by partitions, to ten thousand logs. Whole commands, local workers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.bench import many
from tests.bench.corpora import MIB, home
from tests.bench.results import Line, Unit, number, seconds
from tests.bench.rounds import MOST_SPREAD
from tests.bench.watched import Watched
from tests.bench.whole_runs import run, same_rows

INCREMENT, PARTITIONS, MANY = "increment-10mb", "partitions-1000", "partitions-10000"
NOTHING_NEW = "increment-none"


def increment_lines(mib: int, rounds: int) -> Iterator[Line]:
    """`loglake run` after the four logs of a lake grew by 10 MiB together.

    :raises Differ: the table does not hold all records.
    """
    with tempfile.TemporaryDirectory(prefix="increment-", dir=home()) as scratch:
        source, lake = Path(scratch, "source"), Path(scratch, "lake")
        records = many.spread(source, mib, 4)
        first = run(source, lake)
        taken = []
        for _ in range(rounds + 1):
            records += many.grow(source, 10, 4)
            taken.append(run(source, lake))
            same_rows(lake, records)
    yield _whole(f"{INCREMENT}: `loglake run`, {mib} MiB in the lake, grown by 10 MiB", taken[1:], first, 4, 2)


def partition_lines(mib: int, count: int, rounds: int) -> Iterator[Line]:
    """Seconds that the same bytes take longer in many partitions than in one, in a new lake.

    :raises Differ: a table does not hold all records.
    """
    with tempfile.TemporaryDirectory(prefix="partitions-", dir=home()) as scratch:
        few, much = Path(scratch, "few"), Path(scratch, "much")
        expected = {few: many.spread(few, mib, 1), much: many.spread(much, mib, count)}
        taken: dict[Path, list[Watched]] = {few: [], much: []}
        for _ in range(rounds):
            for source, records in expected.items():
                lake = Path(scratch, "lake")
                shutil.rmtree(lake, ignore_errors=True)
                taken[source].append(run(source, lake))
                same_rows(lake, records)
    more = [b.seconds - a.seconds for a, b in zip(taken[few], taken[much], strict=True)]
    yield Line(
        f"{PARTITIONS}: how much longer `loglake run` takes for {mib} MiB in {count:,} partitions than in one",
        "",
        Unit.SECONDS,
        median(more),
        min(more),
        max(more),
        f"{count:,}: {seconds(median(each.seconds for each in taken[much]))}",
        f"one: {seconds(median(each.seconds for each in taken[few]))}",
        0.006 * count,
        0.002 * count,
    )


def nothing_new_lines(count: int) -> Iterator[Line]:
    """`loglake run` with nothing new, where `records` has so many files.

    :raises Differ: the table does not hold all records.
    """
    with tempfile.TemporaryDirectory(prefix="nothing-", dir=home()) as scratch:
        source, lake = Path(scratch, "source"), Path(scratch, "lake")
        records = many.partitions(source, count, 1)
        first = run(source, lake)
        same_rows(lake, records)
        again = [run(source, lake) for _ in range(4)][1:]
    yield _whole(f"{NOTHING_NEW}: `loglake run`, nothing new, {count:,} files in `records`", again, first, 1.5, 0.8)


def many_lines(count: int) -> Iterator[Line]:
    """A first run over so many partitions of three tiny segments, one with nothing new, and what they take.

    :raises Differ: the table does not hold all records.
    """
    what = f"{count:,} partitions of 3 tiny segments"
    with tempfile.TemporaryDirectory(prefix="many-", dir=home()) as scratch:
        source, lake = Path(scratch, "source"), Path(scratch, "lake")
        records = many.partitions(source, count)
        first = run(source, lake)
        same_rows(lake, records)
        again = [run(source, lake) for _ in range(3)]
        size = sum(path.stat().st_blocks * 512 for path in lake.rglob("*")) / MIB
    yield _one(f"{MANY}: `loglake run`, {what}, new lake", Unit.SECONDS, first.seconds, 240, 90)
    yield _one(f"{MANY}: nothing new", Unit.SECONDS, median(each.seconds for each in again), 12, 4)
    yield _one(f"{MANY}: peak of RssAnon of all processes", Unit.MIB, first.together / MIB, 2048, 1024)
    yield _one(f"{MANY}: the lake on disk", Unit.MIB, size, 300, 150)


def _one(case: str, unit: Unit, figure: float, must: float, aim: float) -> Line:
    return Line(case, "", unit, figure, figure, figure, "", "", must, aim)


def _whole(case: str, taken: list[Watched], first: Watched, must: float, aim: float) -> Line:
    times = [each.seconds for each in taken]
    return Line(
        case,
        "",
        Unit.SECONDS,
        median(times),
        min(times),
        max(times),
        f"all processes {number(max(each.together for each in taken) / MIB)} MiB",
        f"the first run: {seconds(first.seconds)}",
        must,
        aim,
        max(times) / min(times) > MOST_SPREAD,
    )
