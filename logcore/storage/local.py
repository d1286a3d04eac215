"""Log directories on local disks: which logs lie at some paths, and the state beside them.

A path the user names may itself be a link to a directory; everything below it is taken as it lies, and no link is
followed. Names on disk are not trusted: they are parsed before use, and `shown` makes them fit for messages. Bytes
are read through `logcore.storage.files` and `headers`, whose functions are offered here too.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field

from logcore.logs.sources import Discovery, SegmentFile, SourceLog
from logcore.segments import filenames
from logcore.segments.filenames import DirectoryKind, TopicPartition
from logcore.storage.broker_state import StateReader
from logcore.storage.files import (
    CopiedRange,
    SourceChanged,
    SourceUnreadable,
    copy_range,
    create_text,
    file_digest,
    loaded_file,
    map_file,
    mapped_file,
    open_readonly,
    read_file,
    read_range,
    shown,
)
from logcore.storage.headers import LocalReader
from logcore.storage.partition_files import not_a_segment, read_partition

__all__ = [
    "CopiedRange",
    "Discovery",
    "LocalReader",
    "SegmentFile",
    "SourceChanged",
    "SourceLog",
    "SourceUnreadable",
    "copy_range",
    "create_text",
    "discover",
    "file_digest",
    "loaded_file",
    "map_file",
    "mapped_file",
    "open_readonly",
    "read_file",
    "read_range",
    "shown",
]


def discover(paths: Sequence[str]) -> Discovery:
    """What lies at some paths: each a log directory, a partition directory or a segment's file.

    Never raises for what it finds: what is no log, or cannot be read, is a finding, and the rest goes on. A directory
    named twice, or named beside the log directory that holds it, is taken once. Segments named one by one are one log
    for each directory they lie in.
    """
    look = _Look()
    for path in paths:
        look.at(path)
    look.named_files()
    return Discovery(tuple(look.logs), tuple(look.state.findings), tuple(look.set_aside))


@dataclass(slots=True)
class _Look:
    """One look around: what was found so far."""

    logs: list[SourceLog] = field(default_factory=list)
    set_aside: list[SourceLog] = field(default_factory=list)
    state: StateReader = field(default_factory=StateReader)
    seen: set[tuple[int, int]] = field(default_factory=set)
    named: dict[str, set[int]] = field(default_factory=dict)

    def say(self, rule: str, path: str, message: str) -> None:
        self.state.say(rule, path, message)

    def at(self, path: str) -> None:
        """Look at a path that the user named."""
        try:
            mode = os.stat(path).st_mode
        except (FileNotFoundError, NotADirectoryError, ValueError):
            if "\0" not in path and os.path.islink(path):
                self.say("unreadable", path, f"{shown(path)} is a link to something that is not there.")
            else:
                self.say("path-not-found", path, f"{shown(path)} does not exist.")
        except OSError as error:
            self.say("unreadable", path, _reason(path, error))
        else:
            if stat.S_ISDIR(mode):
                self.directory(path)
            else:
                self.single_file(path)

    def single_file(self, path: str) -> None:
        base_offset = filenames.segment_base_offset(os.path.basename(path))
        if base_offset is None or os.path.islink(path) or not os.path.isfile(path):
            self.say("not-a-segment", path, not_a_segment(path))
            return
        self.named.setdefault(os.path.dirname(os.path.abspath(path)), set()).add(base_offset)

    def named_files(self) -> None:
        """Logs of the segments that were named one by one, unless their whole directory was named too."""
        for directory, bases in self.named.items():
            parsed = filenames.parse_partition_directory(os.path.basename(directory))
            if parsed is None:
                self.say(
                    "illegal-topic-name",
                    directory,
                    f"{shown(directory)} is not named <topic>-<partition>, so its segments have no topic; "
                    "put them into a directory of such a name.",
                )
            elif not self.knows(directory):
                self.partition(directory, *parsed, only=bases)

    def directory(self, path: str) -> None:
        """Tell by its content what a directory is: `kafka-logs-1` may be a log directory or a partition."""
        entries = self.entries(path)
        if entries is None:
            return
        parsed = filenames.parse_partition_directory(os.path.basename(os.path.abspath(path)))
        names = {entry.name for entry in entries}
        has_segments = any(filenames.segment_base_offset(name) is not None for name in names)
        if not has_segments and (
            names & _ROOT_FILES
            or any(filenames.looks_like_partition_directory(entry.name) and _may_hold_a_log(entry) for entry in entries)
        ):
            self.log_directory(entries)
        elif not entries:
            self.say("empty-directory", path, f"{shown(path)} is empty. Is something not mounted there?")
        elif parsed is not None and (
            has_segments or names & _PARTITION_FILES or any(n.endswith(".log") for n in names)
        ):
            if not self.knows(path):
                self.partition(path, *parsed)
        elif has_segments:
            self.say("illegal-topic-name", path, _illegal_name(path))
        else:
            message = f"{shown(path)} holds nothing that a broker keeps in a log directory or in a partition's."
            self.say("not-a-log-directory", path, message)

    def log_directory(self, entries: Sequence[os.DirEntry[str]]) -> None:
        for entry in entries:
            parsed = filenames.parse_partition_directory(entry.name)
            if entry.is_symlink():
                if parsed is not None:
                    message = f"{shown(entry.path)} is a symbolic link, which is not followed; name its target instead."
                    self.say("unreadable", entry.path, message)
            elif not _is_directory(entry):
                if parsed is not None:
                    self.say("unreadable", entry.path, f"{shown(entry.path)} is named like a partition but is a file.")
            elif parsed is not None:
                if not self.knows(entry.path):
                    self.partition(entry.path, *parsed)
            elif filenames.looks_like_partition_directory(entry.name):
                self.say("illegal-topic-name", entry.path, _illegal_name(entry.path))
            elif entry.name not in _BROKER_DIRECTORIES | _ROOT_FILES:
                self.say("unknown-directory", entry.path, f"{shown(entry.path)} is no partition; left alone.")

    def partition(
        self, path: str, topic_partition: TopicPartition, kind: DirectoryKind, only: set[int] | None = None
    ) -> None:
        # Before the segments: a running broker's high watermark never passes the end of a log that is listed later.
        root = self.state.root(os.path.dirname(os.path.abspath(path)))
        files = read_partition(path, lambda: self.entries(path), only)
        if files is None:
            return
        if kind is not DirectoryKind.LIVE:
            self.say(f"{kind}-directory", path, f"{shown(path)} {_SET_ASIDE[kind]}; it is left alone.")
        self.state.findings += files.findings
        segments, unreadable = files.segments, files.unreadable
        if not segments and not unreadable:
            self.say("no-segments", path, f"{shown(path)} holds no segment.")
        unnamed: list[int] = []
        if only is not None:
            unnamed = sorted({*(segment.base_offset for segment in segments), *unreadable} - only)
            segments = [segment for segment in segments if segment.base_offset in only]
            unreadable = [base for base in unreadable if base in only]
        topic_id, broken_identity = self.state.topic_id(path)
        log = SourceLog(
            topic_partition=topic_partition,
            directory=path,
            kind=kind,
            topic_id=topic_id,
            cluster_id=root.cluster_id,
            segments=tuple(segments),
            # A broker that keeps the file, and has no line for a partition, starts it at 0 (ReplicaManager).
            high_watermark=None if root.high_watermarks is None else root.high_watermarks.get(topic_partition, 0),
            log_start_offset=max(
                root.log_starts.get(topic_partition, 0), min([s.base_offset for s in segments] + unreadable, default=0)
            ),
            leader_epochs=self.state.leader_epochs(path),
            cleaner_checkpoint=None if root.cleaned is None else root.cleaned.get(topic_partition),
            unreadable=tuple(unreadable),
            broken_identity=broken_identity,
            named_files=only is not None,
            unnamed=tuple(unnamed),
            snapshots=tuple(files.snapshots),
            recovery_point=None if root.recovery_points is None else root.recovery_points.get(topic_partition),
            is_clean=root.is_clean,
        )
        (self.logs if kind is DirectoryKind.LIVE else self.set_aside).append(log)

    def entries(self, path: str) -> list[os.DirEntry[str]] | None:
        """What a directory holds, by name; None, and a finding, if that cannot be read."""
        try:
            with os.scandir(path) as found_entries:
                return sorted(found_entries, key=lambda entry: entry.name)
        except OSError as error:
            self.say("unreadable", path, _reason(path, error))
            return None

    def knows(self, path: str) -> bool:
        """Whether a directory was taken already, by whatever name; if not, it now was. One that a running broker
        removed since it was listed is said to be gone, and counts as known."""
        try:
            seen = os.stat(path)
        except OSError as error:
            self.say("unreadable", path, _reason(path, error))
            return True
        key = (seen.st_dev, seen.st_ino)
        if key in self.seen:
            return True
        self.seen.add(key)
        return False


_ROOT_FILES = {
    filenames.META_PROPERTIES_FILE,
    filenames.HIGH_WATERMARK_FILE,
    filenames.LOG_START_FILE,
    filenames.RECOVERY_POINT_FILE,
    filenames.CLEANER_FILE,
    filenames.CLEAN_SHUTDOWN_FILE,
    filenames.BOOTSTRAP_FILE,
}
_PARTITION_FILES = {filenames.PARTITION_METADATA_FILE, filenames.LEADER_EPOCH_FILE, filenames.QUORUM_STATE_FILE}
_BROKER_DIRECTORIES = {filenames.REMOTE_INDEX_DIRECTORY}
_SET_ASIDE = {
    DirectoryKind.DELETE: "was queued for deletion by the broker",
    DirectoryKind.FUTURE: "was being moved here from another directory of the broker",
    DirectoryKind.STRAY: "was no longer assigned to its broker",
}


def _is_directory(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _illegal_name(path: str) -> str:
    return (
        f"{shown(path)} is not named <topic>-<partition> with a legal topic (1 to 249 of a-z A-Z 0-9 . _ -); "
        "no broker would have made it, so it is left alone."
    )


def _reason(path: str, error: OSError | ValueError) -> str:
    return f"{shown(path)} cannot be read: {getattr(error, 'strerror', None) or error}."


def _may_hold_a_log(entry: os.DirEntry[str]) -> bool:
    """Whether a directory holds what a partition's does; many other things are named `something-1` too."""
    if not _is_directory(entry):
        return False
    try:
        with os.scandir(entry.path) as inside:
            return any(
                filenames.segment_base_offset(found_entry.name) is not None or found_entry.name in _PARTITION_FILES
                for found_entry in inside
            )
    except OSError:
        return True  # what it holds cannot be told, and that is worth a finding
