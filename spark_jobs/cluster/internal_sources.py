"""The logs at the sources, by cluster, and the words with which rows name them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from logcore.columns.records_columns import MAX_TIMESTAMP_MS
from logcore.logs.model.sources import SourceLog
from logcore.reading.chosen_logs import find_logs
from logcore.reading.compared_copies import ComparedCopies
from logcore.reading.read_options import Notes, ReadOptions
from logcore.segments.filenames import DirectoryKind
from logcore.topics.internal_topics import InternalTopic
from spark_jobs.groups import by_key
from spark_jobs.lake.cluster_columns import COMMITTED, TENTATIVE, UNKNOWN_CLUSTER

NOT_READ = ("unreadable", "source-changed")
"""Rules of findings about a segment that was not read to its end."""

Row = dict[str, object]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ClusterLogs:
    """The logs of a cluster.

    Attributes:
        cluster: Its id, or the name that is used in its place.
        logs: One of each topic partition: of several copies the one that has its history. None if that is not known.
    """

    cluster: str
    logs: tuple[SourceLog, ...]

    def of(self, topic: InternalTopic) -> tuple[SourceLog, ...]:
        """Return the logs of an internal topic."""
        return tuple(log for log in self.logs if log.topic_partition.topic == topic)

    def place(self, log: SourceLog) -> Row:
        """Return the columns that name a log of an internal topic."""
        return {"internal_log": f"{self.cluster}/{log.topic_partition}", "cluster": self.cluster}


def logs_at(sources: Sequence[str]) -> tuple[SourceLog, ...]:
    """Find the logs at the sources, all replicas of each, and the data of ZooKeepers as logs of `__cluster_metadata`.

    The job `ingest` reports what is wrong with the paths.

    Args:
        sources: Paths and addresses.

    Raises:
        AddressError: The name of an object store cannot be used.
        LogError: The package that reads object stores is not installed.
    """
    found = find_logs(ReadOptions(tuple(sources)), Notes(), with_zookeeper=True)
    return tuple(log for log in found if log.kind in (DirectoryKind.LIVE, DirectoryKind.ZOOKEEPER))


def clusters_of(logs: Iterable[SourceLog], name: str | None) -> list[ClusterLogs]:
    """Return logs by cluster.

    Args:
        logs: All replicas at the sources.
        name: Is used in place of the id that a source states; None: the id is used.
    """
    found = by_key(logs, lambda log: name or log.cluster_id or UNKNOWN_CLUSTER)
    return [ClusterLogs(cluster, ComparedCopies(logs).of_each(logs)[0]) for cluster, logs in sorted(found.items())]


def standing(log: SourceLog) -> str:
    """Return whether what a log says below its high watermark is known to be committed."""
    return TENTATIVE if log.high_watermark is None else COMMITTED


def time_of(time_ms: int | None) -> datetime | None:
    """Return a time in epoch milliseconds; None if it is negative or not before the year 10000."""
    if time_ms is None or not 0 <= time_ms <= MAX_TIMESTAMP_MS:
        return None
    return _EPOCH + timedelta(milliseconds=time_ms)
