"""What may be taken from the end of a source's log, and when to stop: a pure decision.

The archive grows at its end and never loses offsets because the source did. Growth needs agreement: what the archive
holds last must be at the source.

    asked in this order                                             answer
    another topic id, or one that cannot be understood              stop: topic-recreated, broken-partition-file
    our last batch lies where it lay (base offset, epoch, crc)      go on behind it
    it lies elsewhere, in a merged segment                          go on behind it
    it was cleaned away, and leader epochs agree (KIP-101, 279)     go on at the first batch behind
    it was dropped by retention, and leader epochs agree            go on at the first batch behind
    another batch lies there                                        stop: source-diverged
    the source ends before the archive                              stop: source-behind
    the source begins above what the archive holds next             go on behind the gap: trimmed-before-ingest
    its cleaner went past what the archive holds next               go on: source-cleaned, if something is gone

What the source trimmed or cleaned below our end is only information. Nothing is read here: headers come through
`SourceReader`. Taking the bytes, and cutting a segment still being written, is the copier's work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from logcore.errors import LogError
from logcore.logs.findings import Finding, found
from logcore.logs.sources import SegmentFile, SourceLog
from logcore.records.batch import BatchHeader
from logcore.segments.checkpoints import EpochEntry, end_offset_for, epoch_for_offset
from logcore.segments.filenames import MAX_OFFSET

Gap = tuple[int, int, str]
"""Start offset, end offset, evidence: offsets absent in there are missing for that reason."""


class SourceReader(Protocol):
    """Headers of batches in a source's files; `logcore.storage.local.LocalReader` is one."""

    def header_at(self, segment: SegmentFile, position: int) -> BatchHeader | None:
        """The header at a position, or None if no whole batch with a readable header stands there."""

    def headers(self, segment: SegmentFile, position: int = 0) -> Iterator[tuple[int, BatchHeader | None]]:
        """Positions and headers from a position on; a last None says that nothing can be told from there."""


@dataclass(frozen=True, slots=True)
class LogTail:
    """What the archive holds at the end of a log.

    next_offset: the offset expected next. last_batch_…: the last good batch, and its end in the source segment of base
    offset last_batch_segment; all None if no good batch was ever taken. source_segment, source_position: the source
    segment taken last, and the end of what was taken of it, which is behind the last good batch if damage follows.
    """

    next_offset: int
    last_batch_base_offset: int | None
    last_batch_epoch: int | None
    last_batch_crc: int | None
    last_batch_size: int | None
    last_batch_end: int | None
    last_batch_segment: int | None
    source_segment: int
    source_position: int


@dataclass(frozen=True, slots=True)
class Take:
    """Bytes to take: of the source segment `segment_base`, from `start_position` to its end.

    first_offset_expected: no batch in there begins below it.
    """

    segment_base: int
    start_position: int
    sealed: bool
    first_offset_expected: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Why nothing more may be taken; `rule` is in the table of rules, and the finding is among the growth's."""

    rule: str
    message: str


@dataclass(frozen=True, slots=True)
class Growth:
    """What to take, in order, and what to say. Takes beside a stop are good: what stops lies behind them."""

    takes: tuple[Take, ...] = ()
    findings: tuple[Finding, ...] = ()
    stop: Stop | None = None
    gaps: tuple[Gap, ...] = ()

    @property
    def gap(self) -> Gap | None:
        """The first of the gaps."""
        return self.gaps[0] if self.gaps else None


class _Stopped(Exception):  # noqa: N818 - carries a decision, not a fault
    def __init__(self, rule: str, message: str) -> None:
        self.stop = Stop(rule, message)


@dataclass(frozen=True, slots=True)
class _Resume:
    """Where to go on: a place in a segment, the offset expected there, and what is said about it."""

    segment: SegmentFile
    position: int
    expected: int
    findings: tuple[Finding, ...] = ()
    gaps: tuple[Gap, ...] = ()


