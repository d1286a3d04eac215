"""Findings about many things alike: the first ones are named, and one finding counts the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from logcore.logs.model.findings import Finding

FINDINGS_A_TABLE = 20
"""At most this many files or commits of a table, or files of the archive, are named."""

Thing = TypeVar("Thing")


def counted_findings(
    things: Sequence[Thing], of_one: Callable[[Thing], Finding], of_rest: Callable[[Sequence[Thing]], Finding]
) -> Iterator[Finding]:
    """Yield the finding of each of the first things, and then the one that counts the rest, if there is a rest."""
    yield from map(of_one, things[:FINDINGS_A_TABLE])
    if rest := things[FINDINGS_A_TABLE:]:
        yield of_rest(rest)
