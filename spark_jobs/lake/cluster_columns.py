"""The declaration of the tables that say what a cluster's internal topics say: names, columns, statistics, row order.

``table_specs`` makes tables of them. The job ``cluster`` writes them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from logcore.columns.records_columns import Column

_STRING, _INT32, _INT64, _BOOL = pa.string(), pa.int32(), pa.int64(), pa.bool_()
_TIME, _NUMBERS, _TEXTS = pa.timestamp("us", tz="UTC"), pa.list_(pa.int32()), pa.list_(pa.string())
_LONG_NUMBERS = pa.list_(pa.int64())

SOURCE = "internal_log"
"""The column by which rows are replaced: all rows of one log of an internal topic."""


@dataclass(frozen=True, slots=True)
class ClusterTable:
    """A table of the cluster.

    Attributes:
        identity: Columns that name the thing that a row is about, after the internal log.
    """

    name: str
    one_row: str
    columns: tuple[Column, ...]
    identity: tuple[str, ...]

    @property
    def row_order(self) -> tuple[str, ...]:
        """Columns by which rows are sorted: no two rows have the same values of them."""
        begins = [column.name for column in self.columns if column is _VALIDITY[0]]  # of a table with a history
        return (SOURCE, *self.identity, *begins)


COMMITTED, TENTATIVE, DOUBTFUL = "committed", "tentative", "doubtful"
"""What is known of a row; :data:`_STANDING` describes each."""
UNKNOWN_CLUSTER = "unknown"
"""Used for the id of a cluster until a run knows it."""

_PLACE = (
    Column(SOURCE, _STRING, "log of the internal topic that says it: `<cluster>/<topic>-<partition>`"),
    Column("cluster", _STRING, "cluster id; the name that a run gave, or `unknown`, as long as no source states it"),
)
_STANDING = Column(
    "standing",
    _STRING,
    "`committed`, or `tentative`: the source does not say that the cluster has committed it. In the metadata log, that "
    "is what the latest snapshot does not cover; in other logs, there is no high watermark. A later run that finds the "
    "same record committed says so; if the source no longer has the record, the row stays tentative. `doubtful`: "
    "records of the metadata log are lost or cannot be read, and one of them may have changed it",
)
_GROUP = Column("group", _STRING, "group")
_TOPIC = Column("topic", _STRING, "topic name")
_PARTITION = Column("partition", _INT32, "partition number")
_TOPIC_ID = Column("topic_id", _STRING, "topic id")
_COMMIT = (
    Column("committed_offset", _INT64, "the committed offset: the next one that the group reads"),
    Column("leader_epoch", _INT32, "leader epoch of the last record that was read; null where there is none"),
    Column("metadata", _STRING, "text of the committer"),
    Column("commit_time", _TIME, "when it was committed"),
    Column("record_offset", _INT64, "offset of the record in the internal log"),
)
_VALIDITY = (
    Column("valid_from_offset", _INT64, "offset in the metadata log from which on it counts, as far as it is known"),
    Column("valid_from_time", _TIME, "time of that record; null where it is not known"),
    Column("valid_to_offset", _INT64, "offset at which it no longer counts; null while it does"),
    Column("valid_to_time", _TIME, "time of that record; null while it counts, or not known"),
    _STANDING,
)

CLUSTER_TABLES = (
    ClusterTable(
        "cluster_offset_commits",
        "A commit of an offset by a group, or its deletion, as a `read_committed` reader of `__consumer_offsets` sees "
        "it; rows stay when the cluster removes the record. Commits in damaged bytes get rows when they become "
        "readable.",
        (
            *_PLACE,
            _GROUP,
            _TOPIC,
            _PARTITION,
            *_COMMIT,
            Column("is_deleted", _BOOL, "whether the record deletes the group's offset; then there is no commit"),
            Column("is_transactional", _BOOL, "whether it was part of a transaction, which committed"),
            _STANDING,
        ),
        ("record_offset",),
    ),
    ClusterTable(
        "cluster_group_offsets",
        "The latest committed offset of a group for a topic partition, and its lag.",
        (
            *_PLACE,
            _GROUP,
            _TOPIC,
            _PARTITION,
            *_COMMIT,
            Column("high_watermark", _INT64, "high watermark of the log, or its end; null if the source has no log"),
            Column("last_stable_offset", _INT64, "last stable offset, by the transactions in the lake; null as before"),
            Column("lag", _INT64, "offsets up to the high watermark"),
            Column("lag_read_committed", _INT64, "offsets up to the last stable offset"),
            _STANDING,
        ),
        ("group", "topic", "partition"),
    ),
    ClusterTable(
        "cluster_groups",
        "A group as its coordinator loads it.",
        (
            *_PLACE,
            _GROUP,
            Column("type", _STRING, "`Classic`, `Consumer`, `Share` or `Streams`"),
            Column("state", _STRING, "as a broker describes it; null for `Streams`, which is not interpreted"),
            Column("epoch", _INT32, "generation or epoch; null if there are only offsets"),
            Column("protocol_type", _STRING, "protocol type of a classic group; null of others"),
            Column("assignor", _STRING, "protocol or assignor; null if none is named"),
            Column("members", _INT32, "number of members"),
            _STANDING,
        ),
        ("group",),
    ),
    ClusterTable(
        "cluster_group_members",
        "A member of a group with its assignment.",
        (
            *_PLACE,
            _GROUP,
            Column("member_id", _STRING, "member id"),
            Column("instance_id", _STRING, "instance id of a static member; null of others"),
            Column("client_id", _STRING, "client id"),
            Column("host", _STRING, "host of the client"),
            Column("assignment", _TEXTS, "assigned partitions as `topic-partition`, ascending"),
            _STANDING,
        ),
        ("group", "member_id"),
    ),
    ClusterTable(
        "cluster_transactional_ids",
        "A transactional id and the state of its latest transaction.",
        (
            *_PLACE,
            Column("transactional_id", _STRING, "transactional id"),
            Column("producer_id", _INT64, "producer id"),
            Column("producer_epoch", _INT32, "producer epoch"),
            Column("timeout_ms", _INT32, "transaction timeout, milliseconds"),
            Column("state", _STRING, "state by Kafka's name, such as `Ongoing` or `CompleteCommit`"),
            Column("partitions", _TEXTS, "partitions of the open transaction as `topic-partition`, ascending"),
            Column("last_update_time", _TIME, "when the state changed"),
            Column("start_time", _TIME, "when the transaction began; null without one"),
            Column("record_offset", _INT64, "offset of the record in the internal log"),
            _STANDING,
            Column(
                "other_producer_ids",
                _LONG_NUMBERS,
                "its other producer ids that records of the internal log name, ascending: earlier ones, and while a "
                "transaction ends, the one that follows",
            ),
        ),
        ("transactional_id",),
    ),
    ClusterTable(
        "cluster_topics",
        "A topic, from its creation to its deletion.",
        (*_PLACE, _TOPIC, _TOPIC_ID, *_VALIDITY),
        ("topic", "topic_id"),
    ),
    ClusterTable(
        "cluster_topic_configs",
        "A setting that was made for a topic, while it had one value. Defaults of brokers are not in the metadata.",
        (
            *_PLACE,
            _TOPIC,
            Column("name", _STRING, "name of the setting"),
            Column("value", _STRING, "its value; `(redacted)` for a secret"),
            *_VALIDITY,
        ),
        ("topic", "name"),
    ),
    ClusterTable(
        "cluster_partitions",
        "The state of a partition: leader, replicas and directories, while they were the same.",
        (
            *_PLACE,
            _TOPIC,
            _TOPIC_ID,
            _PARTITION,
            Column("leader", _INT32, "broker that leads; -1 none"),
            Column("leader_epoch", _INT32, "leader epoch"),
            Column("partition_epoch", _INT32, "partition epoch, counted up with every change"),
            Column("replicas", _NUMBERS, "brokers; the first is the preferred leader"),
            Column("isr", _NUMBERS, "brokers in sync"),
            Column("removing_replicas", _NUMBERS, "brokers that a reassignment removes"),
            Column("adding_replicas", _NUMBERS, "brokers that a reassignment adds"),
            Column("directories", _TEXTS, "directory id of each replica"),
            Column("leader_recovery_state", _INT32, "1 after an unclean election until the leader recovered, else 0"),
            Column("eligible_leader_replicas", _NUMBERS, "brokers outside of `isr` that may lead without loss"),
            Column("last_known_elr", _NUMBERS, "such brokers that stopped uncleanly"),
            *_VALIDITY,
        ),
        ("topic", "topic_id", "partition"),
    ),
    ClusterTable(
        "cluster_brokers",
        "The registration of a broker, while it was the same.",
        (
            *_PLACE,
            Column("broker", _INT32, "broker id"),
            Column("epoch", _INT64, "broker epoch"),
            Column("incarnation_id", _STRING, "id of the process"),
            Column("end_points", _TEXTS, "listeners as `name://host:port`"),
            Column("rack", _STRING, "rack; null where none is set"),
            Column("is_fenced", _BOOL, "whether it is fenced"),
            Column("is_in_controlled_shutdown", _BOOL, "whether it is shutting down"),
            Column("log_dirs", _TEXTS, "ids of its log directories"),
            *_VALIDITY,
        ),
        ("broker",),
    ),
    ClusterTable(
        "cluster_features",
        "A feature of the cluster, while it had one level.",
        (*_PLACE, Column("name", _STRING, "name"), Column("level", _INT32, "finalized level"), *_VALIDITY),
        ("name",),
    ),
    ClusterTable(
        "cluster_remote_segments",
        "A segment in remote storage, as `__remote_log_metadata` describes it.",
        (
            *_PLACE,
            _TOPIC,
            _TOPIC_ID,
            _PARTITION,
            Column("segment_id", _STRING, "id of the copy of the segment"),
            Column("start_offset", _INT64, "first offset"),
            Column("end_offset", _INT64, "offset after the last one; Kafka records the last one"),
            Column("size", _INT64, "bytes of the log file"),
            Column("state", _STRING, "such as `COPY_SEGMENT_FINISHED`; only this one is readable"),
            Column("max_timestamp", _INT64, "greatest record timestamp, epoch milliseconds; -1 unknown"),
            Column("event_time", _TIME, "when the state was recorded; null if unknown"),
            Column("broker", _INT32, "broker that recorded it; -1 unknown"),
            _STANDING,
        ),
        ("topic_id", "partition", "segment_id"),
    ),
)
