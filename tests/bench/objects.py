"""The rows about object stores: a run from and to a bucket against one from disk to disk, and a source without news.

The store is versitygw over a directory of the same disk, on loopback and on the same processors.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from deltalake import DeltaTable

from tests.bench import many
from tests.bench.corpora import SEGMENT_NAME, home, named, segment
from tests.bench.processes import environment
from tests.bench.results import Line, Unit, rate
from tests.bench.rounds import MOST_SPREAD, Contender, take_turns
from tests.bench.totals import Differ
from tests.bench.watched import Watched, watched
from tests.broker_directory import LogDirectory
from tests.object_store.gateway import Gateway, serving, upload

RUN, UNCHANGED = "objects-run", "objects-unchanged"
PARTITIONS = 4
DISK, STORE, REFERENCE = "disk to disk", "`s3://` to `s3://`", "`s3://` to `s3://`, `--mode reference`"


def run_lines(mib: int, rounds: int) -> Iterator[Line]:
    """`loglake run` into a new lake, from and to each place.

    :raises Differ: a table does not hold all records. :raises NoGateway: versitygw cannot be had here.
    """
    made = segment(named("small-none-16k"), mib // PARTITIONS)
    records = made.totals.records * PARTITIONS
    with served() as (gateway, scratch):
        logs, lake = scratch / "logs", scratch / "lake"
        directory = LogDirectory(logs)
        for number in range(PARTITIONS):
            shutil.copyfile(made.path, directory.partition(f"small-{number}").path / SEGMENT_NAME)
        directory.high_watermarks(**{f"small_{number}": made.totals.records for number in range(PARTITIONS)})
        bucket = gateway.bucket("bench")
        upload(logs, f"{bucket}/logs")

        def seconds(source: str, target: str, *options: str) -> float:
            for folder in (lake, scratch / "dagster", gateway.folder / "bench" / "lake"):
                shutil.rmtree(folder, ignore_errors=True)
            os.sync()
            taken = run(source, target, scratch, *options)
            same_rows(target, records)
            return taken.seconds

        ways = {
            DISK: lambda: seconds(str(logs), str(lake)),
            STORE: lambda: seconds(f"{bucket}/logs", f"{bucket}/lake"),
            REFERENCE: lambda: seconds(f"{bucket}/logs", f"{bucket}/lake", "--mode", "reference"),
        }
        outcome = take_turns([Contender(name, way) for name, way in ways.items()], rounds=rounds)
    raw, local = made.size * PARTITIONS, outcome.times[DISK]
    for name, (must, aim) in {STORE: (1.6, 1.2), REFERENCE: (None, None)}.items():
        remote = outcome.times[name]
        ratios = [b / a for a, b in zip(local.rounds, remote.rounds, strict=True)]
        yield Line(
            f"{RUN}: {name}",
            DISK,
            Unit.TIMES_AS_LONG,
            remote.median / local.median,
            min(ratios),
            max(ratios),
            rate(remote, raw, records),
            rate(local, raw, records),
            must,
            aim,
            max(local.spread, remote.spread) > MOST_SPREAD,
            outcome.void_sets,
        )


def unchanged_lines(count: int) -> Iterator[Line]:
    """Requests of `loglake run` for a source of about so many objects, nothing being new.

    :raises Differ: a run had something to do. :raises NoGateway: versitygw cannot be had here.
    """
    with served() as (gateway, scratch):
        bucket = gateway.bucket("bench")
        folder = gateway.folder / "bench" / "logs"
        records = many.partitions(folder, count // 3 - 1, 1)
        objects = _give_etags(folder)
        for name, lake, must, aim in (
            ("the lake on a disk", str(scratch / "lake"), 12, 11),
            ("the lake in the same bucket", f"{bucket}/lake", 12, 11),
        ):
            source = f"{bucket}/logs"
            run(source, lake, scratch)
            same_rows(lake, records)
            before, of_lake = gateway.requests("/bench/logs"), gateway.requests("lake/")
            before += gateway.requests("prefix=logs/")
            again = run(source, lake, scratch)
            if again.stdout.splitlines()[-1] != "nothing new":
                raise Differ("a run with nothing new had something to do")
            counted = gateway.requests("/bench/logs") + gateway.requests("prefix=logs/") - before
            own = (gateway.requests("lake/") - of_lake).total()
            yield Line(
                f"{UNCHANGED}: requests for {objects:,} objects of a source, {name}",
                "",
                Unit.REQUESTS,
                counted.total(),
                counted.total(),
                counted.total(),
                ", ".join(f"{number} {kind}" for kind, number in sorted(counted.items())),
                f"{own} for the lake",
                must,
                aim,
            )


@contextmanager
def served() -> Iterator[tuple[Gateway, Path]]:
    with tempfile.TemporaryDirectory(prefix="objects-", dir=home()) as scratch:
        folder = Path(scratch, "objects")
        folder.mkdir()
        with serving(home().parent, folder) as gateway, patch.dict(os.environ, gateway.settings):
            yield gateway, Path(scratch)


def run(source: str, lake: str, scratch: Path, *options: str) -> Watched:
    """`loglake run` in a process of its own, with a home of this case."""
    command = [str(Path(sys.executable).with_name("loglake")), "run", source, "--lake", lake, "--engine", "local"]
    variables = environment() | {"DAGSTER_HOME": str(scratch / "dagster")}
    return watched([*command, *options], scratch, variables)


def _give_etags(folder: Path) -> int:
    """Give each file the ETag of its content, as if it had been put; returns the number of files."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        etag = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        os.setxattr(path, "user.etag", f'"{etag}"'.encode())
    return len(files)


def same_rows(lake: str, records: int) -> None:
    found = DeltaTable(f"{lake}/tables/records").count()
    if found != records:
        raise Differ(f"the table holds {found} records, expected are {records}")
