"""Whether a source still has the archive's last batch, and where its log continues.

The archive's last batch is searched in its old place, then elsewhere (a merged segment). If the source cleaned or
removed it, the leader epochs must show that the log is the same up to the archive's end (KIP-101, KIP-279). The crc
does not cover base offset and leader epoch, so all three are compared.

Belongs here: agreement. `logcore.logs.growth.growth` decides what to copy and what to report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from logcore.logs.model.findings import Finding, found
from logcore.logs.model.remote_tier import below_start_finding
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.records.batch import BatchHeader
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.side_files.leader_epochs import EpochEntry, end_offset_for, epoch_for_offset

Gap = tuple[int, int, str]
"""Start offset, end offset, evidence: offsets absent from this range are missing for that reason."""


class SourceReader(Protocol):
    """Headers of batches in a source's files; `logcore.storage.discovery.HeaderReader` is one."""

    def header_at(self, segment: SegmentFile, position: int) -> BatchHeader | None:
        """The header at a position, or None if there is no whole batch with a readable header."""

    def headers(self, segment: SegmentFile, position: int = 0) -> Iterator[tuple[int, BatchHeader | None]]:
        """Positions and headers from a position on. A None as the last header means that the rest is unreadable."""


@dataclass(frozen=True, slots=True)
class LogTail:
    """The end of a log in the archive.

    Attributes:
        next_offset: The offset that is expected next.
        last_batch_base_offset: As all `last_batch_…` None if no good batch was ever archived.
        last_batch_epoch: The leader epoch of the last good batch.
        last_batch_crc: Its crc.
        last_batch_size: Its size.
        last_batch_end: Its end in the source segment.
        last_batch_segment: Base offset of that source segment.
        source_segment: Base offset of the source segment that was read last.
        source_position: The end of what was read of it. It is after the last good batch if damage follows.
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
class Stop:
    """Why nothing more may be read. `rule` is in the rule catalogue; the finding is among the growth's."""

    rule: str
    message: str


class Stopped(Exception):
    """Carries the decision to stop to the caller."""

    def __init__(self, rule: str, message: str) -> None:
        self.stop = Stop(rule, message)


@dataclass(frozen=True, slots=True)
class Resume:
    """Where to continue: a place in a segment, the offset expected there, and the findings."""

    segment: SegmentFile
    position: int
    expected: int
    findings: tuple[Finding, ...] = ()
    gaps: tuple[Gap, ...] = ()


def walk(
    source: SourceLog, reader: SourceReader, segment: SegmentFile, position: int = 0
) -> Iterator[tuple[tuple[SegmentFile, int], BatchHeader | None]]:
    """Yield (segment, position) and header of every batch from a place on, through the later segments.

    The header is None if the rest of a segment is unreadable; the walk continues with the next segment.

    Raises:
        Stopped: A segment cannot be read.
    """
    for later in source.segments:
        if later.base_offset < segment.base_offset:
            continue
        hidden = [base for base in source.unreadable if segment.base_offset < base < later.base_offset]
        if hidden:
            raise Stopped(
                "unreadable", f"the segment at offset {hidden[0]} cannot be read, and may contain what is needed"
            )
        start = position if later.base_offset == segment.base_offset else 0
        for at, header in reader.headers(later, start):
            yield (later, at), header


