"""Every rule over every byte of logs, and the sums of all bytes: the work of `loglake verify` on logs.

With the kernels, threads check chunks of segments before the rules need them. Without kernels the slow validation reads
each segment. Both have the same results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.errors import CorruptionReason, LogError
from logcore.library.damage import Reports
from logcore.logs.checks.index_check import WalkedSegment, check_indexes
from logcore.logs.checks.log_check import CheckedBatch, check_log
from logcore.logs.checks.validation import BatchVerdict, SegmentValidation, SegmentVerdict
from logcore.logs.model.findings import Finding, Severity, found
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.checked_segments import BulkCheck, ProgressDisplay
from logcore.reading.read_options import Notes
from logcore.reading.segment_reading import cannot_read, rules_of_gaps, segment_bytes, walked
from logcore.records.control import ControlType
from logcore.segments.filenames import BOOTSTRAP_FILE, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, is_coordinator_topic
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan, Stretch
from logcore.storage.discovery import SourceChanged, SourceUnreadable, read_file, shown
from logcore.storage.objects.addresses import directory_of
from logcore.storage.source_bytes import SourceBytes
from logcore.storage.source_reads import exists

if TYPE_CHECKING:
    from logcore.columns.checking.checked import CheckedSegment, Seen
    from logcore.columns.decoding.batch_table import Table


MAX_SIDE_FILE = 1 << 30
"""Most bytes of an index or a snapshot: brokers preallocate 10 MiB."""


@dataclass(slots=True)
class ValidationTotals:
    """The sums of a validation.

    `bytes` is the sum of valid, tail, padding, quarantined and unreadable bytes. Only files that were read to their end
    count.

    Attributes:
        files: Segment files, and snapshots of KRaft's metadata log.
        bytes: Bytes of those files.
        valid_bytes: Bytes in batches that can be trusted.
        tail_bytes: Bytes of an unfinished batch at the end of a segment that is still written.
        padding_bytes: Zeros at the end of files.
        quarantined_bytes: Bytes that cannot be trusted.
        unreadable_bytes: Bytes that the disk failed to read.
        batches: Batches that can be trusted.
        records: Records in them, control records included.
    """

    files: int = 0
    bytes: int = 0
    valid_bytes: int = 0
    tail_bytes: int = 0
    padding_bytes: int = 0
    quarantined_bytes: int = 0
    unreadable_bytes: int = 0
    batches: int = 0
    records: int = 0

    def add(self, validation: SegmentVerdict) -> None:
        """Add a file that was read to its end.

        Args:
            validation: Its verdict.
        """
        accounting = validation.accounting
        self.files += 1
        self.bytes += accounting.file_size
        self.valid_bytes += accounting.valid
        self.tail_bytes += accounting.tail
        self.padding_bytes += accounting.padding
        self.quarantined_bytes += accounting.quarantined
        self.unreadable_bytes += accounting.unreadable
        self.batches += validation.counts.batches
        self.records += validation.counts.records


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """The result of a validation.

    Attributes:
        findings: In the order of the files. `loglake help RULE` explains each rule.
        totals: The sums.

    Example:
        >>> report = logcore.open_partition("logs/orders-0").validate()
        >>> report.is_sound, report.totals.records
        (True, 1200)
    """

    findings: tuple[Finding, ...]
    totals: ValidationTotals

    @property
    def is_sound(self) -> bool:
        """Whether no finding has the severity `error`. Warnings do not count."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


