"""Find logs: which logs some paths contain, and the state beside the logs.

A named path, and a partition directory in a log directory, may be a link to a directory (usual with volume mounts). As
in a broker, the link's own name and place count. No other link is followed. Names on disk are not trusted: they are
parsed before use, and `shown` makes them fit for messages.

A log directory may also lie on an object store, below a prefix, with the names that it has on a disk. One listing finds
its files. If the listing is not complete, or a state file cannot be read, the logs concerned are not found at all: with
a part of what there is they would look like other logs.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice

from logcore.errors import LogError
from logcore.logs.growth.lost_start import lost_start
from logcore.logs.model.findings import Severity, found
from logcore.logs.model.remote_tier import below_start
from logcore.logs.model.sources import Discovery, SegmentFile, SourceLog
from logcore.records.packed_files import HEAD_SIZE
from logcore.segments import filenames
from logcore.segments.filenames import DirectoryKind, TopicPartition
from logcore.storage.broker_state import MAX_SMALL_FILE, StateReader
from logcore.storage.files import copy_range, map_file, new_text, open_readonly
from logcore.storage.headers import HeaderReader
from logcore.storage.missing_logs import ListedDirectory, meant_logs
from logcore.storage.objects.addresses import absolute, directory_of, is_object
from logcore.storage.objects.answers import StoreFailed
from logcore.storage.objects.object_tree import ObjectTree
from logcore.storage.objects.remembered_reads import RememberedReads
from logcore.storage.partition_files import (
    KnownBounds,
    is_foreign,
    not_a_segment,
    read_partition,
    report_aside,
    what_directory,
    what_file,
)
from logcore.storage.source_errors import SourceChanged, SourceUnreadable, shown
from logcore.storage.source_reads import file_digest, read_file, read_range
from logcore.storage.source_tree import DirectoryEntry, LocalTree, SourceTree

__all__ = [
    "Discovery",
    "HeaderReader",
    "SegmentFile",
    "SourceChanged",
    "SourceLog",
    "SourceUnreadable",
    "copy_range",
    "discover",
    "file_digest",
    "map_file",
    "new_text",
    "open_readonly",
    "read_file",
    "read_range",
    "shown",
    "source_path",
]


def discover(
    paths: Sequence[str],
    remembered: RememberedReads | None = None,
    *,
    any_name: bool = False,
    why_gone: Callable[[TopicPartition], str] = lambda _: "",
) -> Discovery:
    """Find the logs at some paths. Each path is a log directory, a partition directory or a segment's file.

    Errors in the source are findings, and the other paths are still read. A directory that is named twice, or named
    together with its log directory, is read once. Segments that are named one by one form one log for each directory.

    Args:
        paths: Local paths, or names of object stores such as `s3://bucket/logs`.
        remembered: Small reads of objects by earlier runs; None: none.
        any_name: A segment's file that is named alone is read under any name and in any directory. Without a
            partition's name around it, its topic partition is `unknown-0`.
        why_gone: Why it is information that a log, which a checkpoint names, has no directory; empty: it is not.

    Raises:
        AddressError: The name of an object store, or a setting of its access, cannot be used.
        LogError: The package that reads object stores is not installed.
    """
    look = _Look(remembered, any_name, state=StateReader(beside=[path for path in paths if not is_object(path)]))
    for path in paths:
        look.at(path)
    look.named_files()
    for directory in look.log_directories:
        look.state.findings += directory.findings((*look.logs, *look.set_aside), why_gone)
    return Discovery(tuple(look.logs), tuple(look.state.findings), tuple(look.set_aside), tuple(look.zookeepers))


def source_path(path: str) -> str:
    """Return the absolute path by which a source is known, with links resolved.

    A partition directory that is itself a link keeps its own name and place: the state of its log directory is there.

    Raises:
        AddressError: The name of an object store cannot be used.
    """
    if is_object(path):
        return absolute(path)
    place, name = os.path.split(os.path.abspath(path))
    real = os.path.realpath(path)
    if os.path.islink(path) and filenames.parse_partition_directory(name) is not None and _holds_segments(real):
        return os.path.join(os.path.realpath(place), name)
    return real


def _holds_segments(path: str) -> bool:
    try:
        with os.scandir(path) as inside:
            return _has_segments(inside)
    except OSError:
        return False


def _has_segments(entries: Iterable[DirectoryEntry]) -> bool:
    return any(filenames.segment_base_offset(entry.name) is not None for entry in entries)


@dataclass(slots=True)
class _Look:
    """One discovery, and what it has found so far."""

    remembered: RememberedReads | None = None
    any_name: bool = False
    logs: list[SourceLog] = field(default_factory=list)
    set_aside: list[SourceLog] = field(default_factory=list)
    zookeepers: list[SourceLog] = field(default_factory=list)
    state: StateReader = field(default_factory=StateReader)
    seen: dict[Hashable, str] = field(default_factory=dict)
    named: dict[str, dict[int, str]] = field(default_factory=dict)
    objects: dict[str, ObjectTree] = field(default_factory=dict)
    local: LocalTree = field(default_factory=LocalTree)
    failed: set[str] = field(default_factory=set)
    log_directories: list[ListedDirectory] = field(default_factory=list)

    @property
    def tree(self) -> SourceTree:
        """Where the path that is being read is."""
        return self.state.tree

    def say(self, rule: str, path: str, message: str) -> None:
        self.state.say(rule, path, message)

    def at(self, path: str) -> None:
        """Read a path that the user named."""
        self.state.tree = self.local
        if is_object(path):
            path = absolute(path)
            if not self.list_objects(path):
                return
        try:
            is_directory = self.tree.is_directory(path)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            if "\0" not in path and os.path.islink(path):
                self.say("unreadable", path, f"{shown(path)} is a link to a missing target.")
            else:
                self.say("path-not-found", path, f"{shown(path)} does not exist.")
        except OSError as error:
            self.say("unreadable", path, _reason(path, error))
        else:
            if is_directory:
                self.directory(path)
            else:
                self.single_file(path)

    def list_objects(self, path: str) -> bool:
        """List what is at a path on an object store, and read the small files there.

        Returns:
            Whether the listing is complete. If not, there is a finding.
        """
        is_segment = filenames.segment_base_offset(os.path.basename(path)) is not None
        root = directory_of(path) if is_segment else path
        try:
            if root not in self.objects:
                tree = ObjectTree.listed(root, self.remembered)
                tree.fetch(_STATE_FILES.__contains__, MAX_SMALL_FILE)
                self.objects[root] = tree
        except SourceUnreadable as error:
            self.fails(path, error)
            return False
        self.state.tree = self.objects[root]
        if self.objects[root].odd:
            message = f"{shown(root)}: {self.objects[root].odd} objects below it have names with empty parts, . or .."
            finding = found("unknown-directory", f"{message}; they are not read.", file=shown(root))
            self.state.findings.append(replace(finding, severity=Severity.WARNING))
        return True

    def fails(self, path: str, error: LogError) -> None:
        """Report that an object store failed, or that an object was replaced; once for each file."""
        place = error.file or shown(path)
        if place not in self.failed:
            self.failed.add(place)
            rule = "source-changed" if isinstance(error, SourceChanged) else "unreadable"
            self.state.findings.append(found(rule, str(error.at(file=shown(path))), file=place))

    def single_file(self, path: str) -> None:
        base_offset = filenames.segment_base_offset(os.path.basename(path))
        is_file = is_object(path) or (not os.path.islink(path) and os.path.isfile(path))
        if is_file and base_offset is None and self.any_name:
            base_offset = self.first_offset(path)
        if base_offset is None or not is_file:
            self.say("not-a-segment", path, _what_instead(path) if is_file else not_a_segment(path))
            return
        self.named.setdefault(directory_of(path), {})[base_offset] = path

    def first_offset(self, path: str) -> int | None:
        """The base offset of the batch with which a file begins; None if it begins with none."""
        with suppress(LogError, FileNotFoundError):
            header = HeaderReader(self.remembered).header_at(self.file(0, path), 0)
            return None if header is None else header.base_offset
        return None

    def file(self, base_offset: int, path: str) -> SegmentFile:
        """Describe a file that was named alone; nothing belongs to it."""
        seen = self.tree.state(path)
        return SegmentFile(base_offset, path, seen.size, seen.modified_ms, seen.inode, (), seen.etag)

    def named_files(self) -> None:
        """Add the logs of segments that were named one by one, unless their directory was named too."""
        for directory, paths in self.named.items():
            self.state.tree = self.objects.get(directory, self.local)
            parsed = filenames.parse_partition_directory(os.path.basename(directory))
            is_plain = all(os.path.basename(path) == filenames.segment_file_name(base) for base, path in paths.items())
            if self.any_name and not is_object(directory) and (parsed is None or not is_plain):
                files = tuple(self.file(base, path) for base, path in sorted(paths.items()))
                name, kind = _UNKNOWN if parsed is None else parsed
                first = files[0].base_offset
                self.logs.append(SourceLog(name, directory, kind, None, None, files, None, first, named_files=True))
            elif parsed is None:
                self.say(
                    "illegal-topic-name",
                    directory,
                    f"{shown(directory)} is not named <topic>-<partition>, so its segments have no topic; "
                    "move them into a directory with such a name.",
                )
            elif not self.knows(directory):
                self.partition(directory, *parsed, only=set(paths))

    def directory(self, path: str) -> None:
        """Read a directory of a kind that only its content shows: `kafka-logs-1` may be a log directory or a
        partition.
        """
        entries = self.entries(path)
        if entries is None:
            return
        parsed = filenames.parse_partition_directory(os.path.basename(absolute(path)))
        names = {entry.name for entry in entries}
        has_segments = _has_segments(entries)
        is_zookeeper = not has_segments and self.zookeeper(path, entries)
        if not has_segments and (names & _ROOT_FILES or any(map(self.may_hold_a_log, entries))):
            self.log_directory(entries)
        elif is_zookeeper:
            return
        elif not entries:
            self.say("empty-directory", path, f"{shown(path)} is empty. Is a volume not mounted there?")
        elif parsed is not None and (
            has_segments or names & _PARTITION_FILES or any(n.endswith(".log") for n in names)
        ):
            if not self.knows(path):
                self.partition(path, *parsed)
        elif has_segments:
            self.say("illegal-topic-name", path, _illegal_name(path))
        else:
            lost = [(entry, self.lost_link(entry)) for entry in entries]
            for entry, why in lost:
                if why is not None:
                    self.say("unreadable", entry.path, why)
            if not any(why for _, why in lost):
                what, roots = self.below(path)
                message = f"{shown(path)} contains no file that a broker keeps in a log or partition directory."
                if roots:
                    message = f"{shown(path)} is above the log directories {' '.join(map(shown, roots))}: name these."
                elif what is not None:
                    message = f"{shown(path)} {what}."
                self.say("not-a-log-directory", path, message)

    def zookeeper(self, path: str, entries: Sequence[DirectoryEntry]) -> bool:
        """Add the data of a ZooKeeper, if a directory has it, in `version-2` or itself; returns whether it has."""
        inner = next((entry.path for entry in entries if entry.name == filenames.ZOOKEEPER_DIRECTORY), None)
        inside = entries if inner is None else self.state.inside(inner)
        files = [(named, entry.path) for entry in inside if (named := filenames.zookeeper_file(entry.name))]
        if not files:
            return False
        place = inner or path
        if self.knows(place):
            return True
        logs: list[SegmentFile] = []
        for (kind, first), file in files:
            try:
                if kind == "log":
                    logs.append(self.file(first, file))
            except (SourceUnreadable, FileNotFoundError) as error:
                self.say("unreadable", file, f"{shown(file)}: {error}")
        self.say(
            "zookeeper-directory",
            place,
            f"{shown(place)} has the data of a ZooKeeper. `loglake metadata`, `topics` and `groups` read it.",
        )
        self.zookeepers.append(
            SourceLog(
                TopicPartition(filenames.METADATA_TOPIC, 0),
                place,
                DirectoryKind.ZOOKEEPER,
                topic_id=None,
                cluster_id=None,
                segments=tuple(sorted(logs, key=lambda each: each.base_offset)),
                high_watermark=None,
                log_start_offset=0,
                metadata_snapshots=tuple(sorted((last + 1, file) for (kind, last), file in files if kind != "log")),
            )
        )
        return True

    def below(self, path: str) -> tuple[str | None, list[str]]:
        """What is known of a directory without logs, and the log directories below it."""
        what, roots, places = None, [], [path]
        for place in places:
            entries = self.state.inside(place)
            names = {entry.name for entry in entries}
            if names & _ROOT_FILES or any(map(self.may_hold_a_log, entries)):
                roots.append(place)
                continue
            what = what or what_directory(names, shown(place))
            if "lake.json" in names:
                continue
            folders = [entry.path for entry in entries if _is_directory(entry) and not entry.is_symlink()]
            places += folders[: _MOST_PLACES - len(places)]
        return what, roots

    def log_directory(self, entries: Sequence[DirectoryEntry]) -> None:
        unread, illegal = list[str](), list[str]()
        for entry in entries:
            parsed = filenames.parse_partition_directory(entry.name)
            if is_foreign(entry.name) and not self.may_hold_a_log(entry) and not self.has_segments(entry.path):
                continue
            lost = None if parsed is None else self.not_entered(entry)
            if entry.name == filenames.ZOOKEEPER_DIRECTORY and not self.has_segments(entry.path):
                continue
            if lost is not None:
                self.say("unreadable", entry.path, lost)
            elif not _is_directory(entry):
                continue
            elif parsed is not None:
                if not self.knows(entry.path):
                    self.partition(entry.path, *parsed)
            elif filenames.looks_like_partition_directory(entry.name):
                illegal.append(entry.path)
            elif entry.name not in _BROKER_DIRECTORIES | _ROOT_FILES:
                unread.append(entry.path)
        if not entries:
            return
        path = directory_of(entries[0].path)
        try:
            places = {each: self.unread_places(each) for each in unread}
            places |= {each: self.unread_places(each) for each in illegal if _has_leading_zeros(each)}
            root = self.state.root(path, needs_high_watermarks=False)
        except (StoreFailed, SourceChanged) as error:
            self.fails(path, error)
            return
        names = {entry.name for entry in entries}
        if filenames.META_PROPERTIES_FILE not in names and (what := self.of_later_broker(entries)) is not None:
            self.say("no-meta-properties", path, f"{shown(path)} has {what} and no {filenames.META_PROPERTIES_FILE}.")
        of_checkpoints = {*(root.high_watermarks or ()), *root.log_starts, *(root.recovery_points or ())}
        absent = {str(log): [log] for log in of_checkpoints if str(log) not in names}
        for each in illegal:
            if not (places.get(each) and meant_logs(os.path.basename(each), absent)):
                places.pop(each, None)
                self.say("illegal-topic-name", each, _illegal_name(each))
        self.log_directories.append(
            ListedDirectory(path, names, places, of_checkpoints, root.high_watermarks or {}, root.recovery_points)
        )

    def of_later_broker(self, entries: Sequence[DirectoryEntry]) -> str | None:
        """What in a log directory a broker wrote that also writes meta.properties; None: nothing. Those of 0.8 do not.

        The file of log starts is of 0.11 or later, as are the files of partitions. One partition may be a lone copy.
        """
        has_checkpoints = any(entry.name in _CHECKPOINTS for entry in entries)
        of_logs = (
            entry
            for entry in entries
            if filenames.parse_partition_directory(entry.name) is not None
            and any(inside.name in _PARTITION_FILES for inside in self.state.inside(entry.path))
        )
        if any(entry.name == filenames.LOG_START_FILE for entry in entries) or (has_checkpoints and any(of_logs)):
            return "checkpoint files"
        return "several logs" if not has_checkpoints and len(list(islice(of_logs, 2))) == 2 else None

    def has_segments(self, path: str) -> bool:
        """Whether a directory has segments."""
        return _has_segments(self.state.inside(path))

    def unread_places(self, path: str) -> list[str]:
        """Return the directories with segments at and below a directory that is not a partition."""
        insides = [path, *(root for root in self.below(path)[1] if root != path)]
        insides += [each.path for inside in insides for each in self.state.inside(inside) if _is_directory(each)]
        return [place for place in insides if self.has_segments(place)]

    def partition(
        self, path: str, topic_partition: TopicPartition, kind: DirectoryKind, only: set[int] | None = None
    ) -> None:
        """Read a partition directory. On an object store that fails, or changes meanwhile, its log is not found."""
        try:
            self.log(path, topic_partition, kind, only)
        except (StoreFailed, SourceChanged) as error:
            self.fails(path, error)

    def log(self, path: str, topic_partition: TopicPartition, kind: DirectoryKind, only: set[int] | None) -> None:
        # Before the segments: a running broker's high watermark never passes the end of a log that is listed later.
        needs_line = topic_partition.topic != filenames.METADATA_TOPIC
        root = self.state.root(directory_of(path), needs_high_watermarks=needs_line)
        headers = HeaderReader(self.remembered)
        files = read_partition(path, lambda: self.entries(path), self.tree, only, headers)
        if files is None:
            return
        if kind is not DirectoryKind.LIVE:
            self.say(f"{kind}-directory", path, f"{shown(path)} {_SET_ASIDE[kind]}; it is not read.")
        line, epochs = root.log_starts.get(topic_partition), self.state.leader_epochs(path)
        starts = [line] if line is not None else []
        starts += [epochs[0].start_offset] if epochs else []
        cleaned_to = (root.cleaned or {}).get(topic_partition)
        bounds = KnownBounds(max(starts, default=None), cleaned_to, (root.high_watermarks or {}).get(topic_partition))
        report_aside(files, self.tree, headers, bounds)
        self.state.findings += files.findings
        segments, unreadable = files.segments, files.unreadable
        if not segments and not unreadable:
            self.say("no-segments", path, f"{shown(path)} contains no segment.")
        unnamed: list[int] = []
        if only is not None:
            unnamed = sorted({*(segment.base_offset for segment in segments), *unreadable} - only)
            segments = [segment for segment in segments if segment.base_offset in only]
            unreadable = [base for base in unreadable if base in only]
        is_whole = kind is DirectoryKind.LIVE and needs_line and only is None and any(file.size for file in segments)
        topic_id, broken_identity = self.state.topic_id(path)
        # A new log may not have its file yet. The metadata log gets it again at the broker's start.
        is_lost = is_whole and topic_id is None and not broken_identity
        if is_lost and self.state.identifies_logs(directory_of(path)):
            file = os.path.join(path, filenames.PARTITION_METADATA_FILE)
            self.say("broken-partition-file", file, f"{shown(file)} is missing: {_STRAY}.")
        # If a broker has the file but no line for a partition, it uses 0 (ReplicaManager).
        high_watermark = None if root.high_watermarks is None else root.high_watermarks.get(topic_partition, 0)
        # A clean stop writes all lines. A log is flushed when it is older than the few seconds between two writes.
        recovery_point = (root.recovery_points or {}).get(topic_partition, 0)
        is_old = root.is_clean or recovery_point > 0
        if is_whole and is_old and root.high_watermarks is not None and topic_partition not in root.high_watermarks:
            self.say(
                "no-high-watermark",
                path,
                f"{shown(path)}: {filenames.HIGH_WATERMARK_FILE} has no line for the log, so its high watermark is 0. "
                "Its records are above, and are neither shown nor published.",
            )
        elif is_whole and high_watermark == 0 and recovery_point > (line or 0):
            self.say(
                "no-high-watermark",
                path,
                f"{shown(path)}: {filenames.HIGH_WATERMARK_FILE} states the high watermark 0, although the log was "
                f"flushed up to offset {recovery_point}. Its records are above, and are neither shown nor published.",
            )
        metadata_snapshots: list[tuple[int, str]] = []
        if topic_partition.topic == filenames.METADATA_TOPIC:
            metadata_snapshots = files.metadata_snapshots
            high_watermark = max((end for end, _ in metadata_snapshots), default=0)
        first_base = min([*(segment.base_offset for segment in segments), *unreadable, *unnamed], default=None)
        log = SourceLog(
            topic_partition=topic_partition,
            directory=path,
            kind=kind,
            topic_id=topic_id,
            cluster_id=root.cluster_id,
            segments=tuple(segments),
            high_watermark=high_watermark,
            log_start_offset=max(line or 0, min([s.base_offset for s in segments] + unreadable, default=0)),
            leader_epochs=epochs or (),
            cleaner_checkpoint=cleaned_to,
            unreadable=tuple(unreadable),
            broken_identity=broken_identity,
            named_files=only is not None,
            unnamed=tuple(unnamed),
            snapshots=tuple(files.snapshots),
            recovery_point=None if root.recovery_points is None else root.recovery_points.get(topic_partition),
            is_clean=root.is_clean,
            metadata_snapshots=tuple(metadata_snapshots),
            below_start=()
            if only is not None
            else below_start(
                line, first_base, epochs, files.orphaned, lambda: self.state.has_remote_tier(directory_of(path))
            ),
            high_watermark_ms=None if topic_partition.topic == filenames.METADATA_TOPIC else root.high_watermarks_ms,
            broker_id=root.broker_id,
            lacks_line=needs_line and root.high_watermarks is not None and topic_partition not in root.high_watermarks,
        )
        if epochs and only is None and log.log_start_offset < epochs[0].start_offset and not log.is_metadata:
            # deleteRecords cuts the epochs at once. The log start is written later, by a timer.
            cut_ms = self.tree.modified_ms(os.path.join(path, filenames.LEADER_EPOCH_FILE))
            if cut_ms is not None and root.log_starts_ms is not None and root.log_starts_ms > cut_ms:
                log = replace(log, lost_start=lost_start(log, headers))
        (self.logs if kind is DirectoryKind.LIVE else self.set_aside).append(log)

    def entries(self, path: str) -> Sequence[DirectoryEntry] | None:
        """List a directory by name; None, and a finding, if it cannot be read."""
        try:
            return self.tree.entries(path)
        except OSError as error:
            self.say("unreadable", path, _reason(path, error))
            return None

    def lost_link(self, entry: DirectoryEntry) -> str | None:
        """Why a link with a partition's name does not lead to a directory; None for anything else."""
        is_named = filenames.parse_partition_directory(entry.name) is not None
        return self.not_entered(entry) if is_named and entry.is_symlink() else None

    def not_entered(self, entry: DirectoryEntry) -> str | None:
        """Why an entry with a partition's name is not a readable directory; None if it is one."""
        path = entry.path
        try:
            is_directory = self.tree.is_directory(path)
        except FileNotFoundError:
            return f"{shown(path)} is a link to a missing target. Is a volume not mounted?"
        except OSError as error:
            loops = error.errno == errno.ELOOP
            return f"{shown(path)} is a link to itself." if loops else _reason(path, error)
        if not is_directory:
            return f"{shown(path)} is named like a partition but is a file. Move it away."
        if not entry.is_symlink():
            return None
        target = os.path.realpath(path)
        if os.path.commonpath([target, os.path.realpath(os.path.dirname(path))]) == target:
            return f"{shown(path)} is a link to a directory that contains it; it is not followed."
        return None

    def may_hold_a_log(self, entry: DirectoryEntry) -> bool:
        """Whether a directory with a partition's name contains its files; much else is called `something-1`."""
        if not filenames.looks_like_partition_directory(entry.name) or not _is_directory(entry):
            return False
        try:
            inside = self.tree.entries(entry.path)
        except OSError:
            return True  # its content is unknown, and that needs a finding
        return any(
            filenames.segment_base_offset(each.name) is not None or each.name in _PARTITION_FILES for each in inside
        )

    def knows(self, path: str) -> bool:
        """Whether a directory was read already, under any name; if not, record it as read.

        A directory that a running broker removed since it was listed counts as read, with a finding.
        """
        try:
            key = self.tree.identity(path)
        except OSError as error:
            self.say("unreadable", path, _reason(path, error))
            return True
        whole = absolute(path)
        first = self.seen.get(key)
        if first is None:
            self.seen[key] = whole
            return False
        name, of_first = (filenames.parse_partition_directory(os.path.basename(each)) for each in (whole, first))
        if name is not None and of_first is not None and name != of_first:
            message = f"{shown(path)} is the same directory as {shown(first)}, which is read; this name is ignored."
            self.say("several-copies", path, message)
        return True


