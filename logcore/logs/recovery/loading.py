"""A broker's start over one partition directory, pass after pass, on a directory that is a value.

    1  files of interrupted work: see `logcore.segments.startup`
    2  each segment is opened: without offset index, or with a transaction index that ends below its base, it is
       recovered; without time index it gets an empty one
    3  unless the broker stopped cleanly: segments from the one with the recovery point on are recovered, in order. One
       whose offsets do not rise is emptied; behind the first byte that is cut every later segment is dropped
    4  a log that now ends below its start is dropped as a whole, and begins anew there
    5  leader epochs are cut at both ends, producers rebuilt from snapshots: `producer_states`

A segment with offsets too far above its base is split, and pass 2 or 3 begun again. Whatever keeps a broker from
starting is a WouldNotStart. Source: Kafka LogLoader, LocalLog.splitOverflowedSegment, UnifiedLog.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from logcore.errors import CorruptIndexError, CorruptRecordError
from logcore.logs.partition_directory import Cut, Keep, PartitionDirectory, ProposedFile, Write
from logcore.logs.producer_state import ProducerReplay
from logcore.logs.recovery.producer_states import Expiry, ProducerStates
from logcore.logs.recovery.segment_recovery import (
    IndexRules,
    OffsetsDoNotRise,
    OffsetsOverflow,
    Recover,
    RecoveredSegment,
    WouldNotStart,
)
from logcore.logs.topic_config import TopicConfig
from logcore.records.legacy import unfold
from logcore.records.model import BatchHeader
from logcore.records.varint import Buffer
from logcore.segments import checkpoints, leader_epochs, offset_index, transaction_index
from logcore.segments.file_batches import file_batches
from logcore.segments.filenames import (
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA_FILE,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
    snapshot_end_offset,
)
from logcore.segments.leader_epochs import Epochs
from logcore.segments.producer_state import ProducerEntry
from logcore.segments.scan import MAX_RELATIVE_OFFSET
from logcore.segments.startup import INDEX_SUFFIXES, is_plain_name, kept_at_start

MAX_SEGMENT_BYTES = 2**31 - 1
_ENTRY = struct.Struct(">ii")
_WARM_ENTRIES = 8192 // offset_index.ENTRY_SIZE
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Step:
    """Something the start does: to which file, and why."""

    action: str
    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class CutSegment:
    """A segment that lost bytes at its end. is_emptied: all of it went, because its offsets do not rise."""

    base_offset: int
    content: Buffer = field(repr=False)
    kept_bytes: int
    reason: str
    is_emptied: bool = False


class LoadedSegment:
    """A segment as the start sees it; its files may change while it goes on."""

    def __init__(self, base_offset: int, content: Buffer, index: bytes) -> None:
        self.base_offset, self.content, self.index = base_offset, content, index
        self.recovered: RecoveredSegment | None = None
        self._begun_with: dict[int, ProducerEntry] = {}
        self._ended_with: dict[int, ProducerEntry] = {}

    def remember(
        self, result: RecoveredSegment, begun_with: dict[int, ProducerEntry], ended_with: dict[int, ProducerEntry]
    ) -> None:
        """The segment was recovered with these producers in front of it and behind it."""
        self.recovered, self._begun_with, self._ended_with = result, begun_with, ended_with

    def recovered_from(self, entries: dict[int, ProducerEntry], epochs: Epochs) -> dict[int, ProducerEntry] | None:
        """The producers behind it, if recovering it once more from these would come to nothing else; else None."""
        done = self.recovered
        if done is None or len(self.content) != done.valid_bytes or self._begun_with != entries:
            return None
        latest = done.epochs[-1].epoch if done.epochs else -1
        return self._ended_with if latest <= (epochs[-1].epoch if epochs else -1) else None

    def batches(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """From the first batch that reaches an offset on, looked for from where the offset index says."""
        is_found = False
        for position, header in file_batches(self.content, max(self._lookup(offset), 0)):
            is_found = is_found or header.last_offset >= offset
            if is_found:
                yield position, header

    def read_next_offset(self) -> int:
        """The log's end as the start reads it: from the index's last entry on. Raises CorruptRecordError."""
        entries = len(self.index) // offset_index.ENTRY_SIZE
        last_indexed = self._entry(entries - 1)[0] if entries else self.base_offset
        end = self.base_offset
        for _, header in self.batches(last_indexed):
            end = header.next_offset
        return end

    def _entry(self, slot: int) -> tuple[int, int]:
        relative, position = _ENTRY.unpack_from(self.index, slot * offset_index.ENTRY_SIZE)
        return self.base_offset + relative, position

    def _lookup(self, offset: int) -> int:
        """A broker's search, step by step: in an index that is junk, the way decides what is found."""
        entries = len(self.index) // offset_index.ENTRY_SIZE
        if entries == 0:
            return 0
        low, high = 0, max(0, entries - 1 - _WARM_ENTRIES)
        if self._entry(high)[0] < offset:
            low, high = high, entries - 1
        elif self._entry(0)[0] > offset:
            return 0
        while low < high:
            middle = (low + high + 1) // 2
            found, position = self._entry(middle)
            if found == offset:
                return position
            if found > offset:
                high = middle - 1
            else:
                low = middle
        return self._entry(low)[1]


