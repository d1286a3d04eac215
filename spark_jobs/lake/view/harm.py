"""What other programs did to the files of a lake.

A look lists directories and reads commits. The job ``check_foreign_rows`` compares files of ``records`` from other
engines with the archive once, and the result is stored as long as they are live. Each harm has the key of its log, so
that a run for chosen logs shows only these.

The cheap checks: they compare tables and archive with what the last run saw, and with their own logs.

A check costs one listing of each table and one of the archive and opens no data file. So harm that leaves size and time
of a file unchanged is only found by ``loglake verify LAKE``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from deltalake import DeltaTable

from logcore.logs.model.findings import Finding, Severity, found, offsets_text
from logcore.logs.rules.advice import advice
from spark_jobs.errors import JobError, TableUnreadable
from spark_jobs.lake.decoded.topic_tables import accepts_loss, lost_tables
from spark_jobs.lake.delta.files.live_files import LiveFile, files_of, newest_files
from spark_jobs.lake.delta.files.row_counts import row_counts
from spark_jobs.lake.delta.state import archive_check, foreign_commits, tables_file
from spark_jobs.lake.delta.state.archive_check import look_at_files, present_files
from spark_jobs.lake.delta.state.counted_findings import counted_findings
from spark_jobs.lake.delta.state.foreign_commits import commits_since
from spark_jobs.lake.delta.state.tables_file import TablesFile, TableState, digest_of_commit, read_state, state_of
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.delta.tables.delta_log import Commit
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot, read_rows, reading, table_uri
from spark_jobs.lake.ledger.finding_rows import record
from spark_jobs.lake.segments.archive import LogRow, read_logs, read_segments
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.referenced_bytes import has_segments_below, way_back
from spark_jobs.lake.table_specs import RECORD_TABLES, TABLES
from spark_jobs.lake.view.harmed_places import harmed_place, table_of
from spark_jobs.lake.view.unfollowed_tables import RULE, unfollowed_tables
from spark_jobs.placed_finding import PlacedFinding

_MADE_AGAIN = frozenset(
    {"logs", "segments", "validations", "batches", "transactions", "offset_ledger", "records", "records_uncommitted"}
)
"""Tables that runs make from the sources or from other tables. The others are history."""


def cheap_check(lake: str) -> tuple[Finding, ...]:
    """Compare tables and archive with the records of the last run and with their own logs.

    Raises:
        StorageError: The object store failed.
    """
    state = read_state(lake)
    return *check_tables(lake, state), *look_at_files(lake, state).findings


def check_tables(lake: str, state: TablesFile, followed: Collection[str] = ()) -> tuple[Finding, ...]:
    """The part of :func:`cheap_check` that is about tables.

    Args:
        followed: Tables of topics that this run writes, also where they were lost.
    """
    findings: list[Finding] = []
    for name in TABLES:
        try:
            findings += _check_table(lake, name, state)
        except TableUnreadable as error:
            findings.append(found("table-went-back", str(error), file=table_uri(lake, name)))
    for each in _lost_tables(lake):
        if each.name in followed:
            findings.append(_information(f"table {each.name}: it was lost; this run makes it again", each.uri))
        else:
            message = f"table {each.name}: it was there and is gone. {accepts_loss(lake)}"
            findings.append(found("table-missing", message, file=each.uri))
    return tuple(findings)


def _information(message: str, uri: str) -> Finding:
    """About a table that was lost and needs no command."""
    return replace(found("table-missing", message, file=uri), severity=Severity.INFO)


def _lost_tables(lake: str) -> list[Table]:
    with suppress(TableUnreadable):  # a finding of the table `logs`
        return lost_tables(lake, sorted({row.topic for row in read_logs(lake).values()}))
    return []


def _check_table(lake: str, name: str, state: TablesFile) -> Iterator[Finding]:
    before = state.tables.get(name)
    uri = table_uri(lake, name)
    table = latest_snapshot(lake, name)
    if table is None:
        if before is not None:
            yield found(
                "table-missing",
                f"table {name}: it was at version {before.version} with {before.rows} rows after an earlier run, and "
                "is gone",
                file=uri,
            )
        return
    files = files_of(lake, name, table)
    if before is not None:
        yield from _compared(lake, name, state, state_of(lake, name, table, files))
    yield from _foreign(lake, name, state.since(name))
    yield from _files_on_disk(lake, name, files)
    yield from _removed_rows(lake, name, table)


def _removed_rows(lake: str, name: str, table: DeltaTable) -> Iterator[Finding]:
    with reading(lake, name):
        written, there = (0, 0) if name in RECORD_TABLES else row_counts(table, name)
    if there < written:
        message = f"table {name}: it has {there:,} rows, and {written:,} were written: another program removed some"
        yield found("rows-removed", message, file=table_uri(lake, name))


def _compared(lake: str, name: str, state: TablesFile, now: TableState) -> Iterator[Finding]:
    uri, before = table_uri(lake, name), state.tables[name]
    version = now.version
    if before.table_id is not None and before.table_id != now.table_id:
        lost = f"table {name}: the table of version {before.version} was lost"
        made = commits_since(lake, name, -1)
        is_ours = not made.foreign and made.missing_to is None
        if name in _MADE_AGAIN and is_ours and now.rows >= before.rows >= 0 and _is_whole(lake, name, state):
            yield _information(f"{lost}, and made again with {now.rows:,} rows", uri)
        else:
            yield found("table-missing", f"{lost}, and another one was created in its place", file=uri)
        return
    if version < before.version:
        message = f"table {name}: it is at version {version} and was at {before.version}: commits were lost"
        yield found("table-went-back", message, file=uri)
        return
    digest, recorded = digest_of_commit(lake, name, before.version), before.commits.get(str(before.version))
    if digest is not None and recorded is not None and digest != recorded:
        message = f"table {name}: version {before.version} is another commit than it was: its history was replaced"
        yield found("table-went-back", message, file=uri)
    elif version == before.version and (now.rows, now.files, now.bytes) != (before.rows, before.files, before.bytes):
        yield found(
            "table-went-back",
            f"table {name}: version {version} has {now.rows} rows in {now.files} files ({now.bytes} bytes) and "
            f"had {before.rows} in {before.files} ({before.bytes} bytes)",
            file=uri,
        )


def _is_whole(lake: str, name: str, state: TablesFile) -> bool:
    """Whether the tables that a table was made again from were not lost too. Of `logs`, they name each log."""
    for other in _MADE_AGAIN & state.tables.keys() - {name}:
        before, table = state.tables[other].table_id, latest_snapshot(lake, other)
        if table is None or before not in (None, str(table.metadata().id)):
            return False
    if name != "logs":
        return True
    named = {log for of in ("segments", "offset_ledger") for log in read_rows(lake, of, ["log"])["log"].to_pylist()}
    return named <= read_logs(lake).keys()


def _foreign(lake: str, name: str, since: int) -> Iterator[Finding]:
    since_then = commits_since(lake, name, since)
    commits = since_then.foreign
    if since >= 0 and since_then.missing_to is not None:
        yield found(
            "commits-not-kept",
            f"table {name}: the commits of versions {since + 1} to {since_then.missing_to} are gone from its log. "
            "No run has seen them, so another program may have changed rows.",
            file=table_uri(lake, name),
        )

    def of_commit(commit: Commit) -> Finding:
        what = "rows may have changed" if commit.data_change else "no rows changed"
        message = (
            f"table {name}: version {commit.version} is a commit {commit.operation or 'without a name'} of "
            f"{commit.engine or 'an unknown program'}; {what}"
        )
        return found("foreign-commit", message, file=table_uri(lake, name))

    def of_rest(rest: Sequence[Commit]) -> Finding:
        message = f"table {name}: {len(rest)} more commits of other programs"
        return found("foreign-commit", message, file=table_uri(lake, name))

    yield from counted_findings(commits, of_commit, of_rest)


def _files_on_disk(lake: str, name: str, files: Sequence[LiveFile]) -> Iterator[Finding]:
    root = table_uri(lake, name)
    listed = {path: file.size for path, file in present_files(root, [file.path for file in files], root).items()}
    harmed: list[tuple[str, LiveFile, str]] = []
    for file in files:
        if file.path not in listed:
            harmed.append(("table-file-missing", file, "is not there"))
        elif listed[file.path] != file.size:
            harmed.append(("table-file-size", file, f"has {listed[file.path]} bytes and was written with {file.size}"))

    def of_file(each: tuple[str, LiveFile, str]) -> Finding:
        rule, file, what = each
        return found(
            rule,
            f"table {name}: {file.path}, {max(file.rows, 0)} rows{_place(file)}, {what}",
            file=storage.join(root, file.path),
            start_offset=file.min_offset,
            end_offset=None if file.max_offset is None else file.max_offset + 1,
        )

    def of_rest(rest: Sequence[tuple[str, LiveFile, str]]) -> Finding:
        return found(rest[0][0], f"table {name}: {len(rest)} more files are missing or cut", file=root)

    return counted_findings(harmed, of_file, of_rest)


def _place(file: LiveFile) -> str:
    topic, partition = file.partition_values.get("topic"), file.partition
    if topic is None:
        return ""
    return f" of {topic}" if partition is None else f" of {topic}-{partition}"


_OF_ARCHIVED_FILES = ("archive-file-missing", "archive-file-changed")


@dataclass(frozen=True, slots=True)
class Harm:
    """One thing that is wrong with the files of a lake, or a table that no run writes any more."""

    what: str
    """Text for users: the rule, and the message of the finding."""
    log: str | None
    """Log key; None if it is not about one log."""
    topic_partition: str | None
    """For people; of a table that no run writes its name."""
    offsets: str
    """``[4, 9)``; empty if it is not about offsets."""
    severity: Severity
    what_to_do: str
    """One command for this harm, or one sentence why there is none."""
    kind: str = "damage"
    """The kind of the alert about it."""

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
        """Findings that are only information: commits of other programs, and tables that were made again."""
        return tuple(finding.message for finding in self.findings if finding.severity is Severity.INFO)

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """Findings that are more than information."""
        return _wrong(self.findings)

    @property
    def lost(self) -> frozenset[str]:
        """Tables that are gone."""
        files = {finding.file for finding in self.wrong if finding.rule == "table-missing"}
        return frozenset(name for name in TABLES if table_uri(self.lake, name) in files)

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
        """Present harm: what the look found, files that are not equal to the archive, and tables without a policy."""
        differing = differing_files(self.lake)
        unfollowed = tuple(_of_unfollowed(self.lake))
        if not self.wrong and not differing:
            return unfollowed
        logs, rows = _logs_by_file(self.lake), read_logs(self.lake)
        made = [*_of_findings(self.lake, self.wrong, logs, rows)]
        for path, answer in sorted(differing.items()):
            log = logs.get(storage.join(table_uri(self.lake, "records"), path))
            made += _of_answer(self.lake, path, answer, log, rows)
        return *made, *unfollowed


def look_at_tables(lake: str, followed: Collection[str] = ()) -> TablesSeen:
    """Compare tables and archive with the records of the last run; cheap, because no table is read.

    The job ``check_foreign_rows`` records the present tables, so call this before it.

    Args:
        followed: Tables of topics that this run writes, also where they were lost.
    """
    state = tables_file.read_state(lake)
    archive = archive_check.look_at_files(lake, state)
    findings = (*check_tables(lake, state, followed), *archive.findings)
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


def _of_unfollowed(lake: str) -> Iterator[Harm]:
    for each in unfollowed_tables(lake):
        name = each.table.name
        harm = _harm(lake, RULE, f"{RULE}: {each.what}", None, (None, None), Severity.WARNING, name)
        yield replace(harm, topic_partition=name, kind="stale-table")


def _of_findings(
    lake: str, findings: Iterable[Finding], logs: Mapping[str, str], rows: Mapping[str, LogRow]
) -> Iterator[Harm]:
    """Harm of findings, with the log of each file."""
    lost = {each.uri: each.name for each in _lost_tables(lake)}
    for finding in findings:
        row = rows.get(logs.get(finding.file or "", ""))
        offsets = finding.start_offset, finding.end_offset
        what = f"{finding.rule}: {finding.message}"
        table = lost.get(finding.file or "") or table_of(lake, finding.file)
        harm = _harm(lake, finding.rule, what, row, offsets, finding.severity, table, finding)
        is_at_source = finding.rule in _OF_ARCHIVED_FILES and not _is_in(lake, finding.file)
        yield replace(harm, what_to_do=_put_back(lake, finding, row, rows)) if is_at_source else harm


def _put_back(lake: str, finding: Finding, row: LogRow | None, rows: Mapping[str, LogRow]) -> str:
    """What to do about registered files that are gone or short at their source: only these are written there.

    None of a log that has several incarnations. None where segments are left of one that has stopped, or has lost its
    end: it may have been truncated.
    """
    directory = storage.directory_of(finding.file or "")
    end = finding.end_offset or 0
    is_doubtful = row is None or row.stopped is not None or end >= row.next_offset
    if row is None or (is_doubtful and has_segments_below(directory, end)):
        return way_back(directory)
    if [each.topic_partition for each in rows.values()].count(row.topic_partition) > 1:
        return way_back(directory)
    return way_back(directory, archive_check.names_lost_at_source(lake).get((finding.rule, finding.file), ()))


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
    finding: Finding | None = None,
) -> Harm:
    to_do = advice(rule, harmed_place(lake, log=row, finding=finding, offsets=offsets, table=table))
    name, log = (None, None) if row is None else (row.topic_partition, row.log)
    return Harm(what, log, name, offsets_text(*offsets), severity, to_do)


def _logs_by_file(lake: str) -> dict[str, str]:
    """Return log keys by file, for table files of one log and for archived files."""
    logs = {}
    try:
        for name in RECORD_TABLES:
            root = table_uri(lake, name)
            for file in newest_files(lake, name):
                if file.log is not None:
                    logs[storage.join(root, file.path)] = file.log
        for segment in read_segments(lake, live=False):
            logs[storage.join(lake, segment.path)] = segment.log
    except JobError:  # the table cannot be read: then its harm counts for every log
        pass
    return logs