_CHECKPOINTS = {
    filenames.HIGH_WATERMARK_FILE,
    filenames.LOG_START_FILE,
    filenames.RECOVERY_POINT_FILE,
    filenames.CLEANER_FILE,
}
_ROOT_FILES = {
    *_CHECKPOINTS,
    filenames.META_PROPERTIES_FILE,
    filenames.CLEAN_SHUTDOWN_FILE,
    filenames.BOOTSTRAP_FILE,
}
_PARTITION_FILES = {filenames.PARTITION_METADATA_FILE, filenames.LEADER_EPOCH_FILE, filenames.QUORUM_STATE_FILE}
_STATE_FILES = (_ROOT_FILES | _PARTITION_FILES) - {
    filenames.CLEAN_SHUTDOWN_FILE,
    filenames.BOOTSTRAP_FILE,
    filenames.QUORUM_STATE_FILE,
}
"""Files that a discovery reads."""
_UNKNOWN = TopicPartition("unknown", 0), DirectoryKind.LIVE
"""The topic partition of segments that were named alone and lie in no partition directory."""
_STRAY = "a KRaft broker treats the log as a stray and creates an empty replica instead"
_MOST_PLACES = 1_000
"""As many directories are looked into for log directories below a path."""
_BROKER_DIRECTORIES = {filenames.REMOTE_INDEX_DIRECTORY}
_SET_ASIDE = {
    DirectoryKind.DELETE: "was queued for deletion by the broker",
    DirectoryKind.FUTURE: "was being moved here from another directory of the broker",
    DirectoryKind.STRAY: "was no longer assigned to its broker",
}


def _what_instead(path: str) -> str:
    """Why a file cannot be read as a segment, with what it is, if that is known."""
    with suppress(LogError, OSError):
        what = what_file(read_range(path, 0, min(HEAD_SIZE, os.path.getsize(path))))
        if what is not None:
            return f"{shown(path)} is not a segment: it {what}."
    return not_a_segment(path)


def _is_directory(entry: DirectoryEntry) -> bool:
    """Whether it is a directory, or a link to one."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _has_leading_zeros(path: str) -> bool:
    return re.search("-0+[0-9]+$", path) is not None


def _illegal_name(path: str) -> str:
    topic, _, number = os.path.basename(path).rpartition("-")
    if number.isdecimal() and filenames.is_legal_topic(topic):
        return f"{shown(path)} is not read: no broker writes {number} as the number of a partition."
    return (
        f"{shown(path)} is not named <topic>-<partition> with a legal topic (1 to 249 of a-z A-Z 0-9 . _ -); "
        "no broker creates such a directory, so it is not read."
    )


def _reason(path: str, error: OSError | ValueError) -> str:
    return f"{shown(path)} cannot be read: {getattr(error, 'strerror', None) or error}."
