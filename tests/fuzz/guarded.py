"""A process that decodes, or cleans, segments whose last byte is the last one of readable memory.

    python -m tests.fuzz.guarded ENGINE    prints how many segments it decoded; a read too far kills it
    python -m tests.fuzz.guarded cleaner   the same with the compiled cleaner

A page is mapped without any right behind the buffer, and one before it: whoever reads a byte beyond the segment, on
either side, gets no byte but SIGSEGV. Canonical batches are cut at every length, so that every field is once the last.
"""

import ctypes
import io
import mmap
import sys
from collections.abc import Iterator

from logcore.columns.cleaning import CompiledCleaner
from logcore.columns.engines import Engine
from logcore.errors import LogError
from logcore.logs.broker_line import BrokerLine
from logcore.logs.compaction.cleaner import Cleaner, PlainCleaner
from logcore.logs.compaction.cleaning_round import CleaningRound, SourceSegment
from logcore.segments.scan import Stretch, scan
from tests import handmade
from tests.fuzz.canonical import CANONICAL
from tests.fuzz.engines_compared import equal, outcome
from tests.fuzz.injuries import scene
from tests.fuzz.mutator import mutant

_PAGE = mmap.PAGESIZE
_MUTANTS = 2000
_CLEANED_OF = 7
"""One in so many segments is cleaned, which takes longer than decoding."""


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


def clean() -> None:
    """Clean them all, with the map of their own keys and a newer record of some."""
    pages, count = Guarded(4), 0
    for number, (data, base_offset) in enumerate(segments()):
        if not data or number % _CLEANED_OF:
            continue
        walk = scan(data, base_offset=base_offset, sealed=True)
        stretches = tuple((item.position, item.end) for item in walk if isinstance(item, Stretch))
        if padding := walk.accounting.padding:
            stretches += ((len(data) - padding, len(data)),)
        end = walk.next_offset + 2
        newer = handmade.simple_batch(end - 1, [(b"k", b"newest")])
        last = SourceSegment(end - 1, end, newer, 0, 0, 0)
        right = _cleaned(PlainCleaner(), SourceSegment(base_offset, end - 1, data, 0, 0, 0, unreadable=stretches), last)
        for buf in (pages.last(data), pages.first(data)):
            guarded = SourceSegment(base_offset, end - 1, buf, 0, 0, 0, unreadable=stretches)
            assert _cleaned(CompiledCleaner(), guarded, last) == right, data.hex()
            count += 1
    print(count)


def _cleaned(cleaner: Cleaner, *segments: SourceSegment) -> object:
    round = CleaningRound(0, 0, segments[-1].next_base_offset, 1 << 62, 1_000_000, 500, 0, BrokerLine.V4_4)
    sink = io.BytesIO()
    try:
        cleaner.build_map(segments, round)
        return cleaner.clean(segments, sink), sink.getvalue()
    except (LogError, ValueError) as error:
        return str(error)


if __name__ == "__main__":
    if sys.argv[1] == "beyond":
        Guarded(1).beyond()
    elif sys.argv[1] == "cleaner":
        clean()
    else:
        main(Engine(sys.argv[1]))
