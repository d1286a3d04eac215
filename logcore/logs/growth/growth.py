"""What may be read from the end of a source's log, and when to stop: a pure decision.

The archive grows at its end and never loses offsets because the source did. Growth needs agreement: the archive's last
batch must be at the source.

    checked in this order                                           result
    another topic id                                                stop: topic-recreated
    our last batch is in its place (base offset, epoch, crc)        continue after it
    it is elsewhere, in a merged segment                            continue after it
    it was cleaned away, and leader epochs agree (KIP-101, 279)     continue at the next batch
    retention removed it, and leader epochs agree                   continue at the next batch
    another batch is in its place                                   stop: source-diverged
    the source ends before the archive                              stop: source-behind
    the source begins above the archive's next offset               continue after the gap: trimmed-before-ingest
    its cleaner went past the archive's next offset                 continue: source-cleaned, if something is gone

The caller decides what follows a stop. If the source diverged above everything published, the caller cuts the archive's
tail back (`logcore.logs.growth.divergence` finds the fork) and decides again. What the source trimmed or cleaned below
our end is only information. Nothing is read here: headers come from `SourceReader`. The copier copies the bytes, and
cuts a segment that is still being written.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from logcore.errors import LogError
from logcore.logs.growth.agreement import Agreement, Gap, LogTail, Resume, SourceReader, Stop, Stopped, walk
from logcore.logs.growth.lost_start import lost_start_finding
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.remote_tier import below_start_finding
from logcore.logs.model.sources import SourceLog
from logcore.segments.filenames import HIGH_WATERMARK_FILE, PARTITION_METADATA_FILE
from logcore.segments.side_files.leader_epochs import EpochEntry
from logcore.texts import shell_word, shown

__all__ = ["Gap", "Growth", "LogTail", "SourceReader", "Stop", "Take", "decide_growth"]


@dataclass(frozen=True, slots=True)
class Take:
    """Bytes to copy: from the source segment `segment_base`, from `start_position` to its end.

    No batch in them begins below `first_offset_expected`.
    """

    segment_base: int
    start_position: int
    sealed: bool
    first_offset_expected: int


@dataclass(frozen=True, slots=True)
class Growth:
    """What to copy, in order, and the findings. Takes beside a stop are good: the stop applies to what follows."""

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
    """Decide what the archive may copy from a source. The content of the source never raises.

    Args:
        tail: The end of the archive; None if it has nothing of this log yet.
        source: The source.
        reader: Reads its headers.
        known_topic_id: As all `known_…` what was seen of the source the last time; None and empty the first time.
        known_high_watermark: See there.
        known_log_start_offset: See there.
        known_leader_epochs: See there.
    """
    findings: tuple[Finding, ...] = ()
    try:
        if known_topic_id is not None and source.topic_id is not None and source.topic_id != known_topic_id:
            raise Stopped("topic-recreated", f"the topic id is {source.topic_id} where it was {known_topic_id}")
        # Not earlier: a checkpoint has a topic's name and not its id, so it may belong to another topic of that name.
        findings = _moved(tail, source, known_high_watermark, known_log_start_offset)
        if known_topic_id is not None and source.topic_id is None and not source.broken_identity:
            # Only the batches show whether it is still the same topic.
            findings = (_without_identity(source, known_topic_id), *findings)
        if tail is None:
            if source.remote is not None:
                is_searched = source.tiered_end_offset is not None
                findings += (below_start_finding(source.topic_partition, source.remote, is_searched=is_searched),)
            return _stop_before_hole(Growth(_takes(source, 0), findings), source)
        epochs = tuple(EpochEntry(*entry) for entry in known_leader_epochs)
        resume = Agreement(tail, source, reader, epochs).resume()
        resume = _cleaned_before_taken(resume, source, reader)
        later = _takes(source, resume.segment.base_offset + 1, resume.expected)
        here = Take(resume.segment.base_offset, resume.position, source.is_sealed(resume.segment), resume.expected)
        takes = (here, *later) if resume.position < resume.segment.log_bytes else later
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
    """What moved at the source since the last time, without effect on the archive."""
    findings = []
    seen = source.high_watermark
    if high_watermark is not None and seen is not None and seen < high_watermark:
        message = f"{source.topic_partition}: the source's high watermark is {seen}, and the lake's is {high_watermark}"
        if source.lacks_line:
            message = (
                f"{source.topic_partition}: {HIGH_WATERMARK_FILE} has no line of the log, so its high watermark is 0, "
                f"and the lake's is {high_watermark}"
            )
        findings.append(
            found(
                "high-watermark-fell",
                message,
                file=source.directory,
                start_offset=seen,
                end_offset=high_watermark,
            )
        )
    known_start = log_start_offset or 0
    # Segments that came back below are found by themselves.
    is_lost = known_start > source.whole_log_start_offset and source.remote is None
    if is_lost and all(segment.base_offset != known_start for segment in source.segments):
        findings.append(lost_start_finding(source, known_start))
    elif source.lost_start is not None:
        findings.append(lost_start_finding(source, source.lost_start))
    if tail is not None and log_start_offset is not None:
        trimmed_to = min(source.whole_log_start_offset, tail.next_offset)
        if trimmed_to > log_start_offset:
            message = (
                f"{source.topic_partition}: the source dropped offsets [{log_start_offset}, {trimmed_to}); what was "
                "copied or published of them stays"
            )
            findings.append(found("source-trimmed", message, start_offset=log_start_offset, end_offset=trimmed_to))
    return tuple(findings)


def _without_identity(source: SourceLog, known_topic_id: str) -> Finding:
    path = f"{source.directory}/{PARTITION_METADATA_FILE}"
    message = f"{shown(path)} is gone; the topic id was {known_topic_id}. A broker moves the log away without it."
    if "://" not in path:
        command = f"printf 'version: 0\\ntopic_id: {known_topic_id}' > {shell_word(path)}"
        message += f" `{command}` writes it again."
    return found("broken-partition-file", message, file=path)


def _takes(source: SourceLog, from_base: int, expected: int = 0) -> tuple[Take, ...]:
    """Whole segments from a base offset on. Empty files are left out."""
    later = [segment for segment in source.segments if segment.base_offset >= from_base]
    for segment in later:
        if segment.base_offset < expected:
            raise Stopped(
                "source-diverged", f"a segment begins at offset {segment.base_offset}, which the archive has already"
            )
    return tuple(Take(s.base_offset, 0, source.is_sealed(s), s.base_offset) for s in later if s.size > 0)


def _stop_before_hole(growth: Growth, source: SourceLog, from_base: int = 0) -> Growth:
    """Stop before a segment that cannot be read or was not named. If later segments were read, its offsets would look
    lost.
    """
    named = [segment.base_offset for segment in source.segments]
    holes = {base: "cannot be read" for base in source.unreadable if base >= from_base}
    between = (max([from_base, *named[:1]]), max(named, default=0))
    holes |= {base: "was not named" for base in source.unnamed if between[0] < base < between[1]}
    if not holes:
        return growth
    first = min(holes)
    rule = "unreadable" if first in source.unreadable else "segments-not-named"
    stop = Stop(rule, f"the segment at offset {first} {holes[first]}, and nothing after it is read")
    takes = tuple(take for take in growth.takes if take.segment_base < first)
    return replace(growth, takes=takes, findings=(*growth.findings, _said(stop, source)), stop=stop)


def _said(stop: Stop, source: SourceLog) -> Finding:
    return found(stop.rule, f"{source.topic_partition} stops: {stop.message}", file=source.directory)


def _cleaned_before_taken(resume: Resume, source: SourceLog, reader: SourceReader) -> Resume:
    """Report it if the source's cleaner removed something that was never read."""
    cleaned_to, expected = source.cleaner_checkpoint, resume.expected
    if cleaned_to is None or cleaned_to <= expected:
        return resume
    with suppress(Stopped):
        for _, header in walk(source, reader, resume.segment, resume.position):
            # Offsets without a gap and a record for each: the cleaner was there and found nothing to remove.
            if header is None or header.base_offset != expected or header.record_count != header.last_offset_delta + 1:
                break
            expected = header.next_offset
            if expected >= cleaned_to:
                return resume
    message = f"{source.topic_partition}: the source was cleaned up to offset {cleaned_to} before that was read"
    finding = found("source-cleaned", message, start_offset=resume.expected, end_offset=cleaned_to)
    gap = (resume.expected, cleaned_to, "source-cleaned")
    return replace(resume, findings=(*resume.findings, finding), gaps=(*resume.gaps, gap))
