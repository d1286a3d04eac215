"""A process that decodes segments whose last byte is the last one of readable memory.

    python -m tests.fuzz.guarded ENGINE    prints how many segments it decoded; a read too far kills it

A page is mapped without any right behind the buffer, and one before it: whoever reads a byte beyond the segment, on
either side, gets no byte but SIGSEGV. Canonical batches are cut at every length, so that every field is once the last.
"""

import ctypes
import mmap
import sys
from collections.abc import Iterator

from logcore.columns.engines import Engine
from tests.fuzz.canonical import CANONICAL
from tests.fuzz.engines_compared import equal, outcome
from tests.fuzz.injuries import scene
from tests.fuzz.mutator import mutant

_PAGE = mmap.PAGESIZE
_MUTANTS = 2000


class Guarded:
    """Pages with a forbidden one on either side; bytes are put at their very end, or at their very beginning."""

    def __init__(self, pages: int) -> None:
        self._map = mmap.mmap(-1, (pages + 2) * _PAGE)
        self._size = pages * _PAGE
        whole = (ctypes.c_char * len(self._map)).from_buffer(self._map)
        address = ctypes.addressof(whole)
        libc = ctypes.CDLL(None, use_errno=True)
        for page in (address, address + _PAGE + self._size):
            if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), 0) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")
        self._view = memoryview(self._map)[_PAGE : _PAGE + self._size]

    def last(self, data: bytes) -> memoryview:
        """These bytes, nothing readable behind them."""
        self._view[self._size - len(data) :] = data
        return self._view[self._size - len(data) :]

    def first(self, data: bytes) -> memoryview:
        """These bytes, nothing readable in front of them."""
        self._view[: len(data)] = data
        return self._view[: len(data)]

    def beyond(self) -> int:
        """A byte that nobody may read; reading it is the end of the process."""
        return self._map[_PAGE + self._size]


def segments() -> Iterator[tuple[bytes, int]]:
    """(bytes, base offset): every canonical batch cut at every length, behind another one and alone; mutants."""
    for batch in CANONICAL:
        where = scene(batch, 0)
        for length in range(len(batch.data) + 1):
            yield batch.data[:length], batch.base_offset
            yield where.before + batch.data[:length], where.base_offset
    for number in range(_MUTANTS):
        each = mutant(7, number)
        yield each.data, each.segment_base


def main(engine: Engine) -> None:
    """Decode them all, twice."""
    pages = Guarded(4)
    count = 0
    for data, base_offset in segments():
        if not data:
            continue
        right = outcome(data, base_offset, Engine.REFERENCE)
        for buf in (pages.last(data), pages.first(data)):
            assert equal(outcome(buf, base_offset, engine), right), data.hex()
            count += 1
    print(count)


if __name__ == "__main__":
    if sys.argv[1] == "beyond":
        Guarded(1).beyond()
    else:
        main(Engine(sys.argv[1]))
