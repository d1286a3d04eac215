"""What was seen of a source: its logs, the files of each, and the state the broker keeps beside them.

Values only; `logcore.storage.local` fills them. They are read in one moment, and what is decided from them (see
`logcore.logs.growth.growth`) never looks again.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from logcore.logs.model.findings import Finding
from logcore.logs.model.remote_tier import remote_range
from logcore.segments.filenames import LOG_SUFFIX, METADATA_TOPIC, DirectoryKind, TopicPartition
from logcore.segments.side_files.leader_epochs import EpochEntry


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment's file as it was seen. size in bytes, modified_ms in epoch milliseconds.

    The path may end in `.log.swap`: a broker was stopped while it put a cleaned segment in place. beside: paths of the
    files that belong to it, by suffix (`.index`, `.timeindex`, `.txnindex`, `.snapshot`); None where nobody looked.
    """

    base_offset: int
    path: str
    size: int
    modified_ms: int
    inode: int
    beside: tuple[tuple[str, str], ...] | None = None

    def side_file(self, suffix: str) -> str | None:
        """Path of the file of this suffix that belongs to the segment; None if there is none. It may be gone since."""
        if self.beside is None:
            return self.path.removesuffix(LOG_SUFFIX) + suffix
        return next((path for kind, path in self.beside if kind == suffix), None)


@dataclass(frozen=True, slots=True)
class SourceLog:
    """One topic partition in one directory.

    topic_id: from partition.metadata; None before Kafka 2.8 and where the file is missing. cluster_id: from
    meta.properties. segments: sorted by base offset. high_watermark: None where nothing states it, and then the log
    end stands in for it; high_watermark_ms: when the file that states it was changed, None without one.
    log_start_offset: the checkpoint's, but never below the first segment's base; below_start: what is known of the
    offsets between these two, as (start, end, why); see `logcore.logs.model.remote_tier`.
    metadata_snapshots: KRaft snapshots as (exclusive end offset, path), ascending.
    cleaner_checkpoint: first offset the broker's cleaner had not reached; None where nothing states it.
    unreadable: base offsets of segments that are there but cannot be read; they are not among `segments`.
    broken_identity: partition.metadata is there and cannot be understood, so whose log this is cannot be told.
    named_files: the segments were named one by one; unnamed: base offsets of those beside them that were not.
    snapshots: producer snapshots as (exclusive end offset, path), ascending. recovery_point: first offset not known to
    be on disk, None where nothing states it. is_clean: the broker said so when it stopped; None where nobody looked.
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

    @property
    def is_metadata(self) -> bool:
        """Whether this is KRaft's metadata log, which has no line in any checkpoint: what its newest snapshot covers is
        committed, and its high watermark is that snapshot's end."""
        return self.topic_partition.topic == METADATA_TOPIC

    @property
    def remote(self) -> tuple[int, int] | None:
        """The offsets (start, end exclusive) that are in the remote tier alone; None if there are none."""
        return remote_range(self.below_start)

    @property
    def whole_log_start_offset(self) -> int:
        """Where the log begins for its broker: in the remote tier, if it has a part there."""
        return self.log_start_offset if self.remote is None else self.remote[0]

    def is_sealed(self, segment: SegmentFile) -> bool:
        """Whether a later segment follows, so that the broker no longer writes to this one."""
        return self.next_base_offset(segment) is not None

    def next_base_offset(self, segment: SegmentFile) -> int | None:
        """Base offset of the segment that follows, whether or not it was named or can be read; None for the last."""
        at = bisect_right(self.segments, segment.base_offset, key=lambda other: other.base_offset)
        read = [other.base_offset for other in self.segments[at : at + 1]]
        others = (base for base in (*self.unreadable, *self.unnamed) if base > segment.base_offset)
        return min((*read, *others), default=None)


@dataclass(frozen=True, slots=True)
class Discovery:
    """What lies at some paths.

    logs: in the order of the paths, then of topic partitions; the same topic partition may come twice, from two
    directories. set_aside: logs in -delete, -future and -stray directories, which are listed and left alone.
    findings: what was seen that is no log, or could not be read.
    """

    logs: tuple[SourceLog, ...]
    findings: tuple[Finding, ...]
    set_aside: tuple[SourceLog, ...] = ()
