"""What brokers store, what Kafka's reader reads, what we read: batches that break one rule each, and a page of it.

    python -m tests.fuzz.stored --cases 1000000 --seed 20261128 -o docs/results/stored-batches.md

Each case is read as it was made, and as each broker stored it (`tests.kafka.broker_validation`), by Kafka 4.4.0's
reader and by the reference. Every difference is one of `tests.fuzz.differences`, with its decision, or the run fails.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.differences import DIFFERENCES, agree, explanation
from tests.fuzz.mutator import Mutant
from tests.fuzz.one_rule import AT, Case, case
from tests.fuzz.opinions import javas, ours
from tests.kafka.broker_validation import VERSIONS, BrokerValidation
from tests.kafka.java_reader import JavaReader
from tests.long_runs import commit

READER = "4.4.0"
MADE = "made"
"""The bytes that no broker has seen."""
_STEP = 1000


@dataclass(slots=True)
class Tally:
    """Counts by where the bytes come from: `MADE`, or the version of the broker that stored them."""

    cases: int = 0
    blobs: Counter[str] = field(default_factory=Counter)
    alike: Counter[tuple[str, str]] = field(default_factory=Counter)
    differ: Counter[tuple[str, str]] = field(default_factory=Counter)
    rules: set[tuple[int, str]] = field(default_factory=set)
    unexplained: list[str] = field(default_factory=list)


class Judges:
    """The JVMs; use as a context manager. `distribution.Unavailable` if Kafka cannot be run here."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._reader = self._open.enter_context(JavaReader(version=READER))
        self._brokers = [self._open.enter_context(BrokerValidation(version)) for version in VERSIONS]

    def __enter__(self) -> Judges:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def take(self, tally: Tally, seed: int, first: int, count: int) -> None:
        """Add these cases."""
        cases = [case(seed, number) for number in range(first, first + count)]
        blobs: dict[tuple[bytes, int], list[str]] = {}
        of: dict[bytes, Case] = {}
        for each, *answers in zip(cases, *self._stored(cases), strict=True):
            tally.rules.add((each.magic, each.rule))
            base = AT if each.magic == 2 else 0
            blobs.setdefault((each.lying, base), []).append(MADE)
            of.setdefault(each.lying, each)
            for version, answer in zip(VERSIONS, answers, strict=True):
                if isinstance(answer, bytes):
                    blobs.setdefault((answer, AT), []).append(version)
                    of.setdefault(answer, each)
        tally.cases += count
        for ((data, base), sources), reading in zip(
            blobs.items(), self._reader.read_all(data for data, _ in blobs), strict=True
        ):
            mine, theirs = ours(data, base), javas(reading, len(data))
            mutant = Mutant(of[data].number, of[data].rule, (of[data].rule,), base, data)
            known = None if agree(mine, theirs) else explanation(mutant, mine, theirs)
            for source in sources:
                tally.blobs[source] += 1
                if agree(mine, theirs):
                    tally.alike["both refuse" if mine.refusal else "both read the same", source] += 1
                else:
                    tally.differ["unexplained" if known is None else known.name, source] += 1
            if known is None and not agree(mine, theirs):
                tally.unexplained.append(
                    f"case({seed}, {of[data].number}) {of[data].rule} {sources}: {data.hex()}\n"
                    f"  ours   {mine}\n  theirs {theirs}"
                )

    def _stored(self, cases: Sequence[Case]) -> list[list[bytes | str]]:
        sent = [each.sent for each in cases]
        return [broker.stored(sent, AT) for broker in self._brokers]


def main(arguments: list[str] | None = None) -> int:
    """Run, report on stderr, write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.stored", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=20261128)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    tally, started = Tally(), time.monotonic()
    with Judges() as judges:
        for first in range(0, options.cases, _STEP):
            judges.take(tally, options.seed, first, min(_STEP, options.cases - first))
            elapsed = time.monotonic() - started
            sys.stderr.write(f"\r{tally.cases} cases, {elapsed:.0f} s, {len(tally.unexplained)} unexplained ")
            sys.stderr.flush()
            options.output.write_text("\n".join(page(tally, options.seed)) + "\n")
    sys.stderr.write("\n")
    return 1 if tally.unexplained else 0


def page(tally: Tally, seed: int) -> Iterator[str]:
    """The lines of the page."""
    sources = (MADE, *VERSIONS)
    yield "# What Kafka stores and reads"
    yield ""
    yield f"Written by `python -m tests.fuzz.stored --cases {tally.cases} --seed {seed}`."
    yield ""
    yield f"Each of {tally.cases:,} batches breaks one rule: one field of the header, of a record, of a message or of"
    yield f"the compressed stream. There are {len(tally.rules)} rules in three formats, with all codecs. Each batch was"
    yield "sent to the `LogValidator` of three brokers. Kafka 4.4.0's reader and ours read it as it was made, and as"
    yield "each broker stored it."
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| commit | `{commit()}` |"
    yield ""
    yield f"| | made | {' | '.join(f'stored by {version}' for version in VERSIONS)} |"
    yield f"|---|{'---:|' * len(sources)}"
    yield f"| batches | {' | '.join(f'{tally.blobs[source]:,}' for source in sources)} |"
    for name in ("both read the same", "both refuse"):
        yield f"| {name} | {' | '.join(f'{tally.alike[name, source]:,}' for source in sources)} |"
    yield ""
    yield "Every kind of difference. A batch that no broker stores is damage, whatever Kafka's reader does with it."
    yield ""
    yield f"| difference | made | {' | '.join(VERSIONS)} | decided |"
    yield f"|---|{'---:|' * len(sources)}---|"
    for difference in DIFFERENCES:
        counts = [tally.differ[difference.name, source] for source in sources]
        if any(counts):
            yield f"| {difference.name} | {' | '.join(f'{count:,}' for count in counts)} | {difference.decided} |"
    for wrong in tally.unexplained[:20]:
        yield from ("", "```", wrong, "```")


if __name__ == "__main__":
    sys.exit(main())
