"""Read a whole partition directory into a `PartitionDirectory`: its files, and the root files of its parent.

For maintenance of one partition. Files are loaded into memory on request (`loaded_files`). `logcore.storage.discovery`
finds the logs in log directories.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from logcore.errors import LogError
from logcore.logs.model.findings import Finding
from logcore.logs.model.partition_directory import PartitionDirectory, PartitionFile
from logcore.segments.filenames import DirectoryKind, parse_partition_directory
from logcore.storage.broker.broker_lock import refuse_if_in_use
from logcore.storage.broker.broker_state import StateReader
from logcore.storage.loaded_files import LoadedFiles, SourceFile
from logcore.storage.source_errors import SourceUnreadable, shown


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
        LogError: The name is not a partition directory's, or a running broker uses the log directory.
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
