"""The rows about `latest`: 1 % new rows, against computing the table again from all of `records`.

Keys are a quarter of the rows. New rows change keys that are drawn evenly, so that every file of the table has some of
them, or keys of the newest twentieth of the log. Times are processor times, so that other work counts little. Tasks run
in this process: the times of worker processes would not count. Both tables, and the newest offset of each key as NumPy
has it, are compared first.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, LatestConfig, PublishConfig, ValidateConfig
from spark_jobs.policies.policies_file import read_policies
from tests.bench.corpora import SEED, home
from tests.bench.dirty_logs import piece
from tests.bench.results import Line, Unit, seconds
from tests.bench.totals import Differ
from tests.in_process import without_spark

EVEN, RECENT = "latest-even", "latest-recent"
AS_OF_MS = 1_900_000_000_000
_AT_ONCE = 100_000


def lines(case: str, count: int, rounds: int) -> Iterator[Line]:
    """How many times as fast new rows are added as all rows are computed again.

    Each round does both on copies of one lake, one after the other.

    :raises Differ: a table does not have the newest row of each key.
    """
    random = np.random.default_rng([SEED, count])
    with tempfile.TemporaryDirectory(prefix="latest-", dir=home()) as scratch:
        source, lake, policies = Path(scratch, "source"), Path(scratch, "lake"), Path(scratch, "policies.yaml")
        policies.write_text('topics: {"*": {latest: soft-delete}}')
        old = random.integers(0, count // 4, count)
        drawn = old[-count // 20 :] if case == RECENT else old
        new = random.choice(drawn, count // 100)
        newest = np.full(count // 4, -1, np.int64)
        write(source / "latest-0", random, old, 0, newest)
        publish(source, lake, 1)
        first = _latest(lake, policies)
        end = int(newest.max()) + 1
        write(source / "latest-0", random, new, end, newest)
        publish(source, lake, 2)
        expected = np.sort(newest[newest >= 0])
        taken = [
            (_on_copy(lake, policies, expected), _on_copy(lake, policies, expected, replace=("latest",)))
            for _ in range(rounds)
        ]
    ratios = sorted(again / added for added, again in taken)
    added, again = (median(times) for times in zip(*taken, strict=True))
    yield Line(
        f"{case}: `loglake latest`, {count // 100:,} new rows, {count:,} rows, {len(expected):,} keys, processor time",
        "all rows again",
        Unit.TIMES_AS_FAST,
        median(ratios),
        ratios[0],
        ratios[-1],
        f"{seconds(added)}; the first {count:,} rows {seconds(first)}",
        seconds(again),
        10 if case == RECENT else None,
        30 if case == RECENT else None,
    )


def write(partition: Path, random: np.random.Generator, keys: np.ndarray, first: int, newest: np.ndarray) -> None:
    """Write a segment with records of these keys, and note the newest offset of each."""
    partition.mkdir(parents=True, exist_ok=True)
    offset = first
    with (partition / f"{first:020d}.log").open("wb") as stream:
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            made = piece(random, offset, some, "none", whole=True)
            stream.write(made.content)
            rows = made.totals.records
            np.maximum.at(newest, some[:rows], np.arange(offset, offset + rows))
            offset += rows


def publish(source: Path, lake: Path, number: int) -> None:
    """Publish what is new in the source to `records`."""
    stated = (str(lake), f"run-{number}", AS_OF_MS)
    launch.run(IngestConfig(str(lake), (str(source),), f"run-{number}", AS_OF_MS))
    launch.run(ValidateConfig(*stated))
    launch.run(PublishConfig(*stated))


def _on_copy(lake: Path, policies: Path, expected: np.ndarray, replace: tuple[str, ...] = ()) -> float:
    """The time of the job on a copy of the lake.

    :raises Differ: its table has other offsets than these.
    """
    with tempfile.TemporaryDirectory(prefix="copy-", dir=lake.parent) as scratch:
        copy = Path(shutil.copytree(lake, Path(scratch, "lake")))
        taken = _latest(copy, policies, replace)
        offsets = DeltaTable(str(copy / "tables" / "latest" / "latest")).to_pyarrow_table(columns=["offset"])
        if not np.array_equal(np.sort(offsets["offset"].to_numpy()), expected):
            raise Differ(f"the table does not have the newest row of each of {len(expected):,} keys")
    return taken


def _latest(lake: Path, policies: Path, replace: tuple[str, ...] = ()) -> float:
    with without_spark():
        begun = time.process_time()
        launch.run(LatestConfig(str(lake), "latest", AS_OF_MS, read_policies(str(policies)), replace=replace))
        return time.process_time() - begun
