"""Several families compiled at once, each into the cache."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from logcore.columns.kernels.families import Family
from logcore.columns.kernels.library import library

_LOG = logging.getLogger(__name__)
_MOST_PROCESSES = 4
"""Each process needs about 250 MB."""


def processes_for(families: Sequence[Family]) -> int:
    """Return the number of processes that `compile_at_once` uses."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(processors, _MOST_PROCESSES, len(families))


def compile_at_once(families: Sequence[Family]) -> None:
    """Compile families in separate processes.

    A later load compiles again what they cannot cache, or do not finish because the system ends one of them.

    Raises:
        KernelsUnavailable: A family cannot be compiled.
    """
    longest_first = sorted(families, key=lambda family: -family.seconds)
    # logging.disable: each process would repeat the caller's message.
    with ProcessPoolExecutor(processes_for(families), get_context("spawn"), logging.disable) as pool:
        try:
            for _ in pool.map(_compile, longest_first):
                pass
        except BrokenProcessPool:
            _LOG.debug("a process that compiles kernels ended early")


def _compile(family: Family) -> None:
    library().load([family])
