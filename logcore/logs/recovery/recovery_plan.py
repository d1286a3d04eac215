"""The plan of a recovery: what a broker's start would leave of a partition directory, and what it would lose.

A broker reports little of what it loses. It cuts a segment at the first wrong byte and drops every later segment. And
it accepts errors that a recovery does not check. All of that is in `losses`:

    cut                 good batches, or bytes that may have been some, after the place where a segment is cut
    unreadable          in a salvage: cut out, because the disk failed to read some of these bytes
    torn-tail           (warning) a write in progress, or zeros, at the end of the last segment
    length-repaired     (warning) in a salvage: a batch with only a wrong length field, kept with the right one
    offset-repaired     (warning) the same: a compressed message with offset 0, kept with that of its last message
    dropped-segment     a later segment that is dropped after a cut, or all of them if the log ends below its start
    damage-kept         bytes that stay in the log and that no reader can read: not checked, or not found
    log-end-fell        the log's end is taken from a wrong index entry, and readers end there
    index-misleads      an offset index stays that points where no batch begins: readers may start too late
    time-index-empty    (warning) a time index was missing: retention uses the file's mtime
    producers-forgotten without any snapshot a clean start knows no producer, sequence or open transaction
    end-jumps           the last segment is empty and begins above the log's end: readers wait in the gap
    missing             offsets without a segment that no cleaning explains, up to the high watermark
    metadata-missing    (warning) without partition.metadata a KRaft broker moves the log away as a stray
    bytes-after-segment (warning) of `reindexing`: after the last offset of a closed segment; not indexed
    not-indexed         (information) of `reindexing`: a write in progress, or zeros, at the end of the last segment

`logcore.logs.recovery.losses` counts each in offsets, records and bytes.
Source: see `loading`; the losses were observed on brokers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

from logcore.errors import CorruptIndexError, CorruptRecordError
from logcore.logs.checks.validation import Reader, read_plainly
from logcore.logs.model.broker_line import DEFAULT_LINE, BrokerLine
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.loaded_segment import LoadedSegment
from logcore.logs.recovery.loading import CutSegment, Loading
from logcore.logs.recovery.losses import (
    Bounds,
    Loss,
    SegmentOffsets,
    is_damaged,
    kept_damage,
    lost_end,
    missing_offsets,
)
from logcore.logs.recovery.proposal import RecoveryPlan, root_lines
from logcore.logs.recovery.salvage import plan_salvage
from logcore.logs.recovery.segment_recovery import (
    IndexRules,
    OffsetsDoNotRise,
    OffsetsOverflow,
    Recover,
    RecoveredSegment,
    WouldNotStart,
    recover_segment,
)
from logcore.records.packed_files import packed_kind
from logcore.records.varint import Buffer
from logcore.segments.filenames import OFFSET_INDEX_SUFFIX, PARTITION_METADATA_FILE, segment_file_name
from logcore.segments.scanning.file_batches import file_batches
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan
from logcore.segments.side_files import offset_index


def plan_recovery(
    directory: PartitionDirectory,
    config: TopicConfig,
    *,
    line: BrokerLine = DEFAULT_LINE,
    as_of_ms: int,
    salvage: bool = False,
    heeds_clean_mark: bool = False,
    gaps: GapRules | None = None,
    recover: Recover = recover_segment,
    read: Reader = read_plainly,
) -> RecoveryPlan:
    """Plan a broker's start on a partition directory. The content of the files never raises.

    Args:
        directory: The directory.
        config: The topic's configuration.
        line: The broker line; it matters only if offsets do not increase.
        as_of_ms: The clock.
        salvage: Keep what the start would lose, see `salvage`.
        heeds_clean_mark: Start as after a clean stop if the directory has the marker; else the stop counts as unclean.
        gaps: What explains gaps; with it missing offsets are losses.
        recover: Recovers a segment.
        read: Reads what a recovery does not look at.

    Returns:
        The plan. Indexes of the active segment are trimmed as by the next stop.
    """
    losses: list[Loss] = []
    if PARTITION_METADATA_FILE not in directory.files:
        message = "it is missing: a KRaft broker treats the log as a stray and creates an empty replica instead"
        losses.append(Loss("metadata-missing", PARTITION_METADATA_FILE, message))
    if salvage:
        plan = plan_salvage(directory, config, as_of_ms=as_of_ms, recover=recover, gaps=gaps)
        return replace(plan, losses=(*losses, *plan.losses))
    is_clean = heeds_clean_mark and directory.is_clean
    loading = Loading(directory, config, as_of_ms, recover, is_clean=is_clean, line=line)
    try:
        loading.run()
    except WouldNotStart as error:
        return RecoveryPlan({}, steps=tuple(loading.disk.steps), refusal=f"A broker would not start with this: {error}")
    offsets = SegmentOffsets(gaps)
    losses += _losses(loading, directory, config, recover, read, offsets)
    if gaps is not None:
        losses += missing_offsets(directory, offsets, loading.log_start_offset, gaps, losses)
    return RecoveryPlan(
        dict(sorted(loading.disk.files.items())),
        loading.disk.dropped,
        tuple(loading.disk.steps),
        tuple(losses),
        root_lines(loading, directory),
        loading.epochs,
        loading.log_start_offset,
        loading.log_end_offset,
    )


def _losses(
    loading: Loading,
    directory: PartitionDirectory,
    config: TopicConfig,
    recover: Recover,
    read: Reader,
    offsets: SegmentOffsets,
) -> Iterator[Loss]:
    """The losses. `offsets` receives what the segments that stay have."""
    last_base_offset = max(loading.segments)
    bases = sorted({*loading.segments, *(segment.base_offset for segment in loading.removed)})
    following = dict(pairwise((*bases, None)))
    for cut in loading.cuts:
        is_last = not loading.removed and cut.base_offset == last_base_offset
        yield _cut(cut, Bounds(following.get(cut.base_offset), directory.high_watermark), is_last=is_last)
    for segment in loading.removed:
        why = loading.disk.dropped.get(segment_file_name(segment.base_offset), "")
        yield _dropped(segment, Bounds(following.get(segment.base_offset), directory.high_watermark), why)
    for base_offset in sorted(loading.without_time_index):
        name = segment_file_name(base_offset, ".timeindex")
        message = "it is missing and not rebuilt: retention uses the segment's mtime"
        yield Loss("time-index-empty", name, message, offset=base_offset)
    if loading.forgot_producers:
        message = "there is no producer snapshot: a clean start forgets every sequence and every open transaction"
        yield Loss("producers-forgotten", segment_file_name(loading.log_end_offset, ".snapshot"), message)
    yield from _left_in_place(loading, config, recover, read, directory.high_watermark, offsets)


def _cut(cut: CutSegment, bounds: Bounds, *, is_last: bool) -> Loss:
    content = cut.file.content
    packed = packed_kind(content) if cut.kept_bytes == 0 else None
    message = cut.reason if packed is None else f"the file is {packed}"
    lost = lost_end(content, cut.base_offset, bounds, cut.kept_bytes, message)
    if lost.first_offset is not None:
        lost = replace(lost, offset=lost.first_offset)
    if is_last and not cut.is_emptied:
        walk = SegmentScan(content, base_offset=cut.base_offset, sealed=False, start=cut.kept_bytes)
        for _ in walk:
            pass
        if walk.accounting.tail + walk.accounting.padding == lost.nbytes:
            records = lost.records if lost.first_offset is None else None
            return replace(lost, kind="torn-tail", last_offset=None, records=records)
    return lost


def _dropped(segment: LoadedSegment, bounds: Bounds, why: str) -> Loss:
    message = f"the whole segment is dropped: {why}"
    return replace(lost_end(segment.content, segment.base_offset, bounds, 0, message), kind="dropped-segment")


def _left_in_place(
    loading: Loading,
    config: TopicConfig,
    recover: Recover,
    read: Reader,
    high_watermark: int | None,
    offsets: SegmentOffsets,
) -> Iterator[Loss]:
    """Yield the damage that the start leaves in segments. `offsets` receives what each segment has."""
    rules = IndexRules(config.index_interval_bytes, config.segment_index_bytes)
    end = min(loading.segments)
    bases = sorted(loading.segments)
    for base_offset, next_base in pairwise((*bases, None)):
        assert base_offset is not None
        segment = loading.segments[base_offset]
        name, is_last = segment_file_name(base_offset), next_base is None
        content = segment.content  # read once
        made = segment.recovered if segment.recovered is not None else _looked_at(content, base_offset, rules, recover)
        bounds = Bounds(next_base, high_watermark)
        if made is None or made.is_odd or is_damaged(content, base_offset, next_base, read, offsets):
            offsets.ends[base_offset] = yield from kept_damage(content, base_offset, bounds, offsets)
        else:
            offsets.ends[base_offset] = made.next_offset
        if segment.recovered is None and (made is None or made.offset_index != segment.index):
            yield from _misleading(segment)
        if made is None:
            continue
        if is_last and made.next_offset > loading.log_end_offset:
            message = f"for the broker the log ends at {loading.log_end_offset}, but it ends at {made.next_offset}"
            first, last = loading.log_end_offset, made.next_offset - 1
            yield Loss("log-end-fell", name, message, offset=first, first_offset=first, last_offset=last)
        if is_last and not segment.size and len(bases) > 1 and base_offset > end:
            message = f"the log ends at {end}, but because of an empty segment the broker uses {base_offset} as its end"
            yield Loss("end-jumps", name, message, offset=end, first_offset=end, last_offset=base_offset - 1)
        end = made.next_offset


def _looked_at(content: Buffer, base_offset: int, rules: IndexRules, recover: Recover) -> RecoveredSegment | None:
    """The result of a recovery; None if it would have failed."""
    try:
        return recover(content, base_offset, rules)
    except (OffsetsDoNotRise, OffsetsOverflow, WouldNotStart):
        return None


def _misleading(segment: LoadedSegment) -> Iterator[Loss]:
    batches: list[ScannedBatch] = []
    with suppress(CorruptRecordError):  # as far as a broker can read
        batches += (ScannedBatch(position, header, None) for position, header in file_batches(segment.content))
    name = segment_file_name(segment.base_offset, OFFSET_INDEX_SUFFIX)
    try:
        wrong = offset_index.unexplained(offset_index.parse(segment.index, segment.base_offset), batches)
    except CorruptIndexError as error:
        yield Loss("index-misleads", name, f"it stays as it is, and {error.message}", error.position)
        return
    if wrong:
        message = f"{len(wrong)} of its entries do not point to their batches, and it stays as it is"
        yield Loss("index-misleads", name, message)
