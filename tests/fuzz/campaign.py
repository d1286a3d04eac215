"""Many mutants, three ways: the reference, every fast engine, and a reader that others wrote."""

import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa

from logcore.columns.engines import Engine
from tests import handmade
from tests.fuzz.differences import agree, explanation, is_short
from tests.fuzz.engines_compared import equal, fast_engines, outcome
from tests.fuzz.mutator import Mutant, mutant
from tests.fuzz.opinions import Opinion, ours

_AT_ONCE = 1000
_SLOT = 1000
"""Offsets that each mutant of a chain has to itself."""

ThirdReader = Callable[[Sequence[bytes]], Iterable[Opinion]]


@dataclass(slots=True)
class Results:
    """What a campaign found. The two lists are empty, or something is wrong."""

    seed: int
    mutants: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    """Of the reference, by reason."""
    third: Counter[str] = field(default_factory=Counter)
    """How the third reader's opinions relate to the reference's; differences by their documented names."""
    unexplained: list[str] = field(default_factory=list)
    engines: Counter[str] = field(default_factory=Counter)
    """Mutants on which that engine was asked and gave what the reference gave."""
    disagreements: list[str] = field(default_factory=list)
    slowest_ms: float = 0.0
    """The longest that the reference took for one mutant."""

    def add(self, more: "Results") -> None:
        """What another run of the same seed found."""
        self.mutants += more.mutants
        self.verdicts += more.verdicts
        self.third += more.third
        self.engines += more.engines
        self.unexplained += more.unexplained
        self.disagreements += more.disagreements
        self.slowest_ms = max(self.slowest_ms, more.slowest_ms)


def run(seed: int, count: int, third: ThirdReader | None, *, first: int = 0, keep: int = 20) -> Results:
    """Check `count` mutants from number `first` on. Keeps at most `keep` examples of each problem."""
    results = Results(seed)
    numbers = iter(range(first, first + count))
    while some := [mutant(seed, number) for number in islice(numbers, _AT_ONCE)]:
        opinions = []
        for each in some:
            started = time.perf_counter()
            opinions.append(ours(each.data, each.segment_base))
            results.slowest_ms = max(results.slowest_ms, (time.perf_counter() - started) * 1000)
        results.mutants += len(some)
        results.verdicts.update(opinion.refusal or "read" for opinion in opinions)
        if third is not None:
            _ask_third(some, opinions, third, results, keep)
        _ask_engines(some, opinions, results, keep)
    return results


def _ask_third(
    mutants: Sequence[Mutant], opinions: Sequence[Opinion], third: ThirdReader, results: Results, keep: int
) -> None:
    for each, mine, theirs in zip(mutants, opinions, third([one.data for one in mutants]), strict=True):
        if agree(mine, theirs):
            results.third["both refuse" if mine.refusal else "both read the same"] += 1
            continue
        difference = explanation(each, mine, theirs)
        results.third["unexplained" if difference is None else difference.name] += 1
        if difference is None and len(results.unexplained) < keep:
            results.unexplained.append(f"{_repro(results.seed, each)}\n  ours   {mine}\n  theirs {theirs}")


def _ask_engines(mutants: Sequence[Mutant], opinions: Sequence[Opinion], results: Results, keep: int) -> None:
    chained = [
        (each, opinion) for each, opinion in zip(mutants, opinions, strict=True) if _can_be_chained(each, opinion)
    ]
    alone = [each for each, opinion in zip(mutants, opinions, strict=True) if not _can_be_chained(each, opinion)]
    numbers = [each.number for each, _ in chained]
    data = b"".join(_in_slot(each.data, slot) for slot, (each, _) in enumerate(chained))
    right = outcome(data, 0, Engine.REFERENCE)
    rows = sum(item.num_rows for item in right if isinstance(item, pa.Table))
    if rows != sum(len(opinion.rows) for _, opinion in chained):
        results.disagreements.append(f"reference: {rows} rows in a row, another number one by one; {numbers}")
    for engine in fast_engines():
        if equal(outcome(data, 0, engine), right):
            results.engines[engine] += len(chained)
            continue
        found = 0
        for each, _ in chained:
            if not _same(each, engine):
                found += 1
                if len(results.disagreements) < keep:
                    results.disagreements.append(f"{engine}: {_repro(results.seed, each)}")
        if not found:
            results.disagreements.append(f"{engine}: only one behind the other: seed {results.seed}, {numbers}")
    for engine in fast_engines():
        for each in alone:
            if _same(each, engine):
                results.engines[engine] += 1
            elif len(results.disagreements) < keep:
                results.disagreements.append(f"{engine}: {_repro(results.seed, each)}")


def _same(each: Mutant, engine: Engine) -> bool:
    right = outcome(each.data, each.segment_base, Engine.REFERENCE)
    return equal(outcome(each.data, each.segment_base, engine), right)


def _can_be_chained(each: Mutant, opinion: Opinion) -> bool:
    """Whether it can be given other offsets and a slot of its own in a long segment, for speed."""
    if opinion.refusal in ("LENGTH", "MAGIC"):
        return False  # the end of such a batch is unknown, and so is what follows
    if each.magic == 2 and is_short(each.data):
        return False  # whether it has room depends on the offsets before it
    if each.magic < 2:
        moved = "outer offset" in each.ways or each.data[:8] == bytes(8) or opinion.refusal == "OFFSET_ORDER"
        if moved or (each.magic == 0 and each.data[17] & 7):
            return False  # what it is taken for depends on its offset
    return opinion.refusal is not None or opinion.last_offset - opinion.base_offset < _SLOT


def _in_slot(data: bytes, slot: int) -> bytes:
    offset = slot * _SLOT + (0 if data[16] == 2 else _SLOT - 1)
    return handmade.patch(data, 0, struct.pack(">q", offset))


def _repro(seed: int, each: Mutant) -> str:
    return f"mutant({seed}, {each.number}) of '{each.parent}' by {', '.join(each.ways)}: {each.data.hex()}"


def rates(results: Results) -> Iterator[str]:
    """Lines for people."""
    yield f"{results.mutants} mutants of seed {results.seed}"
    yield f"  reference: {dict(results.verdicts.most_common())}, at most {results.slowest_ms:.0f} ms for one"
    yield f"  third reader: {dict(results.third.most_common())}"
    yield f"  engines that gave the same: {dict(results.engines)}"