def decide_growth(
    tail: LogTail | None,
    source: SourceLog,
    reader: SourceReader,
    *,
    known_topic_id: str | None = None,
    known_high_watermark: int | None = None,
    known_log_start_offset: int | None = None,
    known_leader_epochs: Sequence[tuple[int, int]] = (),
) -> Growth:
    """What the archive may take from a source.

    tail: None if it holds nothing of this log yet. known_…: what was seen of the source the last time; None and empty
    the first time. Never raises for what the source holds.
    """
    findings = _moved(tail, source, known_high_watermark, known_log_start_offset)
    try:
        if source.broken_identity:
            raise _Stopped("broken-partition-file", "whose log this is cannot be told from its partition.metadata")
        if known_topic_id is not None and source.topic_id != known_topic_id:
            is_now = "none" if source.topic_id is None else source.topic_id
            raise _Stopped("topic-recreated", f"the topic id is {is_now} where it was {known_topic_id}")
        if tail is None:
            return _stop_before_unreadable(Growth(_takes(source, 0), findings), source)
        epochs = tuple(EpochEntry(*entry) for entry in known_leader_epochs)
        resume = _Agreement(tail, source, reader, epochs).resume()
        resume = _cleaned_before_taken(resume, source, reader)
        behind = _takes(source, resume.segment.base_offset + 1, resume.expected)
        here = Take(resume.segment.base_offset, resume.position, source.is_sealed(resume.segment), resume.expected)
        takes = (here, *behind) if resume.position < resume.segment.size else behind
        growth = Growth(takes, findings + resume.findings, None, resume.gaps)
        return _stop_before_unreadable(growth, source, resume.segment.base_offset)
    except _Stopped as stopped:
        return Growth((), (*findings, _said(stopped.stop, source)), stopped.stop)
    except LogError as error:
        stop = Stop("unreadable", str(error))
        return Growth((), (*findings, _said(stop, source)), stop)


def _moved(
    tail: LogTail | None, source: SourceLog, high_watermark: int | None, log_start_offset: int | None
) -> tuple[Finding, ...]:
    """What moved at the source since the last time, without consequence for what is held."""
    findings = []
    seen = source.high_watermark
    if high_watermark is not None and seen is not None and seen < high_watermark:
        message = f"the high watermark of {source.topic_partition} is {seen} where it was {high_watermark}"
        findings.append(found("high-watermark-fell", message, start_offset=seen, end_offset=high_watermark))
    if tail is not None and log_start_offset is not None:
        trimmed_to = min(source.log_start_offset, tail.next_offset)
        if trimmed_to > log_start_offset:
            message = (
                f"{source.topic_partition}: the source dropped offsets {log_start_offset} to {trimmed_to}; kept here"
            )
            findings.append(found("source-trimmed", message, start_offset=log_start_offset, end_offset=trimmed_to))
    return tuple(findings)


def _takes(source: SourceLog, from_base: int, expected: int = 0) -> tuple[Take, ...]:
    """Whole segments from a base offset on; those of zero bytes hold nothing to take."""
    later = [segment for segment in source.segments if segment.base_offset >= from_base]
    for segment in later:
        if segment.base_offset < expected:
            raise _Stopped(
                "source-diverged", f"a segment begins at offset {segment.base_offset}, which the archive holds already"
            )
    return tuple(Take(s.base_offset, 0, source.is_sealed(s), s.base_offset) for s in later if s.size > 0)


def _stop_before_unreadable(growth: Growth, source: SourceLog, from_base: int = 0) -> Growth:
    """Nothing behind a segment that cannot be read may be taken: it would look as if its offsets were gone."""
    first = min((base for base in source.unreadable if base >= from_base), default=None)
    if first is None:
        return growth
    stop = Stop("unreadable", f"the segment at offset {first} cannot be read, and nothing behind it is taken")
    takes = tuple(take for take in growth.takes if take.segment_base < first)
    return replace(growth, takes=takes, findings=(*growth.findings, _said(stop, source)), stop=stop)


def _said(stop: Stop, source: SourceLog) -> Finding:
    return found(stop.rule, f"{source.topic_partition} stops: {stop.message}", file=source.directory)


def _cleaned_before_taken(resume: _Resume, source: SourceLog, reader: SourceReader) -> _Resume:
    """Say so if the source's cleaner removed something that was never taken."""
    cleaned_to, expected = source.cleaner_checkpoint, resume.expected
    if cleaned_to is None or cleaned_to <= expected:
        return resume
    with suppress(_Stopped):
        for _, header in _walk(source, reader, resume.segment, resume.position):
            # Offsets without a hole and a record for each: the cleaner was there and found nothing to remove.
            if header is None or header.base_offset != expected or header.record_count != header.last_offset_delta + 1:
                break
            expected = header.next_offset
            if expected >= cleaned_to:
                return resume
    message = f"{source.topic_partition}: the source was cleaned up to offset {cleaned_to} before that was taken"
    finding = found("source-cleaned", message, start_offset=resume.expected, end_offset=cleaned_to)
    gap = (resume.expected, cleaned_to, "source-cleaned")
    return replace(resume, findings=(*resume.findings, finding), gaps=(*resume.gaps, gap))


def _walk(
    source: SourceLog, reader: SourceReader, segment: SegmentFile, position: int = 0
) -> Iterator[tuple[tuple[SegmentFile, int], BatchHeader | None]]:
    """(segment, position) and header of every batch from a place on, through the later segments; None where the bytes
    of a segment can no longer be told apart, and then on with the next segment. Stops at an unreadable segment."""
    for later in source.segments:
        if later.base_offset < segment.base_offset:
            continue
        hidden = [base for base in source.unreadable if segment.base_offset < base < later.base_offset]
        if hidden:
            raise _Stopped(
                "unreadable", f"the segment at offset {hidden[0]} cannot be read, and may hold what is needed"
            )
        start = position if later.base_offset == segment.base_offset else 0
        for at, header in reader.headers(later, start):
            yield (later, at), header


