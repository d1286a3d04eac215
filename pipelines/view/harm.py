"""What other programs did to the files of a lake, as failures of the check ``tables_unharmed``.

The cheap checks list directories and read commits; files of ``records`` that another engine wrote are compared with the
archive once, by the job ``prove``, and the answer is remembered as long as they are live. Each failure gets the key of
its log, so that a run for chosen logs answers for these alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from logcore.logs.model.findings import Finding, Severity
from pipelines.questions import Failure
from spark_jobs.lake.delta import table_state
from spark_jobs.lake.delta.live_files import newest_files
from spark_jobs.lake.delta.tables import table_uri
from spark_jobs.lake.errors import JobError
from spark_jobs.lake.ledger.finding_rows import PlacedFinding
from spark_jobs.lake.segments.archive import read_logs, read_segments
from spark_jobs.lake.store import storage

LOST = frozenset({"table-went-back", "table-missing"})
"""Rules on what the last run had recorded and is gone: said by the run that sees it, then the lake is as it is now."""


def failures(lake: str, findings: Sequence[Finding]) -> list[Failure]:
    """What is wrong: errors among the findings of the cheap checks, and files that are not equal to the archive."""
    wrong = [finding for finding in findings if finding.severity is not Severity.INFO]
    differing = differing_files(lake)
    if not wrong and not differing:
        return []
    logs = _logs_by_file(lake)
    names = {log: row.topic_partition for log, row in read_logs(lake).items()}
    made = []
    for finding in wrong:
        log = logs.get(finding.file or "")
        offsets = _offsets(finding.start_offset, finding.end_offset)
        made.append(Failure(f"{finding.rule}: {finding.message}", log, names.get(log or ""), offsets, finding.severity))
    for path, answer in sorted(differing.items()):
        log = logs.get(storage.join(table_uri(lake, "records"), path))
        made += _of_answer(path, answer, log, names)
    return made


def differing_files(lake: str) -> dict[str, table_state.Proof]:
    """Live files of ``records`` from other engines that are not equal to the archive, as it was remembered."""
    answers = table_state.read_state(lake).foreign.get("records", {})
    differing = {path: answer for path, answer in answers.items() if answer != "equal"}
    if not differing:
        return {}
    live = {file.path for file in newest_files(lake, "records")}
    return {path: answer for path, answer in differing.items() if path in live}


def notes(findings: Iterable[Finding]) -> list[str]:
    """What is information only: commits of other programs."""
    return [finding.message for finding in findings if finding.severity is Severity.INFO]


def placed(findings: Iterable[Finding]) -> Iterator[PlacedFinding]:
    """Harm as rows of ``findings``: a history of what was seen, of no one log."""
    return (PlacedFinding(finding) for finding in findings if finding.severity is not Severity.INFO)


def _of_answer(path: str, answer: table_state.Proof, log: str | None, names: Mapping[str, str]) -> Iterator[Failure]:
    if isinstance(answer, str):
        yield Failure(
            f"the file {path} of another engine: {answer}", log, names.get(log or ""), severity=Severity.WARNING
        )
        return
    for of_log, start, end, what in answer:
        text = f"rows-differ-from-archive: {what} (the file {path} of another engine)"
        yield Failure(text, of_log or log, names.get(of_log or log or ""), _offsets(start, end))


def _offsets(start: int | None, end: int | None) -> str:
    if start is None:
        return ""
    return str(start) if end is None else f"{start}..{end}"


def _logs_by_file(lake: str) -> dict[str, str]:
    """Log key by file, of table files that hold one log and of the archive's."""
    logs = {}
    try:
        for name in ("records", "records_uncommitted"):
            root = table_uri(lake, name)
            for file in newest_files(lake, name):
                if file.log_id is not None and file.partition is not None:
                    logs[storage.join(root, file.path)] = f"{file.log_id}/{file.partition}"
        for segment in read_segments(lake, live=False):
            logs[storage.join(lake, segment.path)] = segment.log
    except JobError:  # a table that cannot be read: then its harm counts for every log
        pass
    return logs
