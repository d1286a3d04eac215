"""A broker's start on one partition directory, pass after pass, on a directory as a value.

    1  files of interrupted work: see `logcore.segments.startup`
    2  each segment is opened: without an offset index, or with a transaction index that ends below its base, it is
       recovered; without a time index it gets an empty one
    3  unless the broker stopped cleanly: segments from the one with the recovery point on are recovered, in order. One
       whose offsets do not increase is emptied; after the first cut every later segment is dropped
    4  a log that now ends below its start is dropped as a whole, and begins empty there
    5  leader epochs are cut at both ends, producers rebuilt from snapshots

A segment with offsets too far above its base is split, and pass 2 or 3 is repeated. Everything that keeps a broker from
starting is a WouldNotStart. Source: Kafka LogLoader, LocalLog.splitOverflowedSegment, UnifiedLog.

Producer snapshots during a broker's start: which one is loaded, which are written, which are removed.

    rebuilding up to an offset    snapshots above it, and at or below the log's start, are removed; the latest readable
                                  one is loaded without expired producers; the log is replayed from there; snapshots are
                                  written at the bases of the last two segments, and at the end
    writing one                   only if the state has moved since the last one
    strays                        of snapshots at no segment's base the highest stays, if it is above every segment
    clean, and no snapshot        an upgrade from a release without snapshots: empty ones are written, without a replay

Several states use the same files, as in a broker: one for every segment that is recovered, and the log's own.
Source: Kafka ProducerStateManager, UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from logcore.errors import CorruptIndexError, CorruptRecordError, InvalidRecordError
from logcore.logs.model.broker_line import DEFAULT_LINE, BrokerLine
from logcore.logs.model.partition_directory import PartitionDirectory, PartitionFile, Write
from logcore.logs.model.producers.producer_state import ProducerReplay, read_end_marker, without_expired
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.loaded_segment import LoadedSegment
from logcore.logs.recovery.segment_recovery import (
    IndexRules,
    OffsetsDoNotRise,
    OffsetsOverflow,
    Recover,
    WouldNotStart,
)
from logcore.logs.recovery.working_files import RecoveryStep, WorkingFiles
from logcore.records.legacy import unfold
from logcore.segments.filenames import (
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    MAX_OFFSET,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA_FILE,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)
from logcore.segments.scanning.file_batches import file_batches
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET
from logcore.segments.side_files import checkpoints, leader_epochs, offset_index, time_index, transaction_index
from logcore.segments.side_files.leader_epochs import Epochs
from logcore.segments.side_files.producer_state import encode, java_order, parse
from logcore.segments.startup import INDEX_SUFFIXES

_base_offset = attrgetter("base_offset")


@dataclass(frozen=True, slots=True)
class Expiry:
    """The clock, and `producer.id.expiration.ms`."""

    as_of_ms: int
    after_ms: int


class ProducerStates:
    """The state of a log's producers, and the snapshots that it knows.

    Args:
        files: The snapshots on disk.
        expiry: When producers expire.
        is_lasting: Other states write and remove snapshots in the meantime, and this one does not see that.
    """

    def __init__(self, files: WorkingFiles, expiry: Expiry, *, is_lasting: bool = False) -> None:
        self._files, self._expiry = files, expiry
        self.replay = ProducerReplay(is_strict=True)
        self._known = files.snapshot_offsets().copy() if is_lasting else files.snapshot_offsets()
        self._is_empty = True
        self.map_end = 0
        """The state covers the offsets below this one."""
        self._taken_at = 0
        self.lost_on_upgrade = False
        """Whether the log counted as one without snapshots yet, so that its producers were forgotten."""

    def take_snapshot(self) -> None:
        """Write the present state, unless it was just written."""
        if self.map_end > self._taken_at:
            entries = java_order(self.replay.entries().values())
            self._files.write_snapshot(self.map_end, encode(entries))
            self._known.add(self.map_end)
            self._taken_at = self.map_end

    def finish_segment(self, replayed_to: int | None) -> None:
        """Finish a segment: its v2 batches end at `replayed_to` (None: it has none), and a snapshot is written."""
        if replayed_to is not None:
            self.map_end = replayed_to
        self.take_snapshot()

    def remove_strays(self, base_offsets: Sequence[int]) -> None:
        """Read the file names again, and remove snapshots at no segment's base, except the highest above all."""
        self._known = self._files.snapshot_offsets()
        bases = set(base_offsets)
        strays = [offset for offset in self._known if offset not in bases]
        if strays and strays[-1] >= max(base_offsets, default=0):
            strays.pop()
        for offset in strays:
            self._remove(offset, "no segment begins at the offset of this producer snapshot")

    def start_anew(self, offset: int) -> None:
        """Forget everything; the log now begins, empty, at an offset."""
        for known in list(self._known):
            self._remove(known, "all segments before the log's start are gone")
        self.replay = ProducerReplay(is_strict=True)
        self._taken_at, self.map_end = 0, offset

    def remove_with_segment(self, base_offset: int) -> None:
        """Remove the snapshot at the base of a removed segment."""
        if base_offset in self._known:
            self._remove(base_offset, "its segment is dropped")

    def rebuild(self, segments: Sequence[LoadedSegment], log_start: int, end_offset: int, *, is_clean: bool) -> None:
        """Restore the state at an offset of the log.

        Raises:
            WouldNotStart: The log cannot be replayed.
        """
        at_bases = {segment.base_offset for segment in segments[-2:]}
        if is_clean and self._known.latest is None:
            self.lost_on_upgrade = True
            for offset in (*sorted(at_bases), end_offset):
                self.map_end = offset
                self.take_snapshot()
            return
        self._reload(log_start, end_offset)
        if end_offset > self.map_end:
            last = segments[max(bisect_right(segments, end_offset, key=_base_offset) - 1, 0)] if segments else None
            for segment in _between(segments, self.map_end, end_offset):
                start = max(segment.base_offset, self.map_end, log_start)
                self.map_end = start
                if segment.base_offset in at_bases:
                    self.take_snapshot()
                self._replay(segment, start, end_offset if segment is last else None)
        self.map_end = end_offset
        self.take_snapshot()

    def _reload(self, log_start: int, end_offset: int) -> None:
        for offset in self._known.outside(log_start, end_offset):
            above = f"the part that is recovered begins at offset {end_offset}; it is made again from the records"
            below = f"its offset is not above the log start offset {log_start}"
            self._remove(offset, above if offset > end_offset else below)
        newest = self._known.latest
        if end_offset == self.map_end:
            self.map_end = max(self.map_end, log_start)
            self._taken_at = log_start if newest is None else newest
            return
        self.replay = ProducerReplay(is_strict=True)
        while (newest := self._known.latest) is not None:
            try:
                entries = parse(self._files.read_snapshot(newest))
            except CorruptIndexError as error:
                self._remove(newest, f"it cannot be read: {error.message}")
                continue
            alive = without_expired(entries, self._expiry.as_of_ms, self._expiry.after_ms)
            self.replay = ProducerReplay(alive.values(), is_strict=True)
            self.map_end = self._taken_at = newest
            return
        self.map_end = self._taken_at = log_start

    def _replay(self, segment: LoadedSegment, start: int, end_offset: int | None) -> None:
        """Replay a segment up to an offset.

        None: all of it, which is so if the next segment begins at or below the offset. A damaged batch may have offsets
        above those of the next segment.
        """
        try:
            content = segment.content  # referenced during the walk
            end = None if end_offset is None else next((position for position, _ in segment.batches(end_offset)), None)
            for position, header in segment.batches(start):
                if end is not None and position >= end:
                    return
                if header.producer_id < 0:
                    continue
                if not header.is_control:
                    self.replay.take_data(header)
                    continue
                marker = read_end_marker(content, position, header)
                if marker is not None:
                    self.replay.take_marker(header, marker)
        except (CorruptRecordError, InvalidRecordError) as error:
            message = f"the producers' state cannot be replayed from segment {segment.base_offset}: {error.message}"
            raise WouldNotStart(message, position=error.position, offset=error.offset) from error

    def _remove(self, offset: int, why: str) -> None:
        self._known.discard(offset)
        self._files.remove_snapshot(offset, why)


