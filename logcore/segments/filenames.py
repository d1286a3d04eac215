"""Names on a broker's disk: segment files, files beside them, partition directories, topics.

    <topic>-<partition>                       a partition directory in use          DirectoryKind.LIVE
    <topic>-<partition>.<uuid>-delete         queued for deletion                   DirectoryKind.DELETE
    <topic>-<partition>.<uuid>-future         being moved between directories       DirectoryKind.FUTURE
    <topic>-<partition>.<uuid>-stray          no longer assigned to the broker      DirectoryKind.STRAY
    <20 digits>.log                           record batches, one after the other; the digits are the base offset
    <20 digits>.index .timeindex .txnindex    indexes of the segment of that base offset
    <20 digits>.snapshot                      producer state up to (not including) that offset
    *.deleted *.cleaned *.swap                of a running or interrupted deletion or compaction: see `startup.py`
    <20 digits>-<10 digits>.checkpoint        a KRaft snapshot: exclusive end offset and epoch; in the metadata log only
    version-2/snapshot.<hex> log.<hex>        the data of a ZooKeeper               DirectoryKind.ZOOKEEPER

Sources: Kafka LogFileUtils, LocalLog.parseTopicPartitionName, common.internals.Topic. Kafka lists files whose names
have fewer than 20 digits but then opens the 20-digit name, so such a file is never part of a log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

ZOOKEEPER_DIRECTORY = "version-2"
LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
PRODUCER_SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
CLEANER_FILE = "cleaner-offset-checkpoint"
RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
META_PROPERTIES_FILE = "meta.properties"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"
BOOTSTRAP_FILE = "bootstrap.checkpoint"
QUORUM_STATE_FILE = "quorum-state"
METADATA_TOPIC = "__cluster_metadata"
METADATA_DIRECTORY = "__cluster_metadata-0"
REMOTE_METADATA_TOPIC = "__remote_log_metadata"
REMOTE_INDEX_DIRECTORY = "remote-log-index-cache"

MAX_OFFSET = 2**63 - 1
MAX_PARTITION = 2**31 - 1

_SEGMENT = re.compile(r"([0-9]{20})\.log", re.ASCII)
_SNAPSHOT = re.compile(r"([0-9]{20})\.snapshot", re.ASCII)
_METADATA_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint", re.ASCII)
_ZOOKEEPER = re.compile(r"(snapshot|log)\.([0-9a-f]{1,16})(\.gz|\.snappy)?", re.ASCII)
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_SUFFIXED = re.compile(r"(\S+-\S+)\.\S+-(delete|future|stray)", re.ASCII)
_COORDINATOR_TOPICS = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A topic partition; text form `topic-partition`, ordered by topic, then by partition number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def columns(self) -> dict[str, object]:
        """Topic and partition by their names in JSON and in tables."""
        return {"topic": self.topic, "partition": self.partition}


class DirectoryKind(StrEnum):
    """The use of a partition directory, by its name."""

    LIVE = "live"
    DELETE = "delete"
    FUTURE = "future"
    STRAY = "stray"
    ZOOKEEPER = "zookeeper"
    """No partition: the data of a ZooKeeper, which says what `__cluster_metadata` says of a cluster with KRaft."""


def zookeeper_file(name: str) -> tuple[str, int] | None:
    """What a file of ZooKeeper is, `snapshot` or `log`, and the transaction in its name; None for another name.

    A snapshot has the transactions up to the one in its name. A log begins with that one.
    """
    match = _ZOOKEEPER.fullmatch(name)
    if match is None or int(match[2], 16) > MAX_OFFSET or (match[3] and match[1] == "log"):
        return None
    return match[1], int(match[2], 16)


def segment_base_offset(name: str) -> int | None:
    """The base offset in a segment's file name, or None if it is not a segment's name."""
    match = _SEGMENT.fullmatch(name)
    if match is None:
        return None
    base_offset = int(match[1])
    return base_offset if base_offset <= MAX_OFFSET else None


def snapshot_end_offset(name: str) -> int | None:
    """The exclusive end offset in a producer snapshot's file name, or None if it is not a snapshot's name."""
    match = _SNAPSHOT.fullmatch(name)
    return int(match[1]) if match is not None and int(match[1]) <= MAX_OFFSET else None


def metadata_snapshot(name: str) -> tuple[int, int] | None:
    """The exclusive end offset and the epoch in a KRaft snapshot's file name, or None if it is not such a name."""
    match = _METADATA_SNAPSHOT.fullmatch(name)
    if match is None or int(match[1]) > MAX_OFFSET or int(match[2]) >= 2**31:
        return None
    return int(match[1]), int(match[2])


def segment_file_name(base_offset: int, suffix: str = LOG_SUFFIX) -> str:
    """Build the name of a segment's file, `00000000000000000042.log`.

    Raises:
        ValueError: The offset is not in 0..2^63-1.
    """
    if not 0 <= base_offset <= MAX_OFFSET:
        raise ValueError(f"base offset {base_offset} does not fit a segment's name")
    return f"{base_offset:020d}{suffix}"


def is_legal_topic(name: str) -> bool:
    """Whether a broker would accept the topic name: 1..249 of `[a-zA-Z0-9._-]`, not `.` and not `..`."""
    return name not in (".", "..") and _TOPIC.fullmatch(name) is not None


def is_internal_topic(name: str) -> bool:
    """Whether the topic is one of Kafka's own. They are validated, but published only if a user names them."""
    return name.startswith("__")


def is_coordinator_topic(name: str) -> bool:
    """Whether a coordinator of the broker writes the topic.

    Brokers do not check the sequence numbers of these appends: each transactional offset commit is a batch with base
    sequence 0 (Kafka AppendOrigin.COORDINATOR, ProducerAppendInfo.maybeValidateDataBatch).
    """
    return name in _COORDINATOR_TOPICS


def can_be_tiered(topic: str) -> bool:
    """Whether a broker may copy segments of a topic to remote storage (Kafka UnifiedLog.isRemoteLogEnabled)."""
    return topic not in _COORDINATOR_TOPICS and topic not in (METADATA_TOPIC, REMOTE_METADATA_TOPIC)


def parse_topic_partition(text: str) -> TopicPartition | None:
    """Parse `topic-partition`, split at the last dash; None if a broker would write neither part so."""
    topic, dash, partition = text.rpartition("-")
    if not dash or not is_legal_topic(topic) or _PARTITION.fullmatch(partition) is None:
        return None
    number = int(partition)
    return TopicPartition(topic, number) if number <= MAX_PARTITION else None


def parse_partition_directory(name: str) -> tuple[TopicPartition, DirectoryKind] | None:
    """Parse the name of a partition directory; None if it is not such a name.

    A broker cuts the topic in delete and stray names to fit 255 characters. So the topic may be incomplete.
    """
    suffixed = _SUFFIXED.fullmatch(name)
    if suffixed is not None:
        kind = DirectoryKind(suffixed[2])
        topic_partition = parse_topic_partition(name[: name.rindex(".")])
    else:
        kind = DirectoryKind.LIVE
        topic_partition = parse_topic_partition(name)
    return None if topic_partition is None else (topic_partition, kind)


def looks_like_partition_directory(name: str) -> bool:
    """Whether a name has the form of a partition directory, for any topic: something, a dash, a number."""
    return re.fullmatch(r".*-[0-9]+(\.\S+-(delete|future|stray))?", name, re.ASCII | re.DOTALL) is not None
