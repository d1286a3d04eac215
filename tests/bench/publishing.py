"""The rows about publishing: `publish` against Spark's Kafka source, against Spark's writer, and on Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.processes import environment
from tests.bench.results import Line, Unit, compared, seconds
from tests.bench.rounds import Outcome, Times
from tests.bench.routes import A, C, E, F, G
from tests.bench.topics import Topic, topics
from tests.bench.totals import Differ
from tests.kafka import distribution

_REPOSITORY = Path(__file__).resolve().parents[2]
_MOST_SECONDS = 3600

AGAINST = {
    A: "Spark's Kafka source → Delta, defaults",
    C: "Spark's Kafka source → Delta, tuned",
    E: "our decode → Spark's Delta writer",
    G: "the same job on Spark's workers",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A topic, and the targets against each opponent: (must, aim)."""

    topic: str
    asked: dict[str, tuple[float | None, float | None]]

    @property
    def name(self) -> str:
        return f"publish-{self.topic}"


CASES = tuple(
    Case(topic, {A: defaults, C: tuned, E: writer, G: (None, None)})
    for topic, defaults, tuned, writer in (
        ("small-none", (6.0, 10.0), (5.0, 8.0), (2.5, 4.0)),
        ("small-lz4", (5.0, 9.0), (4.5, 7.0), (2.3, 3.5)),
        ("medium-zstd", (2.5, 5.0), (2.5, 4.5), (1.6, 2.5)),
    )
)


def lines(case: Case, mib: int, rounds: int) -> Iterator[Line]:
    """Every opponent of one topic, and what comes before publishing.

    :raises Differ: the tables do not hold the same rows. :raises distribution.Unavailable: Kafka or Spark's Kafka
        source cannot be had here.
    """
    topic = topics(mib).named(case.topic)
    found = child("tests.bench.routes", case.topic, mib, rounds)
    outcome = Outcome({name: Times(tuple(each)) for name, each in found["seconds"].items()}, found["void_sets"])
    named = Outcome({AGAINST.get(name, name): times for name, times in outcome.times.items()}, outcome.void_sets)
    for opponent, (must, aim) in case.asked.items():
        yield compared(
            case.name,
            named,
            F,
            AGAINST[opponent],
            raw_bytes=topic.payload_bytes,
            records=topic.records,
            must=must,
            aim=aim,
        )
    yield _before(case, topic, found)


def _before(case: Case, topic: Topic, found: dict[str, Any]) -> Line:
    taken, ours, theirs = found["prepare_seconds"], found["tables"][F], found["tables"][A]
    return Line(
        f"{case.name}, before it",
        "",
        Unit.SECONDS,
        taken,
        taken,
        taken,
        f"ingest (where the segments lie) and validate, once, the session being new; its table: {_size(ours)}",
        f"the Kafka source's table: {_size(theirs)}; Spark's session took {seconds(found['session_seconds'])}, "
        f"the segments have {topic.segment_bytes / 1e6:,.0f} MB",
    )


def _size(table: dict[str, int]) -> str:
    return f"{table['files']} files, {table['bytes'] / 1e6:,.0f} MB"


def child(module: str, *arguments: object) -> dict[str, Any]:
    """What a module prints that is run in a process of its own, with its JVM and its workers.

    :raises Differ, distribution.Unavailable: as it says.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=_REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=_MOST_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        sys.stderr.write(done.stderr[-3000:])
        raise Differ(f"the process of {module} ended with exit code {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "void" in found:
        raise (distribution.Unavailable if found["unavailable"] else Differ)(found["void"])
    return found
