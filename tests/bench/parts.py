"""The row about the parts of a run: what the machine needs to do each of them once, against the whole command.

    read     the segments from the page cache
    digest   SHA-256 of every segment
    archive  a copy of every segment, on disk at the end
    decode   every batch to Arrow, its checksum in it
    Parquet  the columns in the layout of `records`, on disk at the end

One process for each core does this with its share of the segments. What counts is the slowest process.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.bench import journey
from tests.bench.corpora import home
from tests.bench.results import Line, Unit, compared
from tests.bench.rounds import Contender, take_turns
from tests.bench.topics import topics
from tests.bench.watched import Watched

PARTS = "journey-parts"
_TOPIC = "small-none"
_NAMES = ("read", "digest", "archive", "decode", "Parquet")


def lines(mib: int, rounds: int) -> Iterator[Line]:
    """`loglake run` against the sum of its parts.

    :raises distribution.Unavailable: the topic cannot be made here.
    """
    made = topics(mib)
    topic = made.named(_TOPIC)
    shares = _shares(sorted(made.source.glob(f"{_TOPIC}-[0-9]/*.log")))
    spent: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="parts-", dir=home()) as scratch:
        lake, target = Path(scratch, "lake"), Path(scratch, "parts")
        taken: list[Watched] = []
        with ProcessPoolExecutor(len(shares), mp_context=get_context("spawn")) as pool:

            def parts() -> float:
                shutil.rmtree(target, ignore_errors=True)
                target.mkdir()
                found = list(pool.map(_once, shares, [str(target)] * len(shares)))
                spent.append(max(found, key=lambda each: sum(each.values())))
                os.sync()
                return sum(spent[-1].values())

            contenders = [
                Contender(journey.OURS, lambda: journey.ours(made, topic, lake, taken)),
                Contender("the parts", parts),
            ]
            outcome = take_turns(contenders, rounds=rounds, warm_ups=1)
    line = compared(
        PARTS,
        outcome,
        journey.OURS,
        "the parts",
        raw_bytes=topic.payload_bytes,
        records=topic.records,
        must=0.4,
        aim=0.65,
        unit=Unit.OF_THE_LIMIT,
    )
    yield line
    yield Line(
        f"{PARTS}: seconds of each part",
        "",
        Unit.SECONDS,
        sum(spent[-1].values()),
        min(sum(each.values()) for each in spent),
        max(sum(each.values()) for each in spent),
        ", ".join(f"{name} {spent[-1][name]:.2f} s" for name in _NAMES),
        f"{len(shares)} processes",
    )


def _shares(paths: Sequence[Path]) -> list[list[str]]:
    """Segments for each core, about as many bytes each."""
    shares: list[list[str]] = [[] for _ in os.sched_getaffinity(0)]
    sizes = [0] * len(shares)
    for path in sorted(paths, key=lambda path: -path.stat().st_size):
        least = sizes.index(min(sizes))
        shares[least].append(str(path))
        sizes[least] += path.stat().st_size
    return shares


def _once(paths: Sequence[str], target: str) -> dict[str, float]:
    """Do all parts for these segments, and return the seconds of each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from logcore.columns.engines import decode_segment
    from logcore.columns.wanted import Place, Wanted
    from spark_jobs.lake.delta.parquet_files import _layout, _row_groups
    from spark_jobs.lake.delta.tables import TABLES
    from spark_jobs.row_files.records_file import DECODED

    spec = TABLES["records"]
    schema = pa.schema([spec.schema.field(name) for name in DECODED])
    spent = dict.fromkeys(_NAMES, 0.0)
    for number, path in enumerate(paths):
        at = time.perf_counter()

        def lap(name: str) -> None:
            nonlocal at
            now = time.perf_counter()
            spent[name] += now - at
            at = now

        content = Path(path).read_bytes()
        lap("read")
        hashlib.sha256(content).digest()
        lap("digest")
        with open(f"{target}/{os.getpid()}-{number}.log", "wb") as copy:
            copy.write(content)
            copy.flush()
            os.fsync(copy.fileno())
        lap("archive")
        rows = iter(
            decode_segment(
                content,
                place=Place("t", 0, "l", "s"),
                base_offset=int(Path(path).stem),
                sealed=True,
                wanted=Wanted(columns=DECODED),
            )
        )
        with open(f"{target}/{os.getpid()}-{number}.parquet", "wb") as file:
            with pq.ParquetWriter(file, schema, **_layout(spec)) as writer:
                for group in _row_groups(rows, schema):  # type: ignore[arg-type]
                    lap("decode")
                    writer.write_table(group)
                    lap("Parquet")
                lap("decode")
            file.flush()
            os.fsync(file.fileno())
        lap("Parquet")
    return spent
