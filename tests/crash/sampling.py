"""Which of many side effects `make test` kills a job before, or lets fail; `make test-long` takes all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePosixPath

from tests.sampling import drawn

EVERY_KILL = os.environ.get("LOGLAKE_TEST_EVERY_KILL") == "1"
DOUBLE_CRASHES = int(os.environ.get("LOGLAKE_TEST_DOUBLE_CRASHES", "6"))
"""How often each scene is killed twice."""
ALSO = 4
"""Places that are drawn by the seed, beside one for each kind."""

UNCHANGED = frozenset({"fsync", "created", "committed"})
"""Effects that change no file. A process killed before one of them leaves what it leaves when killed before the next
effect: one of the two places is enough."""
TABLE_CHANGES = frozenset({"create", "created", "commit", "committed"})


def kills(effects: Sequence[str], what: str, *, only_table_changes: bool = False) -> list[int]:
    """Numbers of the effects to be killed before: of those that change a file one of each kind, and some others.

    Args:
        what: names the effects, for the seed.
        only_table_changes: kinds are commits and new tables only; another scene has the others.
    """
    return _sampled(effects, what, without=UNCHANGED, only_table_changes=only_table_changes)


def failures(effects: Sequence[str], what: str, *, only_table_changes: bool = False) -> list[int]:
    """Numbers of the effects that fail: one of each kind, and some others."""
    return _sampled(effects, what, without=frozenset(), only_table_changes=only_table_changes)


def _sampled(effects: Sequence[str], what: str, *, without: frozenset[str], only_table_changes: bool) -> list[int]:
    if EVERY_KILL:
        return list(range(len(effects)))
    firsts: dict[str, int] = {}
    candidates = [number for number, name in enumerate(effects) if name.split(" ")[0] not in without]
    for number in candidates:
        if not only_table_changes or effects[number].split(" ")[0] in TABLE_CHANGES:
            firsts.setdefault(_kind(effects[number]), number)
    chosen = set(firsts.values())
    others = [number for number in candidates if number not in chosen]
    return sorted(chosen | set(drawn(others, ALSO, what)))


def _kind(effect: str) -> str:
    """What happens to which table; or in which folder, to files that end how."""
    verb, _, path = effect.partition(" ")
    if verb in TABLE_CHANGES:
        return effect
    parts = PurePosixPath(path.removeprefix("lake/")).parts or (".",)
    return " ".join((verb, parts[0], PurePosixPath(path).suffix))
