"""Records in bulk, directly from the engines: lines from several threads.

The fast way of `dump`, if single records need no inspection. It shows the same as the slow way, which handles all other
cases. Arrow columns are in `logcore.reading.consumer_log`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.progress import ReadProgress
from logcore.cli.output.record_lines import line_of
from logcore.errors import LogError
from logcore.logs.model.findings import Finding
from logcore.logs.model.sources import SourceLog
from logcore.reading.read_options import Notes
from logcore.reading.segment_reading import SegmentFindings, cannot_read
from logcore.reading.shown_segments import ShownSegment, place_of, rows_of
from logcore.records.model import DEFAULT_LIMITS, BatchHeader, Record
from logcore.segments.scanning.scan import Stretch
from logcore.storage.machine import processors

if TYPE_CHECKING:
    from logcore.columns.checking.chunks import Chunk, Job
    from logcore.columns.decoding.batch_table import Gaps
    from logcore.columns.decoding.lanes import SegmentRows
    from logcore.columns.decoding.line_buffers import LineBuffers, TextPool
    from logcore.columns.decoding.line_forms import LineForm
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
    items: list[Lines | Stretch | Finding] = field(default_factory=list)
    padding: int = 0
    gaps: list[Gaps] = field(default_factory=list)
    failure: LogError | None = None
    """Why the bytes after the items could not be fetched."""


class LineMaker:
    """How lines of a form are made: by kernels, and where they have doubts, one by one."""

    def __init__(self, form: LineForm) -> None:
        self.form = form

    def buffers(self, shows: ShownSegment, pool: TextPool, left: int | None = None) -> LineBuffers:
        """Return buffers for the lines of a segment."""
        from logcore.columns.decoding.line_buffers import LineBuffers

        return LineBuffers(place_of(shows.log, shows.segment), pool, self.form, left)

    def line(self, buffers: LineBuffers, log: SourceLog, header: BatchHeader, record: Record) -> str:
        """Return the line of a record."""
        return line_of(self.form, log.topic_partition, header, record)

    def findings(self, buffers: LineBuffers) -> list[Finding]:
        """Return the findings about the lines since the last call."""
        return []


def can_write_lines(form: LineForm) -> bool:
    """Whether the kernels that write lines of a form work here, and LOGLAKE_ENGINE names no other engine."""
    from logcore.columns.kernels.library import is_chosen

    return is_chosen(form.work)


def write_lines(
    segments: Iterable[ShownSegment], notes: Notes, write: Callable[[memoryview], object], maker: LineMaker
) -> None:
    """Write the wanted records of segments as lines, in order, and report errors of the segments."""
    from logcore.columns.checking.chunks import in_order
    from logcore.columns.decoding.line_buffers import TextPool
    from logcore.columns.decoding.turns import Waiting

    pool, waiting = TextPool(), Waiting()

    def write_items(work: _LineWork, items: list[Lines | Stretch | Finding]) -> None:
        """Called in the thread whose turn it is."""
        for item in items if not work.is_over else ():
            if isinstance(item, Stretch):
                work.wrong.take_stretch(item)
            elif isinstance(item, Finding):
                notes.say(item)
            else:
                for text in item:
                    write(text)
                    pool.give(text)
        items.clear()

    works = (_LineWork(each, notes, maker, pool, waiting, write_items) for each in segments)
    progress = None if sys.stdout.isatty() else ReadProgress()
    if progress is not None and isinstance(notes, CommandNotes):
        notes.progress = progress.line
    for job, result in in_order(chain.from_iterable(work.jobs() for work in works), processors.available()):
        work, shows = job.owner, job.owner.shows
        write_items(work, result.items)
        result.turn.taken()
        if work.is_over:
            continue
        for gaps in result.gaps:
            work.wrong.take_gaps(gaps)
        work.is_over = shows.end is not None and result.next_offset >= shows.end
        try:
            if result.failure is not None:
                raise result.failure
            if result.position >= len(shows.content) and not work.is_over:
                work.wrong.say_end(len(shows.content), result.padding, result.next_offset)
            if result.position >= len(shows.content) or work.is_over:
                shows.source.refuse_change()
        except LogError as error:
            work.is_over = True
            cannot_read(shows.segment, error, notes)
        if progress is not None:
            progress.at(shows.segment.path, result.position, len(shows.content))
    if progress is not None:
        progress.close()


def write_first_lines(
    segments: Iterable[ShownSegment],
    notes: Notes,
    write: Callable[[memoryview], object],
    form: LineForm,
    limit: int,
) -> int:
    """Write at most `limit` lines, and read no more than they need; else as `write_lines`.

    Returns:
        How many more lines may be written.
    """
    from logcore.columns.decoding.line_buffers import TextPool

    pool, left, maker = TextPool(), limit, LineMaker(form)
    for shows in segments if limit else ():
        output = maker.buffers(shows, pool, left)
        for lines in rows_of(shows, notes, partial(_lines_of, shows, maker, output), in_steps=True):
            for text in lines:
                write(text)
                pool.give(text)
            if output.left == 0:
                return 0
        left = output.left or 0
    return left


class _LineWork:
    """The lines of one chunk; called in several threads."""

    def __init__(
        self,
        shows: ShownSegment,
        notes: Notes,
        maker: LineMaker,
        pool: TextPool,
        waiting: Waiting,
        write: Callable[[_LineWork, list[Lines | Stretch | Finding]], None],
    ) -> None:
        self.shows = shows
        self.is_over = False
        """No more of the segment is wanted: reading failed, or reached the end of what is shown."""
        self.wrong = SegmentFindings(shows.log, shows.segment, notes, shows.start)
        if shows.end is not None:
            self.wrong.end = shows.end
        self._maker, self._pool, self._waiting, self._write_items = maker, pool, waiting, write

    def jobs(self) -> Iterator[Job[_LineWork, _Written]]:
        """Yield the jobs that make the lines."""
        from logcore.columns.checking.chunks import jobs

        shows, start = self.shows, self.shows.start
        for job in jobs(self, shows.content, start.next_offset, self._unplaced, shows.source, start.position):
            if self.is_over:
                return
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
        nbytes = 0

        def enough() -> bool:
            return nbytes >= TEXT_BYTES

        output = self._maker.buffers(self.shows, self._pool)
        walk = _lines_of(self.shows, self._maker, output, chunk, enough)
        written.gaps = walk.gaps
        for item in walk:
            written.items += [*self._maker.findings(output), item]
            held = 0 if isinstance(item, Stretch) else sum(map(len, item))
            nbytes += held
            if written.turn.hold(held):
                self._write_items(self, written.items)
                written.turn.taken()
            if written.turn.is_dropped:
                return
        written.position, written.next_offset = walk.position, walk.next_offset
        if walk.padding:
            written.padding, written.position = chunk.stop - (walk.position - walk.padding), chunk.stop


def _lines_of(
    shows: ShownSegment,
    maker: LineMaker,
    output: LineBuffers,
    chunk: Chunk,
    enough: Callable[[], bool] | None = None,
) -> SegmentRows[Lines]:
    """The lines of the beginning of a chunk. `enough`: True ends the walk early."""
    from logcore.columns.checking.chunks import part_of
    from logcore.columns.decoding.compiled import CompiledLane
    from logcore.columns.decoding.lanes import CarefulLane, SegmentRows

    log, segment, content, wanted = shows.log, shows.segment, shows.content, shows.wanted
    sealed, following = log.is_sealed(segment), log.next_base_offset(segment)
    careful = CarefulLane(content, segment.base_offset, sealed, following, wanted, DEFAULT_LIMITS, shows.source)
    part = part_of(content, chunk, shows.source)
    lane: CompiledLane[Lines] = CompiledLane(
        part.content, careful.ceiling, wanted, DEFAULT_LIMITS, 0, output, part.goes_on
    )
    if enough is not None:
        lane.enough = enough

    def lines(header: BatchHeader, _: int, records: list[Record]) -> Lines:
        text = "".join(maker.line(output, log, header, record) for record in output.first(records))
        return [memoryview(text.encode("utf-8", "backslashreplace"))]

    return SegmentRows(lane, careful, lines, chunk.start, chunk.next_offset, part.stop, enough)