@dataclass(frozen=True, slots=True)
class _Agreement:
    """The question whether the source still holds what the archive holds last, and where the log goes on if so."""

    tail: LogTail
    source: SourceLog
    reader: SourceReader
    known_epochs: tuple[EpochEntry, ...]

    def resume(self) -> _Resume:
        if not self.source.segments:
            raise _Stopped("unreadable" if self.source.unreadable else "source-behind", "no segment can be read there")
        self._require_readable_end()
        resume = self._where_it_lay()
        if self._first_available() > self.tail.next_offset:
            return self._behind_the_gap(resume)
        if resume is None:
            resume = self._elsewhere()
        return resume

    def _require_readable_end(self) -> None:
        """Stop if the segment that would hold our end is there but cannot be read."""
        bases = [segment.base_offset for segment in self.source.segments]
        floor = max((base for base in (*bases, *self.source.unreadable) if base < self.tail.next_offset), default=None)
        if floor is not None and floor in self.source.unreadable:
            raise _Stopped(
                "unreadable", f"the segment at offset {floor} cannot be read, and would hold the archive's end"
            )

    def _first_available(self) -> int:
        return max(min([self.source.segments[0].base_offset, *self.source.unreadable]), self.source.log_start_offset)

    def _where_it_lay(self) -> _Resume | None:
        """The ordinary case, told from one header: the source only grew."""
        tail = self.tail
        segment = self._segment(tail.source_segment)
        if segment is None or segment.size < tail.source_position:
            return None
        if tail.last_batch_segment is not None and tail.last_batch_end is not None and tail.last_batch_size is not None:
            holder = self._segment(tail.last_batch_segment)
            if holder is None:
                return None
            header = self.reader.header_at(holder, tail.last_batch_end - tail.last_batch_size)
            if header is None or not self._is_ours(header):
                return None
        took_damage = (tail.source_segment, tail.source_position) != (tail.last_batch_segment, tail.last_batch_end)
        if took_damage and segment.size != tail.source_position:
            # Damage is taken along only with a sealed segment, whole: a broker that cut it off writes over it.
            raise _Stopped("source-diverged", "a segment that ended in damage has another size now")
        following = self.reader.header_at(segment, tail.source_position)
        if following is not None and following.base_offset < tail.next_offset:
            raise _Stopped(
                "source-diverged",
                f"behind what was taken lies a batch of offset {following.base_offset}, below {tail.next_offset}",
            )
        return _Resume(segment, tail.source_position, tail.next_offset)

    def _elsewhere(self) -> _Resume:
        """The source was rewritten, or lost its head: look for our last batch by its offset."""
        tail, source = self.tail, self.source
        base_offset = tail.last_batch_base_offset
        if base_offset is None:
            raise _Stopped("source-diverged", "the source changed, and nothing the archive holds of it can be compared")
        walk = _walk(source, self.reader, self._floor(base_offset))
        dropped = agreed = self._first_available() > base_offset  # then there is nothing to compare
        if dropped:
            self._require_epochs("the batch the archive holds last was dropped at the source")
        end: tuple[SegmentFile, int] | None = None
        log_end = source.segments[-1].base_offset
        for (segment, position), header in walk:
            if header is None:
                if not source.is_sealed(segment):
                    break  # a write under way: the log ends here
                if agreed and segment.base_offset >= tail.next_offset:
                    return self._found(segment, position, dropped)
                raise _Stopped(
                    "source-diverged",
                    f"damage at position {position} of the segment at {segment.base_offset} hides what is needed",
                )
            end = (segment, position + header.size)
            log_end = max(log_end, header.next_offset)
            if header.last_offset < base_offset:
                continue
            if not agreed:
                self._require_same(header)
                agreed = True
            if header.base_offset >= tail.next_offset:
                return self._found(segment, position, dropped)
            if header.last_offset >= tail.next_offset:
                raise _Stopped(
                    "source-diverged",
                    f"a batch of offsets {header.base_offset} to {header.last_offset} lies across the archive's end",
                )
        if log_end < tail.next_offset:
            message = f"the source ends at offset {log_end}, the archive at {tail.next_offset}"
            raise _Stopped("source-behind", message)
        if not agreed:
            self._require_epochs("the batch the archive holds last was cleaned away at the source", cleaned=True)
        last = source.segments[-1]
        return self._found(last, end[1] if end is not None and end[0] == last else 0, dropped)

    def _behind_the_gap(self, resume: _Resume | None) -> _Resume:
        """The source begins above what the archive holds next: go on there, and say what was lost."""
        tail, source, first = self.tail, self.source, self._first_available()
        if source.named_files:
            message = f"the files that were named begin at offset {first}, the archive goes on at {tail.next_offset}"
            raise _Stopped("segments-not-named", message)
        epoch = epoch_for_offset(source.leader_epochs, first)
        if epoch is not None and tail.last_batch_epoch is not None and epoch < tail.last_batch_epoch:
            message = f"offset {first} is of leader epoch {epoch}, the archive ends with epoch {tail.last_batch_epoch}"
            raise _Stopped("source-diverged", message)
        start = (self._floor(first), 0)
        if resume is not None and resume.segment.base_offset >= start[0].base_offset:
            start = (resume.segment, resume.position)
        begin, place = self._first_batch_from(first, start)
        if begin < tail.next_offset:
            raise _Stopped("source-diverged", f"a batch that begins at offset {begin} lies across the archive's end")
        if begin == tail.next_offset:
            return _Resume(*place, begin)
        message = (
            f"{source.topic_partition}: the source dropped offsets {tail.next_offset} to {begin} before they were taken"
        )
        finding = found("trimmed-before-ingest", message, start_offset=tail.next_offset, end_offset=begin)
        return _Resume(*place, begin, (finding,), ((tail.next_offset, begin, "trimmed-before-ingest"),))

    def _first_batch_from(self, first: int, start: tuple[SegmentFile, int]) -> tuple[int, tuple[SegmentFile, int]]:
        """Where the log goes on at or behind an offset: the offset, no higher than `first`, and the place."""
        source = self.source
        for (segment, position), header in _walk(source, self.reader, *start):
            if header is None and source.is_sealed(segment):
                return first, (segment, position)  # damage is taken along, for validation to judge
            if header is not None and header.last_offset >= first:
                return min(first, header.base_offset), (segment, position)
        last = source.segments[-1]
        if last.base_offset < first:
            message = (
                f"its log start offset {first} lies above all it holds; the archive goes on at {self.tail.next_offset}"
            )
            raise _Stopped("source-behind", message)
        return first, (last, 0)

    def _found(self, segment: SegmentFile, position: int, dropped: bool) -> _Resume:
        next_offset = self.tail.next_offset
        if dropped:
            return _Resume(segment, position, next_offset)
        message = f"{self.source.topic_partition}: the source was rewritten below offset {next_offset}; kept here"
        return _Resume(segment, position, next_offset, (found("source-compacted", message, end_offset=next_offset),))

    def _is_ours(self, header: BatchHeader) -> bool:
        """The same batch: base offset and leader epoch lie outside the crc, so all three are compared."""
        tail = self.tail
        return (header.base_offset, header.partition_leader_epoch, header.crc) == (
            tail.last_batch_base_offset,
            tail.last_batch_epoch,
            tail.last_batch_crc,
        )

    def _require_same(self, header: BatchHeader) -> None:
        if not self._is_ours(header):
            self._require_epochs(f"another batch lies at offset {header.base_offset}", cleaned=True)

    def _require_epochs(self, why: str, *, cleaned: bool = False) -> None:
        """Stop unless the source's leader epochs say that its log is ours up to our end, and its cleaner was there."""
        tail, epochs = self.tail, self.source.leader_epochs
        checkpoint = self.source.cleaner_checkpoint
        if cleaned and (checkpoint is None or checkpoint <= (tail.last_batch_base_offset or 0)):
            raise _Stopped("source-diverged", f"{why}, and the source's cleaner was not there")
        epoch = tail.last_batch_epoch
        if epoch is None or epoch < 0 or not epochs:
            raise _Stopped("source-diverged", f"{why}, and there are no leader epochs to compare")
        answered, end = end_offset_for(epochs, epoch, MAX_OFFSET)
        if answered != epoch or end < tail.next_offset or not self._same_epochs():
            raise _Stopped("source-diverged", f"{why}, and the leader epochs of source and archive differ")

    def _same_epochs(self) -> bool:
        """Whether what is still at the source was written in the same epochs as when it was last seen."""
        first, end, epochs = self._first_available(), self.tail.next_offset, self.source.leader_epochs
        if not self.known_epochs:
            return True
        borders = {entry.start_offset for entry in (*epochs, *self.known_epochs)} | {first}
        return all(
            epoch_for_offset(epochs, border) == epoch_for_offset(self.known_epochs, border)
            for border in borders
            if first <= border < end
        )

    def _segment(self, base_offset: int) -> SegmentFile | None:
        return next((s for s in self.source.segments if s.base_offset == base_offset), None)

    def _floor(self, offset: int) -> SegmentFile:
        """The segment that would hold an offset; the first one if all begin above it."""
        below = [segment for segment in self.source.segments if segment.base_offset <= offset]
        return below[-1] if below else self.source.segments[0]
