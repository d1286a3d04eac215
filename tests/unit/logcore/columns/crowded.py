"""Load the kernels where the address space is crowded: one hole near the top, the next free place 8 GiB below.

Run as a process of its own, with the LOGLAKE_HOME of the caller: a failing load aborts the process.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import sys
from pathlib import Path

from llvmlite.binding.executionengine import ExecutionEngine

from logcore.columns.kernels.families import KEYS
from logcore.columns.kernels.library import library

_RESERVED = 0x4022  # MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
_AT_THIS_ADDRESS = 0x100000  # MAP_FIXED_NOREPLACE
_DISTANCE = 8 << 30
_TOP = 1 << 47


def crowd(hole: int) -> None:
    """Reserve every free range above the lowest 8 GiB block found free, but for a hole of so many bytes."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    block = libc.mmap(None, _DISTANCE, 0, _RESERVED, -1, 0)
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    used = [tuple(int(bound, 16) for bound in line.split()[0].split("-")) for line in lines]
    for (_, end), (start, _) in itertools.pairwise(used):
        if block <= end < start < _TOP:
            libc.mmap(end, start - end, 0, _RESERVED | _AT_THIS_ADDRESS, -1, 0)
    libc.munmap(block + _DISTANCE - hole, hole)


def loads(hole: int) -> bool:
    """Whether a child process loads the kernels with such a hole."""
    child = os.fork()
    if child == 0:
        plain = ExecutionEngine.add_object_file

        def crowded(engine: ExecutionEngine, code: object) -> None:
            crowd(hole)
            plain(engine, code)

        ExecutionEngine.add_object_file = crowded
        library().load([KEYS])
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    failed = [pages for pages in range(2, 64) if not loads(pages * mmap.PAGESIZE)]
    sys.exit(f"holes of so many pages: {failed}" if failed else 0)
