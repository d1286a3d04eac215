"""Reading a whole partition directory into a `PartitionDirectory`: files mapped, root files of its parent looked at.

For maintenance of one partition. Looking around in log directories is `logcore.storage.local`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from logcore.errors import LogError
from logcore.logs.findings import Finding
from logcore.logs.partition_directory import PartitionDirectory, PartitionFile
from logcore.segments.filenames import parse_partition_directory
from logcore.storage.broker_lock import refuse_if_in_use
from logcore.storage.broker_state import StateReader
from logcore.storage.files import SourceUnreadable, map_file, open_readonly, shown


@contextmanager
def partition_directory(path: str, findings: list[Finding] | None = None) -> Iterator[PartitionDirectory]:
    """A partition directory for as long as the context lasts. Only what is not hidden and a regular file is in it.

    findings: what the root files gave rise to say is added here. Raises SourceUnreadable if something cannot be read,
    LogError if the directory is not named as a partition's or a running broker holds the log directory.
    """
    whole = os.path.abspath(path)
    parent, name = os.path.split(whole)
    parsed = parse_partition_directory(name)
    if parsed is None:
        raise LogError("it is not named <topic>-<partition>", file=shown(path), advice="Name one partition directory.")
    topic_partition, _ = parsed
    refuse_if_in_use(parent)
    state = StateReader()
    root = state.root(parent)
    if findings is not None:
        findings.extend(state.findings)
    with ExitStack() as maps:
        files: dict[str, PartitionFile] = {}
        try:
            entries = sorted(os.scandir(whole), key=lambda entry: entry.name)
        except OSError as error:
            raise SourceUnreadable(f"it cannot be listed: {error.strerror}.", file=shown(path)) from error
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) or entry.name.startswith("."):
                continue
            with open_readonly(entry.path) as stream:
                modified_ms = os.fstat(stream.fileno()).st_mtime_ns // 1_000_000
            files[entry.name] = PartitionFile(entry.name, maps.enter_context(map_file(entry.path)), modified_ms)
        yield PartitionDirectory(
            topic_partition=topic_partition,
            files=files,
            recovery_point=(root.recovery_points or {}).get(topic_partition),
            log_start_offset=root.log_starts.get(topic_partition),
            high_watermark=(
                # A file without a line for the partition means that nothing of it was ever committed.
                None if root.high_watermarks is None else root.high_watermarks.get(topic_partition, 0)
            ),
            first_dirty_offset=(root.cleaned or {}).get(topic_partition),
            is_clean=root.is_clean,
        )
