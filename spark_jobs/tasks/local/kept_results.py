"""Results of tasks that ran before the job that has them: kept until that job has exactly this task."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_jobs.tasks.executor import bound

_Key = tuple[Any, ...]


@dataclass(slots=True)
class KeptResults:
    """Results by function and task. Each is given out once, because its files may be committed only once."""

    _results: dict[_Key, tuple[Any, Sequence[str]]] = field(default_factory=dict)

    def put(self, work: Callable[[Any], Any], task: object, result: object, files: Sequence[str]) -> None:
        """Keep a result.

        Args:
            work: The function that the later job will name.
            task: Its task.
            result: What it returned.
            files: Paths of the files that it wrote.
        """
        self._results[_key(work, task)] = result, files

    def taken(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> dict[int, Any]:
        """Take out the results of these tasks, by position; the others have none."""
        if not self._results:
            return {}
        found = {at: self._results.pop(_key(work, task), None) for at, task in enumerate(tasks)}
        return {at: kept[0] for at, kept in found.items() if kept is not None}

    def discard(self) -> None:
        """Forget what is left and remove its files, which no commit names."""
        while self._results:
            _, (_, files) = self._results.popitem()
            for file in files:
                with contextlib.suppress(OSError):  # an orphan, which maintenance removes
                    os.unlink(file)


def _key(work: Callable[[Any], Any], task: object) -> _Key:
    function, arguments = bound(work)
    return function, arguments, task
