"""The row about the parts of a run: what the machine needs to do each of them once, against the whole command.

    read     the segments from the page cache
    digest   SHA-256 of every segment
    archive  a copy of every segment, on disk at the end
    decode   every batch to Arrow, its checksum verified in the same pass
    Parquet  the columns in the layout of `records`, on disk at the end

One process for each core does this with its share of the segments. What counts is the slowest process. The checksum is
also measured alone, to show its share; that time is not in the sum.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from tests.bench import journey
from tests.bench.corpora import home
from tests.bench.limits import walk_batches
from tests.bench.results import Line, Unit, compared
from tests.bench.rounds import Contender, take_turns
from tests.bench.topics import topics
from tests.bench.totals import Differ
from tests.bench.watched import Watched
from tests.bench.whole_runs import same_rows

PARTS = "journey-parts"
_TOPIC = "small-none"
_NAMES = ("read", "digest", "archive", "decode", "Parquet")


@dataclass(frozen=True, slots=True)
class Share:
    """What one process did with its segments."""

    rows: int
    seconds: dict[str, float]
    """Of each part, once."""
    checksum_seconds: float
    """Of the checksum alone, which is in `decode` too."""

    @property
    def together(self) -> float:
        """Seconds of all parts."""
        return sum(self.seconds.values())


def lines(mib: int, rounds: int) -> Iterator[Line]:
    """`loglake run` against the sum of its parts.

    :raises Differ: the parts or the command wrote another number of rows than the topic has records.
    :raises distribution.Unavailable: the topic cannot be made here.
    """
    made = topics(mib)
    topic = made.named(_TOPIC)
    shares = _shares(sorted(made.source.glob(f"{_TOPIC}-[0-9]/*.log")))
    slowest: list[Share] = []
    with tempfile.TemporaryDirectory(prefix="parts-", dir=home()) as scratch:
        lake, target = Path(scratch, "lake"), Path(scratch, "parts")
        taken: list[Watched] = []
        with ProcessPoolExecutor(len(shares), mp_context=get_context("spawn")) as pool:

            def parts() -> float:
                shutil.rmtree(target, ignore_errors=True)
                target.mkdir()
                found = list(pool.map(_once, shares, [str(target)] * len(shares)))
                os.sync()
                rows = sum(each.rows for each in found)
                if rows != topic.records:
                    raise Differ(f"{PARTS}: the parts wrote {rows} rows, there are {topic.records} records")
                slowest.append(max(found, key=lambda each: each.together))
                return slowest[-1].together

            journey.ours(made, topic, lake, taken)  # these two also fill the page cache
            same_rows(lake, topic.records)
            parts()
            slowest.clear()
            contenders = [
                Contender(journey.OURS, lambda: journey.ours(made, topic, lake, taken)),
                Contender("the parts", parts),
            ]
            outcome = take_turns(contenders, rounds=rounds, warm_ups=0)
    yield compared(
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
    middle = sorted(slowest, key=lambda each: each.together)[len(slowest) // 2]
    yield Line(
        f"{PARTS}: seconds of each part, in the round in the middle",
        "",
        Unit.SECONDS,
        middle.together,
        min(each.together for each in slowest),
        max(each.together for each in slowest),
        ", ".join(f"{name} {middle.seconds[name]:.2f} s" for name in _NAMES)
        + f"; of decode the checksum {middle.checksum_seconds:.2f} s",
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


def _once(paths: Sequence[str], target: str) -> Share:
    """Do all parts for these segments."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from logcore.columns.engines import decode_segment
    from logcore.columns.wanted import Place, Wanted
    from spark_jobs.archived_rows.records_file import DECODED
    from spark_jobs.lake.delta.files.parquet_files import layout, row_groups
    from spark_jobs.lake.table_specs import TABLES

    spec = TABLES["records"]
    schema = pa.schema([spec.schema.field(name) for name in DECODED])
    spent = dict.fromkeys(_NAMES, 0.0)
    written, checksum_seconds = 0, 0.0
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
        walk_batches(content)
        checksum_seconds += time.perf_counter() - at
        at = time.perf_counter()
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
            with pq.ParquetWriter(file, schema, **layout(spec)) as writer:
                for group in row_groups(rows, schema):  # type: ignore[arg-type]
                    lap("decode")
                    writer.write_table(group)
                    written += group.num_rows
                    lap("Parquet")
                lap("decode")
            file.flush()
            os.fsync(file.fileno())
        lap("Parquet")
    return Share(written, spent, checksum_seconds)
