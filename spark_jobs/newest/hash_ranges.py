"""Into how many ranges the hashes of keys are divided, so that the task of a range has room for its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from logcore.columns.cleaning.offset_map import Halves
from spark_jobs.engine.executor import Executor
from spark_jobs.engine.shuffle import ShufflingExecutor
from spark_jobs.newest.packed_rows import Hashed

RANGE_ROWS = 1_000_000
"""Rows of a range on an executor with a shuffle, where a task has all of its range in memory."""
LEAST_RANGE_ROWS = 10_000
"""Rows of a range there, however few keys may be in memory: more ranges would cost more than they save."""
SAMPLED = 10
"""One of `1 << SAMPLED` keys is counted for an estimate."""


def range_count(executor: Executor | None, rows: int, most_keys: int, samples: Callable[[], Sequence[Halves]]) -> int:
    """The number of ranges, at least one.

    Args:
        executor: Runs the tasks.
        rows: Rows with a key, or a few more.
        most_keys: Keys that a task has in memory in local processes, where it reads the rows of its range from files;
            0 is as 1.
        samples: Returns what `sample_of` found in all the rows.
    """
    if isinstance(executor, ShufflingExecutor):
        return max(1, -(-rows // min(RANGE_ROWS, max(most_keys, LEAST_RANGE_ROWS))))
    most_keys = max(most_keys, 1)
    if rows <= most_keys:
        return 1
    # Each pass reads all rows: count keys to have few.
    found = np.unique(np.concatenate([np.zeros(0, np.uint64), *samples()]))
    return max(1, -(-(len(found) << SAMPLED) // most_keys))


def sample_of(found: Iterable[Hashed]) -> Halves:
    """The hashes of some keys, the same keys wherever they are."""
    parts = [rows.high[rows.high & np.uint64((1 << SAMPLED) - 1) == 0] for rows in found]
    return np.unique(np.concatenate([np.zeros(0, np.uint64), *parts]))
