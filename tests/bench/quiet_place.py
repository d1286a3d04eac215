"""Where a case is measured when nothing but the work itself shall count: one processor, and files in memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def in_memory() -> Iterator[str]:
    """A folder of its own, in memory where the system has a place for that."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=memory if memory.is_dir() else None) as name:
        yield name


@contextmanager
def one_processor() -> Iterator[None]:
    """This process, and those it starts, on one processor."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