@dataclass(frozen=True, slots=True)
class Agreement:
    """Compares the end of the archive with a source."""

    tail: LogTail
    source: SourceLog
    reader: SourceReader
    known_epochs: tuple[EpochEntry, ...]

    def resume(self) -> Resume:
        """Find where to continue.

        Raises:
            Stopped: Nothing may be read.
            LogError: As the reader raises it.
        """
        if not self.source.segments:
            raise Stopped("unreadable" if self.source.unreadable else "source-behind", "no segment can be read there")
        self._require_readable_end()
        resume = self._where_it_lay()
        if self._first_available() > self.tail.next_offset:
            return self._behind_the_gap(resume)
        if resume is None:
            resume = self._elsewhere()
        return resume

    def _require_readable_end(self) -> None:
        """Stop if the segment of our end exists but cannot be read."""
        bases = [segment.base_offset for segment in self.source.segments]
        floor = max((base for base in (*bases, *self.source.unreadable) if base < self.tail.next_offset), default=None)
        if floor is not None and floor in self.source.unreadable:
            raise Stopped(
                "unreadable", f"the segment at offset {floor} cannot be read, and would contain the archive's end"
            )

    def _first_available(self) -> int:
        return max(min([self.source.segments[0].base_offset, *self.source.unreadable]), self.source.log_start_offset)

    def _where_it_lay(self) -> Resume | None:
        """The ordinary case, which one header shows: the source only grew."""
        tail = self.tail
        segment = self._segment(tail.source_segment)
        if segment is None or segment.log_bytes < tail.source_position:
            return None
        if tail.last_batch_segment is not None and tail.last_batch_end is not None and tail.last_batch_size is not None:
            holder = self._segment(tail.last_batch_segment)
            if holder is None:
                return None
            header = self.reader.header_at(holder, tail.last_batch_end - tail.last_batch_size)
            if header is None or not self._is_ours(header):
                return None
        took_damage = (tail.source_segment, tail.source_position) != (tail.last_batch_segment, tail.last_batch_end)
        if took_damage and segment.log_bytes != tail.source_position:
            # Damage is archived only with a whole sealed segment. A broker that cut it off writes over it.
            raise Stopped("source-diverged", "a segment that ended in damage has another size now")
        following = self.reader.header_at(segment, tail.source_position)
        if following is not None and following.first_from(tail.next_offset) < tail.next_offset:
            raise Stopped(
                "source-diverged",
                f"the next batch after the archive's end has offset {following.base_offset}, below {tail.next_offset}",
            )
        self._require_no_older(following)
        return Resume(segment, tail.source_position, tail.next_offset)

    def _elsewhere(self) -> Resume:
        """The source was rewritten, or its oldest segments are gone: search our last batch by its offset."""
        tail, source = self.tail, self.source
        base_offset = tail.last_batch_base_offset
        if base_offset is None:
            raise Stopped("source-diverged", "the source changed, and nothing in the archive can be compared with it")
        steps = walk(source, self.reader, self._floor(base_offset))
        dropped = agreed = self._first_available() > base_offset  # then there is nothing to compare
        if dropped:
            self._require_epochs("the source removed the archive's last batch")
        end: tuple[SegmentFile, int] | None = None
        log_end = source.segments[-1].base_offset
        for (segment, position), header in steps:
            if header is None:
                if not source.is_sealed(segment):
                    break  # a write in progress: the log ends here
                if agreed and segment.base_offset >= tail.next_offset:
                    return self._found(segment, position, dropped)
                raise Stopped(
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
            if header.first_from(tail.next_offset) >= tail.next_offset:
                self._require_no_older(header)
                return self._found(segment, position, dropped)
            if header.last_offset >= tail.next_offset:
                raise Stopped(
                    "source-diverged",
                    f"a batch of offsets [{header.base_offset}, {header.last_offset + 1}) crosses the archive's end",
                )
        if log_end < tail.next_offset:
            message = f"the source ends at offset {log_end}, the archive at {tail.next_offset}"
            raise Stopped("source-behind", message)
        if not agreed:
            self._require_epochs("the source cleaned away the archive's last batch", cleaned=True)
        last = source.segments[-1]
        return self._found(last, end[1] if end is not None and end[0] == last else 0, dropped)

    def _behind_the_gap(self, resume: Resume | None) -> Resume:
        """The source begins above the archive's next offset: continue there, and report what was lost."""
        tail, source, first = self.tail, self.source, self._first_available()
        if source.named_files:
            message = f"the files that were named begin at offset {first}, the archive continues at {tail.next_offset}"
            raise Stopped("segments-not-named", message)
        epoch = epoch_for_offset(source.leader_epochs, first)
        if epoch is not None and tail.last_batch_epoch is not None and epoch < tail.last_batch_epoch:
            message = f"offset {first} is of leader epoch {epoch}, the archive ends with epoch {tail.last_batch_epoch}"
            raise Stopped("source-diverged", message)
        if resume is not None and (resume.segment, resume.position) == (
            source.segments[-1],
            source.segments[-1].log_bytes,
        ):
            return resume  # nothing was added; a broker empties such a log when it starts
        start = (self._floor(first), 0)
        if resume is not None and resume.segment.base_offset >= start[0].base_offset:
            start = (resume.segment, resume.position)
        begin, place = self._first_batch_from(first, start)
        if begin < tail.next_offset:
            raise Stopped("source-diverged", f"a batch that begins at offset {begin} crosses the archive's end")
        if begin == tail.next_offset:
            return Resume(*place, begin)
        findings: list[Finding] = []
        gaps: list[tuple[int, int, str]] = []
        remote_from = begin if source.remote is None else max(tail.next_offset, source.remote[0])
        if tail.next_offset < remote_from:
            span = f"offsets [{tail.next_offset}, {remote_from})"
            message = f"{source.topic_partition}: the source removed {span} before they were read"
            lost = (tail.next_offset, remote_from, "trimmed-before-ingest")
            findings.append(found(lost[2], message, start_offset=lost[0], end_offset=lost[1]))
            gaps.append(lost)
        if source.remote is not None and remote_from < begin:
            gaps.append((remote_from, begin, source.remote[2]))
            is_searched = source.tiered_end_offset is not None
            findings.append(below_start_finding(source.topic_partition, gaps[-1], is_searched=is_searched))
        return Resume(*place, begin, tuple(findings), tuple(gaps))

    def _first_batch_from(self, first: int, start: tuple[SegmentFile, int]) -> tuple[int, tuple[SegmentFile, int]]:
        """Where the log continues at or after an offset: the offset, at most `first`, and the place."""
        source = self.source
        for (segment, position), header in walk(source, self.reader, *start):
            if header is None and source.is_sealed(segment):
                return first, (segment, position)  # damage is copied too, for validation to check
            if header is not None and header.last_offset >= first:
                return min(first, header.base_offset), (segment, position)
        last = source.segments[-1]
        if last.base_offset < first:
            message = (
                f"its log start offset {first} is above all its batches; the archive continues at "
                f"{self.tail.next_offset}"
            )
            raise Stopped("source-behind", message)
        return first, (last, 0)

    def _found(self, segment: SegmentFile, position: int, dropped: bool) -> Resume:
        next_offset = self.tail.next_offset
        if dropped:
            return Resume(segment, position, next_offset)
        message = f"{self.source.topic_partition}: the source was rewritten below offset {next_offset}; kept here"
        return Resume(segment, position, next_offset, (found("source-compacted", message, end_offset=next_offset),))

    def _is_ours(self, header: BatchHeader) -> bool:
        """Whether it is the same batch. The crc does not cover base offset and leader epoch, so all are compared."""
        tail, begins = self.tail, header.base_offset
        if tail.last_batch_base_offset is not None and header.next_offset == tail.next_offset:
            begins = header.first_from(tail.last_batch_base_offset)
        return (begins, header.partition_leader_epoch, header.crc) == (
            tail.last_batch_base_offset,
            tail.last_batch_epoch,
            tail.last_batch_crc,
        )

    def _require_same(self, header: BatchHeader) -> None:
        if not self._is_ours(header):
            self._require_epochs(f"another batch is at offset {header.base_offset}", cleaned=True)

    def _require_no_older(self, following: BatchHeader | None) -> None:
        """Stop before a batch of an earlier leader than the log had there, unless the source has seen a later one."""
        if following is None or not self.known_epochs:
            return
        offset, epochs = following.base_offset, self.source.leader_epochs
        has, had = epoch_for_offset(epochs, offset), epoch_for_offset(self.known_epochs, offset)
        has = following.partition_leader_epoch if has is None else has
        is_later = bool(epochs) and epochs[-1].epoch > self.known_epochs[-1].epoch
        if had is not None and 0 <= has < had and not is_later:
            why = f"its batch at offset {offset} is of leader epoch {has}, and the log was in epoch {had} there before"
            raise Stopped("source-diverged", why)

    def _require_epochs(self, why: str, *, cleaned: bool = False) -> None:
        """Stop unless the source's leader epochs show that its log is ours up to our end.

        With `cleaned` its cleaner must also have reached our last batch.
        """
        tail, epochs = self.tail, self.source.leader_epochs
        checkpoint = self.source.cleaner_checkpoint
        if cleaned and (checkpoint is None or checkpoint <= (tail.last_batch_base_offset or 0)):
            raise Stopped("source-diverged", f"{why}, and the source's cleaner did not reach it")
        epoch = tail.last_batch_epoch
        if epoch is None or epoch < 0 or not epochs:
            raise Stopped("source-diverged", f"{why}, and there are no leader epochs to compare")
        answered, end = end_offset_for(epochs, epoch, MAX_OFFSET)
        if answered != epoch or end < tail.next_offset or not self._same_epochs():
            raise Stopped("source-diverged", f"{why}, and the leader epochs of source and archive differ")

    def _same_epochs(self) -> bool:
        """Whether the rest of the source was written in the same epochs as when it was last seen."""
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
        """The segment of an offset; the first one if all begin above it."""
        below = [segment for segment in self.source.segments if segment.base_offset <= offset]
        return below[-1] if below else self.source.segments[0]