class Loading:
    """The start. `run` makes it happen; the attributes say what came of it."""

    def __init__(
        self, directory: PartitionDirectory, config: TopicConfig, as_of_ms: int, recover: Recover, *, is_clean: bool
    ) -> None:
        self._directory, self._recover, self._as_of_ms, self._is_clean = directory, recover, as_of_ms, is_clean
        self._rules = IndexRules(config.index_interval_bytes, config.segment_index_bytes)
        self._expiry = Expiry(as_of_ms, config.producer_id_expiration_ms)
        self.log_start_checkpoint = directory.log_start_offset or 0
        self._recovery_point = directory.recovery_point or 0
        self.files: dict[str, ProposedFile] = {}
        self.dropped: dict[str, str] = {}
        self.steps: list[Step] = []
        self.segments: dict[int, LoadedSegment] = {}
        self.cuts: list[CutSegment] = []
        self.removed: list[LoadedSegment] = []
        """Segments dropped because one before them was cut, or because all lie below the log's start."""
        self.without_time_index: set[int] = set()
        self.epochs: Epochs = ()
        self.log_end_offset = self.log_start_offset = self.recovery_point = 0
        self.forgot_producers = False

    def run(self) -> None:
        """Start. Raises WouldNotStart."""
        self._check_small_files()
        self._clean_up()
        self._states = ProducerStates(self, self._expiry)
        self._retried(self._open_segments)
        self._retried(self._recover_unflushed)
        self._find_end()
        self._cut_epochs()
        self._rebuild_producers()

    # -- pass 1

    def _check_small_files(self) -> None:
        names = {
            LEADER_EPOCH_FILE: checkpoints.parse_leader_epochs,
            PARTITION_METADATA_FILE: checkpoints.parse_partition_metadata,
        }
        for name, parse in names.items():
            if name not in self._directory.files:
                continue
            try:
                parsed = parse(bytes(self._directory.files[name].content))
            except CorruptIndexError as error:
                raise WouldNotStart(f"it cannot be understood: {error.message}", file=name) from error
            if isinstance(parsed, tuple):
                self.epochs = parsed

    def _clean_up(self) -> None:
        found = self._directory.files
        start = kept_at_start(found, self._end_of_swapped, with_strays=True)
        for name in found:
            if not is_plain_name(name) and name not in start.dropped and not name.endswith(".swap"):
                self.files[name] = Keep(name)
        for name, now in start.kept.items():
            self.files[name] = Keep(now)
            if name != now:
                self.steps.append(Step("rename", now, "an interrupted cleaning had finished writing it"))
        for name, reason in start.dropped.items():
            self._drop(name, str(reason))

    def _end_of_swapped(self, name: str) -> int:
        end = int(name[:20])
        try:
            for _, header in file_batches(self._directory.files[name].content):
                end = header.next_offset
        except CorruptRecordError as error:
            raise WouldNotStart(error.message, file=name, position=error.position) from error
        return end

    def _drop(self, name: str, reason: str) -> None:
        self.dropped[name] = reason
        self.steps.append(Step("drop", name, reason))

    # -- files

    def content(self, name: str) -> Buffer:
        """The bytes of a file as they are by now."""
        match self.files[name]:
            case Keep(source):
                return self._directory.files[source].content
            case Cut(source, size, _):
                return memoryview(self._directory.files[source].content)[:size]
            case Write(content, _):
                return content

    def _write(self, name: str, content: bytes) -> None:
        """Put a file there; one that holds these bytes already stays as it is."""
        if name in self.files and _is(self.content(name), content):
            return
        # What was removed on the way may come back as it was.
        source = self._directory.files.get(name)
        is_same = source is not None and _is(source.content, content)
        self.files[name] = Keep(name) if is_same else Write(content, self._as_of_ms)
        self.dropped.pop(name, None)

    def _remove(self, name: str, reason: str) -> None:
        file = self.files.pop(name, None)
        if isinstance(file, Keep | Cut):
            self._drop(file.source, reason)

    def snapshot_offsets(self) -> set[int]:
        found = (snapshot_end_offset(name) for name in self.files)
        return {offset for offset in found if offset is not None}

    def read_snapshot(self, offset: int) -> bytes:
        return bytes(self.content(segment_file_name(offset, PRODUCER_SNAPSHOT_SUFFIX)))

    def write_snapshot(self, offset: int, content: bytes) -> None:
        self._write(segment_file_name(offset, PRODUCER_SNAPSHOT_SUFFIX), content)

    def remove_snapshot(self, offset: int, why: str) -> None:
        self._remove(segment_file_name(offset, PRODUCER_SNAPSHOT_SUFFIX), why)

    # -- passes 2 and 3

    def _retried(self, work: Callable[[], None]) -> None:
        """Do a pass, and again for as long as a segment has to be split."""
        while True:
            try:
                return work()
            except _Split as split:
                self._split(split.segment)

    def _bases(self) -> list[int]:
        return sorted(int(name[:20]) for name in self.files if is_plain_name(name) and name.endswith(LOG_SUFFIX))

    def _open(self, base_offset: int) -> LoadedSegment:
        name = segment_file_name(base_offset)
        content = self.content(name)
        if len(content) > MAX_SEGMENT_BYTES:
            raise WouldNotStart(f"the segment has {len(content)} bytes, and no broker opens one above 2 GiB", file=name)
        index = segment_file_name(base_offset, OFFSET_INDEX_SUFFIX)
        return LoadedSegment(base_offset, content, bytes(self.content(index)) if index in self.files else b"")

    def _open_segments(self) -> None:
        self.segments.clear()
        for base_offset in self._bases():
            segment = self._open(base_offset)
            has_time_index = segment_file_name(base_offset, TIME_INDEX_SUFFIX) in self.files
            if segment_file_name(base_offset, OFFSET_INDEX_SUFFIX) not in self.files:
                self._recover_when_opened(segment, "it has no offset index")
            else:
                if not has_time_index:
                    self._write(segment_file_name(base_offset, TIME_INDEX_SUFFIX), b"")
                    self.without_time_index.add(base_offset)
                if self._transaction_index_is_corrupt(segment):
                    self._recover_when_opened(segment, "an entry of its transaction index ends below its base")
            self.segments[base_offset] = segment

    def _transaction_index_is_corrupt(self, segment: LoadedSegment) -> bool:
        name = segment_file_name(segment.base_offset, TRANSACTION_INDEX_SUFFIX)
        if name not in self.files:
            return False
        content = bytes(self.content(name))
        for at in range(0, len(content) - transaction_index.ENTRY_SIZE + 1, transaction_index.ENTRY_SIZE):
            version, _, _, last_offset, _ = struct.unpack_from(">hqqqq", content, at)
            if version > transaction_index.VERSION:
                message = f"an entry has version {version}, and a broker that reads that exits"
                raise WouldNotStart(message, file=name, position=at)
            if last_offset < segment.base_offset:
                return True
        return False

    def _recover_when_opened(self, segment: LoadedSegment, reason: str) -> None:
        before = [each for base, each in self.segments.items() if base < segment.base_offset]
        name = segment_file_name(segment.base_offset)
        try:
            self._recover_one(segment, before, reason)
        except OffsetsDoNotRise as error:
            raise WouldNotStart(f"its indexes cannot be made again: {error.message}", file=name) from error

    def _recover_unflushed(self) -> None:
        if self._is_clean:
            return
        bases = sorted(self.segments)
        first = max((at for at, base in enumerate(bases) if base <= self._recovery_point), default=0)
        for number, base_offset in enumerate(bases[first:], start=first):
            segment = self.segments[base_offset]
            everything = [self.segments[base] for base in bases]
            size = len(segment.content)
            try:
                self._recover_one(segment, everything, "the broker did not stop cleanly")
            except OffsetsDoNotRise as error:
                self._empty(segment, error)
            if len(segment.content) < size:
                for later in bases[number + 1 :]:
                    self._remove_segment(later, f"segment {base_offset} in front of it was cut")
                return

    def _recover_one(self, segment: LoadedSegment, segments: list[LoadedSegment], reason: str) -> None:
        """Recover a segment with the state of the producers at its base; leaves a snapshot at its end."""
        name = segment_file_name(segment.base_offset)
        states = ProducerStates(self, self._expiry)
        states.rebuild(segments, self.log_start_checkpoint, segment.base_offset, is_clean=False)
        self.steps.append(Step("recover", name, reason))
        begun_with = states.replay.entries()
        ended_with = segment.recovered_from(begun_with, self.epochs)
        if ended_with is not None and segment.recovered is not None:  # a broker does it a second time
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
        if result.valid_bytes < len(segment.content):
            why = result.stopped_by or "the last batch is not whole"
            self._cut(segment, CutSegment(segment.base_offset, segment.content, result.valid_bytes, why))
        segment.index = result.offset_index
        segment.remember(result, begun_with, states.replay.entries())
        self.without_time_index.discard(segment.base_offset)
        self._write(segment_file_name(segment.base_offset, OFFSET_INDEX_SUFFIX), result.offset_index)
        self._write(segment_file_name(segment.base_offset, TIME_INDEX_SUFFIX), result.time_index)
        self._write_transaction_index(segment.base_offset, result.transaction_index)
        states.finish_segment(result.replayed_to)

    def _write_transaction_index(self, base_offset: int, content: bytes | None) -> None:
        name = segment_file_name(base_offset, TRANSACTION_INDEX_SUFFIX)
        if content is not None or name in self.files:  # a file that is there is emptied, never removed
            self._write(name, content or b"")

    def _cut(self, segment: LoadedSegment, cut: CutSegment) -> None:
        name = segment_file_name(segment.base_offset)
        nbytes = len(segment.content) - cut.kept_bytes
        match self.files[name]:
            case Keep(source) | Cut(source):
                self.files[name] = Cut(source, cut.kept_bytes, self._as_of_ms)
            case Write(content):
                self.files[name] = Write(content[: cut.kept_bytes], self._as_of_ms)
        self.steps.append(Step("cut", name, f"{nbytes} bytes from position {cut.kept_bytes} on: {cut.reason}"))
        self.cuts.append(cut)
        segment.content = self.content(name)

    def _empty(self, segment: LoadedSegment, error: OffsetsDoNotRise) -> None:
        self.epochs = error.epochs
        cut = CutSegment(segment.base_offset, segment.content, error.cut_at, error.message, is_emptied=True)
        self._cut(segment, cut)
        segment.index = b""
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._write(segment_file_name(segment.base_offset, suffix), b"")
        self._write_transaction_index(segment.base_offset, None)

    def _remove_segment(self, base_offset: int, reason: str) -> None:
        self.removed.append(self.segments.pop(base_offset))
        for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
            self._remove(segment_file_name(base_offset, suffix), reason)
        self._states.remove_with_segment(base_offset)

    # -- splitting

    def _split(self, segment: LoadedSegment) -> None:
        """Replace a segment by several that hold its batches, none too far above its base. Raises WouldNotStart."""
        name = segment_file_name(segment.base_offset)
        modified_ms = self._modified_ms(name)
        parts: dict[int, bytes] = {}
        start, base_offset, at = 0, segment.base_offset, 0
        try:
            for position, header in file_batches(segment.content):
                if position == 0:
                    base_offset = unfold(segment.content, position, header).base_offset
                elif not 0 <= header.last_offset - base_offset <= MAX_RELATIVE_OFFSET:
                    parts[base_offset] = bytes(segment.content[start:position])
                    start, base_offset = position, unfold(segment.content, position, header).base_offset
                at = position + header.size
        except CorruptRecordError as error:
            raise WouldNotStart(f"it cannot be split: {error.message}", file=name, position=error.position) from error
        if at < len(segment.content):
            message = f"it has to be split, and {len(segment.content) - at} bytes at its end are no whole batch"
            raise WouldNotStart(message, file=name, position=at)
        parts[base_offset] = bytes(segment.content[start:])
        self.steps.append(Step("split", name, f"its offsets span too much for an index; {len(parts)} segments"))
        self.segments.pop(segment.base_offset, None)
        for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
            self._remove(segment_file_name(segment.base_offset, suffix), "its segment was split")
        self._states.remove_with_segment(segment.base_offset)
        for base, content in parts.items():
            written = self._recover(content, base, self._rules)
            self.files[segment_file_name(base)] = Write(content, modified_ms)
            self._write(segment_file_name(base, OFFSET_INDEX_SUFFIX), written.offset_index)
            self._write(segment_file_name(base, TIME_INDEX_SUFFIX), written.time_index)
            self.segments[base] = self._open(base)

    def _modified_ms(self, name: str) -> int:
        match self.files[name]:
            case Keep(source):
                return self._directory.files[source].modified_ms
            case Cut(_, _, modified_ms) | Write(_, modified_ms):
                return modified_ms

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
            if end < self.log_start_checkpoint:
                for base_offset in sorted(self.segments):
                    why = f"the log ends at {end}, below its start at {self.log_start_checkpoint}"
                    self._remove_segment(base_offset, why)
                self.epochs = ()
                self._states.start_anew(self.log_start_checkpoint)
                end = None
        known_end = end
        if not self.segments:
            end = self.log_start_checkpoint
            for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                self._write(segment_file_name(end, suffix), b"")
            self.steps.append(Step("create", segment_file_name(end), "there is no segment"))
            self.segments[end] = LoadedSegment(end, b"", b"")
        assert end is not None
        self.log_end_offset = end
        is_known_clean = self._is_clean and known_end is not None
        self.recovery_point = end if is_known_clean else min(self._recovery_point, end)
        self.log_start_offset = max(self.log_start_checkpoint, min(self.segments))

    def _cut_epochs(self) -> None:
        cut = leader_epochs.truncate_from_end(self.epochs, self.log_end_offset)
        self.epochs = leader_epochs.truncate_from_start(cut, self.log_start_checkpoint)
        source = self._directory.files.get(LEADER_EPOCH_FILE)
        if source is None and not self.epochs:
            self._write(LEADER_EPOCH_FILE, b"")
        elif source is None or checkpoints.parse_leader_epochs(bytes(source.content)) != self.epochs:
            self._write(LEADER_EPOCH_FILE, checkpoints.format_leader_epochs(self.epochs))

    def _rebuild_producers(self) -> None:
        self._states.remove_strays(sorted(self.segments))
        segments = [self.segments[base] for base in sorted(self.segments)]
        self._states.rebuild(segments, self.log_start_offset, self.log_end_offset, is_clean=self._is_clean)
        self.forgot_producers = self._states.lost_on_upgrade

    @property
    def producers_at_end(self) -> ProducerStates:
        """What is known of the producers once all is done."""
        return self._states


def _is(content: Buffer, wanted: bytes) -> bool:
    return len(content) == len(wanted) and bytes(content) == wanted


class _Split(Exception):
    """A segment's offsets overflow."""

    def __init__(self, segment: LoadedSegment) -> None:
        super().__init__()
        self.segment = segment
