"""How small tasks share one task of the job engine.

Starting a task costs some milliseconds, on Spark more than in a worker process. So neighbours that read little are
started together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Value = TypeVar("Value")

SHARED_BYTES = 16 << 20
"""Tasks are started together while they read no more than this."""
SHARED_TASKS = 100


def shared(count: int, sizes: Sequence[int] | None, least: int = 1) -> list[range]:
    """Tasks 0 … ``count`` in groups of neighbours, each started as one.

    Args:
        count: Number of tasks.
        sizes: Bytes that each task reads; None if they are not known: then each task is alone.
        least: Number of groups of about equal bytes that there should be, if there are so many tasks.
    """
    if sizes is None:
        return [range(at, at + 1) for at in range(count)]
    most_bytes, most_tasks = min(SHARED_BYTES, sum(sizes) // least), min(SHARED_TASKS, max(1, count // least))
    groups: list[range] = []
    room = -1
    for at, size in enumerate(sizes):
        if size > room or len(groups[-1]) == most_tasks:
            groups.append(range(at, at))
            room = most_bytes
        groups[-1] = range(groups[-1].start, at + 1)
        room -= size
    return groups


def cut(values: Iterable[Value], size: Callable[[Value], int], most_bytes: int, most: int) -> Iterator[list[Value]]:
    """Values in order in lists: each list has at most so many, and ends with the value that reaches so many bytes."""
    held: list[Value] = []
    room = most_bytes
    for value in values:
        held.append(value)
        room -= size(value)
        if room <= 0 or len(held) == most:
            yield held
            held, room = [], most_bytes
    if held:
        yield held
