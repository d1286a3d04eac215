"""Write a new partition directory: either complete, or not at all under its name.

Files are written and synced in a temporary directory beside it. Then this directory is synced and renamed. If the
process dies, the temporary directory remains under a recognizable name. An incomplete directory never has the final
name.
"""

from __future__ import annotations

import errno
import fcntl
import filecmp
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import BinaryIO

from logcore.errors import CorruptIndexError, LogError
from logcore.logs.model.partition_directory import Cut, Keep, PartitionDirectory, Proposal, RootLines, Write
from logcore.records.varint import Buffer
from logcore.segments import filenames
from logcore.segments.filenames import TopicPartition
from logcore.segments.side_files import checkpoints
from logcore.storage.broker_state import refuse_if_in_use
from logcore.storage.files import copy_range, read_file, written_in
from logcore.storage.source_errors import shown

_UNFINISHED = ".unfinished"
_LONGEST_NAME = 255
"""Longest name in a directory, in bytes."""


class PartitionOutput:
    """A new partition directory, made from the files of `source`. Use it as a context: the rename is at its end.

    It never writes below `source`, nor into a log directory that a running broker uses. The temporary directory is
    locked while it is written, so one of two concurrent runs is refused.
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
            self._refuse()  # the run that had the lock may just have ended
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
                is_named = True  # from now on the temporary name may belong to another run
                _sync_directory(os.path.dirname(self._final))
        finally:
            if not is_named:
                shutil.rmtree(self._path, ignore_errors=True)
            os.close(self._lock)

    def _refuse(self) -> None:
        """Raise LogError if the final name cannot be used."""
        if os.path.lexists(self._final):
            raise LogError(
                "it exists already", file=shown(self._final), advice="Choose a directory that does not exist."
            )
        refuse_below(self._source, self._final)
        unfinished = os.path.realpath(self._path)
        if os.path.islink(self._path) or os.path.commonpath([os.path.realpath(self._source), unfinished]) == unfinished:
            # The rest of a killed run would be removed; this is something else.
            raise LogError(
                "this temporary name is needed, and something else uses it",
                file=shown(self._path),
                advice="Choose another directory.",
            )
        refuse_if_in_use(os.path.dirname(self._final))

    def put(self, files: Proposal, done: Callable[[str], None] | None = None) -> None:
        """Write every file of a proposal.

        Args:
            files: The files.
            done: Called with the name of each file when it is written.

        Raises:
            SourceUnreadable: A file of the source cannot be read.
            SourceChanged: A file of the source changed.
            OSError: A file cannot be written.
        """
        for name, file in files.items():
            match file:
                case Keep(source):
                    self._copy(name, source, None, None)
                case Cut(source, size, modified_ms):
                    self._copy(name, source, size, modified_ms)
                case Write(content, modified_ms):
                    with self.stream(name, modified_ms) as stream:
                        stream.write(content)
            if done is not None:
                done(name)

    @contextmanager
    def stream(self, name: str, modified_ms: int) -> Iterator[BinaryIO]:
        """Open a new file for writing. When the context ends, it is synced and gets its modification time."""
        with written_in(self._final), open(os.path.join(self._path, name), "xb") as stream:
            yield stream
            stream.flush()
            _settle(stream.fileno(), modified_ms * 1_000_000)

    def _copy(self, name: str, source: str, size: int | None, modified_ms: int | None) -> None:
        origin, path = os.path.join(self._source, source), os.path.join(self._path, name)
        with written_in(self._final):
            copy_range(origin, 0, size, path, sealed=True, is_summed=False)
        # In nanoseconds: a broker reads milliseconds, but a copied file keeps its exact time.
        nanoseconds = os.stat(origin).st_mtime_ns if modified_ms is None else modified_ms * 1_000_000
        descriptor = os.open(path, os.O_RDONLY)
        try:
            _settle(descriptor, nanoseconds)
        finally:
            os.close(descriptor)


def is_written(source: str, destination: str, files: Proposal) -> bool:
    """Return whether a directory has exactly the files of a proposal, as an earlier run wrote them.

    Args:
        source: The directory from which the proposal keeps files.
        destination: The directory that may be there.
        files: The files.

    Raises:
        LogError: A file cannot be read.
    """
    if os.path.islink(destination) or not os.path.isdir(destination) or set(os.listdir(destination)) != set(files):
        return False
    for name, file in files.items():
        path = os.path.join(destination, name)
        match file:
            case Write(content):
                same = os.path.getsize(path) == len(content) and read_file(path) == content
            case Keep(origin):
                same = filecmp.cmp(os.path.join(source, origin), path, shallow=False)
            case Cut(origin, size):
                same = os.path.getsize(path) == size and read_file(os.path.join(source, origin))[:size] == read_file(
                    path
                )
        if not same:
            return False
    return True


def write_partition(directory: PartitionDirectory, log_directory: str | os.PathLike[str]) -> str:
    """Write a partition directory, for instance the result of `LogWriter.close`, into a log directory.

    The files appear at once under `<log_directory>/<topic>-<partition>`, synced to disk, or not at all. The log
    directory's checkpoint files get the partition's lines; lines of other partitions stay. The clean-shutdown mark of
    a broker is not written, so a broker that starts there recovers the log first.

    Args:
        directory: The files, and the partition's lines for the checkpoint files.
        log_directory: It is created if it does not exist.

    Returns:
        The path of the partition directory.

    Raises:
        LogError: The partition directory exists already, or a running broker uses the log directory.
        CorruptIndexError: A checkpoint file in the log directory is malformed.
        ValueError: The topic's name is not legal.
        OSError: The disk is full, or the user may not write there.

    Example:
        >>> logcore.write_partition(writer.close(as_of_ms), "logs")
        'logs/orders-0'
    """
    name = str(directory.topic_partition)
    if filenames.parse_partition_directory(name) != (directory.topic_partition, filenames.DirectoryKind.LIVE):
        raise ValueError(f"{name!r} is not the name of a partition directory")
    path = os.path.join(os.fspath(log_directory), name)
    check_root_files(os.devnull, os.fspath(log_directory))
    with PartitionOutput(os.devnull, path) as output:
        output.put({file.name: Write(bytes(file.content), file.modified_ms) for file in directory.files.values()})
        # Before the rename: a log without its lines would show no record.
        write_lines_of_logs(os.fspath(log_directory), {directory.topic_partition: directory.root_lines})
    return path


def _unfinished_name(name: str) -> str:
    """Return the temporary directory's name. A topic of the greatest length leaves no room for a suffix: then a digest
    replaces the end of the name.
    """
    encoded = os.fsencode(name)
    if len(encoded) + len(_UNFINISHED) <= _LONGEST_NAME:
        return name + _UNFINISHED
    digest = hashlib.sha256(encoded).hexdigest()[:32]
    return os.fsdecode(encoded[: _LONGEST_NAME - len(_UNFINISHED) - len(digest) - 1]) + f"~{digest}{_UNFINISHED}"


def refuse_below(source: str, path: str) -> None:
    """Raise LogError for a path that is the directory `source`, or is inside it."""
    within = os.path.realpath(source)
    if os.path.commonpath([within, os.path.realpath(path)]) == within:
        raise LogError("it is in the directory that is read", file=shown(path), advice="Choose another one.")


def write_root_files(source: str, directory: str, topic_partition: TopicPartition, lines: RootLines) -> None:
    """Write the four checkpoints of a log directory, with new lines for one partition.

    The other lines are those in `directory`, or, if it has no such checkpoint, those of `source`. A malformed
    checkpoint of `source` counts as absent, as when the partition was read. A checkpoint without any line is not
    written if it does not exist.

    Args:
        source: Parent of the partition that was read.
        directory: The log directory to write to.
        topic_partition: The partition.
        lines: Its new lines.

    Raises:
        LogError: As `check_root_files`.
        OSError: A file cannot be written.
    """
    check_root_files(source, directory)
    _write_lines(directory, {topic_partition: lines}, lambda name, path: _offsets(os.path.join(source, name), path))


def write_lines_of_logs(directory: str, lines: Mapping[TopicPartition, RootLines]) -> None:
    """Write the four checkpoints of a new log directory, with lines for the logs that were written there.

    Lines of other logs stay. A checkpoint without any line is not written.

    Raises:
        LogError: A running broker uses the log directory.
        CorruptIndexError: A checkpoint is malformed.
        OSError: A file cannot be written.
    """
    refuse_if_in_use(directory)
    _write_lines(directory, lines, lambda _, path: _offsets(os.devnull, path) if os.path.lexists(path) else ({}, False))


def _write_lines(
    directory: str,
    lines: Mapping[TopicPartition, RootLines],
    known: Callable[[str, str], tuple[dict[TopicPartition, int], bool]],
) -> None:
    """Write new lines. `known` returns the others, and whether the file is there, by its name and its path."""
    os.makedirs(directory, exist_ok=True)
    for name in _stated(RootLines()):
        path = os.path.join(directory, name)
        offsets, is_there = known(name, path)
        for topic_partition, of_log in lines.items():
            offsets.pop(topic_partition, None)
            offset = _stated(of_log)[name]
            if offset is not None:
                offsets[topic_partition] = offset
        if offsets or is_there:
            _replace(path, checkpoints.format_offset_checkpoint(offsets))


def check_root_files(source: str, directory: str) -> None:
    """Check that `write_root_files` may write there.

    Raises:
        LogError: `directory` is the log directory `source`, or a running broker uses it.
        CorruptIndexError: A checkpoint in `directory` is malformed.
    """
    if os.path.realpath(directory) == os.path.realpath(source):
        raise LogError(
            "these are the root files of the directory that is read",
            file=shown(directory),
            advice="Choose another directory.",
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
    """Return the lines to start with, and whether a usable file has them."""
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
    """Set a file's modification time, and sync it to disk."""
    os.utime(descriptor, ns=(nanoseconds, nanoseconds))
    os.fsync(descriptor)


def _locked(path: str) -> int:
    """Lock a directory and return its descriptor.

    Raises:
        LogError: Another process has locked it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError as error:
        # On a file system that cannot lock directories, two runs cannot be distinguished.
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
