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

What a stop leads to is the caller's: where the source parted from us above all that is published, it cuts its tail back
(`logcore.logs.growth.divergence` finds the fork) and asks again. What the source trimmed or cleaned below our end is
only information. Nothing is read here: headers come through `SourceReader`. Taking the bytes, and cutting a segment
still being written, is the copier's work.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from logcore.errors import LogError
from logcore.logs.growth.agreement import Agreement, Gap, LogTail, Resume, SourceReader, Stop, Stopped, walk
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.remote_tier import remote_finding
from logcore.logs.model.sources import SourceLog
from logcore.segments.side_files.leader_epochs import EpochEntry

__all__ = ["Gap", "Growth", "LogTail", "SourceReader", "Stop", "Take", "decide_growth"]


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
class Growth:
    """What to take, in order, and what to say. Takes beside a stop are good: what stops lies behind them."""

    takes: tuple[Take, ...] = ()
    findings: tuple[Finding, ...] = ()
    stop: Stop | None = None
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
    findings: tuple[Finding, ...] = ()
    try:
        if source.broken_identity:
            raise Stopped("broken-partition-file", "whose log this is cannot be told from its partition.metadata")
        if known_topic_id is not None and source.topic_id != known_topic_id:
            is_now = "none" if source.topic_id is None else source.topic_id
            raise Stopped("topic-recreated", f"the topic id is {is_now} where it was {known_topic_id}")
        # Not before: a checkpoint names a topic, not its id, and may be another topic's of the same name.
        findings = _moved(tail, source, known_high_watermark, known_log_start_offset)
        if tail is None:
            if source.remote is not None:
                findings += (remote_finding(source.topic_partition, *source.remote),)
            return _stop_before_hole(Growth(_takes(source, 0), findings), source)
        epochs = tuple(EpochEntry(*entry) for entry in known_leader_epochs)
        resume = Agreement(tail, source, reader, epochs).resume()
        resume = _cleaned_before_taken(resume, source, reader)
        behind = _takes(source, resume.segment.base_offset + 1, resume.expected)
        here = Take(resume.segment.base_offset, resume.position, source.is_sealed(resume.segment), resume.expected)
        takes = (here, *behind) if resume.position < resume.segment.size else behind
        growth = Growth(takes, findings + resume.findings, None, resume.gaps)
        return _stop_before_hole(growth, source, resume.segment.base_offset)
    except Stopped as stopped:
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
        trimmed_to = min(source.whole_log_start_offset, tail.next_offset)
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
            raise Stopped(
                "source-diverged", f"a segment begins at offset {segment.base_offset}, which the archive holds already"
            )
    return tuple(Take(s.base_offset, 0, source.is_sealed(s), s.base_offset) for s in later if s.size > 0)


def _stop_before_hole(growth: Growth, source: SourceLog, from_base: int = 0) -> Growth:
    """Nothing behind a segment that cannot be read, or was not named, may be taken: it would look as if its offsets
    were gone."""
    named = [segment.base_offset for segment in source.segments]
    holes = {base: "cannot be read" for base in source.unreadable if base >= from_base}
    between = (max([from_base, *named[:1]]), max(named, default=0))
    holes |= {base: "was not named" for base in source.unnamed if between[0] < base < between[1]}
    if not holes:
        return growth
    first = min(holes)
    rule = "unreadable" if first in source.unreadable else "segments-not-named"
    stop = Stop(rule, f"the segment at offset {first} {holes[first]}, and nothing behind it is taken")
    takes = tuple(take for take in growth.takes if take.segment_base < first)
    return replace(growth, takes=takes, findings=(*growth.findings, _said(stop, source)), stop=stop)


def _said(stop: Stop, source: SourceLog) -> Finding:
    return found(stop.rule, f"{source.topic_partition} stops: {stop.message}", file=source.directory)


def _cleaned_before_taken(resume: Resume, source: SourceLog, reader: SourceReader) -> Resume:
    """Say so if the source's cleaner removed something that was never taken."""
    cleaned_to, expected = source.cleaner_checkpoint, resume.expected
    if cleaned_to is None or cleaned_to <= expected:
        return resume
    with suppress(Stopped):
        for _, header in walk(source, reader, resume.segment, resume.position):
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
