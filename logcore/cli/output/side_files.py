"""The files beside segments, one line for each entry: indexes, snapshots, checkpoints, topic ids, KRaft's files.

Files are shown as they are on disk; whether they match their segment is not checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TypeVar

from logcore.errors import CorruptIndexError, LogError, UnsupportedFormatError
from logcore.logs.model.findings import found
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.read_options import Notes, OffsetRange, ReadOptions
from logcore.segments import filenames
from logcore.segments.filenames import TopicPartition
from logcore.segments.side_files import checkpoints, offset_index, producer_state, time_index, transaction_index
from logcore.storage.discovery import SourceUnreadable, read_file, shown
from logcore.storage.objects.addresses import absolute, directory_of, is_object
from logcore.storage.source_reads import exists, sizes_in

MAX_INDEX_BYTES = 1 << 30
"""No index is larger: brokers limit it to 10 MiB by default, and positions to 32 bits."""

MAX_CHECKPOINT_BYTES = 64 << 20

_Entry = TypeVar("_Entry")
_Parsed = TypeVar("_Parsed")
_Line = dict[str, object]


def index_lines(logs: Iterable[SourceLog], chosen: OffsetRange, notes: Notes) -> Iterator[_Line]:
    """Yield the entries of the indexes of each segment; a damaged index is reported and skipped."""
    for log in logs:
        for segment in log.segments:
            place: _Line = {
                "topic": log.topic_partition.topic,
                "partition": log.topic_partition.partition,
                "segment": segment.base_offset,
            }
            for entry in _entries(segment, filenames.OFFSET_INDEX_SUFFIX, offset_index.parse, notes):
                if entry.offset in chosen:
                    yield place | {"index": "offset", "offset": entry.offset, "position": entry.position}
            for stamp in _entries(segment, filenames.TIME_INDEX_SUFFIX, time_index.parse, notes):
                if stamp.offset in chosen:
                    yield place | {"index": "time", "offset": stamp.offset, "timestamp": stamp.timestamp}
            for aborted in _entries(segment, filenames.TRANSACTION_INDEX_SUFFIX, transaction_index.parse, notes):
                if chosen.overlaps(aborted.first_offset, aborted.last_offset):
                    yield place | {"index": "transaction", **asdict(aborted)}


def snapshot_lines(
    logs: Iterable[SourceLog], chosen: OffsetRange, producer_id: int | None, notes: Notes
) -> Iterator[_Line]:
    """Yield the entries of the producer snapshots of each log, for snapshots at a chosen offset.

    The field `snapshot` is the exclusive end offset of the snapshot. A snapshot without entries is a line too. A
    damaged one is reported and skipped.
    """
    for log in logs:
        place: _Line = {"topic": log.topic_partition.topic, "partition": log.topic_partition.partition}
        for end_offset, path in log.snapshots:
            if end_offset not in chosen:
                continue
            entries = _read(path, producer_state.parse, "broken-snapshot", notes)
            if entries is not None and not entries and producer_id is None:
                yield place | {"snapshot": end_offset, "entries": 0}
            for entry in entries or ():
                if producer_id in (None, entry.producer_id):
                    yield place | {"snapshot": end_offset, **asdict(entry)}


def checkpoint_lines(options: ReadOptions, logs: Sequence[SourceLog], notes: Notes) -> Iterator[_Line]:
    """Yield the content of the files in log directories, then in each log's directory.

    These are checkpoints, properties, marks and KRaft's files. A file whose content is not shown is a line with its
    size.

    For a named log directory these are all lines that the options choose, also of missing partitions. For the log
    directory of a named partition these are that partition's lines.

    Args:
        options: The paths and the selection.
        logs: The chosen logs.
        notes: Gets the findings.
    """
    held = {log.topic_partition for log in logs}
    beside = {absolute(log.directory) for log in logs}
    named = [path for path in map(absolute, options.paths) if _is_directory(path) and path not in beside]
    holding = [directory_of(log.directory) for log in logs]
    for root in dict.fromkeys((*named, *holding)):
        yield from _root_lines(root, options.selection, None if root in named else held, notes)
    for log in logs:
        place: _Line = {"topic": log.topic_partition.topic, "partition": log.topic_partition.partition}
        if log.topic_id is not None:
            yield {"file": filenames.PARTITION_METADATA_FILE, **place, "topic_id": log.topic_id}
        for entry in log.leader_epochs:
            line: _Line = {"epoch": entry.epoch, "start_offset": entry.start_offset}
            yield {"file": filenames.LEADER_EPOCH_FILE, **place, **line}
        state = _parsed(log.directory, filenames.QUORUM_STATE_FILE, checkpoints.parse_quorum_state, notes)
        if state is not None:
            yield {"file": filenames.QUORUM_STATE_FILE, **place, **state}
        for name, size in _sizes(log.directory):
            snapshot = filenames.metadata_snapshot(name)
            if snapshot is not None:
                yield {"file": name, **place, "end_offset": snapshot[0], "epoch": snapshot[1], "bytes": size}


def _root_lines(root: str, selection: LogSelection, held: set[TopicPartition] | None, notes: Notes) -> Iterator[_Line]:
    properties = _parsed(root, filenames.META_PROPERTIES_FILE, checkpoints.parse_meta_properties, notes)
    if properties:
        yield {"file": filenames.META_PROPERTIES_FILE, **properties}
    sizes = dict(_sizes(root))
    if filenames.CLEAN_SHUTDOWN_FILE in sizes:
        epoch = _parsed(root, filenames.CLEAN_SHUTDOWN_FILE, checkpoints.parse_clean_shutdown, notes)
        yield {"file": filenames.CLEAN_SHUTDOWN_FILE, "broker_epoch": epoch}
    for name in (filenames.LOCK_FILE, filenames.BOOTSTRAP_FILE):
        if name in sizes:
            yield {"file": name, "bytes": sizes[name]}
    for name in (
        filenames.HIGH_WATERMARK_FILE,
        filenames.LOG_START_FILE,
        filenames.RECOVERY_POINT_FILE,
        filenames.CLEANER_FILE,
    ):
        offsets = _parsed(root, name, checkpoints.parse_offset_checkpoint, notes) or {}
        for key, offset in sorted(offsets.items()):
            if (held is None or key in held) and selection.matches(key.topic, key.partition):
                yield {"file": name, "topic": key.topic, "partition": key.partition, "offset": offset}


def _entries(
    segment: SegmentFile, suffix: str, parse: Callable[[bytes, int], tuple[_Entry, ...]], notes: Notes
) -> tuple[_Entry, ...]:
    path = segment.side_file(suffix)
    if path is None or not exists(path):
        return ()
    return _read(path, lambda data: parse(data, segment.base_offset), "corrupt-index", notes) or ()


def _read(path: str, parse: Callable[[bytes], _Parsed], rule: str, notes: Notes) -> _Parsed | None:
    """Return a file's content; None, and a finding, if it cannot be used."""
    try:
        return parse(read_file(path, MAX_INDEX_BYTES))
    except (CorruptIndexError, UnsupportedFormatError) as error:
        notes.say(found(rule, str(error.at(file=shown(path))), file=shown(path)))
    except LogError as error:
        notes.say(found("unreadable", str(error.at(file=shown(path))), file=shown(path)))
    return None


def _parsed(directory: str, name: str, parse: Callable[[bytes], _Parsed], notes: Notes) -> _Parsed | None:
    """Return a small file's content; None if it does not exist; None, and a finding, if it cannot be used."""
    path = os.path.join(directory, name)
    if not exists(path):
        return None
    try:
        return parse(read_file(path, MAX_CHECKPOINT_BYTES))
    except LogError as error:
        notes.say(found("broken-root-file", str(error.at(file=shown(path))), file=shown(path)))
        return None


def _sizes(directory: str) -> list[tuple[str, int]]:
    """Return names and sizes (bytes) of a directory's files, by name. Unreadable directories were reported before."""
    try:
        return list(sizes_in(directory))
    except (OSError, SourceUnreadable):
        return []


def _is_directory(path: str) -> bool:
    """Whether a path is a directory. Of objects only segments are named one by one."""
    if is_object(path):
        return filenames.segment_base_offset(os.path.basename(path)) is None
    return os.path.isdir(path)
