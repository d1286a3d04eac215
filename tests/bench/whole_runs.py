"""The rows about whole runs: `loglake run` with nothing new and on one MiB, and the memory of its jobs."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from deltalake import DeltaTable

from spark_jobs.contracts import IngestConfig, JobConfig, PublishConfig, ValidateConfig
from tests.bench import many
from tests.bench.corpora import MIB, SEGMENT_NAME, home, named, segment
from tests.bench.processes import environment
from tests.bench.results import Line, Unit, number, seconds
from tests.bench.rounds import MOST_SPREAD
from tests.bench.topics import topics
from tests.bench.totals import Differ
from tests.bench.watched import Watched, watched
from tests.broker_directory import LogDirectory

NOOP, SMALL, MEMORY = "publish-noop", "publish-run-1mb", "publish-memory"

_AS_OF_MS = 1_800_000_000_000
_FEW = 10
_HEAP = "512m"
_SPARK = {"LOGLAKE_SPARK_CONF": f'{{"spark.driver.memory": "{_HEAP}"}}'}


def noop_lines(count: int, rounds: int) -> Iterator[Line]:
    """`loglake run` over so many archived segments, nothing being new.

    :raises Differ: it published something else than all records, started a JVM, or wrote a version of a table.
    """
    with tempfile.TemporaryDirectory(prefix="noop-", dir=home()) as scratch:
        source, lake = Path(scratch, "source"), Path(scratch, "lake")
        records = many.segments(source, count)
        first = run(source, lake)
        same_rows(lake, records)
        versions = _versions(lake)
        again = [run(source, lake) for _ in range(rounds + 1)][1:]
        if _versions(lake) != versions:
            raise Differ("a run with nothing new wrote a table version")
        if any(each.jvm for each in again):
            raise Differ("a run with nothing new started a JVM")
    yield _whole(
        f"{NOOP}: `loglake run`, {count:,} archived segments, nothing new",
        again,
        f"the run that took them in: {seconds(first.seconds)}",
        5,
        2,
    )


def small_lines(rounds: int) -> Iterator[Line]:
    """`loglake run` on one MiB of records in a new lake: the whole command, its JVM in it."""
    made = segment(named("small-none-16k"), 1)
    with tempfile.TemporaryDirectory(prefix="small-", dir=home()) as scratch:
        source, lake = Path(scratch, "source"), Path(scratch, "lake")
        directory = LogDirectory(source)
        shutil.copyfile(made.path, directory.partition("small-0").path / SEGMENT_NAME)
        directory.high_watermarks(small_0=made.totals.records)
        taken = []
        for _ in range(rounds + 1):
            shutil.rmtree(lake, ignore_errors=True)
            taken.append(run(source, lake))
            same_rows(lake, made.totals.records)
    yield _whole(f"{SMALL}: `loglake run`, 1 MiB, new lake", taken[1:], "behind a warm-up", 30, 12)


def memory_lines(count: int, tiny: int, mib: int) -> Iterator[Line]:
    """Peaks of the three jobs' processes, each job in a process of its own, its JVM's heap bound.

    :raises distribution.Unavailable: the large topics cannot be made here.
    """
    few = _peaks(lambda folder: many.segments(folder, _FEW))
    much = _peaks(lambda folder: many.segments(folder, count))
    yield _growth(f"{count:,} segments over {_FEW}", much, few)
    batches = _peaks(lambda folder: many.batches(folder, tiny))
    yield _growth(f"{tiny:,} batches of one record over {_FEW} segments", batches, few)
    peaks = {f"{count:,} segments": _worker(much), f"{tiny:,} batches of one record": _worker(batches)}
    made = topics(mib)
    for topic in made.topics:
        taken = _peaks(None, source=made.source, topic=topic.name, records=topic.records)
        peaks[f"{topic.name}, {mib} MiB"] = _worker(taken)
    largest = max(peaks.values())
    yield Line(
        f"{MEMORY}: peak of RssAnon of a Spark worker, any job",
        "600 MiB",
        Unit.MIB,
        largest,
        min(peaks.values()),
        largest,
        "; ".join(f"{what}: {number(peak)} MiB" for what, peak in peaks.items()),
        "",
        600,
        300,
    )


def _peaks(
    make: Callable[[Path], int] | None, source: Path | None = None, topic: str = "", records: int = 0
) -> dict[str, Watched]:
    """Peaks by job, over a source that is made for it or is there."""
    with tempfile.TemporaryDirectory(prefix="memory-", dir=home()) as scratch:
        lake = str(Path(scratch, "lake"))
        if make is not None:
            source = Path(scratch, "source")
            records = make(source)
        topics_wanted = (topic,) if topic else ()
        configs: list[JobConfig] = [
            IngestConfig(lake, (str(source),), "ingest", _AS_OF_MS, mode="reference", topics=topics_wanted),
            ValidateConfig(lake, "validate", _AS_OF_MS),
            PublishConfig(lake, "publish", _AS_OF_MS),
        ]
        taken = {}
        for config in configs:
            path = Path(scratch, f"{config.JOB}.json")
            path.write_text(config.to_json())
            command = [sys.executable, "-m", "spark_jobs", config.JOB, "--config", str(path)]
            taken[config.JOB] = watched(command, Path(__file__).resolve().parents[2], environment() | _SPARK)
        published = json.loads(taken["publish"].stdout.splitlines()[-1])["metrics"]["records"]
        if published != records:
            raise Differ(f"{published} records were published, there are {records}")
    return taken


def _growth(what: str, much: dict[str, Watched], few: dict[str, Watched]) -> Line:
    growth = {job: (much[job].driver - few[job].driver) / MIB for job in much}
    peaks = "; ".join(
        f"{job}: {number(much[job].driver / MIB)} MiB (few: {number(few[job].driver / MIB)}), "
        f"JVM {number(much[job].jvm / MIB)} ({number(few[job].jvm / MIB)})"
        for job in much
    )
    return Line(
        f"{MEMORY}: growth of the driver's peak of RssAnon, {what}",
        "flat: 100 MiB",
        Unit.MIB,
        max(growth.values()),
        min(growth.values()),
        max(growth.values()),
        peaks,
        f"the JVM's heap is held at {_HEAP} in all",
        100,
        None,
    )


def _worker(taken: dict[str, Watched]) -> float:
    return max(each.worker for each in taken.values()) / MIB


def _whole(case: str, taken: list[Watched], beside: str, must: float, aim: float) -> Line:
    times = [each.seconds for each in taken]
    return Line(
        case,
        "",
        Unit.SECONDS,
        median(times),
        min(times),
        max(times),
        f"driver {number(max(each.driver for each in taken) / MIB)} MiB, "
        f"JVM {number(max(each.jvm for each in taken) / MIB)} MiB",
        beside,
        must,
        aim,
        max(times) / min(times) > MOST_SPREAD,
    )


def run(source: Path, lake: Path) -> Watched:
    """`loglake run` in a process of its own."""
    command = [str(Path(sys.executable).with_name("loglake")), "run", str(source), "--lake", str(lake)]
    variables = environment() | {"DAGSTER_HOME": str(lake.parent / "dagster")}
    return watched(command, source.parent, variables)


def same_rows(lake: Path, records: int) -> None:
    """Raise Differ if the table records does not have so many rows."""
    found = DeltaTable(str(lake / "tables" / "records")).to_pyarrow_dataset().count_rows()
    if found != records:
        raise Differ(f"the table records has {found} rows, there are {records} records")


def _versions(lake: Path) -> dict[str, int]:
    return {path.name: DeltaTable(str(path)).version() for path in sorted((lake / "tables").iterdir())}
