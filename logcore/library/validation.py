"""Every rule over every byte of logs, and the sums of all bytes: the work of `loglake verify` on logs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from logcore.errors import LogError
from logcore.library.checked_logs import CheckedLogs
from logcore.library.damage import Reports
from logcore.logs.checks.log_check import check_log
from logcore.logs.checks.validation import BatchVerdict, SegmentVerdict, validate_segment
from logcore.logs.model.findings import Finding, Severity, found
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.sources import SourceLog
from logcore.reading.checked_segments import ProgressDisplay
from logcore.reading.notes import Notes
from logcore.reading.segment_reading import rules_of_gaps
from logcore.records.control import ControlType
from logcore.segments.filenames import BOOTSTRAP_FILE
from logcore.storage.discovery import read_file, shown
from logcore.storage.objects.addresses import directory_of
from logcore.storage.source_reads import exists

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
        for finding in check_log(log, self._checked.segments(log), _read, rules=rules):
            self._notes.say(finding)
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
        validation = validate_segment(content, base_offset=0, sealed=True, file=path)
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
