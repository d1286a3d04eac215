"""A source as it was seen: its logs, the files of each, and the state that the broker keeps beside them.

Values only; `logcore.storage.discovery` fills them. All are read at one moment. Decisions (see
`logcore.logs.growth.growth`) use these values and never read again.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from logcore.logs.model.findings import Finding
from logcore.logs.model.remote_tier import remote_range, removed_range
from logcore.segments.filenames import LOG_SUFFIX, METADATA_TOPIC, DirectoryKind, TopicPartition
from logcore.segments.side_files.leader_epochs import EpochEntry


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment's file as it was seen.

    Attributes:
        base_offset: The segment's base offset.
        path: May end in `.log.swap`: a broker was stopped while it replaced segments by a cleaned one.
        size: In bytes.
        modified_ms: The mtime in epoch milliseconds.
        inode: The file's inode; 0 for an object.
        beside: Paths of the files that belong to it, by suffix (`.index`, `.timeindex`, `.txnindex`, `.snapshot`); None
            if they were not searched.
        etag: Names the content of an object; empty if its store states none. None for a file of a disk.
        end: Position after the last byte that belongs to the log; None: the end of the file. Only a remote segment ends
            earlier, where the next segment begins inside of it.
        chunk_map: Of a segment in chunks, what its manifest says (`logcore.remote.chunked.chunk_map`); None: readers
            open the manifest.
    """

    base_offset: int
    path: str
    size: int
    modified_ms: int
    inode: int
    beside: tuple[tuple[str, str], ...] | None = None
    etag: str | None = None
    end: int | None = None
    chunk_map: bytes | None = field(default=None, repr=False)

    @property
    def log_bytes(self) -> int:
        """Bytes of it that belong to the log."""
        return self.size if self.end is None else self.end

    def side_file(self, suffix: str) -> str | None:
        """Path of the segment's file with this suffix; None if there is none. It may have been removed since."""
        if self.beside is None:
            return self.path.removesuffix(LOG_SUFFIX) + suffix
        return next((path for kind, path in self.beside if kind == suffix), None)


@dataclass(frozen=True, slots=True)
class SourceLog:
    """One topic partition in one directory.

    Attributes:
        topic_partition: The partition.
        directory: Its path.
        kind: The directory's use.
        topic_id: From partition.metadata; None before Kafka 2.8, and if the file is missing.
        cluster_id: From meta.properties.
        segments: Sorted by base offset.
        high_watermark: None if no file has it; then the log end is used.
        log_start_offset: From the checkpoint, but never below the first segment's base.
        leader_epochs: From leader-epoch-checkpoint.
        cleaner_checkpoint: The first offset that the broker's cleaner had not reached; None if no file has it.
        unreadable: Base offsets of segments that exist but cannot be read; they are not among `segments`.
        broken_identity: partition.metadata exists and is invalid, so the topic id is unknown.
        named_files: The user named the segments one by one.
        unnamed: Base offsets of the segments beside them that the user did not name.
        snapshots: Producer snapshots as (exclusive end offset, path), ascending.
        recovery_point: First offset that may not be on disk; None if no file has it.
        is_clean: Whether the broker wrote its clean-shutdown marker; None if that was not checked.
        below_start: What is known of the offsets between the log start and the first segment, as (start, end, why); see
            `logcore.logs.model.remote_tier`.
        metadata_snapshots: KRaft snapshots as (exclusive end offset, path), ascending.
        high_watermark_ms: The mtime of the file with the high watermark; None without one.
        local_start_offset: Where the local segments begin, if remote segments are before them; else None.
        tiered_end_offset: After the last offset that a remote segment has, also if local segments have it too; None if
            remote storage was not read, or has nothing of the log.
        broker_id: The broker of the log directory, from meta.properties; None if it is not stated.
        lost_start: Where the log begins by its leader epochs, if no file states it any more; else None.
        lacks_line: Whether the file with high watermarks has no line of the log, so that its high watermark is 0.
    """

    topic_partition: TopicPartition
    directory: str
    kind: DirectoryKind
    topic_id: str | None
    cluster_id: str | None
    segments: tuple[SegmentFile, ...]
    high_watermark: int | None
    log_start_offset: int
    leader_epochs: tuple[EpochEntry, ...] = ()
    cleaner_checkpoint: int | None = None
    unreadable: tuple[int, ...] = ()
    broken_identity: bool = False
    named_files: bool = False
    unnamed: tuple[int, ...] = ()
    snapshots: tuple[tuple[int, str], ...] = ()
    recovery_point: int | None = None
    is_clean: bool | None = None
    below_start: tuple[tuple[int, int, str], ...] = ()
    metadata_snapshots: tuple[tuple[int, str], ...] = ()
    high_watermark_ms: int | None = None
    local_start_offset: int | None = None
    tiered_end_offset: int | None = None
    broker_id: str | None = None
    lost_start: int | None = None
    lacks_line: bool = False

    @property
    def is_metadata(self) -> bool:
        """Whether this is KRaft's metadata log. It has no line in any checkpoint: its latest snapshot covers what is
        committed, and the end of that snapshot is its high watermark.
        """
        return self.topic_partition.topic == METADATA_TOPIC

    @property
    def remote(self) -> tuple[int, int, str] | None:
        """The offsets that are only in the remote tier, or perhaps there, as (start, end exclusive, evidence); None if
        there are none.
        """
        return remote_range(self.below_start)

    @property
    def removed(self) -> tuple[int, int, str] | None:
        """The missing offsets below the first segment, in the same form; None if there are none."""
        return removed_range(self.below_start)

    @property
    def whole_log_start_offset(self) -> int:
        """Where the log begins for its broker: in the remote tier, if it has a part there."""
        return self.log_start_offset if self.remote is None else self.remote[0]

    def is_sealed(self, segment: SegmentFile) -> bool:
        """Whether a later segment follows, so that the broker no longer writes to this one."""
        is_before_unreadable = any(base > segment.base_offset for base in self.unreadable)
        return is_before_unreadable or self.next_base_offset(segment) is not None

    def next_base_offset(self, segment: SegmentFile) -> int | None:
        """Base offset of the segment that follows, even if it was not named; None for the last.

        What cannot be read does not bound the segment before it: it may be a directory, which a broker ignores.
        """
        at = bisect_right(self.segments, segment.base_offset, key=lambda other: other.base_offset)
        read = [other.base_offset for other in self.segments[at : at + 1]]
        return min((*read, *(base for base in self.unnamed if base > segment.base_offset)), default=None)


@dataclass(frozen=True, slots=True)
class Discovery:
    """The result of a search at some paths.

    Attributes:
        logs: In the order of the paths, then of topic partitions. The same topic partition may occur twice, from two
            directories.
        findings: What was found that is not a log, or could not be read.
        set_aside: Logs in -delete, -future and -stray directories. They are listed and not read.
        zookeepers: The data of ZooKeepers, as logs of `__cluster_metadata`: snapshots, and logs by first transaction.
    """

    logs: tuple[SourceLog, ...]
    findings: tuple[Finding, ...]
    set_aside: tuple[SourceLog, ...] = ()
    zookeepers: tuple[SourceLog, ...] = ()
