"""Statistics in the footers of Parquet files that may be damaged, read by a process of their own.

A damaged footer can end the process that reads its columns with Arrow, by a C++ exception that Python cannot catch. So
a child process reads first. If it dies, the file is damaged, another child is started, and the verification continues.
A process that verifies has at most one child, and only if the digest of some file does not prove its footer.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import cache
from multiprocessing import get_context
from threading import Thread
from typing import Any

from spark_jobs.lake.delta.files.live_files import open_parquet
from spark_jobs.lake_verification.verified_thing import DataUnreadable

GroupStatistics = dict[str, tuple[Any, Any, int | None]]
"""By column: least value, greatest value (None: not recorded) and number of nulls."""


class Footers:
    """Reads footers in a child, which ends with this process."""

    def __init__(self) -> None:
        self._child: ProcessPoolExecutor | None = None

    def statistics(self, path: str) -> list[GroupStatistics]:
        """Statistics by row group.

        Raises:
            DataUnreadable: The footer is damaged.
            OSError: The file can't be read.
        """
        if self._child is None:
            # Not forked: locks that other threads of this process hold would never be released in the child.
            self._child = ProcessPoolExecutor(1, get_context("spawn"), _begin, (os.getpid(),))
        try:
            return self._child.submit(read_statistics, path).result()
        except BrokenProcessPool as error:
            self._child.shutdown()
            self._child = None
            raise DataUnreadable("its footer ends the process that reads it") from error


@cache
def footers() -> Footers:
    """The ones of this process."""
    return Footers()


def read_statistics(path: str) -> list[GroupStatistics]:
    """Read what :meth:`Footers.statistics` returns; called in the child."""
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
                    bounds: tuple[Any, Any] = None, None
                    with suppress(OverflowError):  # a column of another program, with times that Python does not have
                        bounds = (said.min, said.max) if said.has_min_max else bounds
                    of_group[column.path_in_schema] = (*bounds, said.null_count if said.has_null_count else None)  # type: ignore[attr-defined]
            found.append(of_group)
    return found


def _begin(parent: int) -> None:
    """Discard stderr: the message of C++ when it ends the process is not ours. End when a killed parent has ended."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
