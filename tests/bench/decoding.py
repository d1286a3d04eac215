"""The decoding rows: segments to Arrow on one thread, against other readers and against the machine's limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from mmap import mmap

from logcore.columns.engines import Engine
from logcore.columns.wanted import EVERYTHING
from tests.bench import limits, readers
from tests.bench.corpora import MIB, named, segment
from tests.bench.results import Line, Unit, compared, rate
from tests.bench.rounds import MOST_SPREAD, Contender, Outcome, Times, take_turns
from tests.kafka.java_bench import JavaBench

_REFERENCE_BYTES = 2 * MIB
_KAFKA_PYTHON_BYTES = 8 * MIB
_AIOKAFKA_BYTES = 32 * MIB
JAVA_WARM_UPS = 2


@dataclass(frozen=True, slots=True)
class Asked:
    """What must be reached, and what is aimed at."""

    must: float | None = None
    aim: float | None = None


@dataclass(frozen=True, slots=True)
class DecodingCase:
    """One segment and whom we meet on it. Only who is given here takes part."""

    corpus: str
    java: Asked | None = None
    kafka_python: Asked | None = None
    aiokafka: Asked | None = None
    limit: Asked | None = None
    all_columns: bool = False

    @property
    def name(self) -> str:
        return self.corpus


CASES = (
    DecodingCase(
        "small-none-16k",
        java=Asked(2.8, 3.5),
        kafka_python=Asked(90, 120),
        aiokafka=Asked(8, 10),
        limit=Asked(0.40, 0.60),
        all_columns=True,
    ),
    DecodingCase("small-lz4-16k", java=Asked(1.7, 2.3), limit=Asked(0.50, 0.75)),
    DecodingCase("small-zstd-16k", java=Asked(1.5, 1.8), limit=Asked(0.80, 0.95)),
    DecodingCase("small-snappy-16k", java=Asked(1.9, 2.5), limit=Asked()),
    DecodingCase("small-gzip-16k", java=Asked(1.9, 2.8), limit=Asked()),
    DecodingCase("medium-none-16k", java=Asked(), limit=Asked(0.75, 0.90)),
    DecodingCase("small-none-16k-v1", java=Asked(1.7, 2.5)),
    DecodingCase("small-lz4-16k-v1", java=Asked(1.7, 2.5)),
    DecodingCase("headers-none-16k", java=Asked()),
    DecodingCase("small-none-1m", java=Asked(), limit=Asked()),
    DecodingCase("small-lz4-1m", java=Asked(), limit=Asked()),
    DecodingCase("small-zstd-1m", java=Asked(), limit=Asked()),
    DecodingCase("small-snappy-1m", java=Asked(), limit=Asked()),
    DecodingCase("small-gzip-1m", java=Asked(), limit=Asked()),
    DecodingCase("10k-none-1m", java=Asked()),
    DecodingCase("100k-none-1m", java=Asked()),
)


def lines(case: DecodingCase, mib: int, rounds: int) -> Iterator[Line]:
    """Check that all see the same records, then let them take turns.

    :raises Differ: they do not. :raises distribution.Unavailable: Kafka cannot be run here.
    """
    made = segment(named(case.corpus), mib)
    raw, records = made.raw_bytes, made.totals.records
    with ExitStack() as stack:
        content = stack.enter_context(readers.mapped(made))
        readers.check_against_the_generator(made, content, Engine.KERNELS)
        readers.check_against_the_reference(readers.prefix(content, _REFERENCE_BYTES), Engine.KERNELS)
        contenders = [readers.ours(content)]
        if case.java is not None:
            java = stack.enter_context(JavaBench(made.path, warm_up=JAVA_WARM_UPS))
            readers.check_against_java(made, java.round())
            contenders += [readers.ours_from_file(made, "ours from file"), readers.java(java)]
        if case.all_columns:
            readers.check_against_the_generator(made, content, Engine.KERNELS, EVERYTHING)
            contenders.append(readers.ours(content, wanted=EVERYTHING, name="all columns"))
        contenders += _python_clients(case, content)
        if case.limit is not None:
            contenders += limits.terms(made, content)
        outcome = take_turns(contenders, rounds=rounds)
        del contenders  # they look into the mapped file
    for name, our_way, theirs, asked in (
        (case.name, "ours from file", "Java", case.java),
        (case.name, "ours", "kafka-python", case.kafka_python),
        (case.name, "ours", "aiokafka", case.aiokafka),
    ):
        if asked is not None:
            yield compared(
                name, outcome, our_way, theirs, raw_bytes=raw, records=records, must=asked.must, aim=asked.aim
            )
    if case.java is not None:
        yield compared(f"{case.name}, mapped before", outcome, "ours", "Java", raw_bytes=raw, records=records)
    if case.limit is not None:
        yield _of_the_limit(case, case.limit, outcome, raw, records)
    if case.all_columns:
        name = f"{case.name}, all {len(EVERYTHING.schema)} columns"
        yield compared(name, outcome, "all columns", "Java", raw_bytes=raw, records=records)


def _python_clients(case: DecodingCase, content: mmap) -> list[Contender]:
    """kafka-python and aiokafka on the first bytes, after a look at whether they see what we see."""
    if case.kafka_python is None:
        return []
    small, large = readers.prefix(content, _KAFKA_PYTHON_BYTES), readers.prefix(content, _AIOKAFKA_BYTES)
    readers.check_against_peers(small, Engine.KERNELS)
    return [
        readers.kafka_python(small, len(small) / len(content)),
        readers.aiokafka(large, len(large) / len(content)),
    ]


def _of_the_limit(case: DecodingCase, asked: Asked, outcome: Outcome, raw: int, records: int) -> Line:
    names = limits.fastest(outcome)
    ours = outcome.times["ours"]
    allowed = Times(tuple(map(sum, zip(*(outcome.times[name].rounds for name in names), strict=True))))
    of_rounds = [limit / own for limit, own in zip(allowed.rounds, ours.rounds, strict=True)]
    told = "; ".join(f"{name} {raw / outcome.times[name].median / 1e9:.1f} GB/s" for name in names)
    return Line(
        case.name,
        "the limit",
        Unit.OF_THE_LIMIT,
        limits.limit_seconds(outcome) / ours.median,
        min(of_rounds),
        max(of_rounds),
        rate(ours, raw, records),
        told + " of raw records",
        asked.must,
        asked.aim,
        max(ours.spread, allowed.spread) > MOST_SPREAD,
        outcome.void_sets,
    )
