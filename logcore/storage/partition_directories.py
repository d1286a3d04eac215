"""Read a whole partition directory into a `PartitionDirectory`: its files, and the root files of its parent.

For maintenance of one partition. Files are loaded into memory on request (`LoadedFiles`). `logcore.storage.discovery`
finds the logs in log directories.

Maintenance does not read all files of a log at once. The files that were used last stay in memory, up to `KEPT_BYTES`;
other files live as long as they are referenced. Each read checks that the file did not change since it was first seen.
"""

from __future__ import annotations

import gc
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from logcore.errors import LogError
from logcore.logs.model.findings import Finding
from logcore.logs.model.partition_directory import PartitionDirectory, PartitionFile
from logcore.logs.model.sources import SegmentFile
from logcore.records.varint import Buffer
from logcore.segments.filenames import DirectoryKind, parse_partition_directory, segment_base_offset
from logcore.storage.broker_state import StateReader, refuse_if_in_use
from logcore.storage.files import open_readonly, refuse_change
from logcore.storage.headers import HeaderReader
from logcore.storage.partition_files import move, renamed_segments, wrong_names
from logcore.storage.source_bytes import SourceBytes
from logcore.storage.source_errors import SourceUnreadable, shown
from logcore.storage.source_tree import LocalTree

KEPT_BYTES = 256 << 20
"""Bytes of files that may be unreferenced. The file that was requested last is kept, even if it is larger."""
KEPT_FILES = 64
_MUCH = 64 << 20
_ADVICE = "Stop the program that writes there, and run the same command again."


class LoadedFiles:
    """The files that were requested last.

    Args:
        reads_around: Replace sectors that the disk fails to read by zeros, which `SourceBytes` reports. Otherwise such
            a file is an error.
    """

    def __init__(self, *, reads_around: bool = False) -> None:
        self._reads_around = reads_around
        self._kept: OrderedDict[str, tuple[SourceBytes, int]] = OrderedDict()
        self._nbytes = 0

    def file(self, path: str) -> SourceFile:
        """Return a file as it is now.

        Raises:
            SourceUnreadable: The file cannot be opened.
        """
        with open_readonly(path) as stream:
            return SourceFile(path, os.fstat(stream.fileno()), self)

    def load(self, file: SourceFile) -> SourceBytes:
        """Load all bytes of a file.

        Raises:
            SourceChanged: The file changed since it was first seen.
            SourceUnreadable: The file cannot be read.
        """
        known = self._kept.pop(file.path, None)
        if known is None:
            self._make_room(file.allocated)
            file.refuse_change()
            source = SourceBytes(file.path, sealed=True)
            nbytes = source.fetch_all()
            file.refuse_change()  # this checks the path, and so the open file: both are the same file
            if not self._reads_around:
                _refuse_unreadable(source, file.path)
            self._nbytes += nbytes
            known = source, nbytes
        self._kept[file.path] = known
        return known[0]

    def _make_room(self, nbytes: int) -> None:
        """Remove files before a read, so that memory never exceeds the limit or the new file."""
        before = self._nbytes
        while self._kept and (self._nbytes + nbytes > KEPT_BYTES or len(self._kept) >= KEPT_FILES):
            _, (_, gone) = self._kept.popitem(last=False)
            self._nbytes -= gone
        if before - self._nbytes >= _MUCH:
            gc.collect()  # a reader may be in a reference cycle that keeps the bytes


class SourceFile:
    """One file as it was first seen: a `logcore.logs.model.partition_directory.LazyBytes`."""

    def __init__(self, path: str, seen: os.stat_result, files: LoadedFiles) -> None:
        self.path = path
        self._seen, self._files = seen, files

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._seen.st_size

    @property
    def allocated(self) -> int:
        """Approximate number of bytes outside of holes."""
        return min(self._seen.st_size, self._seen.st_blocks * 512)

    @property
    def modified_ns(self) -> int:
        """Modification time in nanoseconds."""
        return self._seen.st_mtime_ns

    @property
    def content(self) -> Buffer:
        """All bytes of the file, valid while referenced. Raises as `LoadedFiles.load`."""
        if not self.size:  # as many indexes; it was opened when it was listed
            self.refuse_change()
            return b""
        return self._files.load(self).content

    @property
    def fetched(self) -> SourceBytes:
        """The loaded bytes with their details, such as unreadable ranges. Raises as `LoadedFiles.load`."""
        return self._files.load(self)

    def refuse_change(self) -> None:
        """Raise SourceChanged if the file changed since it was first seen."""
        refuse_change(self.path, self._seen, sealed=True, advice=_ADVICE)


