"""The rows about operation: a tick of the sensor, and a night over very many logs of which few changed."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from unittest.mock import patch

from pipelines.sensors import evaluate
from spark_jobs.contracts import Intake
from spark_jobs.lake.setup import registry
from tests.bench import many
from tests.bench.corpora import MIB, home
from tests.bench.processes import environment
from tests.bench.results import Line, Unit, seconds
from tests.bench.totals import Differ
from tests.bench.watched import watched
from tests.bench.whole_runs import run, same_rows

TICK, NIGHT = "operate-tick", "operate-night"
_NOW_MS = 1_800_000_000_000
_CHANGED = 100
"""One log of so many has a new segment."""


def tick_lines(count: int, rounds: int) -> Iterator[Line]:
    """A tick of the sensor over so many logs, nothing being new, and the cursor that it keeps.

    :raises Differ: a tick with nothing new requests a run.
    """
    with tempfile.TemporaryDirectory(prefix="tick-", dir=home()) as scratch:
        source, lake = Path(scratch, "source"), Path(scratch, "lake")
        many.partitions(source, count, 1)
        lake.mkdir()
        with patch.dict("os.environ", {"LOGLAKE_HOME": str(Path(scratch, "home"))}):
            registry.remember(str(lake), Intake((str(source),)))
            # The first tick requests a run; the second one learns that it succeeded.
            first = evaluate(str(lake), None, _NOW_MS, lambda key: None)
            cursor, times = first.cursor, []
            for number in range(rounds + 1):
                begun = time.perf_counter()
                made = evaluate(str(lake), cursor, _NOW_MS + 60_000 * (number + 1), _succeeded)
                times.append(time.perf_counter() - begun)
                cursor = made.cursor
                if made.run_requests:
                    raise Differ("a tick with nothing new requested a run")
        times = times[1:]
    what = f"{count:,} logs, nothing new"
    yield Line(f"{TICK}: {what}", "", Unit.SECONDS, median(times), min(times), max(times), "", "", 3, 1)
    size = float(len((cursor or "").encode()))
    yield Line(f"{TICK}: cursor, {what}", "", Unit.BYTES, size, size, size, "", "", 50_000, 5_000)


def night_lines(count: int) -> Iterator[Line]:
    """Intake and nightly maintenance over so many partitions of three tiny segments, of which one in a hundred grew.

    :raises Differ: the table does not hold all records.
    """
    with tempfile.TemporaryDirectory(prefix="night-", dir=home()) as scratch:
        source, lake, policies = Path(scratch, "source"), Path(scratch, "lake"), Path(scratch, "policies.yaml")
        policies.write_text('topics:\n  "*": {cleanup.policy: delete, retention.ms: -1}\n')
        records = many.partitions(source, count)
        first = run(source, lake)
        same_rows(lake, records)
        records += many.add_segments(source, count, _CHANGED)
        command = [str(Path(sys.executable).with_name("loglake")), "run", str(source), "--lake", str(lake)]
        command += ["--policies", str(policies), "--maintain", "--apply"]
        variables = environment() | {"DAGSTER_HOME": str(lake.parent / "dagster")}
        night = watched(command, source.parent, variables)
        same_rows(lake, records)
    what = f"{count:,} partitions of 3 tiny segments, 1 in {_CHANGED} grew"
    before = f"the first run: {seconds(first.seconds)}"
    took = night.seconds
    yield Line(
        f"{NIGHT}: `loglake run --maintain --apply`, {what}", "", Unit.SECONDS, took, took, took, before, "", 90, 30
    )
    peak = night.together / MIB
    yield Line(f"{NIGHT}: peak of RssAnon of all processes", "", Unit.MIB, peak, peak, peak, "", "", 1_144, 572)


def _succeeded(_: str) -> object:
    from dagster import DagsterRunStatus

    return DagsterRunStatus.SUCCESS
