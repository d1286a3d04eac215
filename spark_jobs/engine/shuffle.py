"""Data that moves between tasks: tasks emit blocks, and each part of the next step gets its own, in order.

    spark    blocks are rows of Spark's shuffle, which spills where memory is short
    local    a part is a pass: its task emits the blocks of all tasks again and takes its own. What the passes make is
             small and goes through the memory of the driver. There are no files

A step that cannot go on raises `ShuffleEnded` with the result of the whole; then no later step runs.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, Protocol, runtime_checkable

from spark_jobs.engine.executor import Executor, Result, Task, run_tasks

STOPPED = -1 << 62
"""Place of a block that has the result of the whole."""


@dataclass(frozen=True, slots=True)
class Block:
    """Data for a part of the next step.

    Attributes:
        part: Number of the part.
        at: Place among the blocks of the part.
        content: The data.
    """

    part: int
    at: int
    content: bytes | memoryview


class ShuffleEnded(Exception):
    """Ends a shuffle with a result for the whole."""

    def __init__(self, result: Any) -> None:
        super().__init__(result)
        self.result = result


Blocks = Callable[[], Iterator[bytes | memoryview]]
"""The contents of a part's blocks in their order; may be called again."""
Emit = Callable[[Any, int | None], Iterator[Block]]
"""Makes blocks from a task: those of one part, or of all (None)."""
Finish = Callable[[Any, Blocks], Any]
"""Makes the result of a task from its blocks."""


@dataclass(frozen=True, slots=True)
class Through:
    """A step in the middle.

    Attributes:
        reduce: Makes blocks for the last step from a part's number and blocks.
        parts: Number of parts.
    """

    reduce: Callable[[int, Blocks], Iterator[Block]]
    parts: int


@dataclass(frozen=True, slots=True)
class Shuffle:
    """What moves, and between which steps.

    Attributes:
        emit: The first step.
        tasks: Its tasks.
        finish: The last step.
        last: Tasks of the last step; the number of each is its part.
        through: The step between them.
        is_small: Whether all blocks of the first step have room in the driver's memory: then local processes emit them
            once.
        sizes: As of `Executor.run`.
    """

    emit: Emit
    tasks: Sequence[Any]
    finish: Finish
    last: Sequence[Any]
    through: Through | None = None
    is_small: bool = False
    sizes: Sequence[int] | None = field(default=None)


@runtime_checkable
class ShufflingExecutor(Executor, Protocol):
    """An executor with a shuffle of its own."""

    def shuffle(self, shuffle: Shuffle) -> list[Any]:
        """The results of the last step; one of them is the result of `ShuffleEnded`, if a step raised it."""
        ...


def shuffled(executor: Executor | None, shuffle: Shuffle) -> list[Any]:
    """Run all steps; without an executor in this process.

    Returns:
        The results of the last step, in the order of its tasks.

    Raises:
        ShuffleEnded: A step raised it.
    """
    done = executor.shuffle(shuffle) if isinstance(executor, ShufflingExecutor) else _in_passes(executor, shuffle)
    for each in done:
        if isinstance(each, ShuffleEnded):
            raise each
    return done


def _in_passes(executor: Executor | None, shuffle: Shuffle) -> list[Any]:
    through = shuffle.through
    if through is not None:
        emitted = partial(_pass, shuffle.emit, shuffle.tasks, partial(_listed, through.reduce))
        made = run_tasks(executor, emitted, range(through.parts))
    elif shuffle.is_small:
        made = run_tasks(executor, partial(_emitted, shuffle.emit), shuffle.tasks, shuffle.sizes)
    else:
        numbered = list(enumerate(shuffle.last))
        return run_tasks(executor, partial(_last_pass, shuffle.emit, shuffle.tasks, shuffle.finish), numbered)
    blocks: dict[int, list[Block]] = {part: [] for part in range(len(shuffle.last))}
    for each in made:
        if isinstance(each, ShuffleEnded):
            return [each]
        for block in each:
            blocks[block.part].append(block)
    given = [(task, tuple(blocks.pop(part))) for part, task in enumerate(shuffle.last)]
    return run_tasks(executor, partial(_finished, shuffle.finish), given)


def _pass(emit: Emit, tasks: Sequence[Task], work: Callable[[int, Blocks], Result], part: int) -> Result | ShuffleEnded:
    def blocks() -> Iterator[bytes | memoryview]:
        for task in tasks:
            for block in emit(task, part):
                yield block.content

    try:
        return work(part, blocks)
    except ShuffleEnded as stopped:
        return stopped


def _last_pass(emit: Emit, tasks: Sequence[Task], finish: Finish, numbered: tuple[int, Any]) -> Any:
    return _pass(emit, tasks, lambda _, blocks: finish(numbered[1], blocks), numbered[0])


def _listed(reduce: Callable[[int, Blocks], Iterator[Block]], part: int, blocks: Blocks) -> list[Block]:
    return list(reduce(part, blocks))


def _emitted(emit: Emit, task: Task) -> list[Block] | ShuffleEnded:
    try:
        return list(emit(task, None))
    except ShuffleEnded as stopped:
        return stopped


def _finished(finish: Finish, given: tuple[Task, Sequence[Block]]) -> Any:
    task, blocks = given
    return finished(finish, task, blocks)


def finished(finish: Finish, task: Any, blocks: Sequence[Block]) -> Any:
    """The result of a task of the last step, from its blocks in any order."""
    try:
        return finish(task, in_order(blocks))
    except ShuffleEnded as stopped:
        return stopped


def in_order(blocks: Sequence[Block]) -> Blocks:
    """The blocks of a part, in their order.

    Raises:
        ShuffleEnded: An earlier step raised it.
    """
    ordered = sorted(blocks, key=attrgetter("at"))
    if ordered and ordered[0].at == STOPPED:
        raise ShuffleEnded(pickle.loads(ordered[0].content))
    return lambda: (block.content for block in ordered)


def or_stopped(blocks: Callable[[], Iterable[Block]], parts: int) -> Iterator[Block]:
    """Blocks for the next step; where a step stops, the result of the whole for each of its parts."""
    try:
        yield from blocks()
    except ShuffleEnded as stopped:
        result = pickle.dumps(stopped.result)
        for part in range(parts):
            yield Block(part, STOPPED, result)
