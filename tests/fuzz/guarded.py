"""A process that decodes, or cleans, segments whose last byte is the last one of readable memory.

    python -m tests.fuzz.guarded ENGINE    prints how many segments it decoded; a read too far kills it
    python -m tests.fuzz.guarded cleaner   the same with the compiled cleaner
    python -m tests.fuzz.guarded changed   the compiled cleaner, where a batch changes after its checksum was looked at;
                                           prints how many of the changes to lengths were refused, and of how many

A page without access rights is mapped after the buffer, and one before it. So a read of a byte beyond the segment, on
either side, ends in SIGSEGV. Canonical batches are cut at every length, so that every field is once the last.
"""

import ctypes
import io
import mmap
import random
import sys
from collections.abc import Callable, Iterator

import numpy as np

from logcore.columns.cleaning.cleaned_batches import BatchWriter
from logcore.columns.cleaning.cleaning import CompiledCleaner
from logcore.columns.engines import Engine
from logcore.columns.kernels.call_frames import address_of
from logcore.errors import LogError
from logcore.logs.compaction.cleaner import Cleaner, PlainCleaner
from logcore.logs.compaction.cleaning_round import CleaningRound, SourceSegment
from logcore.logs.model.broker_line import BrokerLine
from logcore.segments.scanning.scan import SegmentScan, Stretch
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
        """These bytes, nothing readable after them."""
        self._view[self._size - len(data) :] = data
        return self._view[self._size - len(data) :]

    def first(self, data: bytes) -> memoryview:
        """These bytes, nothing readable before them."""
        self._view[: len(data)] = data
        return self._view[: len(data)]

    def beyond(self) -> int:
        """A byte without read access: reading it ends the process."""
        return self._map[_PAGE + self._size]


def segments() -> Iterator[tuple[bytes, int]]:
    """(bytes, base offset): every canonical batch cut at every length, after another one and alone; mutants."""
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
        walk = SegmentScan(data, base_offset=base_offset, sealed=True)
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


_RECORDS = 40
_AT_RANDOM = 200


def changed() -> None:
    """Clean a batch whose bytes change between the look at its checksum and the writing, as those of a mapped file can.

    The room that is written to ends where memory ends, too.
    """
    records = [handmade.record(number, b"k%d" % number, bytes(70)) for number in range(_RECORDS)]
    data = handmade.simple_batch(0, [(b"k1", b"old")]) + handmade.batch(records, base_offset=1)
    starts, position = [], len(data) - sum(map(len, records))
    for record in records:
        starts.append(position)
        position += len(record)
    last = SourceSegment(_RECORDS + 1, _RECORDS + 2, handmade.simple_batch(_RECORDS + 1, [(b"k5", b"new")]), 0, 0, 0)

    def lengths(of: Callable[[int], int]) -> bytes:
        """The batch with another length before each record, in as many bytes as the right one."""
        content = bytearray(data)
        for start in starts:
            number = handmade.varint(of(start))[: len(data) - start]
            content[start : start + len(number)] = number
        return bytes(content)

    sizes = [-(1 << 31), -1, 0, 1, 8191, (1 << 31) - 1, (1 << 63) - 1]
    wrong = [lengths(lambda start, size=size: size) for size in sizes]
    wrong += [lengths(lambda start, by=by: len(data) - start - 2 + by) for by in (0, 1, 100)]
    wrong += [bytes(len(data)), b"\xff" * len(data), data[: starts[0]] + b"\xff" * (len(data) - starts[0])]
    draw = random.Random(36)
    # Too short a length stays within bounds, like any other change of a value: only the checksum could show it.
    strange = [lengths(lambda start: 63)]
    strange += [data[: starts[0]] + draw.randbytes(len(data) - starts[0]) for _ in range(_AT_RANDOM)]
    refused = 0
    for number, content in enumerate([data, *wrong, *strange]):
        written = _cleaned_while_it_changes(data, content, last)
        if number == 0:
            assert written is not None, "unchanged, it is cleaned"
        elif number <= len(wrong):
            refused += written is None
    print(refused, len(wrong))


def _cleaned_while_it_changes(data: bytes, content: bytes, last: SourceSegment) -> bytes | None:
    """What is written of a segment that becomes `content` before it is written; None if that is refused."""
    source = Guarded(2).last(data)

    class Writer(BatchWriter):
        def write(self, *arguments: object) -> object:
            source[:] = content
            return super().write(*arguments)

        def _make_room(self, *arguments: object) -> None:
            self._target = self._scratch = np.empty(0, np.uint8)
            super()._make_room(*arguments)
            # As much as was requested, and nothing after it.
            room, scratch = len(self._target) * 4 // 5, len(self._scratch) * 4 // 5
            self._target = np.frombuffer(Guarded(4).last(bytes(room)), np.uint8)
            self._scratch = np.frombuffer(Guarded(4).last(bytes(scratch)), np.uint8)
            frame = self._frame
            frame.target, frame.room = address_of(self._target), room
            frame.scratch, frame.scratch_size = address_of(self._scratch), scratch

    cleaner = CompiledCleaner()
    cleaner._writer = Writer()
    round = CleaningRound(0, 0, last.next_base_offset, 1 << 62, 1_000_000, 500, 0, BrokerLine.V4_4)
    segment = SourceSegment(0, _RECORDS + 1, source, 0, 0, 0)
    cleaner.build_map([segment, last], round)
    sink = io.BytesIO()
    try:
        cleaner.clean([segment, last], sink)
    except LogError:
        return None
    return sink.getvalue()


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
    elif sys.argv[1] == "changed":
        changed()
    else:
        main(Engine(sys.argv[1]))
