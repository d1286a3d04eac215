"""Records in bulk, directly from the engines: lines of JSON from several threads.

The fast way of `dump`, if single records need no inspection. It shows the same as the slow way, which handles all other
cases. Arrow columns are in `logcore.library.shown_segments`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from logcore.cli.output.record_lines import json_line, record_fields
from logcore.errors import LogError
from logcore.library.shown_segments import ShownSegment, place_of
from logcore.reading.notes import Notes
from logcore.reading.segment_reading import cannot_read, padding_finding, stretch_finding
from logcore.records.model import DEFAULT_LIMITS, BatchHeader, Record
from logcore.segments.scanning.scan import Stretch
from logcore.storage.local import shown

if TYPE_CHECKING:
    from logcore.columns.checking.chunks import Chunk, Job
    from logcore.columns.decoding.line_buffers import TextPool
    from logcore.columns.decoding.turns import Turn, Waiting

Lines = list[memoryview]

TEXT_BYTES = 32 << 20
"""Most bytes of lines that one chunk returns at once; a compressed chunk may have very many."""


@dataclass(slots=True)
class _Written:
    """The result of one chunk, and where it ended."""

    position: int
    next_offset: int
    turn: Turn
    items: list[Lines | Stretch] = field(default_factory=list)
    padding: int = 0
    failure: LogError | None = None
    """Why the bytes after the items could not be fetched."""


def can_write_lines() -> bool:
    """Whether the kernels that write lines work here, and LOGLAKE_ENGINE names no other engine."""
    from logcore.columns.kernels.families import Work
    from logcore.columns.kernels.library import is_chosen

    return is_chosen(Work.WRITE_LINES)


def write_lines(segments: Iterable[ShownSegment], notes: Notes, write: Callable[[memoryview], object]) -> None:
    """Write the wanted records of segments as lines of JSON, in order, and report errors of the segments."""
    from logcore.columns.checking.chunks import in_order, processors
    from logcore.columns.decoding.line_buffers import TextPool
    from logcore.columns.decoding.turns import Waiting

    pool, waiting = TextPool(), Waiting()
    failed: ShownSegment | None = None

    def write_items(shows: ShownSegment, items: list[Lines | Stretch]) -> None:
        """Called in the thread whose turn it is."""
        for item in items if shows is not failed else ():
            if isinstance(item, Stretch):
                notes.say(stretch_finding(item, shown(shows.segment.path)))
            else:
                for text in item:
                    write(text)
                    pool.give(text)
        items.clear()

    works = (_LineWork(each, pool, waiting, write_items) for each in segments)
    progress = Progress()
    for job, result in in_order(chain.from_iterable(work.jobs() for work in works), processors()):
        shows = job.owner
        write_items(shows, result.items)
        result.turn.taken()
        if shows is failed:
            continue
        if result.padding:
            notes.say(padding_finding(shows.log, shows.segment, len(shows.content), result.padding))
        try:
            if result.failure is not None:
                raise result.failure
            if result.position >= len(shows.content):
                shows.source.refuse_change()
        except LogError as error:
            failed = shows
            cannot_read(shows.segment, error, notes)
        progress.at(shows.segment.path, result.position, len(shows.content))
    progress.close()


class _LineWork:
    """The lines of one chunk; called in several threads."""

    def __init__(
        self,
        shows: ShownSegment,
        pool: TextPool,
        waiting: Waiting,
        write: Callable[[ShownSegment, list[Lines | Stretch]], None],
    ) -> None:
        self._shows, self._pool, self._waiting, self._write_items = shows, pool, waiting, write

    def jobs(self) -> Iterator[Job[ShownSegment, _Written]]:
        """Return the jobs that make the lines."""
        from logcore.columns.checking.chunks import jobs

        shows = self._shows
        for job in jobs(shows, shows.content, shows.segment.base_offset, self._unplaced, shows.source):
            turn = self._waiting.turn()
            yield replace(job, work=partial(self, turn), turn=turn)

    def _unplaced(self, chunk: Chunk) -> _Written:
        return self(self._waiting.turn(), chunk)

    def __call__(self, turn: Turn, chunk: Chunk) -> _Written:
        written = _Written(chunk.start, chunk.next_offset, turn)
        turn.hold(0)
        if turn.is_dropped:
            return written
        try:
            self._write(written, chunk)
        except LogError as error:
            written.failure, written.position = error, chunk.stop
        return written

    def _write(self, written: _Written, chunk: Chunk) -> None:
        from logcore.columns.checking.chunks import part_of
        from logcore.columns.decoding.compiled import CompiledLane
        from logcore.columns.decoding.lanes import CarefulLane, SegmentRows
        from logcore.columns.decoding.line_buffers import LineBuffers

        log, segment, content = self._shows.log, self._shows.segment, self._shows.content
        careful = CarefulLane(
            content,
            segment.base_offset,
            log.is_sealed(segment),
            log.next_base_offset(segment),
            self._shows.wanted,
            DEFAULT_LIMITS,
            self._shows.source,
        )
        part = part_of(content, chunk, self._shows.source)
        output = LineBuffers(place_of(log, segment), self._pool)
        lane: CompiledLane[Lines] = CompiledLane(
            part.content, careful.ceiling, self._shows.wanted, DEFAULT_LIMITS, 0, output, part.goes_on
        )
        nbytes = 0

        def enough() -> bool:
            return nbytes >= TEXT_BYTES

        lane.enough = enough
        walk = SegmentRows(lane, careful, self._lines, chunk.start, chunk.next_offset, part.stop, enough)
        for item in walk:
            written.items.append(item)
            held = 0 if isinstance(item, Stretch) else sum(map(len, item))
            nbytes += held
            if written.turn.hold(held):
                self._write_items(self._shows, written.items)
                written.turn.taken()
            if written.turn.is_dropped:
                return
        written.position, written.next_offset = walk.position, walk.next_offset
        if walk.padding:
            written.padding, written.position = chunk.stop - (walk.position - walk.padding), chunk.stop

    def _lines(self, header: BatchHeader, _: int, records: list[Record]) -> Lines:
        name, epoch = self._shows.log.topic_partition, header.partition_leader_epoch
        text = "".join(json_line(record_fields(name, record, epoch, None, False)) for record in records)
        return [memoryview(text.encode("utf-8", "backslashreplace"))]


class Progress:
    """The progress in a file: on stderr, if that is a terminal and the output is not."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty() and not sys.stdout.isatty()

    def at(self, path: str, position: int, size: int) -> None:
        """Report the position up to which a file is done."""
        if self._is_shown and size:
            sys.stderr.write(f"\r\x1b[K{shown(path)} {100 * position // size} %")
            sys.stderr.flush()

    def close(self) -> None:
        """Remove the line of the progress."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
