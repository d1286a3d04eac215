"""Memory directly from the system: zeroed, extended in place where possible, returned when it is dropped.

For tables that grow and are accessed at random. An allocator would copy them, and keep the old memory. Linux reserves
addresses after the end; only the addresses before it use memory. This memory is requested at once, as huge pages where
it fills them. Memory that is requested at its first access, page by page, costs more than the table's own work. And
among many small pages most accesses miss twice.
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
    """Zeroed memory of a given size at `address`.

    With `grows`, addresses for all the machine's memory are reserved after it, where they are free of charge. They are
    not reserved under a limit on addresses, because the process would lack them. They are not reserved either if the
    system counts addresses as memory: it would refuse them, or refuse memory to others.
    """

    def __init__(self, size: int, *, grows: bool = False) -> None:
        self._size = self._room = size
        self._skipped = 0
        """Bytes of the map before the first usable one."""
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # shared memory is slower to touch
        area = _reserved(size + HUGE_PAGE, private) if grows else None
        if area is None:
            self._map = mmap.mmap(-1, size, flags=private)
        else:
            self._map = area
            self._skipped = -_address_of(area) % HUGE_PAGE
            self._room = len(area) - self._skipped
        self.address = _address_of(self._map) + self._skipped
        """Address of the first byte; it does not change."""
        self._ask_for(0)

    def __len__(self) -> int:
        return self._size

    @property
    def can_lengthen(self) -> bool:
        """Whether unused addresses are left after it."""
        return self._size < self._room

    def lengthen(self, size: int) -> bool:
        """Extend it with zeros to `size` bytes; False, without a change, if too few addresses are left."""
        if size > self._room:
            return False
        held, self._size = self._size, size
        self._ask_for(held)
        return True

    def _ask_for(self, held: int) -> None:
        """Request the memory after the first `held` bytes now."""
        if not hasattr(mmap, "MADV_HUGEPAGE"):
            return
        begun, whole = (at // HUGE_PAGE * HUGE_PAGE for at in (held, self._size))
        held = held // mmap.PAGESIZE * mmap.PAGESIZE
        try:
            if whole > begun:
                self._map.madvise(mmap.MADV_HUGEPAGE, self._skipped + begun, whole - begun)
            self._map.madvise(_POPULATE_WRITE, self._skipped + held, self._size - held)
        except OSError:
            return  # the system provides the memory at the first access


def _reserved(size: int, flags: int) -> mmap.mmap | None:
    """Reserve addresses for `size` bytes and for the machine's whole memory; None if that is impossible."""
    if not hasattr(mmap, "MADV_HUGEPAGE") or _are_addresses_counted():
        return None
    try:
        everything = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return mmap.mmap(-1, size + everything, flags=flags | _NO_RESERVE)
    except (OSError, ValueError):
        return None


def _are_addresses_counted() -> bool:
    """Whether the addresses of this process are limited, or the system guarantees memory for each address."""
    if any(resource.getrlimit(of)[0] != resource.RLIM_INFINITY for of in (resource.RLIMIT_AS, resource.RLIMIT_DATA)):
        return True
    try:
        return _ACCOUNTING.read_text().strip() == _STRICT
    except OSError:
        return False


def _address_of(area: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(area))
