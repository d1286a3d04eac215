"""What a broker keeps in a log directory beside the logs: small files with the state of its logs, and its lock.

Each file is read once. One that is absent, unreadable or malformed gives no state. In the last two cases there is a
finding. A file of an object store that fails, or that another object replaced, is an error: the file may be good, and
its logs must wait.

A broker that moves a log to another of its log directories (KIP-113) copies it into a `-future` directory, renames this
to the log's name, and then queues the old directory for deletion. So a log was moved if it is gone from one directory
and is now in another one of the same broker.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from logcore.errors import CorruptIndexError, LogError
from logcore.logs.model.findings import Finding, found
from logcore.segments import filenames
from logcore.segments.filenames import LOCK_FILE, TopicPartition
from logcore.segments.side_files import checkpoints
from logcore.segments.side_files.leader_epochs import EpochEntry
from logcore.storage.files import open_readonly
from logcore.storage.objects.addresses import is_object
from logcore.storage.objects.answers import StoreFailed
from logcore.storage.source_errors import SourceUnreadable, shown
from logcore.storage.source_tree import DirectoryEntry, LocalTree, SourceTree

MAX_SMALL_FILE = 64 << 20
"""Greatest size of a checkpoint in bytes: it has a line for each log."""
MAX_PROPERTIES = 1 << 20
"""Greatest size in bytes of a file of a few properties."""

_WITH_LINES = (checkpoints.parse_offset_checkpoint, checkpoints.parse_leader_epochs)
"""Of files in which a broker ends each line with a newline."""
_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True, slots=True)
class RootState:
    """State in the root files of a log directory.

    `high_watermarks`, `cleaned` and `recovery_points` are None if the file is missing or unusable. `is_clean`: the
    broker left the mark of a clean shutdown. `broker_id` and `directory_id` are from meta.properties.
    `high_watermarks_ms`: when the file of high watermarks was last changed, in epoch milliseconds; None without one.
    `log_starts_ms`: the same of the file of log starts; without one, of the file of recovery points, which a broker
    writes in the same minute. `is_kraft`: the broker is one of KRaft.
    """

    high_watermarks: dict[TopicPartition, int] | None
    log_starts: dict[TopicPartition, int]
    cleaned: dict[TopicPartition, int] | None
    recovery_points: dict[TopicPartition, int] | None
    cluster_id: str | None
    is_clean: bool
    broker_id: str | None = None
    directory_id: str | None = None
    high_watermarks_ms: int | None = None
    log_starts_ms: int | None = None
    is_kraft: bool = False


@dataclass(slots=True)
class StateReader:
    """Reads state files and collects findings. The root files of a log directory are read only once.

    Attributes:
        findings: What was found.
        roots: The state of each log directory.
        unstated: Log directories that were reported for their missing high watermarks.
        tree: Where the files are.
        beside: More directories that may show that the broker has a remote tier.
    """

    findings: list[Finding] = field(default_factory=list)
    roots: dict[str, RootState] = field(default_factory=dict)
    unstated: set[str] = field(default_factory=set)
    tree: SourceTree = field(default_factory=LocalTree)
    beside: Sequence[str] = ()
    _tiered: dict[str, bool] = field(default_factory=dict)
    _identified: dict[str, bool] = field(default_factory=dict)

    def say(self, rule: str, path: str, message: str, nbytes: int | None = None) -> None:
        """Add a finding about a file."""
        self.findings.append(found(rule, message, file=shown(path), nbytes=nbytes))

    def root(self, directory: str, *, needs_high_watermarks: bool = True) -> RootState:
        """Read the root files of a log directory.

        Args:
            directory: The log directory.
            needs_high_watermarks: Report missing high watermarks, once for each log directory.

        Raises:
            StoreFailed: The object store failed.
            SourceChanged: A file changed while it was read, or after it was listed.
        """
        if directory not in self.roots:
            properties = self._properties(directory)
            high_watermarks = self._offsets(directory, filenames.HIGH_WATERMARK_FILE)
            # Before the content, which is then not older.
            written = (filenames.LOG_START_FILE, filenames.RECOVERY_POINT_FILE)
            written_ms = [self.tree.modified_ms(os.path.join(directory, name)) for name in written]
            self.roots[directory] = RootState(
                high_watermarks,
                self._offsets(directory, filenames.LOG_START_FILE) or {},
                self._offsets(directory, filenames.CLEANER_FILE),
                self._offsets(directory, filenames.RECOVERY_POINT_FILE),
                (properties or {}).get("cluster.id"),
                # Only the existence of the file counts, not its content.
                self.tree.exists(os.path.join(directory, filenames.CLEAN_SHUTDOWN_FILE)),
                # A broker's name before KRaft was broker.id.
                (properties or {}).get("node.id", (properties or {}).get("broker.id")),
                (properties or {}).get("directory.id"),
                None
                if high_watermarks is None
                else self.tree.modified_ms(os.path.join(directory, filenames.HIGH_WATERMARK_FILE)),
                next((each for each in written_ms if each is not None), None),
                "node.id" in (properties or {}),
            )
        if needs_high_watermarks and self.roots[directory].high_watermarks is None and directory not in self.unstated:
            self.unstated.add(directory)
            self.say(
                "no-high-watermark",
                directory,
                f"{shown(directory)} has no usable {filenames.HIGH_WATERMARK_FILE}: the end of each log is used as "
                "its high watermark, so uncommitted records may be shown, and committed ones that its end lost are not "
                "missed.",
            )
        return self.roots[directory]

    def inside(self, directory: str) -> Sequence[DirectoryEntry]:
        """What is in a directory; nothing if it cannot be listed."""
        try:
            return self.tree.entries(directory)
        except OSError:
            return ()

    def has_remote_tier(self, directory: str) -> bool:
        """Whether a log directory, or one beside it, has a sign of a remote tier.

        A broker makes its cache of remote indexes in the first of its log directories, when it starts. Partitions of
        the metadata topic may be in any.
        """
        for place in (directory, *self.beside):
            if place not in self._tiered:
                of_metadata = f"{filenames.REMOTE_METADATA_TOPIC}-"
                self._tiered[place] = any(
                    entry.name == filenames.REMOTE_INDEX_DIRECTORY or entry.name.startswith(of_metadata)
                    for entry in self.inside(place)
                )
        return any(self._tiered[place] for place in (directory, *self.beside))

    def identifies_logs(self, directory: str) -> bool:
        """Whether the broker of a log directory writes `partition.metadata`: KRaft, or another log has the file."""
        if directory not in self._identified:
            self._identified[directory] = self.root(directory, needs_high_watermarks=False).is_kraft or any(
                self.tree.exists(os.path.join(entry.path, filenames.PARTITION_METADATA_FILE))
                for entry in self.inside(directory)
                if filenames.parse_partition_directory(entry.name) is not None
            )
        return self._identified[directory]

    def topic_id(self, path: str) -> tuple[str | None, bool]:
        """Return the topic id in a partition directory, and whether its file exists but is unusable."""
        before = len(self.findings)
        name = filenames.PARTITION_METADATA_FILE
        parsed = self._small_file(
            path, name, checkpoints.parse_partition_metadata, rule="broken-partition-file", limit=MAX_PROPERTIES
        )
        return parsed, len(self.findings) > before

    def leader_epochs(self, path: str) -> tuple[EpochEntry, ...] | None:
        """Return the history of leader epochs in a partition directory; None if its file is missing or invalid."""
        name = filenames.LEADER_EPOCH_FILE
        return self._small_file(path, name, checkpoints.parse_leader_epochs, rule="broken-partition-file")

    def _properties(self, directory: str) -> dict[str, str] | None:
        name = filenames.META_PROPERTIES_FILE
        parsed = self._small_file(
            directory, name, checkpoints.parse_meta_properties, rule="no-meta-properties", limit=MAX_PROPERTIES
        )
        lost = [] if parsed is None else checkpoints.missing_properties(parsed)
        if lost:
            path = os.path.join(directory, name)
            self.say("no-meta-properties", path, f"{shown(path)} states no {' and no '.join(lost)}.")
        return parsed

    def _offsets(self, directory: str, name: str) -> dict[TopicPartition, int] | None:
        # Brokers create empty checkpoints and write them much later: an empty file gives no state.
        return self._small_file(directory, name, checkpoints.parse_offset_checkpoint, empty_is_absent=True)

    def _small_file(
        self,
        directory: str,
        name: str,
        parse: Callable[[bytes], _Parsed],
        *,
        rule: str = "broken-root-file",
        empty_is_absent: bool = False,
        limit: int = MAX_SMALL_FILE,
    ) -> _Parsed | None:
        path = os.path.join(directory, name)
        try:
            content = self.tree.small_file(path, limit)
            if content is None or (empty_is_absent and not content):
                return None
            parsed = parse(content)
            if parse in _WITH_LINES and content and not content.endswith(b"\n"):
                what = "does not end with a newline: it was cut short, and its last offset may be too low"
                self.say(rule, path, f"{shown(path)} {what}. It is read all the same.")
            return parsed
        except StoreFailed:
            raise
        except (SourceUnreadable, CorruptIndexError) as error:
            self.say(rule, path, f"{shown(path)} cannot be used: {error.message.rstrip('.')}.")
            return None


def is_moved_by_its_broker(before: str, now: str) -> bool:
    """Whether a log's directory is gone and another one has replaced it.

    A broker moves logs between disks only, so none of them may be on an object store. Both log directories must exist
    and name the same cluster and broker. A copy of a log directory has the same directory id and does not count.

    Args:
        before: Absolute path of the old partition directory.
        now: Absolute path of the new partition directory.
    """
    if is_object(before) or is_object(now) or os.path.lexists(before):
        return False
    reader = StateReader()
    old, new = (reader.root(os.path.dirname(path)) for path in (before, now))
    if None in (old.cluster_id, old.broker_id) or (old.cluster_id, old.broker_id) != (new.cluster_id, new.broker_id):
        return False
    return old.directory_id is None or old.directory_id != new.directory_id


def refuse_if_in_use(log_directory: str) -> None:
    """Refuse a log directory that a running broker uses: it locks the file `.lock`.

    A clean stop removes the file, but a killed broker leaves it. So only the lock counts. It is a POSIX record lock on
    the whole file, as Java's FileChannel.tryLock takes it (Kafka FileLock).

    Raises:
        LogError: A running broker has locked the log directory.
        SourceUnreadable: The lock file cannot be read.
    """
    path = os.path.join(log_directory, LOCK_FILE)
    if not os.path.lexists(path):
        return
    with open_readonly(path) as stream:
        try:
            fcntl.lockf(stream.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            raise LogError(
                "a running broker uses this log directory, and changes its files",
                file=shown(path),
                advice="Stop the broker, or take a copy or a snapshot of the directory.",
            ) from error