def _between(segments: Sequence[LoadedSegment], start: int, end: int) -> Sequence[LoadedSegment]:
    """The segments with offsets in [start, end), ascending, from the one with `start` on."""
    past = bisect_left(segments, end, key=_base_offset)
    first = bisect_right(segments, start, hi=past, key=_base_offset) - 1
    return segments[max(first, 0) : past]


MAX_SEGMENT_BYTES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CutSegment:
    """A segment that lost bytes at its end. `is_emptied`: it lost all, because its offsets do not increase."""

    base_offset: int
    file: PartitionFile = field(repr=False)
    kept_bytes: int
    reason: str
    is_emptied: bool = False


class Loading:
    """The start. `run` does the work; then the attributes have the result."""

    def __init__(
        self,
        directory: PartitionDirectory,
        config: TopicConfig,
        as_of_ms: int,
        recover: Recover,
        *,
        is_clean: bool,
        line: BrokerLine = DEFAULT_LINE,
    ) -> None:
        self._line = line
        self._directory, self._recover, self._is_clean = directory, recover, is_clean
        self._rules = IndexRules(config.index_interval_bytes, config.segment_index_bytes)
        self._expiry = Expiry(as_of_ms, config.producer_id_expiration_ms)
        self.log_start_checkpoint = directory.log_start_offset or 0
        self._recovery_point = directory.recovery_point or 0
        self.disk = WorkingFiles(directory, as_of_ms, line)
        self.segments: dict[int, LoadedSegment] = {}
        self.cuts: list[CutSegment] = []
        self.removed: list[LoadedSegment] = []
        """Segments dropped because an earlier one was cut, or because all lie below the log's start."""
        self.without_time_index: set[int] = set()
        self.epochs: Epochs = ()
        self._epochs_cleared = False
        self.log_end_offset = self.log_start_offset = self.recovery_point = 0
        self.forgot_producers = False

    def run(self) -> None:
        """Start.

        Raises:
            WouldNotStart: A broker would not start.
        """
        self._check_small_files()
        self.disk.clean_up()
        self._states = ProducerStates(self.disk, self._expiry, is_lasting=True)
        self._retried(self._open_segments)
        self._retried(self._recover_unflushed)
        self._find_end()
        self._cut_epochs()
        self._rebuild_producers()
        self._trim_active_indexes()

    # -- pass 1

    def _check_small_files(self) -> None:
        names = {
            LEADER_EPOCH_FILE: checkpoints.load_leader_epochs,
            PARTITION_METADATA_FILE: checkpoints.parse_partition_metadata,
        }
        for name, parser in names.items():
            if name not in self._directory.files:
                continue
            try:
                parsed = parser(bytes(self._directory.files[name].content))
            except CorruptIndexError as error:
                raise WouldNotStart(f"it is invalid: {error.message}", file=name) from error
            if isinstance(parsed, tuple):
                self.epochs = parsed

    # -- passes 2 and 3

    def _retried(self, work: Callable[[], None]) -> None:
        """Do a pass, and repeat it as long as a segment has to be split."""
        while True:
            try:
                return work()
            except _Split as split:
                self._split(split.segment)

    def _open(self, base_offset: int) -> LoadedSegment:
        name = segment_file_name(base_offset)
        file = self.disk.file(name)
        if file.size > MAX_SEGMENT_BYTES:
            raise WouldNotStart(f"the segment has {file.size} bytes, and no broker opens one above 2 GiB", file=name)
        index = segment_file_name(base_offset, OFFSET_INDEX_SUFFIX)
        entries = bytes(self.disk.content(index)) if index in self.disk else b""
        return LoadedSegment(base_offset, file.held, entries, self._line)

    def _open_segments(self) -> None:
        self.segments.clear()
        opened: list[LoadedSegment] = []
        for base_offset in self.disk.bases():
            segment = self._open(base_offset)
            has_time_index = segment_file_name(base_offset, TIME_INDEX_SUFFIX) in self.disk
            if segment_file_name(base_offset, OFFSET_INDEX_SUFFIX) not in self.disk:
                self._recover_when_opened(segment, opened, "it has no offset index")
            else:
                if not has_time_index:
                    self.disk.write(segment_file_name(base_offset, TIME_INDEX_SUFFIX), b"")
                    self.without_time_index.add(base_offset)
                if self._transaction_index_is_corrupt(segment):
                    self._recover_when_opened(segment, opened, "an entry of its transaction index ends below its base")
            self.segments[base_offset] = segment
            opened.append(segment)

    def _transaction_index_is_corrupt(self, segment: LoadedSegment) -> bool:
        name = segment_file_name(segment.base_offset, TRANSACTION_INDEX_SUFFIX)
        if name not in self.disk:
            return False
        content = bytes(self.disk.content(name))
        for at in range(0, len(content) - transaction_index.ENTRY_SIZE + 1, transaction_index.ENTRY_SIZE):
            version, _, _, last_offset, _ = struct.unpack_from(">hqqqq", content, at)
            if self._line.refuses_aborted_version(version):
                message = f"an entry has version {version}, and a broker exits when it reads that"
                raise WouldNotStart(message, file=name, position=at)
            if last_offset < segment.base_offset:
                return True
        return False

    def _recover_when_opened(self, segment: LoadedSegment, before: list[LoadedSegment], reason: str) -> None:
        name = segment_file_name(segment.base_offset)
        try:
            self._recover_one(segment, before, reason)
        except OffsetsDoNotRise as error:
            raise WouldNotStart(f"its indexes cannot be rebuilt: {error.message}", file=name) from error

    def _recover_unflushed(self) -> None:
        if self._is_clean:
            return
        bases = sorted(self.segments)
        first = max((at for at, base in enumerate(bases) if base <= self._recovery_point), default=0)
        everything = [self.segments[base] for base in bases]
        for number, base_offset in enumerate(bases[first:], start=first):
            segment = self.segments[base_offset]
            size = segment.size
            try:
                self._recover_one(segment, everything, "the broker did not stop cleanly")
            except OffsetsDoNotRise as error:
                self._empty(segment, error)
            if segment.size < size:
                for later in bases[number + 1 :]:
                    self._remove_segment(later, f"segment {base_offset} before it was cut")
                return

    def _recover_one(self, segment: LoadedSegment, segments: list[LoadedSegment], reason: str) -> None:
        """Recover a segment with the state of the producers at its base, and write a snapshot at its end."""
        name = segment_file_name(segment.base_offset)
        states = ProducerStates(self.disk, self._expiry)
        states.rebuild(segments, self.log_start_checkpoint, segment.base_offset, is_clean=False)
        self.disk.steps.append(RecoveryStep("recover", name, reason))
        begun_with = states.replay.entries()
        ended_with = segment.recovered_from(begun_with, self.epochs)
        if ended_with is not None and segment.recovered is not None:  # a broker recovers it a second time
            states.replay = ProducerReplay(ended_with.values(), is_strict=True)
            states.finish_segment(segment.recovered.replayed_to)
            return
        try:
            result = self._recover(
                segment.content, segment.base_offset, self._rules, epochs=self.epochs, producers=states.replay
            )
        except OffsetsOverflow as error:
            self.epochs = error.epochs
            raise _Split(segment) from error
        except WouldNotStart as error:
            raise error.at(file=name) from error
        self.epochs = result.epochs
        if result.valid_bytes < segment.size:
            why = result.stopped_by or f"the batch at position {result.valid_bytes} is incomplete"
            self._cut(segment, CutSegment(segment.base_offset, self.disk.file(name), result.valid_bytes, why))
        segment.index = result.offset_index
        segment.remember(result, begun_with, states.replay.entries())
        self.without_time_index.discard(segment.base_offset)
        self.disk.write(segment_file_name(segment.base_offset, OFFSET_INDEX_SUFFIX), result.offset_index)
        self.disk.write(segment_file_name(segment.base_offset, TIME_INDEX_SUFFIX), result.time_index)
        self._write_transaction_index(segment.base_offset, result.transaction_index)
        states.finish_segment(result.replayed_to)

    def _write_transaction_index(self, base_offset: int, content: bytes | None) -> None:
        name = segment_file_name(base_offset, TRANSACTION_INDEX_SUFFIX)
        if content is not None or name in self.disk:  # an existing file is emptied, never removed
            self.disk.write(name, content or b"")

    def _cut(self, segment: LoadedSegment, cut: CutSegment) -> None:
        name = segment_file_name(segment.base_offset)
        nbytes = segment.size - cut.kept_bytes
        self.disk.cut(name, cut.kept_bytes)
        self.disk.steps.append(
            RecoveryStep("cut", name, f"{nbytes} bytes from position {cut.kept_bytes} on: {cut.reason}")
        )
        self.cuts.append(cut)
        segment.held = self.disk.file(name).held

    def _empty(self, segment: LoadedSegment, error: OffsetsDoNotRise) -> None:
        self.epochs = error.epochs
        name = segment_file_name(segment.base_offset)
        cut = CutSegment(segment.base_offset, self.disk.file(name), error.cut_at, error.message, is_emptied=True)
        self._cut(segment, cut)
        segment.index = b""
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self.disk.write(segment_file_name(segment.base_offset, suffix), b"")
        self._write_transaction_index(segment.base_offset, None)

    def _remove_segment(self, base_offset: int, reason: str) -> None:
        self.removed.append(self.segments.pop(base_offset))
        for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
            self.disk.remove(segment_file_name(base_offset, suffix), reason)
        self._states.remove_with_segment(base_offset)

    # -- splitting

    def _split(self, segment: LoadedSegment) -> None:
        """Replace a segment by several with its batches, none too far above its base.

        Raises:
            WouldNotStart: It cannot be split.
        """
        name = segment_file_name(segment.base_offset)
        modified_ms = self.disk.modified_ms(name)
        content = segment.content
        parts: dict[int, bytes] = {}
        start, base_offset, at = 0, segment.base_offset, 0
        try:
            end = segment.read_next_offset()
            if end <= segment.base_offset or end - 1 - segment.base_offset <= MAX_RELATIVE_OFFSET:
                message = "one of its offsets, not the last, is too far above its base: a broker does not split it"
                raise WouldNotStart(message, file=name)
            for position, header in file_batches(content):
                if position == 0:
                    base_offset = unfold(content, position, header).base_offset
                elif not 0 <= header.last_offset - base_offset <= MAX_RELATIVE_OFFSET:
                    parts[base_offset] = bytes(content[start:position])
                    start, base_offset = position, unfold(content, position, header).base_offset
                at = position + header.size
        except CorruptRecordError as error:
            raise WouldNotStart(f"it cannot be split: {error.message}", file=name, position=error.position) from error
        if at < len(content):
            message = f"it has to be split, and {len(content) - at} bytes at its end are not a whole batch"
            raise WouldNotStart(message, file=name, position=at)
        parts[base_offset] = bytes(content[start:])
        if min(parts) < 0 or max(parts) > MAX_OFFSET:
            message = "it cannot be split: a batch in it begins at an offset that no segment can have as its base"
            raise WouldNotStart(message, file=name)
        self.disk.steps.append(
            RecoveryStep("split", name, f"its offsets have too wide a range for an index; {len(parts)} segments")
        )
        self.segments.pop(segment.base_offset, None)
        for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
            self.disk.remove(segment_file_name(segment.base_offset, suffix), "its segment was split")
        self._states.remove_with_segment(segment.base_offset)
        for base, content in parts.items():
            try:
                written = self._recover(content, base, self._rules)
            except (OffsetsDoNotRise, OffsetsOverflow) as error:
                message = f"it cannot be split: the part from offset {base} on has no index: {error.message}"
                raise WouldNotStart(message, file=name) from error
            self.disk.files[segment_file_name(base)] = Write(content, modified_ms)
            self.disk.write(segment_file_name(base, OFFSET_INDEX_SUFFIX), written.offset_index)
            self.disk.write(segment_file_name(base, TIME_INDEX_SUFFIX), written.time_index)
            self.segments[base] = self._open(base)

    # -- passes 4 and 5

    def _find_end(self) -> None:
        end: int | None = None
        if self.segments:
            last = self.segments[max(self.segments)]
            try:
                end = last.read_next_offset()
            except CorruptRecordError as error:
                name = segment_file_name(last.base_offset)
                raise WouldNotStart(f"the log's end cannot be read: {error.message}", file=name) from error
            if end > MAX_OFFSET:
                message = f"the log would end at {end}, above the greatest offset {MAX_OFFSET}"
                raise WouldNotStart(message, file=segment_file_name(last.base_offset))
            if end < self.log_start_checkpoint:
                for base_offset in sorted(self.segments):
                    why = f"the log ends at {end}, below its start at {self.log_start_checkpoint}"
                    self._remove_segment(base_offset, why)
                self.epochs, self._epochs_cleared = (), True
                self._states.start_anew(self.log_start_checkpoint)
                end = None
        known_end = end
        if not self.segments:
            end = self.log_start_checkpoint
            for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                self.disk.write(segment_file_name(end, suffix), b"")
            self.disk.steps.append(RecoveryStep("create", segment_file_name(end), "there is no segment"))
            self.segments[end] = LoadedSegment(end, b"", b"")
        assert end is not None
        self.log_end_offset = end
        is_known_clean = self._is_clean and known_end is not None
        self.recovery_point = end if is_known_clean else min(self._recovery_point, end)
        self.log_start_offset = max(self.log_start_checkpoint, min(self.segments))

    def _cut_epochs(self) -> None:
        # LeaderEpochFileCache creates the file empty and writes it with each assigned, removed or cleared entry.
        had_epochs = bool(self.epochs) or self._epochs_cleared
        cut = leader_epochs.truncate_from_end(self.epochs, self.log_end_offset)
        self.epochs = leader_epochs.truncate_from_start(cut, self.log_start_checkpoint)
        source = self._directory.files.get(LEADER_EPOCH_FILE)
        if source is None and not had_epochs:
            self.disk.write(LEADER_EPOCH_FILE, b"")
            return
        content = checkpoints.format_leader_epochs(self.epochs)
        # LeaderEpochFileCache.truncateFromStart removes the entry at the log start and adds it again: it writes the
        # file even if the entries stay, without lines that loading had dropped.
        is_written = any(entry.start_offset <= self.log_start_checkpoint for entry in cut)
        if source is None or (
            bytes(source.content) != content
            and (is_written or checkpoints.load_leader_epochs(bytes(source.content)) != self.epochs)
        ):
            self.disk.write(LEADER_EPOCH_FILE, content)

    def _rebuild_producers(self) -> None:
        self._states.remove_strays(sorted(self.segments))
        segments = [self.segments[base] for base in sorted(self.segments)]
        self._states.rebuild(segments, self.log_start_offset, self.log_end_offset, is_clean=self._is_clean)
        self.forgot_producers = self._states.lost_on_upgrade

    def _trim_active_indexes(self) -> None:
        """Cut the last segment's indexes to whole entries, as the next stop does."""
        base_offset = max(self.segments)
        for suffix, entry_size in (
            (OFFSET_INDEX_SUFFIX, offset_index.ENTRY_SIZE),
            (TIME_INDEX_SUFFIX, time_index.ENTRY_SIZE),
        ):
            name = segment_file_name(base_offset, suffix)
            if name in self.disk and self.disk.file(name).size % entry_size:
                content = bytes(self.disk.content(name))
                self.disk.write(name, content[: len(content) // entry_size * entry_size])


def started_with(
    directory: PartitionDirectory,
    files: Mapping[str, PartitionFile],
    config: TopicConfig,
    as_of_ms: int,
    recover: Recover,
) -> tuple[PartitionDirectory, Loading]:
    """Start with only these files, as after a kill. If all of them are below the log's start, it does not count.

    Returns:
        The directory that was started with, and its start.

    Raises:
        WouldNotStart: A broker would not start on them.
    """
    alone = replace(directory, files=files, recovery_point=0, is_clean=False)
    loading = Loading(alone, config, as_of_ms, recover, is_clean=False)
    loading.run()
    if not loading.removed:
        return alone, loading
    alone = replace(alone, log_start_offset=None)
    loading = Loading(alone, config, as_of_ms, recover, is_clean=False)
    loading.run()
    return alone, loading


class _Split(Exception):
    """The offsets of a segment are too far above its base."""

    def __init__(self, segment: LoadedSegment) -> None:
        super().__init__()
        self.segment = segment
