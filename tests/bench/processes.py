"""The rows that need fresh processes: a worker's start, the first reading, memory while streaming."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from tests.bench.corpora import MIB, home, named, segment
from tests.bench.results import Line, Unit, number, seconds
from tests.bench.rounds import MOST_SPREAD, Contender, take_turns
from tests.bench.totals import Differ
from tests.kafka.java_bench import JavaBench

START, COLD, MEMORY = "worker-start", "first-reading", "memory"

_REPOSITORY = Path(__file__).resolve().parents[2]
_BARE = "import numpy, pyarrow"
_WORKER = """
import numpy, pyarrow, sys
from logcore.columns.engines import Engine, decode_segment
from logcore.columns.wanted import Place
with open(sys.argv[1], "rb") as stream:
    data = stream.read()
rows = sum(
    rows.num_rows
    for rows in decode_segment(data, place=Place("t", 0, "l", "s"), base_offset=0, sealed=True, engine=Engine.KERNELS)
)
assert rows == int(sys.argv[2]), rows
"""

_UNPRIMED = "import logcore.storage.machine.object_code as kept; kept._shared_folders = list\n"
"""What `make setup` left in the environment is not looked at."""


def start_lines(rounds: int) -> Iterator[Line]:
    """How long a worker takes until its first rows, over one that has NumPy and PyArrow; cached and not cached."""
    small = segment(named("small-none-16k"), 1)
    arguments = [str(small.path), str(small.totals.records)]
    contenders = [
        Contender("numpy and pyarrow", lambda: _run(["-c", _BARE])),
        Contender("worker", lambda: _run(["-c", _WORKER, *arguments])),
    ]
    outcome = take_turns(contenders, rounds=rounds)
    bare, worker = outcome.times["numpy and pyarrow"], outcome.times["worker"]
    over = [second - first for first, second in zip(bare.rounds, worker.rounds, strict=True)]
    yield Line(
        "worker start, compiled code cached",
        "numpy + pyarrow",
        Unit.SECONDS,
        median(over),
        min(over),
        max(over),
        f"{seconds(worker.median)} until 1 MiB of records is decoded",
        f"{seconds(bare.median)} to import both",
        0.5,
        0.2,
        max(bare.spread, worker.spread) > MOST_SPREAD,
        outcome.void_sets,
    )
    with tempfile.TemporaryDirectory(prefix="empty-", dir=home()) as empty:
        taken = _run(["-c", _UNPRIMED + _WORKER, *arguments], {"LOGLAKE_HOME": empty, "XDG_CACHE_HOME": empty})
    yield Line(
        "worker start, nothing cached (once a machine)",
        "numpy + pyarrow",
        Unit.SECONDS,
        taken - bare.median,
        taken - max(bare.rounds),
        taken - min(bare.rounds),
        f"{seconds(taken)}, the compilation in it",
        f"{seconds(bare.median)} to import both",
    )


def cold_lines(mib: int, rounds: int) -> Iterator[Line]:
    """The first reading of a segment by a fresh process, the file being in the page cache."""
    name = "small-none-16k"
    made = segment(named(name), mib)
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(_child("first", name, mib))
        with JavaBench(made.path, warm_up=0) as java:
            theirs.append(java.round().ns / 1e9)
    firsts = [each["first"] for each in ours]
    ratios = [there / here for here, there in zip(firsts, theirs, strict=True)]
    yield Line(
        f"{name}, first reading of a fresh process",
        "Java",
        Unit.TIMES_AS_FAST,
        median(theirs) / median(firsts),
        min(ratios),
        max(ratios),
        f"{seconds(median(firsts))} (imports before it {seconds(median([each['import'] for each in ours]))}, "
        f"the second reading {seconds(median([each['second'] for each in ours]))})",
        f"{seconds(median(theirs))} (start of the JVM before it not counted)",
        noisy=max(max(each) / min(each) for each in (firsts, theirs)) > MOST_SPREAD,
    )


def memory_lines(mib: int, rounds: int) -> Iterator[Line]:
    """Anonymous memory of a process through which a segment streams."""
    name = "small-none-16k"
    found = [_child("stream", name, mib) for _ in range(rounds)]
    if any(each["lost"] for each in found):
        raise Differ(f"records are missing from the stream: {found[0]['lost']}")
    peaks = [each["peak"] / MIB for each in found]
    yield Line(
        f"{name}, peak of RssAnon while {number(found[0]['size'] / MIB)} MiB stream by",
        "256 MiB",
        Unit.MIB,
        max(peaks),
        min(peaks),
        max(peaks),
        f"{number(median(each['before'] for each in found) / MIB)} MiB before the first batch, "
        f"Arrow's pool at most {number(max(each['arrow_peak'] for each in found) / MIB)} MiB",
        "",
        256,
        None,
    )


def _child(*arguments: object) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.child", *map(str, arguments)],
        cwd=_REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Differ(f"a process of its own failed: {done.stderr.strip()[-300:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _run(arguments: list[str], changes: Mapping[str, str] | None = None) -> float:
    variables = environment() | dict(changes or {})
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], cwd=_REPOSITORY, env=variables, capture_output=True, text=True, check=False
    )
    taken = time.perf_counter() - begun
    if done.returncode != 0:
        raise Differ(f"a worker failed: {done.stderr.strip()[-300:]}")
    return taken


def environment() -> dict[str, str]:
    """Of a process of its own: it finds our caches, and may keep its byte code like an installed program."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return inherited | {"LOGLAKE_HOME": str(home().parent)}
