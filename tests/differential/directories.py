"""Partition directories on disk and in memory: what is read, written and made of proposals, each file by its name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from logcore.logs.model.partition_directory import Cut, Keep, PartitionFile, Proposal, Write

Files = dict[str, PartitionFile]


def read(directory: Path) -> Files:
    """Every file of a directory."""
    files = {}
    for path in sorted(directory.iterdir()):
        files[path.name] = PartitionFile(path.name, path.read_bytes(), path.stat().st_mtime_ns // 1_000_000)
    return files


def write(directory: Path, files: Mapping[str, PartitionFile]) -> None:
    """A new directory with these files and their times of change; one that was there is removed."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name, file in files.items():
        path = directory / name
        path.write_bytes(file.content)
        os.utime(path, ns=(file.modified_ms * 1_000_000, file.modified_ms * 1_000_000))


def proposed(files: Mapping[str, PartitionFile], proposal: Proposal) -> Files:
    """What a proposal makes of a directory."""
    made = {}
    for name, file in proposal.items():
        match file:
            case Keep(source):
                made[name] = PartitionFile(name, files[source].content, files[source].modified_ms)
            case Cut(source, size, modified_ms):
                made[name] = PartitionFile(name, bytes(files[source].content[:size]), modified_ms)
            case Write(content, modified_ms):
                made[name] = PartitionFile(name, content, modified_ms)
    return made
