"""Statistics in the footers of Parquet files, read by a process of its own.

A damaged footer can end the process that asks Arrow for its columns: Arrow throws where nobody can catch. So a child
looks first; where it dies, the file is damaged, another child takes its place, and the proof goes on.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from threading import Lock
from typing import Any, Self

from spark_jobs.lake.delta.live_files import open_parquet
from spark_jobs.lake_proof.proof import DataUnreadable

GroupStatistics = dict[str, tuple[Any, Any, int | None]]
"""Least value, greatest value (None: not recorded) and nulls by column."""


class Footers:
    """Reads footers; to be closed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._child: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._child is not None:
                self._child.shutdown(cancel_futures=True)
                self._child = None

    def statistics(self, path: str) -> list[GroupStatistics]:
        """Statistics by row group.

        Raises:
            DataUnreadable: the footer is damaged.
            OSError: the file can't be read.
        """
        with self._lock:
            if self._child is None:
                # Not forked: this process has threads, and locks that they hold would never be free in the child.
                self._child = ProcessPoolExecutor(1, get_context("spawn"), _be_silent)
            try:
                return self._child.submit(read_statistics, path).result()
            except BrokenProcessPool as error:
                self._child.shutdown()
                self._child = None
                raise DataUnreadable("its footer ends the process that reads it") from error


def read_statistics(path: str) -> list[GroupStatistics]:
    """What :meth:`Footers.statistics` answers; called in the child."""
    found: list[GroupStatistics] = []
    with open_parquet(path) as parquet:
        metadata = parquet.metadata
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            of_group: GroupStatistics = {}
            for at in range(group.num_columns):
                column = group.column(at)
                said = column.statistics if column.is_stats_set else None
                if said is not None:
                    bounds = (said.min, said.max) if said.has_min_max else (None, None)
                    of_group[column.path_in_schema] = (*bounds, said.null_count if said.has_null_count else None)
            found.append(of_group)
    return found


def _be_silent() -> None:
    """What C++ says when it ends the process is no message of ours."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
