"""Memory straight from the system: zeroed, lengthened in place where the system can, given back when it is dropped.

For tables that grow and are read at random: an allocator would copy them, and keep the room they left. Linux reserves
addresses beyond the end, of which only those in front of it are memory. That is asked for at once, in huge pages as
far as it fills them: what is asked for page by page, when it is first touched, costs more than what a table does with
it, and among many small pages most accesses miss twice.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
from pathlib import Path

HUGE_PAGE = 2 << 20
# Linux has them; Python has no names for them in every version.
_NO_RESERVE = 0x4000
_POPULATE_WRITE = 23
_ACCOUNTING = Path("/proc/sys/vm/overcommit_memory")
_STRICT = "2"


class AnonymousMemory:
    """So many bytes, zero at first, at `address`.

    grows: addresses are reserved behind them for all the memory that the machine has, where they cost nothing: under a
    limit on addresses the rest of the process would lack them, and a system that counts them as memory would refuse
    them, or refuse memory to others.
    """

    def __init__(self, size: int, *, grows: bool = False) -> None:
        self._size = self._room = size
        self._skipped = 0
        """Bytes of the map in front of the first one."""
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # shared memory is slower to touch
        area = _reserved(size + HUGE_PAGE, private) if grows else None
        if area is None:
            self._map = mmap.mmap(-1, size, flags=private)
        else:
            self._map = area
            self._skipped = -_address_of(area) % HUGE_PAGE
            self._room = len(area) - self._skipped
        self.address = _address_of(self._map) + self._skipped
        """Of its first byte; it stays."""
        self._ask_for(0)

    def __len__(self) -> int:
        return self._size

    @property
    def can_lengthen(self) -> bool:
        """Whether there are addresses left behind it."""
        return self._size < self._room

    def lengthen(self, size: int) -> bool:
        """Make it longer, new bytes being zero; False, and nothing changed, where too few addresses are left."""
        if size > self._room:
            return False
        held, self._size = self._size, size
        self._ask_for(held)
        return True

    def _ask_for(self, held: int) -> None:
        """Have what lies behind the first `held` bytes be memory now."""
        if not hasattr(mmap, "MADV_HUGEPAGE"):
            return
        begun, whole = (at // HUGE_PAGE * HUGE_PAGE for at in (held, self._size))
        held = held // mmap.PAGESIZE * mmap.PAGESIZE
        try:
            if whole > begun:
                self._map.madvise(mmap.MADV_HUGEPAGE, self._skipped + begun, whole - begun)
            self._map.madvise(_POPULATE_WRITE, self._skipped + held, self._size - held)
        except OSError:
            return  # it becomes memory when it is touched


def _reserved(size: int, flags: int) -> mmap.mmap | None:
    """Addresses for so many bytes, and for as many as this machine has. None: not to be had."""
    if not hasattr(mmap, "MADV_HUGEPAGE") or _are_addresses_counted():
        return None
    try:
        everything = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return mmap.mmap(-1, size + everything, flags=flags | _NO_RESERVE)
    except (OSError, ValueError):
        return None


def _are_addresses_counted() -> bool:
    """Whether this process may have so many only, or the system promises memory for each."""
    if any(resource.getrlimit(of)[0] != resource.RLIM_INFINITY for of in (resource.RLIMIT_AS, resource.RLIMIT_DATA)):
        return True
    try:
        return _ACCOUNTING.read_text().strip() == _STRICT
    except OSError:
        return False


def _address_of(area: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(area))
