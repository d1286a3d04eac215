"""The seed of everything that `make test` draws at random, one for all its processes, printed at the end of a run.

`make test` tries some cases of what is exhaustive: those that stand for a kind each, and a few others by this seed.
``LOGLAKE_TEST_SEED=<that number>`` draws the same again. `make test-long` tries every case.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

VARIABLE = "LOGLAKE_TEST_SEED"
SEED = int(os.environ.setdefault(VARIABLE, str(random.SystemRandom().randrange(1 << 32))))
"""The processes of pytest-xdist and of the tests inherit it."""

ONE_IN = int(os.environ.get("LOGLAKE_TEST_ONE_LONG_IN", "1"))
"""Of the tests marked ``long``, a run makes one in this many: 16 in `make test`, and all where nothing is said."""

CASES = {
    **dict.fromkeys(("jobs", "dagster", "spark", "crash", "cluster", "object_store", "harm", "journey"), 1),
    **dict.fromkeys(("conformance", "kafka", "model"), 4),
}
"""So many cases of a claim `make test` draws in these folders: the whole goes to `make test-long`."""

SLOW_CASES = 4
"""So many cases of a claim that is marked ``slow`` it draws in the others."""

Case = TypeVar("Case")


def chance(what: str) -> random.Random:
    """A generator for `what`: the same numbers whichever tests ran before it, and in whichever process."""
    return random.Random(f"{SEED} {what}")


def drawn(cases: Sequence[Case], count: int, what: str) -> list[Case]:
    """`count` of the cases, or all if they are no more, in their order."""
    chosen = chance(what).sample(range(len(cases)), min(count, len(cases)))
    return [cases[number] for number in sorted(chosen)]


def drawn_cases(cases: Sequence[Case], count: int, folder: str) -> Sequence[Case]:
    """The cases of a claim that this run makes.

    Claims of a folder that have equally many cases get the same ones: what they are about is made once for all.
    """
    return cases if ONE_IN == 1 else drawn(cases, count, f"cases of {folder}")


def examples(whole: int) -> int:
    """How many examples a property is tried on: a quarter in `make test`, and the whole where nothing is said."""
    return whole if ONE_IN == 1 else whole // 4


def is_left_out(name: str) -> bool:
    """Whether this run leaves out the long test of this name: each is drawn by itself, in every process alike."""
    return chance(f"long {name}").random() * ONE_IN >= 1
