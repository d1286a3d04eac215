"""How times are taken: contenders take turns, A B A B, and a set of times that spreads too far is taken again.

A round runs every contender once. The medians of all rounds are compared, so that what slows the machine for a while
slows all of them. A contender that reads only a part of the segment states its share. Its times are for the whole.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

MOST_SPREAD = 1.3
"""Slowest over fastest. A set of times beyond it is void."""
FEWEST_ROUNDS = 7
"""With fewer, spread is not judged for a second try."""
_SETS = 3


@dataclass(frozen=True, slots=True)
class Contender:
    """`seconds` does the work once and returns how long it took."""

    name: str
    seconds: Callable[[], float]
    share: float = 1.0
    """How much of the whole it reads."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds for the whole, in the order of the rounds."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.rounds)

    @property
    def spread(self) -> float:
        return max(self.rounds) / min(self.rounds)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Times by contender, and how many sets were thrown away because somebody's spread too far. Those that were kept
    may still: that is for a comparison to say of the contenders it is about."""

    times: Mapping[str, Times]
    void_sets: int


def clocked(work: Callable[[], object]) -> Callable[[], float]:
    """The work with a clock around it."""

    def seconds() -> float:
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun

    return seconds


def take_turns(contenders: Sequence[Contender], *, rounds: int, warm_ups: int = 1, sets: int | None = None) -> Outcome:
    """Times of all contenders; of several sets the first that is not void, else the one that spreads least."""
    sets = (_SETS if rounds >= FEWEST_ROUNDS else 1) if sets is None else sets
    for _ in range(warm_ups):
        for contender in contenders:
            contender.seconds()
    taken = []
    for _ in range(sets):
        lists: dict[str, list[float]] = {contender.name: [] for contender in contenders}
        for _ in range(rounds):
            for contender in contenders:
                gc.collect()
                lists[contender.name].append(contender.seconds() / contender.share)
        times = {name: Times(tuple(each)) for name, each in lists.items()}
        taken.append((max(each.spread for each in times.values()), times))
        if taken[-1][0] <= MOST_SPREAD:
            break
    _, times = min(taken, key=lambda each: each[0])
    return Outcome(times, len(taken) - 1)