def _refuse_unreadable(source: SourceBytes, path: str) -> None:
    gone = source.unreadable(0, source.size)
    if gone:
        nbytes = sum(end - start for start, end in gone)
        raise SourceUnreadable(
            f"the disk failed to read {nbytes} bytes of it, starting at this position",
            file=shown(path),
            position=gone[0][0],
            advice="Try `loglake recover --salvage`, or restore the file from another replica.",
        )


@contextmanager
def partition_directory(
    path: str, findings: list[Finding] | None = None, state: StateReader | None = None, *, reads_around: bool = False
) -> Iterator[PartitionDirectory]:
    """Open a partition directory until the context ends. It contains regular files that are not hidden.

    Args:
        path: The partition directory.
        findings: Receives the findings about root files.
        state: A reader of root files that is shared by the logs of a log directory.
        reads_around: Replace sectors that the disk fails to read by zeros; the files' `fetched` reports them.
            Otherwise access to such a file is an error.

    Raises:
        SourceUnreadable: A file or the directory cannot be read.
        LogError: The name is not a partition directory's, or a running broker uses the log directory. Or a segment has
            a wrong name.
    """
    whole = os.path.abspath(path)
    parent, name = os.path.split(whole)
    parsed = parse_partition_directory(name)
    if parsed is None:
        raise LogError("it is not named <topic>-<partition>", file=shown(path), advice="Name one partition directory.")
    topic_partition, _ = parsed
    refuse_if_in_use(parent)
    state = StateReader() if state is None else state
    root = state.root(parent)
    if findings is not None:
        findings.extend(state.findings)
    files: dict[str, PartitionFile] = {}
    try:
        entries = sorted(os.scandir(whole), key=lambda entry: entry.name)
    except OSError as error:
        raise SourceUnreadable(f"it cannot be listed: {error.strerror}.", file=shown(path)) from error
    loaded = LoadedFiles(reads_around=reads_around)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False) or entry.name.startswith("."):
            continue
        file = loaded.file(entry.path)
        files[entry.name] = PartitionFile(entry.name, file, file.modified_ns // 1_000_000)
    _refuse_renamed(whole, files)
    yield PartitionDirectory(
        topic_partition=topic_partition,
        files=files,
        recovery_point=(root.recovery_points or {}).get(topic_partition),
        log_start_offset=root.log_starts.get(topic_partition),
        high_watermark=(
            # A file without a line for the partition means that no record of it was ever committed.
            None if root.high_watermarks is None else root.high_watermarks.get(topic_partition, 0)
        ),
        first_dirty_offset=(root.cleaned or {}).get(topic_partition),
        is_clean=root.is_clean,
        high_watermark_ms=root.high_watermarks_ms,
        is_tiered=state.has_remote_tier(parent),
    )


def _refuse_renamed(path: str, files: Mapping[str, PartitionFile]) -> None:
    """Refuse a directory with a segment under a wrong name: maintenance would take its batches as damage."""
    segments = [
        SegmentFile(base, os.path.join(path, name), file.size, file.modified_ms, 0)
        for name, file in files.items()
        if (base := segment_base_offset(name)) is not None
    ]
    for group in renamed_segments(segments, files, LocalTree(), HeaderReader()):
        raise LogError(wrong_names(group).removesuffix("."), advice=move(group))


def directories_beside(path: str, topic: str) -> tuple[str, ...]:
    """Return the partition directories of a topic in the log directory of another partition directory, by name.

    Args:
        path: The other partition directory.
        topic: The topic.

    Raises:
        SourceUnreadable: The log directory cannot be listed.
    """
    root = os.path.dirname(os.path.abspath(path))
    try:
        names = sorted(os.listdir(root))
    except OSError as error:
        raise SourceUnreadable(f"it cannot be listed: {error.strerror}.", file=shown(root)) from error
    parsed = ((name, parse_partition_directory(name)) for name in names if name.startswith(topic))
    return tuple(
        os.path.join(root, name)
        for name, known in parsed
        if known is not None and known[0].topic == topic and known[1] is DirectoryKind.LIVE
    )


def refuse_changes(directory: PartitionDirectory) -> None:
    """Raise SourceChanged if a file changed since the directory was read."""
    for file in directory.files.values():
        if isinstance(file.held, SourceFile):
            file.held.refuse_change()
