"""Memory straight from the system: zeroed, lengthened in place where the system can, given back when it is dropped.

For tables that grow: an allocator would copy them, and keep the room they left.
"""

from __future__ import annotations

import ctypes
import mmap

_HUGE_PAGES = 2 << 20


class AnonymousMemory:
    """So many bytes, zero at first; `address` changes when it grows."""

    def __init__(self, size: int) -> None:
        # Private: shared memory is slower to touch, and cannot grow.
        self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._describe()

    def __len__(self) -> int:
        return len(self._map)

    def _describe(self) -> None:
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        """Of its first byte."""
        # Where it is read at random a new page is a second miss; large pages make that rare.
        if len(self._map) >= _HUGE_PAGES and hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE)

    def lengthen(self, size: int) -> bool:
        """Make it longer, new bytes being zero; False, and nothing changed, where this system cannot."""
        try:
            self._map.resize(size)
        except (OSError, SystemError, ValueError):
            return False
        self._describe()
        return True
