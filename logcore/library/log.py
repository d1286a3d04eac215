"""One log, opened by the path of its partition directory or of one of its segment files.

The logs at a path, as a caller of the library opens them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from logcore.errors import LogError
from logcore.library.damage import OnFinding, Reports, read_lazily
from logcore.library.filters import RecordFilter, epoch_ms
from logcore.library.log_meaning import TransactionReport, ledger_of, read_meaning, transactions_of
from logcore.logs import lookup
from logcore.logs.lookup import OffsetAnswer
from logcore.logs.model.findings import Finding
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.offset_ledger import LedgerRange
from logcore.logs.model.sources import SourceLog
from logcore.reading.chosen_logs import concerns_choice, find_logs, root_of
from logcore.reading.consumer_log import ConsumerLog, LogBatch, OffsetReset, batches_of
from logcore.reading.nearest_names import no_such_topic
from logcore.reading.read_options import HighWatermark, IsolationLevel, Notes, ReadOptions, ReadRules
from logcore.records.model import Record
from logcore.storage.discovery import discover, shown
from logcore.storage.objects.addresses import absolute

if TYPE_CHECKING:
    import pyarrow as pa

    from logcore.library.validation import ValidationReport


def logs_at(
    path: str, rules: ReadRules, topics: tuple[str, ...] = (), partitions: tuple[int, ...] = ()
) -> tuple[tuple[SourceLog, ...], tuple[Finding, ...]]:
    """Find the chosen live logs at a path.

    Args:
        path: A segment file, a partition directory or a log directory.
        rules: Which offsets are visible.
        topics: Patterns such as `orders-*`. Empty: all topics.
        partitions: Numbers. Empty: all partitions.

    Returns:
        The logs, by topic partition, and the findings about the path.

    Raises:
        LogError: A pattern matches no topic, no log has one of the numbers, or the path is on an object store and the
            package that reads it is not installed.
        AddressError: The name of an object store, or a setting of its access, cannot be used.
    """
    notes = Notes()
    is_unused = rules.show_all or rules.high_watermark != "checkpoint"
    quiet = ["nothing-chosen", *(["no-high-watermark"] if is_unused else [])]
    selection = LogSelection(topics, partitions)
    logs = find_logs(ReadOptions(paths=(path,), selection=selection, rules=rules), notes, quiet=quiet)
    names = [log.topic_partition for log in logs]
    if selection.unmatched_topics({name.topic for name in names}):
        known = {log.topic_partition.topic for log in discover([path]).logs}
        for pattern in selection.unmatched_topics(known):
            raise LogError(no_such_topic(pattern, known), file=shown(path))
    for number in selection.unmatched_partitions({name.partition for name in names}):
        raise LogError(f"no chosen topic has a partition {number} there", file=shown(path))
    return logs, tuple(notes.findings)


def concerning(log: SourceLog, path: str, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings of `logs_at` that concern one of the logs.

    Args:
        log: The log.
        path: The path at which it was found.
        findings: The findings.
    """
    name = log.topic_partition
    options = ReadOptions(paths=(path,), selection=LogSelection((name.topic,), (name.partition,)))
    return tuple(finding for finding in findings if concerns_choice(finding, options, {root_of(log)}))


