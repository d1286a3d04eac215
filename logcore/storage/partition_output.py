"""Writing a partition directory that does not exist yet: all of it, or nothing under its name.

Files go into a directory beside it, each one synced; then that is synced and renamed. A process that dies leaves the
directory beside it, whose name says what it is, and never a part under the final name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import BinaryIO

from logcore.errors import LogError
from logcore.logs.partition_directory import Cut, Keep, Proposal, RootLines, Write
from logcore.records.varint import Buffer
from logcore.segments import checkpoints, filenames
from logcore.segments.filenames import TopicPartition
from logcore.storage.files import copy_range, read_file, shown

_UNFINISHED = ".unfinished"


class PartitionOutput:
    """A new partition directory, made from the files of `source`. Use as a context: it takes its name at the end."""

    def __init__(self, source: str, destination: str) -> None:
        self._source = source
        self._final = os.path.abspath(destination)
        self._path = self._final + _UNFINISHED

    def __enter__(self) -> PartitionOutput:
        if os.path.lexists(self._final):
            raise LogError("it exists already", file=shown(self._final), advice="Name a directory that does not exist.")
        shutil.rmtree(self._path, ignore_errors=True)  # of a run that was killed
        os.makedirs(self._path)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            return
        _sync_directory(self._path)
        os.rename(self._path, self._final)
        _sync_directory(os.path.dirname(self._final))

    def put(self, files: Proposal) -> None:
        """Write every file of a proposal. Raises SourceUnreadable, SourceChanged, OSError."""
        for name, file in files.items():
            match file:
                case Keep(source):
                    self._copy(name, source, None, None)
                case Cut(source, size, modified_ms):
                    self._copy(name, source, size, modified_ms)
                case Write(content, modified_ms):
                    with self.stream(name, modified_ms) as stream:
                        stream.write(content)

    @contextmanager
    def stream(self, name: str, modified_ms: int) -> Iterator[BinaryIO]:
        """A new file to be written piece by piece; on disk, and with its time of change, when the context ends."""
        path = os.path.join(self._path, name)
        with open(path, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        _set_modified(path, modified_ms * 1_000_000)

    def _copy(self, name: str, source: str, size: int | None, modified_ms: int | None) -> None:
        origin, path = os.path.join(self._source, source), os.path.join(self._path, name)
        copy_range(origin, 0, size, path)
        # All the digits: a broker reads milliseconds, but a copy that is kept is kept whole.
        _set_modified(path, os.stat(origin).st_mtime_ns if modified_ms is None else modified_ms * 1_000_000)


def write_root_files(source: str, directory: str, topic_partition: TopicPartition, lines: RootLines) -> None:
    """Write the four checkpoints of a log directory with the partition's lines replaced: those that are in `directory`
    already (of other partitions put there before), else those of `source`, the parent of the partition that was read. A
    checkpoint that neither has, and that gets no line, is not written. Raises LogError, OSError."""
    stated = {
        filenames.RECOVERY_POINT_FILE: lines.recovery_point,
        filenames.LOG_START_FILE: lines.log_start_offset,
        filenames.HIGH_WATERMARK_FILE: lines.high_watermark,
        filenames.CLEANER_FILE: lines.first_dirty_offset,
    }
    os.makedirs(directory, exist_ok=True)
    for name, offset in stated.items():
        path = os.path.join(directory, name)
        origin = next((each for each in (path, os.path.join(source, name)) if os.path.lexists(each)), None)
        offsets = checkpoints.parse_offset_checkpoint(b"" if origin is None else read_file(origin))
        offsets.pop(topic_partition, None)
        if offset is not None:
            offsets[topic_partition] = offset
        if offsets or origin is not None:
            _replace(path, checkpoints.format_offset_checkpoint(offsets))


def _replace(path: str, content: Buffer) -> None:
    temporary = path + ".tmp"
    with open(temporary, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)
    _sync_directory(os.path.dirname(path) or ".")


def _set_modified(path: str, nanoseconds: int) -> None:
    os.utime(path, ns=(nanoseconds, nanoseconds))


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
