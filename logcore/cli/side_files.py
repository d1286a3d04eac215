"""What lies beside segments, a line each: entries of offset and time indexes, checkpoints, topic ids.

Index files are taken as they are on disk; whether they agree with their segment is not asked here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from logcore.cli.arguments import OffsetRange
from logcore.cli.looking import Notes
from logcore.errors import CorruptIndexError, LogError
from logcore.logs.findings import found
from logcore.logs.sources import SegmentFile, SourceLog
from logcore.segments import checkpoints, filenames, offset_index, time_index
from logcore.storage.local import read_file, shown

MAX_INDEX_BYTES = 1 << 30
"""No index is larger: brokers hold 10 MiB by default, and positions in 32 bits."""

MAX_CHECKPOINT_BYTES = 64 << 20

_Entry = TypeVar("_Entry")
_Line = dict[str, object]


def index_lines(logs: Iterable[SourceLog], chosen: OffsetRange, notes: Notes) -> Iterator[_Line]:
    """Entries of the indexes of each segment; a damaged index is said and passed over."""
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


def checkpoint_lines(logs: Sequence[SourceLog], notes: Notes) -> Iterator[_Line]:
    """Entries of the checkpoints in the directories that hold the logs, then of the files in each log's own."""
    chosen = {log.topic_partition for log in logs}
    for root in dict.fromkeys(os.path.dirname(os.path.abspath(log.directory)) for log in logs):
        properties = _parsed(root, filenames.META_PROPERTIES_FILE, checkpoints.parse_meta_properties, notes)
        if properties:
            yield {"file": filenames.META_PROPERTIES_FILE, **properties}
        for name in (
            filenames.HIGH_WATERMARK_FILE,
            filenames.LOG_START_FILE,
            filenames.RECOVERY_POINT_FILE,
            filenames.CLEANER_FILE,
        ):
            offsets = _parsed(root, name, checkpoints.parse_offset_checkpoint, notes) or {}
            for key, offset in sorted(offsets.items()):
                if key in chosen:
                    yield {"file": name, "topic": key.topic, "partition": key.partition, "offset": offset}
    for log in logs:
        place: _Line = {"topic": log.topic_partition.topic, "partition": log.topic_partition.partition}
        if log.topic_id is not None:
            yield {"file": filenames.PARTITION_METADATA_FILE, **place, "topic_id": log.topic_id}
        for entry in log.leader_epochs:
            line: _Line = {"epoch": entry.epoch, "start_offset": entry.start_offset}
            yield {"file": filenames.LEADER_EPOCH_FILE, **place, **line}


def _entries(
    segment: SegmentFile, suffix: str, parse: Callable[[bytes, int], tuple[_Entry, ...]], notes: Notes
) -> tuple[_Entry, ...]:
    path = segment.path.removesuffix(filenames.LOG_SUFFIX) + suffix
    if not os.path.lexists(path):
        return ()
    try:
        return parse(read_file(path, MAX_INDEX_BYTES), segment.base_offset)
    except CorruptIndexError as error:
        notes.say(found("corrupt-index", str(error.at(file=shown(path))), file=shown(path)))
    except LogError as error:
        notes.say(found("unreadable", str(error.at(file=shown(path))), file=shown(path)))
    return ()


def _parsed(root: str, name: str, parse: Callable[[bytes], _Entry], notes: Notes) -> _Entry | None:
    """A root file's content; None, and a finding, if it cannot be used, and None if it is not there."""
    path = os.path.join(root, name)
    if not os.path.lexists(path):
        return None
    try:
        return parse(read_file(path, MAX_CHECKPOINT_BYTES))
    except LogError as error:
        notes.say(found("broken-root-file", str(error.at(file=shown(path))), file=shown(path)))
        return None