class LogValidation:
    """Validates several logs, in their order.

    Args:
        logs: The logs.
        notes: Gets the findings.
        progress: Shows the progress; None: nothing is shown.

    Attributes:
        totals: The sums of the logs that were validated.
    """

    def __init__(self, logs: tuple[SourceLog, ...], notes: Notes, progress: ProgressDisplay | None = None) -> None:
        self.totals = ValidationTotals()
        self._logs, self._notes = logs, notes
        self._checked = CheckedLogs(logs, notes, _read, self.totals.add, progress)

    def validate(self, log: SourceLog, rules: GapRules) -> None:
        """Validate the next log.

        Args:
            log: The log.
            rules: What explains gaps between its offsets.
        """
        self._notes.say_all(check_log(log, self._checked.segments(log), _read, rules=rules))
        if log.is_metadata and not log.named_files:
            for _, path in log.metadata_snapshots:
                self._validate_snapshot(path)

    def validate_bootstrap_files(self, *, is_choice: bool) -> None:
        """Validate the files with which the log directories were formatted.

        Args:
            is_choice: Only certain logs were chosen, so that only the directory of the metadata log counts.
        """
        of_metadata = [log for log in self._logs if log.is_metadata and not log.named_files]
        counted = of_metadata if is_choice else self._logs
        roots = {directory_of(log.directory) for log in counted}
        for path in [os.path.join(root, BOOTSTRAP_FILE) for root in sorted(roots)]:
            if exists(path):
                self._validate_snapshot(path)

    def _validate_snapshot(self, path: str) -> None:
        """Validate a KRaft snapshot: batches of format v2 from offset 0 on, with the header first and the footer last.

        Args:
            path: The file.
        """
        try:
            content = _read(path)
        except LogError as error:
            self._notes.say(found("unreadable", str(error.at(file=shown(path))), file=path))
            return
        validation = SegmentValidation(content, base_offset=0, sealed=True, file=path)
        kinds = [item.control_type if isinstance(item, BatchVerdict) else None for item in validation]
        for finding in validation.findings:
            if finding.rule != "control-batch-shape":  # the first one holds KRaft's version and voters too
                self._notes.say(finding)
        self.totals.add(validation)
        is_damaged_inside = validation.accounting.quarantined > 0 and kinds[-1] == ControlType.SNAPSHOT_FOOTER
        if not is_damaged_inside and (kinds[:1], kinds[-1:]) != (
            [ControlType.SNAPSHOT_HEADER],
            [ControlType.SNAPSHOT_FOOTER],
        ):
            message = f"{shown(path)} does not begin with a snapshot's header and end with its footer: it is not whole."
            self._notes.say(found("snapshot-not-whole", message, file=path))


def validated(logs: Sequence[SourceLog], known: Iterable[Finding], compacted: bool) -> ValidationReport:
    """Validate some logs.

    Args:
        logs: The logs.
        known: Findings that are reported first.
        compacted: The topics are compacted, so that gaps between offsets are no losses.
    """
    findings: list[Finding] = []
    reports = Reports(findings.append, known)
    validation = LogValidation(tuple(logs), reports)
    for log in logs:
        validation.validate(log, rules_of_gaps(log, reports, True if compacted else None))
    validation.validate_bootstrap_files(is_choice=False)
    return ValidationReport(tuple(findings), validation.totals)


def _read(path: str) -> bytes:
    return read_file(path, MAX_SIDE_FILE)


Items = Iterator[CheckedBatch | Stretch]
Read = Callable[[str], bytes]


