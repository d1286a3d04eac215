"""What the jobs of one intake hand to one another: results of tasks that an earlier job of the run has already done.

``ingest`` validates and decodes a segment while it has its bytes. ``validate`` and ``publish`` make their own plans,
and use a result only if they have exactly its task. Nothing but time depends on the results.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_jobs.engine.executor import Executor, Result, Task, bound
from spark_jobs.lake.store import storage

_Key = tuple[Any, ...]


@dataclass(slots=True)
class IntakeResults:
    """A context: results by function and task. Those that no job used are removed at its end, with their files.

    Each result is given out once, because its files may be committed only once.
    """

    _results: dict[_Key, tuple[Any, Sequence[str]]] = field(default_factory=dict)

    def put(self, work: Callable[[Any], Any], task: object, result: object, files: Sequence[str]) -> None:
        """Keep a result.

        Args:
            work: The function that the later job will name.
            task: Its task.
            result: What the function returns for it.
            files: Paths of the files that belong to it, which no commit names yet.
        """
        self._results[_key(work, task)] = result, files

    def taken(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> dict[int, Any]:
        """Take out the results of these tasks, by position; the others have none."""
        function = bound(work)[0]
        if not any(kept is function for kept, *_ in self._results):
            return {}  # tasks of other functions may have no hash
        found = {at: self._results.pop(_key(work, task), None) for at, task in enumerate(tasks)}
        return {at: kept[0] for at, kept in found.items() if kept is not None}

    def discard(self) -> None:
        """Forget what is left and remove its files."""
        while self._results:
            _, (_, files) = self._results.popitem()
            for file in files:
                with contextlib.suppress(OSError):  # an orphan, which maintenance removes
                    storage.delete(file)

    def __enter__(self) -> IntakeResults:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Discard what is left."""
        self.discard()


def _key(work: Callable[[Any], Any], task: object) -> _Key:
    function, arguments = bound(work)
    return function, arguments, task


@dataclass(frozen=True, slots=True)
class IntakeExecutor:
    """Runs the tasks that have no result yet.

    Attributes:
        executor: Runs them.
        results: Of earlier jobs of the run.
        workers: How many tasks run at a time.
    """

    executor: Executor
    results: IntakeResults
    workers: int

    def run(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], sizes: Sequence[int] | None = None
    ) -> list[Result]:
        """As :meth:`spark_jobs.engine.executor.Executor.run`."""
        known: dict[int, Result] = self.results.taken(work, tasks)
        if not known:
            return self.executor.run(work, tasks, sizes)
        left = [at for at in range(len(tasks)) if at not in known]
        of_left = None if sizes is None else [sizes[at] for at in left]
        known |= zip(left, self.executor.run(work, [tasks[at] for at in left], of_left), strict=True)
        return [known[at] for at in range(len(tasks))]
