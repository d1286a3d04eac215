"""The rows about cancelled runs: how long after the signal another run can take the lease of the lake.

A run is cancelled at three moments: while it copies segments, while it validates them, and while it publishes records.
The next run must publish everything.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from spark_jobs.errors import LeaseHeld
from spark_jobs.lake.store import lease
from tests.bench.corpora import SEGMENT_NAME, named, segment
from tests.bench.objects import run, same_rows, served
from tests.bench.processes import environment
from tests.bench.results import Line, Unit, seconds
from tests.bench.totals import Differ
from tests.broker_directory import LogDirectory
from tests.object_store.gateway import upload

CANCEL = "operate-cancel"
PARTITIONS = 4
MOMENTS = ("archive/**/*.log*", "tables/segments/_delta_log/*1.json", "tables/records/**/*.parquet")
"""Files of a lake whose appearance is a moment: the first copied, the first validated, the first published bytes."""
_LOOK_SECONDS = 0.01
_MOST_SECONDS = 300.0


def lines(mib: int) -> Iterator[Line]:
    """Cancel runs that load so many MiB, and take the lease.

    :raises Differ: a run ended before it was cancelled, or the next one does not publish all records.
    :raises NoGateway: versitygw cannot be had here.
    """
    # A shell starts background processes with SIGINT ignored; then it would be ignored in the runs too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    made = segment(named("small-none-16k"), mib // PARTITIONS)
    with served() as (gateway, scratch):
        directory = LogDirectory(scratch / "logs")
        for number in range(PARTITIONS):
            shutil.copyfile(made.path, directory.partition(f"small-{number}").path / SEGMENT_NAME)
        directory.high_watermarks(**{f"small_{number}": made.totals.records for number in range(PARTITIONS)})
        bucket = gateway.bucket("bench")
        upload(directory.path, f"{bucket}/logs")
        places = {
            "a lake on a disk": (str(directory.path), str(scratch / "lake"), scratch / "lake"),
            "a lake in a bucket": (f"{bucket}/logs", f"{bucket}/lake", gateway.folder / "bench" / "lake"),
        }
        for place, (source, lake, folder) in places.items():
            loglake = [str(Path(sys.executable).with_name("loglake")), "run", source, "--lake", lake]
            for number in (signal.SIGINT, signal.SIGTERM):
                times = []
                for moment in MOMENTS:
                    shutil.rmtree(folder, ignore_errors=True)
                    shutil.rmtree(scratch / "dagster", ignore_errors=True)
                    times.append(_cancelled(loglake, number, lake, folder, moment, scratch))
                run(source, lake, scratch)
                same_rows(lake, made.totals.records * PARTITIONS)
                yield _line(f"{CANCEL}: {number.name} to `loglake run`, {place}", times)


def _cancelled(
    command: Sequence[str], number: signal.Signals, lake: str, folder: Path, moment: str, scratch: Path
) -> float:
    """Seconds from the signal until the lease is taken."""
    variables = environment() | {"DAGSTER_HOME": str(scratch / "dagster")}
    with subprocess.Popen(
        command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        begun = time.monotonic()
        while not any(folder.glob(moment)):
            if process.poll() is not None or time.monotonic() - begun > _MOST_SECONDS:
                process.kill()
                raise Differ(f"the run was over before {moment} was there")
            time.sleep(_LOOK_SECONDS)
        process.send_signal(number)
        begun = time.monotonic()
        while not _taken(lake):
            if time.monotonic() - begun > _MOST_SECONDS:
                process.kill()
                raise Differ(f"the lease was not free after {_MOST_SECONDS:.0f} seconds")
            time.sleep(_LOOK_SECONDS)
        took = time.monotonic() - begun
        process.communicate(timeout=_MOST_SECONDS)
    return took


def _taken(lake: str) -> bool:
    with contextlib.suppress(LeaseHeld), lease.hold(lake, "the next run"):
        return True
    return False


def _line(case: str, times: Sequence[float]) -> Line:
    """The slowest moment counts."""
    detail = ", ".join(map(seconds, times))
    return Line(case, "", Unit.SECONDS, max(times), min(times), max(times), detail, "", 30, 5)
