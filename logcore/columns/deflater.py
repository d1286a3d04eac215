"""Deflate by a kernel of ours, where it gives the bytes of the zlib that Python calls.

Stock zlib's are what java.util.zip gives. Python may have been built with one of the faster libraries of the same
interface, whose bytes are others; so would be those of the plain code, and so a sample is compared first.
"""

from __future__ import annotations

import zlib
from functools import cache

import numpy as np

from logcore.columns.kernels import deflate_slots as at_slot
from logcore.columns.kernels.library import Library


class Deflater:
    """The kernel `deflate` with its working space. For one thread at a time."""

    reset = 0
    """Nothing is to be called between two streams."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._tables = np.empty(at_slot.TABLE_BYTES, np.uint8)
        self._numbers = np.empty(at_slot.NUMBER_COUNT, np.int64)
        self._frame = np.zeros(at_slot.WIDTH, np.int64)
        self._frame[at_slot.TABLES], self._frame[at_slot.NUMBERS] = self._tables.ctypes.data, self._numbers.ctypes.data
        self.state = int(self._frame.ctypes.data)
        """Address of its frame."""
        self.function = library.address("deflate")

    @classmethod
    def like_zlib(cls, library: Library) -> Deflater | None:
        """None where Python's zlib gives other bytes."""
        return cls(library) if _has_zlibs_bytes(library) else None

    def deflate(self, plain: bytes, room: int) -> bytes | None:
        """A raw deflate stream; None where that might take more than `room` bytes."""
        size, frame = len(plain), self._frame
        source = np.empty(size + at_slot.BEHIND, np.uint8)
        source[:size] = np.frombuffer(plain, np.uint8)
        target = np.empty(max(room, 1), np.uint8)
        frame[at_slot.SOURCE], frame[at_slot.SIZE] = source.ctypes.data, size
        frame[at_slot.TARGET], frame[at_slot.ROOM] = target.ctypes.data, room
        self._library.call("deflate", self.state)
        used = int(frame[at_slot.USED])
        return None if used < 0 else target[:used].tobytes()


@cache
def _has_zlibs_bytes(library: Library) -> bool:
    # Several blocks and a window that goes on; literals, matches near and far.
    sample = b"".join(b'{"n":%d,"of":"%x"}' % (number, number * number * 2_654_435_761) for number in range(4_000))
    zlibs = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS)
    return Deflater(library).deflate(sample, len(sample)) == zlibs.compress(sample) + zlibs.flush()
