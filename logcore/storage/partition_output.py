"""Writing a partition directory that does not exist yet: all of it, or nothing under its name.

Files go into a directory beside it, each one synced; then that is synced and renamed. A process that dies leaves the
directory beside it, whose name says what it is, and never a part under the final name.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import BinaryIO

from logcore.errors import CorruptIndexError, LogError
from logcore.logs.model.partition_directory import Cut, Keep, Proposal, RootLines, Write
from logcore.records.varint import Buffer
from logcore.segments import filenames
from logcore.segments.filenames import TopicPartition
from logcore.segments.side_files import checkpoints
from logcore.storage.broker_lock import refuse_if_in_use
from logcore.storage.files import copy_range, read_file, shown

_UNFINISHED = ".unfinished"
_LONGEST_NAME = 255
"""Bytes of a name in a directory."""


class PartitionOutput:
    """A new partition directory, made from the files of `source`. Use as a context: it takes its name at the end.

    Nothing is ever written below `source`, nor into a log directory that a running broker holds. The directory beside
    the new one is locked while it is written, so that of two runs at once one is refused.
    """

    def __init__(self, source: str, destination: str) -> None:
        self._source = source
        self._final = os.path.abspath(destination)
        self._path = os.path.join(os.path.dirname(self._final), _unfinished_name(os.path.basename(self._final)))
        self._lock = -1

    def __enter__(self) -> PartitionOutput:
        self._refuse()
        os.makedirs(self._path, exist_ok=True)
        self._lock = _locked(self._path)
        try:
            self._refuse()  # the run that held the lock may just have ended
            for entry in os.scandir(self._path):  # of a run that was killed
                shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        is_named = False
        try:
            if kind is None:
                _sync_directory(self._path)
                self._refuse()
                os.rename(self._path, self._final)
                is_named = True  # and what has the other name from now on is another run's
                _sync_directory(os.path.dirname(self._final))
        finally:
            if not is_named:
                shutil.rmtree(self._path, ignore_errors=True)
            os.close(self._lock)

    def _refuse(self) -> None:
        """LogError if nothing may be written under the final name."""
        if os.path.lexists(self._final):
            raise LogError("it exists already", file=shown(self._final), advice="Name a directory that does not exist.")
        refuse_below(self._source, self._final)
        unfinished = os.path.realpath(self._path)
        if os.path.islink(self._path) or os.path.commonpath([os.path.realpath(self._source), unfinished]) == unfinished:
            # What a killed run left there is removed; this is not what one left.
            raise LogError(
                "it would be written under this name first, and something else has it",
                file=shown(self._path),
                advice="Name another directory.",
            )
        refuse_if_in_use(os.path.dirname(self._final))

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
        with open(os.path.join(self._path, name), "xb") as stream:
            yield stream
            stream.flush()
            _settle(stream.fileno(), modified_ms * 1_000_000)

    def _copy(self, name: str, source: str, size: int | None, modified_ms: int | None) -> None:
        origin, path = os.path.join(self._source, source), os.path.join(self._path, name)
        copy_range(origin, 0, size, path, sealed=True, is_summed=False)
        # All the digits: a broker reads milliseconds, but a copy that is kept is kept whole.
        nanoseconds = os.stat(origin).st_mtime_ns if modified_ms is None else modified_ms * 1_000_000
        descriptor = os.open(path, os.O_RDONLY)
        try:
            _settle(descriptor, nanoseconds)
        finally:
            os.close(descriptor)


def _unfinished_name(name: str) -> str:
    """The name of the directory beside: a topic of Kafka's greatest length leaves no room for more, so that its end
    gives way to a digest."""
    encoded = os.fsencode(name)
    if len(encoded) + len(_UNFINISHED) <= _LONGEST_NAME:
        return name + _UNFINISHED
    digest = hashlib.sha256(encoded).hexdigest()[:32]
    return os.fsdecode(encoded[: _LONGEST_NAME - len(_UNFINISHED) - len(digest) - 1]) + f"~{digest}{_UNFINISHED}"


def refuse_below(source: str, path: str) -> None:
    """LogError for a path that is the directory `source`, or lies in it."""
    within = os.path.realpath(source)
    if os.path.commonpath([within, os.path.realpath(path)]) == within:
        raise LogError("it lies in the directory that is read", file=shown(path), advice="Name another one.")


def write_root_files(source: str, directory: str, topic_partition: TopicPartition, lines: RootLines) -> None:
    """Write the four checkpoints of a log directory with the partition's lines replaced: those that are in `directory`
    already (of other partitions put there before), else those of `source`, the parent of the partition that was read. A
    checkpoint that neither has, and that gets no line, is not written; one of `source` that cannot be understood counts
    as absent, as it did when the partition was read.

    Raises as `check_root_files`; OSError.
    """
    check_root_files(source, directory)
    stated = _stated(lines)
    os.makedirs(directory, exist_ok=True)
    for name, offset in stated.items():
        path = os.path.join(directory, name)
        offsets, is_there = _offsets(os.path.join(source, name), path)
        offsets.pop(topic_partition, None)
        if offset is not None:
            offsets[topic_partition] = offset
        if offsets or is_there:
            _replace(path, checkpoints.format_offset_checkpoint(offsets))


def write_lines_of_logs(directory: str, lines: Mapping[TopicPartition, RootLines]) -> None:
    """Write the four checkpoints of a new log directory with the lines of the logs that were put there, and with those
    of other logs that are in it already. A checkpoint without any line is not written.

    Raises CorruptIndexError for a checkpoint that cannot be understood; OSError.
    """
    refuse_if_in_use(directory)
    os.makedirs(directory, exist_ok=True)
    for name in _stated(RootLines()):
        path = os.path.join(directory, name)
        offsets, is_there = _offsets(os.devnull, path) if os.path.lexists(path) else ({}, False)
        for topic_partition, of_log in lines.items():
            offsets.pop(topic_partition, None)
            offset = _stated(of_log)[name]
            if offset is not None:
                offsets[topic_partition] = offset
        if offsets or is_there:
            _replace(path, checkpoints.format_offset_checkpoint(offsets))


def check_root_files(source: str, directory: str) -> None:
    """Whether `write_root_files` may write there. Raises LogError for the log directory `source` itself, for one that a
    running broker holds, and for a checkpoint in `directory` that cannot be understood."""
    if os.path.realpath(directory) == os.path.realpath(source):
        raise LogError(
            "these are the root files of the directory that is read",
            file=shown(directory),
            advice="Name another directory.",
        )
    refuse_if_in_use(directory)
    for name in _stated(RootLines()):
        _offsets(os.path.join(source, name), os.path.join(directory, name))


def _stated(lines: RootLines) -> dict[str, int | None]:
    return {
        filenames.RECOVERY_POINT_FILE: lines.recovery_point,
        filenames.LOG_START_FILE: lines.log_start_offset,
        filenames.HIGH_WATERMARK_FILE: lines.high_watermark,
        filenames.CLEANER_FILE: lines.first_dirty_offset,
    }


def _offsets(source: str, target: str) -> tuple[dict[TopicPartition, int], bool]:
    """Lines to go on from, and whether there is a file with such."""
    if os.path.lexists(target):
        try:
            return checkpoints.parse_offset_checkpoint(read_file(target)), True
        except CorruptIndexError as error:
            raise error.at(file=shown(target)) from error
    if os.path.lexists(source):
        with suppress(CorruptIndexError):
            return checkpoints.parse_offset_checkpoint(read_file(source)), True
    return {}, False


def _replace(path: str, content: Buffer) -> None:
    temporary = path + ".tmp"
    with open(temporary, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)
    _sync_directory(os.path.dirname(path) or ".")


def _settle(descriptor: int, nanoseconds: int) -> None:
    """A file's time of change, and the file on disk with it."""
    os.utime(descriptor, ns=(nanoseconds, nanoseconds))
    os.fsync(descriptor)


def _locked(path: str) -> int:
    """A descriptor of a directory that no other process has locked. LogError if one has."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError as error:
        # A file system that locks no directories cannot tell two runs apart.
        is_ours = error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.ENOENT)
    if not is_ours:
        os.close(descriptor)
        raise LogError("another run is writing it", file=shown(path), advice="Wait until it has ended.")
    return descriptor


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
