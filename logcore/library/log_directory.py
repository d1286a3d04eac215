"""A broker's log directory: the logs of many topic partitions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from logcore.errors import LogError
from logcore.library.damage import OnFinding
from logcore.library.filters import RecordFilter
from logcore.library.log import Log, concerning, logs_at, not_among, same_path
from logcore.logs.model.findings import Finding
from logcore.reading.consumer_log import ConsumerLog
from logcore.reading.read_options import HighWatermark, IsolationLevel, ReadRules
from logcore.storage.discovery import shown

if TYPE_CHECKING:
    import pyarrow as pa

    from logcore.library.validation import ValidationReport


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """The logs of a log directory, or the chosen ones of them.

    Attributes:
        path: The path that was opened.
        rules: Which offsets of the logs are visible.
        logs: By topic and partition. Logs that a broker was deleting, moving or had set aside are left out.
        findings: The findings of the directory listing. Each read reports them first.

    Example:
        >>> directory = logcore.open_log_directory("/var/lib/kafka")
        >>> sorted({log.topic for log in directory.logs})
        ['orders', 'payments']
    """

    path: str
    rules: ReadRules
    logs: tuple[Log, ...]
    findings: tuple[Finding, ...] = ()

    def log(self, topic: str, partition: int) -> Log:
        """Return the log of one topic partition.

        Args:
            topic: Its topic.
            partition: Its number.

        Raises:
            LogError: It is not among the logs.
        """
        for log in self.logs:
            if (log.topic, log.partition) == (topic, partition):
                return log
        raise LogError(not_among(topic, partition, {log.topic for log in self.logs}), file=shown(self.path))

    def record_batches(
        self,
        columns: Iterable[str] | None = None,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        key: bytes | None = None,
        on_finding: OnFinding | None = None,
    ) -> pa.RecordBatchReader:
        """Return the visible records of all logs, one log after another, as a stream of Arrow batches.

        Args:
            columns: Names of `RECORDS_SCHEMA`, in the wanted order; None: all. Other columns are not decoded.
            start_offset: The lowest offset of each log. It is a filter: no log is out of range.
            end_offset: As for `Log.records`.
            since: As for `Log.records`.
            until: As for `Log.records`.
            key: As for `Log.records`.
            on_finding: Gets the findings; see `Log`. It is called in the thread of the query engine.

        Returns:
            A reader that can be read once.

        Raises:
            ValueError: There is no such column, or a bound is no offset or time.
            TypeError: The columns are one string, or the key is not bytes.
            DamageFound: While reading, without `on_finding`. A query engine may turn it into an error of its own.

        Example:
            >>> records = logcore.open_log_directory("/var/lib/kafka").record_batches(["topic", "offset", "timestamp"])
            >>> duckdb.sql("select topic, count(*) from records group by topic")
        """
        from logcore.library.record_columns import reader_of

        chosen = RecordFilter.of(start_offset, end_offset, since, until, key)
        return reader_of([log._log for log in self.logs], chosen, columns, on_finding, self.findings)

    def validate(self, *, compacted: bool = False) -> ValidationReport:
        """Apply every rule to every byte of the logs and of the files beside them, as `loglake verify` does.

        Args:
            compacted: The topics are compacted, so that gaps between offsets are no losses.

        Returns:
            The findings, and the sums of all bytes. Damage is a finding here, and not an error.
        """
        from logcore.library.validation import validated

        return validated([log._source for log in self.logs], self.findings, compacted)


def open_log_directory(
    path: str | os.PathLike[str],
    *,
    topics: Iterable[str] = (),
    partitions: Iterable[int] = (),
    isolation_level: IsolationLevel = "read_uncommitted",
    high_watermark: HighWatermark = "checkpoint",
    show_all: bool = False,
) -> LogDirectory:
    """Open the logs of a broker's log directory (`log.dirs`).

    Args:
        path: The directory of a running or stopped broker, or a copy of it.
        topics: Names or patterns such as `orders-*`. Empty: all topics.
        partitions: Numbers of partitions. Empty: all partitions.
        isolation_level: As for `open_partition`; so are the other rules. They apply to all logs.
        high_watermark: As for `open_partition`.
        show_all: As for `open_partition`.

    Raises:
        LogError: There is no log directory at the path, or none of its logs is chosen.
        ValueError: There is no such isolation level or high watermark.

    Example:
        >>> logcore.open_log_directory("/var/lib/kafka", topics=["orders"]).logs
    """
    directory = os.fspath(path)
    rules = ReadRules(isolation_level, high_watermark, show_all)
    globs = (topics,) if isinstance(topics, str) else tuple(topics)
    found, findings = logs_at(directory, rules, globs, tuple(partitions))
    if any(log.named_files or same_path(log.directory, directory) for log in found):
        raise LogError("it is no log directory", file=shown(directory), advice="Use open_partition or open_segment.")
    refusal = next((each for each in findings if each.rule in _REFUSALS and each.file == shown(directory)), None)
    if refusal is not None:
        raise LogError(refusal.message)
    logs = (
        Log(log.directory, rules, concerning(log, directory, findings), _log=ConsumerLog(log, rules)) for log in found
    )
    return LogDirectory(directory, rules, tuple(logs), findings)


_REFUSALS = frozenset(
    {"path-not-found", "unreadable", "empty-directory", "not-a-log-directory", "not-a-segment", "illegal-topic-name"}
)
"""Rules of findings that mean that there is nothing to open at a path."""
