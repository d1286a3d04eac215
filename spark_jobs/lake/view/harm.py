"""What other programs did to the files of a lake.

A look lists directories and reads commits. The job ``check_foreign_rows`` compares files of ``records`` from other
engines with the archive once, and the result is stored as long as they are live. Each harm has the key of its log, so
that a run for chosen logs shows only these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from logcore.logs.model.findings import Finding, Severity, offsets_text
from logcore.logs.rules.advice import advice
from spark_jobs.errors import JobError
from spark_jobs.lake.delta.files.live_files import newest_files
from spark_jobs.lake.delta.state import archive_check, foreign_commits, table_checks, tables_file
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.ledger.finding_rows import record
from spark_jobs.lake.segments.archive import LogRow, read_logs, read_segments
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.referenced_bytes import way_back
from spark_jobs.lake.view.harmed_places import harmed_place, table_of
from spark_jobs.placed_finding import PlacedFinding


@dataclass(frozen=True, slots=True)
class Harm:
    """One thing that is wrong with the files of a lake."""

    what: str
    """Text for users: the rule, and the message of the finding."""
    log: str | None
    """Log key; None if it is not about one log."""
    topic_partition: str | None
    offsets: str
    """``[4, 9)``; empty if it is not about offsets."""
    severity: Severity
    what_to_do: str
    """One command for this harm, or one sentence why there is none."""

    @property
    def is_error(self) -> bool:
        """Whether it is more than a warning."""
        return self.severity is Severity.ERROR


@dataclass(frozen=True, slots=True)
class TablesSeen:
    """Differences of all table files and of the archive to the last run."""

    lake: str
    findings: tuple[Finding, ...]
    needs_check: bool
    """Whether another engine wrote files of ``records`` that were not compared with the archive yet."""
    archive: archive_check.ArchiveSeen

    @property
    def notes(self) -> tuple[str, ...]:
        """Findings that are only information: commits of other programs."""
        return tuple(finding.message for finding in self.findings if finding.severity is Severity.INFO)

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """Findings that are more than information."""
        return _wrong(self.findings)

    @property
    def is_news(self) -> bool:
        """Whether there is something to record."""
        return bool(self.findings) or self.archive.has_other_times

    def record(self, run_id: str, as_of_ms: int) -> None:
        """Append the harm to the table ``findings``, as a history without log keys, and record times of files.

        Raises:
            ConcurrentChange: Other runs kept recording findings meanwhile.
        """
        tables_file.record_archive(self.lake, self.archive.times)
        if self.wrong:
            record(self.lake, [PlacedFinding(finding) for finding in self.wrong], run_id, as_of_ms)

    def harm(self) -> tuple[Harm, ...]:
        """Present harm: what the look found, and files that are not equal to the archive."""
        differing = differing_files(self.lake)
        if not self.wrong and not differing:
            return ()
        logs, rows = _logs_by_file(self.lake), read_logs(self.lake)
        made = [*_of_findings(self.lake, self.wrong, logs, rows)]
        for path, answer in sorted(differing.items()):
            log = logs.get(storage.join(table_uri(self.lake, "records"), path))
            made += _of_answer(self.lake, path, answer, log, rows)
        return tuple(made)


def look_at_tables(lake: str) -> TablesSeen:
    """Compare tables and archive with the records of the last run; cheap, because no table is read.

    The job ``check_foreign_rows`` records the present tables, so call this before it.
    """
    state = tables_file.read_state(lake)
    archive = archive_check.look_at_files(lake, state)
    findings = (*table_checks.check_tables(lake, state), *archive.findings)
    return TablesSeen(lake, findings, bool(foreign_commits.unchecked_files(lake, "records")), archive)


def look_at_archive(lake: str) -> tuple[Harm, ...]:
    """Compare the files of the archive with the table ``segments``, by listings."""
    wrong = _wrong(archive_check.check_archive(lake))
    return tuple(_of_findings(lake, wrong, _logs_by_file(lake), read_logs(lake))) if wrong else ()


def remember_tables(lake: str, run_id: str, as_of_ms: int) -> None:
    """Record the present tables at the end of a run, for comparison by the next one."""
    tables_file.record_state(lake, run_id, as_of_ms)


def differing_files(lake: str) -> dict[str, tables_file.ForeignAnswer]:
    """Return live files of ``records`` of other engines that differ from the archive (``check_foreign_rows``)."""
    answers = tables_file.read_state(lake).foreign.get("records", {})
    differing = {path: answer for path, answer in answers.items() if answer != "equal"}
    if not differing:
        return {}
    live = {file.path for file in newest_files(lake, "records")}
    return {path: answer for path, answer in differing.items() if path in live}


def _wrong(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.severity is not Severity.INFO)


def _of_findings(
    lake: str, findings: Iterable[Finding], logs: Mapping[str, str], rows: Mapping[str, LogRow]
) -> Iterator[Harm]:
    """Harm of findings, with the log of each file."""
    for finding in findings:
        row = rows.get(logs.get(finding.file or "", ""))
        offsets = finding.start_offset, finding.end_offset
        what = f"{finding.rule}: {finding.message}"
        harm = _harm(lake, finding.rule, what, row, offsets, finding.severity, table_of(lake, finding.file))
        is_at_source = finding.rule == "archive-file-missing" and not _is_in(lake, finding.file)
        to_do = way_back(storage.directory_of(finding.file or "")) if is_at_source else harm.what_to_do
        yield replace(harm, what_to_do=to_do)


def _is_in(lake: str, file: str | None) -> bool:
    return file is None or file.startswith(storage.join(lake, ""))


def _of_answer(
    lake: str, path: str, answer: tables_file.ForeignAnswer, log: str | None, rows: Mapping[str, LogRow]
) -> Iterator[Harm]:
    if isinstance(answer, str):
        text = f"the file {path} of another engine: {answer}"
        yield _harm(lake, "not-provable", text, rows.get(log or ""), (None, None), Severity.WARNING, "records")
        return
    rule = "rows-differ-from-archive"
    for of_log, start, end, what in answer:
        text = f"{rule}: {what} (the file {path} of another engine)"
        yield _harm(lake, rule, text, rows.get(of_log or log or ""), (start, end), Severity.ERROR, "records")


def _harm(
    lake: str,
    rule: str,
    what: str,
    row: LogRow | None,
    offsets: tuple[int | None, int | None],
    severity: Severity,
    table: str | None,
) -> Harm:
    to_do = advice(rule, harmed_place(lake, log=row, offsets=offsets, table=table))
    name, log = (None, None) if row is None else (row.topic_partition, row.log)
    return Harm(what, log, name, offsets_text(*offsets), severity, to_do)


def _logs_by_file(lake: str) -> dict[str, str]:
    """Return log keys by file, for table files of one log and for archived files."""
    logs = {}
    try:
        for name in ("records", "records_uncommitted"):
            root = table_uri(lake, name)
            for file in newest_files(lake, name):
                if file.log_id is not None and file.partition is not None:
                    logs[storage.join(root, file.path)] = f"{file.log_id}/{file.partition}"
        for segment in read_segments(lake, live=False):
            logs[storage.join(lake, segment.path)] = segment.log
    except JobError:  # the table cannot be read: then its harm counts for every log
        pass
    return logs
