"""The log directories of logs: their broker, their id, and how much they have."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from logcore.errors import LogError
from logcore.logs.model.sources import SourceLog
from logcore.segments.filenames import META_PROPERTIES_FILE, DirectoryKind
from logcore.segments.side_files.checkpoints import parse_meta_properties
from logcore.storage.broker_state import MAX_PROPERTIES
from logcore.storage.objects.addresses import directory_of
from logcore.storage.source_reads import read_file
from logcore.topics.placement import SourceDirectory


def source_directories(logs: Iterable[SourceLog]) -> tuple[SourceDirectory, ...]:
    """Return the log directories of some logs, by path.

    Args:
        logs: All replicas at the sources.
    """
    by_directory: dict[str, list[SourceLog]] = {}
    for log in logs:
        if log.kind is DirectoryKind.ZOOKEEPER:
            continue
        by_directory.setdefault(directory_of(log.directory), []).append(log)
    return tuple(_directory(path, found) for path, found in sorted(by_directory.items()))


def _directory(path: str, logs: list[SourceLog]) -> SourceDirectory:
    properties = _properties(path)
    broker = properties.get("node.id", properties.get("broker.id"))  # broker.id before KRaft
    return SourceDirectory(
        path,
        int(broker) if broker is not None and broker.isascii() and broker.isdigit() else None,
        properties.get("directory.id"),
        len(logs),
        sum(segment.size for log in logs for segment in log.segments),
    )


def _properties(path: str) -> Mapping[str, str]:
    try:
        return parse_meta_properties(read_file(os.path.join(path, META_PROPERTIES_FILE), MAX_PROPERTIES))
    except (LogError, OSError):  # the job `ingest` reports it
        return {}
