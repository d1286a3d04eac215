"""The tasks of the job: each reads one internal log, without the tables of the lake.

What a task returns is compared with the tables later, in one process. A log of `__consumer_offsets` has two tasks:
commits are read from where the table ends, and groups from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from logcore.logs.model.findings import Finding
from logcore.logs.model.sources import SourceLog
from logcore.reading.internal_topics.cluster_metadata import Moment
from logcore.reading.internal_topics.consumer_groups import group_states
from logcore.reading.notes import Notes
from logcore.reading.read_options import ReadRules
from spark_jobs.cluster.commit_rows import read_commits
from spark_jobs.cluster.coordinator_rows import remote_rows, transactional_rows
from spark_jobs.cluster.internal_sources import ClusterLogs
from spark_jobs.cluster.metadata_rows import metadata_rows
from spark_jobs.reads import Reads


class Subject(StrEnum):
    """What is read from an internal log."""

    COMMITS = "commits"
    GROUPS = "groups"
    TRANSACTIONAL_IDS = "transactional ids"
    REMOTE_SEGMENTS = "remote segments"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class ReadTask:
    """An internal log to read.

    Attributes:
        subject: What of it.
        cluster: Its cluster, as rows name it.
        log: The log.
        start: The first offset of commits.
    """

    subject: Subject
    cluster: str
    log: SourceLog
    start: int = 0

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(str(self.log.topic_partition), self.log.directory, self.start)

    @property
    def size(self) -> int:
        """Bytes of the segments that it reads."""
        first = max((each.base_offset for each in self.log.segments if each.base_offset <= self.start), default=0)
        return sum(each.size for each in self.log.segments if each.base_offset >= first)


@dataclass(frozen=True, slots=True)
class ReadLog:
    """What a task read: the value that its reader returns, and the findings."""

    value: Any
    findings: tuple[Finding, ...]


def read_log(task: ReadTask) -> ReadLog:
    """Read an internal log. Runs in a worker."""
    notes = Notes()
    value = _READERS[task.subject](ClusterLogs(task.cluster, (task.log,)), task, notes)
    return ReadLog(value, tuple(notes.findings))


_READERS: Mapping[Subject, Callable[[ClusterLogs, ReadTask, Notes], Any]] = MappingProxyType(
    {
        Subject.COMMITS: lambda cluster, task, notes: read_commits(cluster, task.log, task.start, notes),
        Subject.GROUPS: lambda _, task, notes: group_states(task.log, notes, Moment(), ReadRules()),
        Subject.TRANSACTIONAL_IDS: lambda cluster, task, notes: transactional_rows(cluster, task.log, notes),
        Subject.REMOTE_SEGMENTS: lambda cluster, task, notes: remote_rows(cluster, task.log, notes),
        Subject.METADATA: lambda cluster, task, notes: metadata_rows(cluster, task.log, notes),
    }
)
