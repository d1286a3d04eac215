"""Open findings: their reports still apply.

A finding is written once and stays in the table ``findings`` as history. The rule catalogue says how long it counts
(:class:`logcore.logs.rules.Persistence`). Here that is compared with the lake as it is now.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Finding, exit_code
from logcore.logs.model.offset_ledger import OF_REMOTE, first_hole
from logcore.logs.rules import RULES, Persistence
from logcore.storage.objects.addresses import is_object
from logcore.storage.source_errors import shown
from logcore.texts import sentences
from spark_jobs.contracts import JobReport
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.ledger.finding_rows import read_findings
from spark_jobs.lake.ledger.frontier import LedgerRow, read_frontiers
from spark_jobs.lake.segments.archive import CUT_BACK, FILLED, RETENTION, LogRow, Segment
from spark_jobs.lake.store import storage
from spark_jobs.lake.view import expectation_results, harm, ledger_comparison
from spark_jobs.lake.view.harmed_places import with_advice
from spark_jobs.lake.view.ledger_states import is_alarming
from spark_jobs.outlines import IngestOutline, Outline
from spark_jobs.placed_finding import PlacedFinding

_MOST_SAID = 3
"""Findings about paths beyond this many are only counted."""


def read_open_findings(
    lake: str,
    logs: Mapping[str, LogRow],
    segments: Iterable[Segment],
    ledger: Mapping[str, Sequence[LedgerRow]],
) -> dict[str, tuple[PlacedFinding, ...]]:
    """Return open findings by log key; logs without any are left out.

    Args:
        logs: The logs to read, by key, with their present segments and ledgers.
        segments: Segments of these logs, with retired ones.
        ledger: Offset ledgers by log key.

    Raises:
        TableUnreadable: A required table cannot be read.
    """
    stored = [placed for placed in read_findings(lake) if placed.log in logs]
    now = _Now(lake, {segment.segment_id: segment for segment in segments}, ledger, stored)
    found: dict[str, list[PlacedFinding]] = {}
    for placed in stored:
        if placed.log is not None and now.is_open(placed, logs[placed.log]):
            found.setdefault(placed.log, []).append(placed)
    return {log: tuple(placed) for log, placed in found.items()}


def persistence_of(rule: str) -> Persistence:
    """Return how long findings of a rule count; forever if another version of Loglake wrote them."""
    known = RULES.get(rule)
    return Persistence.FOR_GOOD if known is None else known.persistence


def have_offsets_in_common(finding: Finding, row: LedgerRow) -> bool:
    """Return whether a finding is about offsets of a ledger range of its log; without an end it is about one offset."""
    if finding.start_offset is None:
        return False
    end = finding.end_offset or finding.start_offset + 1
    return finding.start_offset < row.end_offset and row.start_offset < end


def path_findings(reports: Iterable[JobReport[Outline]]) -> tuple[Finding, ...]:
    """Return the findings of the job ``ingest`` that count in this run alone, as about source paths, each once.

    Reports of other jobs are ignored.
    """
    found: dict[Finding, None] = {}
    for report in reports:
        if isinstance(report.plan, IngestOutline):
            copied = (placed.finding for placed in report.findings)
            of_run = (each for each in copied if persistence_of(each.rule) is Persistence.ONE_RUN)
            found |= dict.fromkeys((*report.plan.of_paths, *of_run))
    return tuple(found)


def unread_source(findings: Iterable[Finding]) -> str | None:
    """Return what of the sources could not be read, and why, in one line; None: all was read."""
    unread = [f.message for f in findings if exit_code([f]) is ExitCode.NOT_CHECKED and f.rule != "nothing-chosen"]
    return _in_one_line(unread, "cannot be read") or None


def source_warnings(
    lake: str, logs: Iterable[LogRow], findings: Sequence[Finding], read: Sequence[str]
) -> dict[str, str]:
    """Return the warnings about source paths, with what to do: one line for each source that was read.

    The line is empty if there are none; a source that could not be read has no empty line. Those about no source are in
    the line of the path ``""``.
    """
    return _about_sources(lake, logs, findings, read, ExitCode.WARNING)


def source_damage(
    lake: str, logs: Iterable[LogRow], findings: Sequence[Finding], read: Sequence[str]
) -> dict[str, str]:
    """Return the damage at source paths in the same form: what was found there, and no log of the lake shows."""
    return _about_sources(lake, logs, findings, read, ExitCode.DAMAGE)


def _about_sources(
    lake: str, logs: Iterable[LogRow], findings: Sequence[Finding], read: Sequence[str], code: ExitCode
) -> dict[str, str]:
    unread = {_source_of(each.file or "", read) for each in findings if exit_code([each]) is ExitCode.NOT_CHECKED}
    said: dict[str, list[str]] = {path: [] for path in ("", *read) if not path or path not in unread}
    for each, to_do in with_advice(lake, logs, [each for each in findings if exit_code([each]) is code]):
        line = f"{each.message} What to do: {to_do}" if to_do else each.message
        said.setdefault(_source_of(each.file or "", read), []).append(line)
    return {path: _in_one_line(lines, "of this kind") for path, lines in said.items()}


def _source_of(file: str, sources: Sequence[str]) -> str:
    """The source that has a file, or lies beside it; empty: none."""
    for source in sources:
        for place in (source, source if is_object(source) else os.path.realpath(source)):
            inside, root = f"{file}/".startswith(f"{shown(place).rstrip('/')}/"), os.path.dirname(file)
            if inside or (root and f"{shown(place)}/".startswith(f"{root.rstrip('/')}/")):
                return source
    return ""


def _in_one_line(messages: Sequence[str], ending: str) -> str:
    more = len(messages) - _MOST_SAID
    said = [*messages[:_MOST_SAID], *([f"{more} more {ending}."] if more > 0 else [])]
    return sentences(said)


@dataclass(frozen=True)
class _Now:
    """The present lake, as far as the stored findings need it: each part is read at its first use."""

    lake: str
    segments: Mapping[str, Segment]
    """Segments by id, with retired ones."""
    ledger: Mapping[str, Sequence[LedgerRow]]
    stored: Sequence[PlacedFinding]

    def is_open(self, placed: PlacedFinding, row: LogRow) -> bool:
        """Return whether the finding still counts; ``row``: its log."""
        segment = self.segments.get(placed.segment_id or "")
        if segment is not None and segment.retired_because in (CUT_BACK, FILLED):
            return False
        finding = placed.finding
        match persistence_of(finding.rule):
            case Persistence.ONE_RUN:
                return False
            case Persistence.WHILE_STOPPED:
                return finding.rule == row.stopped
            case Persistence.WHILE_IN_LEDGER:
                return any(have_offsets_in_common(finding, each) for each in self._alarming.get(row.log, ()))
            case Persistence.WHILE_LEDGER_HAS_HOLE:
                return first_hole(self.ledger.get(row.log, ())) is not None
            case Persistence.WHILE_REMOTE:
                remote = [(start, end) for start, end, why in row.gap_evidence if why in OF_REMOTE]
                if finding.start_offset is None or finding.end_offset is None:
                    return bool(remote)
                return any(start < finding.end_offset and finding.start_offset < end for start, end in remote)
            case Persistence.WHILE_ROWS_DIFFER:
                return (row.log, finding.message) in self._differing_rows
            case Persistence.WHILE_FILE_DIFFERS:
                return finding.file in self._differing_files
            case Persistence.UNTIL_EXPECTATIONS_MET:
                results = self._expectations.get(row.log)
                return results is None or not results.is_met
            case Persistence.UNTIL_PUBLISHED:
                return finding.end_offset is None or finding.end_offset > (self._frontiers.get(row.log) or 0)
            case Persistence.UNTIL_LOG_END_PASSED:
                # Without a high watermark the log's end counts, as `--high-watermark log-end` says.
                is_beyond = finding.end_offset is None or finding.end_offset > row.next_offset
                return is_beyond and row.high_watermark is not None
            case Persistence.UNTIL_REPLACED:
                # Nobody reads bytes that retention retired. Offsets that they hid are still in the ledger.
                return segment is None or segment.retired_because != RETENTION or self._hides_offsets(segment)
            case Persistence.FOR_GOOD:
                return True

    def _hides_offsets(self, segment: Segment) -> bool:
        rows = (row for row in self.ledger.get(segment.log, ()) if is_alarming(row))
        return any(row.start_offset < segment.next_offset and segment.base_offset < row.end_offset for row in rows)

    def _logs_with(self, persistence: Persistence) -> list[str]:
        rules = {placed.log for placed in self.stored if persistence_of(placed.finding.rule) is persistence}
        return sorted(log for log in rules if log is not None)

    @cached_property
    def _alarming(self) -> dict[str, list[LedgerRow]]:
        logs = self._logs_with(Persistence.WHILE_IN_LEDGER)
        return {log: [row for row in self.ledger.get(log, ()) if is_alarming(row)] for log in logs}

    @cached_property
    def _frontiers(self) -> dict[str, int | None]:
        return read_frontiers(self.lake, self._logs_with(Persistence.UNTIL_PUBLISHED))

    @cached_property
    def _differing_rows(self) -> frozenset[tuple[str, str]]:
        counts = ledger_comparison.compare_with_ledger(self.lake, self._logs_with(Persistence.WHILE_ROWS_DIFFER))
        return frozenset((each.log, each.message) for each in counts.differences)

    @cached_property
    def _differing_files(self) -> frozenset[str]:
        root = table_uri(self.lake, "records")
        return frozenset(storage.join(root, path) for path in harm.differing_files(self.lake))

    @cached_property
    def _expectations(self) -> Mapping[str, expectation_results.Results]:
        return expectation_results.read_results(self.lake, expectation_results.RecordsVersion.now(self.lake))