class CheckedLogs:
    """Validates the segments of several logs, in order.

    Args:
        logs: The logs.
        notes: Gets the findings.
        read: Returns the bytes of a file beside a segment.
        done: Called with the verdict on each segment that was read to its end.
        progress: Shows the progress; None: nothing is shown.
    """

    def __init__(
        self,
        logs: tuple[SourceLog, ...],
        notes: Notes,
        read: Read,
        done: Callable[[SegmentVerdict], None],
        progress: ProgressDisplay | None = None,
    ) -> None:
        self._notes, self._read, self._done, self._progress = notes, read, done, progress
        segments = ((log, segment) for log in logs for segment in log.segments)
        self._bulk = BulkCheck(segments, progress) if is_chosen(Work.CHECK) else None

    def segments(self, log: SourceLog) -> Iterator[tuple[SegmentFile, Items]]:
        """Yield the segments of a log, each with its batches and stretches. Call it for the logs in their order.

        The findings about a segment are reported at its end.

        Args:
            log: The log.

        Yields:
            A segment and its items. Consume the items before you take the next segment.
        """
        for segment in log.segments:
            try:
                yield segment, self._slowly(log, segment) if self._bulk is None else self._quickly(log, segment)
            except LogError as error:
                cannot_read(segment, error, self._notes)

    def _quickly(self, log: SourceLog, segment: SegmentFile) -> Items:
        if self._bulk is None:
            return iter(())
        checked, source, results = self._bulk.of(segment)
        return self._consumed(log, segment, checked, source, results)

    def _consumed(
        self,
        log: SourceLog,
        segment: SegmentFile,
        checked: CheckedSegment,
        source: SourceBytes,
        results: Iterator[Seen],
    ) -> Items:
        from logcore.columns.checking import table_batches

        tables: list[Table] = []
        has_index = any(segment.side_file(suffix) for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        valid_end = 0
        cuts = [entry.start_offset for entry in log.leader_epochs] + [offset for offset, _ in log.snapshots]
        failure: LogError | None = None
        for seen in results:
            if failure is not None:
                continue
            failure = seen.failure
            for item in checked.take_seen(seen):
                if isinstance(item, Stretch):
                    yield item
                elif isinstance(item, BatchVerdict):
                    valid_end = item.position + item.size
                    if has_index:
                        tables.append(table_batches.of_verdict(item))
                    yield item
                else:
                    valid_end = table_batches.end_of(item)
                    if has_index:
                        tables.append(table_batches.for_indexes(item))
                    yield from table_batches.batches_of(item, cuts)
        if failure is not None:
            yield self._given_up(segment, failure, checked, valid_end)
            return
        checked.end_segment()
        self._say(log, segment, checked, valid_end, lambda: table_batches.indexed(tables))
        self._refuse_change(segment, source)

    def _given_up(self, segment: SegmentFile, error: LogError, verdict: SegmentVerdict, at: int) -> Stretch:
        """Report why a segment is not validated to its end, and return the stretch for the rest of it."""
        self._notes.say_all(verdict.findings)
        cannot_read(segment, error, self._notes)
        left = max(segment.log_bytes - at, 0)
        return Stretch(at, left, CorruptionReason.TRUNCATED, error.message, verdict.next_offset)

    def _refuse_change(self, segment: SegmentFile, source: SourceBytes) -> None:
        try:
            source.refuse_change()
        except LogError as error:
            cannot_read(segment, error, self._notes)

    def _slowly(self, log: SourceLog, segment: SegmentFile) -> Items:
        return self._validated(log, segment, segment_bytes(log, segment))

    def _validated(self, log: SourceLog, segment: SegmentFile, source: SourceBytes) -> Items:
        content = source.content
        base, following, sealed = segment.base_offset, log.next_base_offset(segment), log.is_sealed(segment)
        validation = SegmentValidation(
            content,
            base_offset=base,
            next_base_offset=following,
            sealed=sealed,
            file=segment.path,
            checks_sequences=not is_coordinator_topic(log.topic_partition.topic),
            fetched=source,
        )
        valid_end = 0
        try:
            for item in validation:
                if isinstance(item, BatchVerdict):
                    valid_end = item.position + item.size
                    if self._progress is not None:
                        self._progress.at(segment.path, valid_end, segment.log_bytes)
                yield item
        except LogError as error:
            yield self._given_up(segment, error, validation, valid_end)
            return

        def batches() -> Iterator[ScannedBatch]:
            walk = SegmentScan(content, base_offset=base, next_base_offset=following, sealed=sealed, fetched=source)
            return (item for item in walked(source, walk) if isinstance(item, ScannedBatch))

        try:
            self._say(log, segment, validation, valid_end, batches)
        except (SourceChanged, SourceUnreadable) as error:
            cannot_read(segment, error, self._notes)
            return
        self._refuse_change(segment, source)

    def _say(
        self,
        log: SourceLog,
        segment: SegmentFile,
        verdict: SegmentVerdict,
        valid_end: int,
        batches: Callable[[], Iterator[object]],
    ) -> None:
        self._notes.say_all(verdict.findings)
        self._done(verdict)
        is_damaged = verdict.accounting.quarantined > 0
        facts = WalkedSegment(valid_end, is_damaged, log.is_sealed(segment), verdict.max_timestamp)
        self._notes.say_all(check_indexes(segment, facts, batches, self._read))  # type: ignore[arg-type]