def not_among(topic: str, partition: int, topics: set[str]) -> str:
    """Return the reason why the log of a topic partition is not found among the logs of some topics."""
    return f"{topic} has no partition {partition} there" if topic in topics else no_such_topic(topic, topics)


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one topic partition, with the files that it had when it was opened.

    No file stays open: each read opens the files that it needs, and never writes. Reads are lazy, and their memory
    does not grow with the log. Later segments are not read; open the log again for them.

    Every method that reads, except `validate`, has the argument `on_finding`. It decides what happens to findings:

    - None: the first finding of severity `error` (damage, an unreadable file) is raised as `DamageFound`.
      Other findings are dropped.
    - A function: it gets each finding. Bytes that cannot be trusted are left out, and the read continues.

    Attributes:
        path: The path that was opened.
        rules: Which offsets are visible.
        findings: The findings of the directory listing. Each read reports them first.

    Example:
        >>> log = logcore.open_partition("logs/orders-0")
        >>> for record in log.records(key=b"customer-7"):
        ...     print(record.offset, record.value)
    """

    path: str
    rules: ReadRules
    findings: tuple[Finding, ...] = ()
    _log: ConsumerLog = field(kw_only=True, repr=False)

    @property
    def _source(self) -> SourceLog:
        return self._log.source

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._source.topic_partition.topic

    @property
    def partition(self) -> int:
        """The number of the partition."""
        return self._source.topic_partition.partition

    @property
    def topic_id(self) -> str | None:
        """The topic id in `partition.metadata`; None without one."""
        return self._source.topic_id

    @property
    def log_start_offset(self) -> int:
        """The first offset that a consumer may read."""
        return self._source.log_start_offset

    @property
    def high_watermark(self) -> int | None:
        """The high watermark in the files of the log directory; None without one.

        For KRaft's metadata log it is the end of its latest snapshot; later records are tentative.
        """
        return self._source.high_watermark

    @property
    def segment_paths(self) -> tuple[str, ...]:
        """The segment files, by base offset."""
        return tuple(segment.path for segment in self._source.segments)

    def records(
        self,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        key: bytes | None = None,
        offset_reset: OffsetReset = "none",
        on_finding: OnFinding | None = None,
    ) -> Iterator[Record]:
        """Iterate over the visible records, in offset order. Control records are left out.

        Args:
            start_offset: The lowest offset. Segments that end below it are not opened.
            end_offset: The offset after the last one. The read ends there.
            since: Only records with this timestamp or a later one: a datetime with a time zone, or epoch milliseconds.
            until: Only records with an earlier timestamp.
            key: Only records with exactly this key.
            offset_reset: What happens if `start_offset` is below the log start or above the log end, as a consumer's
                `auto.offset.reset`: `none` is an error, `earliest` begins at the log start, `latest` at the end.
            on_finding: Gets the findings; see the class.

        Returns:
            A lazy iterator. Some megabytes of a segment are decoded at a time.

        Raises:
            OffsetOutOfRange: The start is out of range.
            ValueError: A bound is no offset or time.
            TypeError: The key is not bytes.
            DamageFound: While iterating, without `on_finding`.

        Example:
            >>> next(log.records(start_offset=1200)).offset
            1200
        """
        from logcore.library.record_columns import records_of_log

        start = self._position(start_offset, offset_reset)
        chosen = RecordFilter.of(start, end_offset, since, until, key)
        return read_lazily(on_finding, self.findings, lambda reports: records_of_log(self._log, chosen, reports))

    def record_batches(
        self,
        columns: Iterable[str] | None = None,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        key: bytes | None = None,
        offset_reset: OffsetReset = "none",
        on_finding: OnFinding | None = None,
    ) -> pa.RecordBatchReader:
        """Return the visible records as a stream of Arrow batches, for DuckDB, Polars and every other reader of Arrow.

        Args:
            columns: Names of `RECORDS_SCHEMA`, in the wanted order; None: all. Other columns are not decoded.
            start_offset: As for `records`; so are the other filters.
            end_offset: As for `records`.
            since: As for `records`.
            until: As for `records`.
            key: As for `records`.
            offset_reset: As for `records`.
            on_finding: Gets the findings; see the class. It is called in the thread of the query engine.

        Returns:
            A reader that can be read once.

        Raises:
            OffsetOutOfRange: The start is out of range.
            ValueError: There is no such column, or a bound is no offset or time.
            TypeError: The columns are one string, or the key is not bytes.
            DamageFound: While reading, without `on_finding`. A query engine may turn it into an error of its own.

        Example:
            >>> reader = log.record_batches(["offset", "value"], start_offset=1000)
            >>> duckdb.sql("select max(octet_length(value)) from reader")
        """
        from logcore.library.record_columns import reader_of

        start = self._position(start_offset, offset_reset)
        chosen = RecordFilter.of(start, end_offset, since, until, key)
        return reader_of([self._log], chosen, columns, on_finding, self.findings)

    def batches(
        self,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        offset_reset: OffsetReset = "none",
        on_finding: OnFinding | None = None,
    ) -> Iterator[LogBatch]:
        """Iterate over the record batches in the files, control batches and invisible records included.

        Args:
            start_offset: Only batches that contain this offset or a later one.
            end_offset: Only batches that begin before this offset.
            offset_reset: As for `records`.
            on_finding: Gets the findings; see the class.

        Returns:
            A lazy iterator. Every record is checked, as for `validate`.

        Raises:
            OffsetOutOfRange: The start is out of range.
            ValueError: A bound is no offset.
            DamageFound: While iterating, without `on_finding`.
        """
        chosen = RecordFilter.of(self._position(start_offset, offset_reset), end_offset, None, None, None)
        start, end = chosen.start_offset, chosen.end_offset
        return read_lazily(on_finding, self.findings, lambda reports: batches_of(self._source, start, end, reports))

    def transactions(self, *, compacted: bool = False, on_finding: OnFinding | None = None) -> TransactionReport:
        """Return the transactions with their states, and where readers stop.

        Args:
            compacted: The topic is compacted, so that gaps between offsets are no losses.
            on_finding: Gets the findings; see the class.

        Raises:
            DamageFound: Without `on_finding`.
            LogError: The batches contradict each other, so that the log cannot be checked.
        """
        reports = Reports(on_finding, self.findings)
        return transactions_of(read_meaning(self._source, self.rules, compacted, reports), reports)

    def ledger(self, *, compacted: bool = False, on_finding: OnFinding | None = None) -> Iterator[LedgerRange]:
        """Iterate over the outcome of all offsets, as ranges without a gap.

        The first range begins at 0. The last one ends at the log end, or at a high watermark above it.

        Args:
            compacted: The topic is compacted, so that gaps between offsets are no losses.
            on_finding: Gets the findings; see the class.

        Returns:
            A lazy iterator. The log is read when the first range is requested.

        Raises:
            DamageFound: While iterating, without `on_finding`; also for missing offsets.
            LogError: The batches contradict each other, so that the log cannot be checked.

        Example:
            >>> for each in log.ledger(on_finding=print):
            ...     print(each.start_offset, each.end_offset, each.state)
        """
        return read_lazily(
            on_finding,
            self.findings,
            lambda reports: ledger_of(
                read_meaning(self._source, self.rules, compacted, reports, says_gaps=False), reports
            ),
        )

    def validate(self, *, compacted: bool = False) -> ValidationReport:
        """Apply every rule to every byte of the log and of the files beside it, as `loglake verify` does.

        Args:
            compacted: The topic is compacted, so that gaps between offsets are no losses.

        Returns:
            The findings, and the sums of all bytes. Damage is a finding here, and not an error.
        """
        from logcore.library.validation import validated

        return validated([self._source], self.findings, compacted)

    def offset_for_time(self, time: datetime | int, *, on_finding: OnFinding | None = None) -> OffsetAnswer | None:
        """Find the first record with this timestamp or a later one, as a broker's ListOffsets does.

        Args:
            time: A datetime with a time zone, or epoch milliseconds from 0 on.
            on_finding: Gets the findings; see the class.

        Returns:
            Offset, timestamp in epoch milliseconds and leader epoch of the record; None if there is no such record.

        Raises:
            ValueError: The time is before 1970, or a datetime has no time zone.
            DamageFound: Without `on_finding`.

        Example:
            >>> log.offset_for_time(datetime(2026, 1, 1, tzinfo=UTC)).offset
            4711
        """
        timestamp = epoch_ms(time)
        if timestamp is None or timestamp < 0:
            raise ValueError(f"{time} is no time from 1970 on")
        answer = self._log.list_offsets(timestamp, Reports(on_finding, self.findings))
        return None if answer == lookup.NOTHING else answer

    def end_offset(self, *, on_finding: OnFinding | None = None) -> int:
        """Return where a consumer reaches the end: the high watermark or the last stable offset, at most the log end.

        Args:
            on_finding: Gets the findings; see the class.

        Raises:
            DamageFound: Without `on_finding`.
        """
        return self._log.list_offsets(lookup.LATEST, Reports(on_finding, self.findings)).offset

    def _position(self, start: int | None, reset: OffsetReset) -> int | None:
        RecordFilter.of(start, None, None, None, None)  # a number that is no offset is no position either
        return start if start is None else self._log.position(start, reset)


def open_partition(
    path: str | os.PathLike[str],
    *,
    isolation_level: IsolationLevel = "read_uncommitted",
    high_watermark: HighWatermark = "checkpoint",
    show_all: bool = False,
) -> Log:
    """Open the log of a partition directory such as `orders-0`.

    Its log start and high watermark come from the checkpoint files in the directory above, as for a broker.

    Args:
        path: The directory of a running or stopped broker, or a copy of it.
        isolation_level: `read_committed` hides records of aborted transactions and ends at the last stable offset.
        high_watermark: The end of the visible records: `checkpoint`, `log-end`, or an offset. `checkpoint` is the value
            in `replication-offset-checkpoint`; without that file it is the log end.
        show_all: Also records below the log start and from the high watermark on.

    Raises:
        LogError: There is no partition directory at the path, or it cannot be listed.
        ValueError: There is no such isolation level or high watermark.

    Example:
        >>> log = logcore.open_partition("logs/orders-0", isolation_level="read_committed")
    """
    directory = os.fspath(path)
    rules = ReadRules(isolation_level, high_watermark, show_all)
    return _only(directory, rules, lambda log: same_path(log.directory, directory) and not log.named_files, _PARTITION)


def open_segment(path: str | os.PathLike[str], *, isolation_level: IsolationLevel = "read_uncommitted") -> Log:
    """Open one segment file, such as `orders-0/00000000000000000000.log`, as a log of its own.

    All its records are visible, for any log start and high watermark. The topic partition is the name of the directory,
    and the base offset is the name of the file.

    Args:
        path: The file.
        isolation_level: `read_committed` hides records of transactions that are aborted or open in this file.

    Raises:
        LogError: There is no segment file at the path, or it cannot be read.
        ValueError: There is no such isolation level.

    Example:
        >>> log = logcore.open_segment("logs/orders-0/00000000000000000000.log")
    """
    return _only(os.fspath(path), ReadRules(isolation_level), lambda log: log.named_files, _SEGMENT)


def same_path(first: str, second: str) -> bool:
    """Whether two paths are the same, possibly written in two ways."""
    return absolute(first) == absolute(second)


_PARTITION = "it is no partition directory, which is named <topic>-<partition> and holds segments"
_SEGMENT = "it is no segment file, which is named by its base offset in 20 digits and ends in .log"


def _only(path: str, rules: ReadRules, is_meant: Callable[[SourceLog], bool], otherwise: str) -> Log:
    logs, findings = logs_at(path, rules)
    found = [log for log in logs if is_meant(log)]
    if not found:
        if logs or not findings:
            raise LogError(otherwise, file=shown(path))
        raise LogError(findings[0].message)
    return Log(path, rules, concerning(found[0], path, findings), _log=ConsumerLog(found[0], rules))
