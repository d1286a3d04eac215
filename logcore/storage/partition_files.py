"""The files of one partition directory, as a broker's start would see them.

Which of them make up the log is decided by `logcore.segments.startup` from their names and, where a cleaned segment is
not yet in place, from how far it reaches. A directory in use may change between the look at its names and the look at
a file: then it is looked at again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from logcore.errors import LogError
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SegmentFile
from logcore.segments import filenames
from logcore.segments.startup import DropReason, StartFiles, is_plain_name, kept_at_start
from logcore.storage.files import SourceUnreadable, open_readonly, shown
from logcore.storage.headers import LocalReader

MAX_SEGMENT_SIZE = 2**31 - 1
"""Kafka holds positions in 32 bits; no broker opens a larger segment."""

_LOOKS = 3

Names = dict[str, "os.DirEntry[str]"]


@dataclass(slots=True)
class PartitionFiles:
    """What a partition directory holds. segments: by base offset. unreadable: base offsets of segments that are there
    and cannot be read. snapshots, metadata_snapshots: producer snapshots, and KRaft's, as (exclusive end offset, path),
    ascending."""

    segments: list[SegmentFile] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)
    snapshots: list[tuple[int, str]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    metadata_snapshots: list[tuple[int, str]] = field(default_factory=list)

    def say(self, rule: str, path: str, message: str, nbytes: int | None = None) -> None:
        self.findings.append(found(rule, message, file=shown(path), nbytes=nbytes))


def read_partition(
    path: str, entries: Callable[[], list[os.DirEntry[str]] | None], only: set[int] | None = None
) -> PartitionFiles | None:
    """The files of a partition directory; None if it cannot be listed.

    entries: lists it, asked again if a file is gone meanwhile. only: base offsets of segments that were named one by
    one: these and their neighbours are taken under their plain names, whatever a start would make of them.
    """
    for left in reversed(range(_LOOKS)):
        listed = entries()
        if listed is None:
            return None
        looked = _look(path, {entry.name: entry for entry in listed}, only, is_last=left == 0)
        if looked is not None:
            return looked
    raise AssertionError("the last look always tells")


def _look(path: str, names: Names, only: set[int] | None, *, is_last: bool) -> PartitionFiles | None:
    """What one look tells; None if a file is gone since its name was seen, and this is not the last look."""
    files = PartitionFiles()
    start = _start_files(path, names) if only is None else _as_named(names)
    for name in names:
        if name.endswith(filenames.LOG_SUFFIX) and filenames.segment_base_offset(name) is None:
            files.say("not-a-segment", names[name].path, not_a_segment(names[name].path))
        of_metadata = filenames.metadata_snapshot(name)
        if of_metadata is not None:
            files.metadata_snapshots.append((of_metadata[0], names[name].path))
    for plain, now in start.kept.items():
        end_offset = filenames.snapshot_end_offset(plain)
        if end_offset is not None:
            files.snapshots.append((end_offset, names[now].path))
        base_offset = filenames.segment_base_offset(plain)
        if base_offset is None:
            continue
        beside = tuple((suffix, names[name].path) for suffix, name in start.beside(base_offset).items())
        try:
            segment = _segment(names[now], base_offset, beside, files)
        except FileNotFoundError as error:
            if not is_last:
                return None
            files.say("unreadable", names[now].path, f"{shown(names[now].path)} cannot be read: {error.strerror}.")
            segment = None
        if segment is None:
            files.unreadable.append(base_offset)
        else:
            files.segments.append(segment)
    _report(path, start, files)
    return files


def _as_named(names: Names) -> StartFiles:
    return StartFiles({name: name for name in sorted(names) if is_plain_name(name)}, {})


def _start_files(path: str, names: Names) -> StartFiles:
    def next_offset(name: str) -> int:
        base_offset = int(name[:20])
        file = SegmentFile(base_offset, os.path.join(path, name), 0, 0, 0)
        end = base_offset
        try:
            for _, header in LocalReader().headers(file):
                end = end if header is None else header.next_offset
        except LogError:
            pass  # it is said where the segment is opened
        return end

    return kept_at_start(names, next_offset)


def _segment(
    entry: os.DirEntry[str], base_offset: int, beside: tuple[tuple[str, str], ...], files: PartitionFiles
) -> SegmentFile | None:
    """A segment's file as it is; None, and a finding, if it cannot be read. Raises FileNotFoundError."""
    if not entry.is_file(follow_symlinks=False):
        files.say("not-a-segment", entry.path, not_a_segment(entry.path))
        return None
    try:
        with open_readonly(entry.path) as stream:
            seen = os.fstat(stream.fileno())
    except SourceUnreadable as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise error.__cause__ from error
        files.say("unreadable", entry.path, str(error))
        return None
    if seen.st_size > MAX_SEGMENT_SIZE:
        message = f"{shown(entry.path)} has {seen.st_size} bytes; no broker opens a segment above 2 GiB."
        files.say("oversized-segment", entry.path, message, seen.st_size)
    return SegmentFile(base_offset, entry.path, seen.st_size, seen.st_mtime_ns // 1_000_000, seen.st_ino, beside)


def _report(path: str, start: StartFiles, files: PartitionFiles) -> None:
    if start.swapped:
        replaced = sum(reason is DropReason.REPLACED for reason in start.dropped.values())
        message = (
            f"{shown(path)}: a broker was stopped while it put cleaned segments in place. They are read as its start "
            f"would have them: {', '.join(start.swapped)} instead of {replaced} files."
        )
        files.say("interrupted-swap", path, message)
    silent = (DropReason.REPLACED, DropReason.STRAY_SNAPSHOT)
    leftovers = sum(reason not in silent for reason in start.dropped.values())
    if leftovers:
        message = (
            f"{shown(path)} holds {leftovers} files left over from deletion or compaction, for a broker's start to "
            "remove; left alone."
        )
        files.say("leftover-file", path, message)


def not_a_segment(path: str) -> str:
    """Why a path cannot be read as a segment."""
    if filenames.segment_base_offset(os.path.basename(path).removesuffix(filenames.SWAP_SUFFIX)) is None:
        return f"{shown(path)} is no segment: one is named by its base offset in 20 digits and ends in .log."
    return f"{shown(path)} is named like a segment but is no regular file; it is not opened."
