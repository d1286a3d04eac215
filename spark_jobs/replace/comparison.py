"""Compares a request with the archive on one version of ``records``: the files that it meets, and the parts that
differ.

``rewritten_file`` compares the rows, in workers. ``replace`` handles the differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from spark_jobs.lake.delta.files.live_files import live_files
from spark_jobs.lake.delta.tables.snapshots import open_table
from spark_jobs.lake.errors import OutputMismatch
from spark_jobs.lake.segments import archive
from spark_jobs.lake.setup.policies.policies_file import Policies
from spark_jobs.lake.store.written_file import WriteResult
from spark_jobs.replace.layout import FileSpan, MixedFile, RecordFiles, SizedStretch, by_topic, connected, parts_of
from spark_jobs.replace.lost_files import LostFile, NewlyLost, noticed
from spark_jobs.replace.request import LogRequest
from spark_jobs.row_files.archived_bytes import ArchivedBytes
from spark_jobs.row_files.rewritten_file import TABLE, RowDifference, compare_rows
from spark_jobs.row_files.table_columns import extra_columns

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor


@dataclass(frozen=True, slots=True)
class Laid:
    """A log's request on one version of the table: the files that it meets, and its parts."""

    request: LogRequest
    files: tuple[FileSpan, ...]
    parts: tuple[SizedStretch, ...]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The parts of a log that differ, and parts that share a file with them."""

    laid: Laid
    parts: tuple[SizedStretch, ...]
    gained: int
    """Change of the number of rows; may be negative."""

    @property
    def removed(self) -> list[FileSpan]:
        """The files that the parts replace."""
        gone = {path for part in self.parts for path in part.stretch.files}
        return [span for span in self.laid.files if span.path in gone]


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of comparing a request."""

    request: LogRequest
    problem: str | None = None
    """Why the request cannot be executed."""
    rewrite: Rewrite | None = None
    """The parts to rewrite; None: nothing differs."""


@dataclass(frozen=True, slots=True)
class ArchivedLogs:
    """Archived bytes of logs, the owners of the table's files, the lost files, and clock and policies of the run."""

    held: ArchivedBytes
    files: RecordFiles
    lost: Mapping[str, list[LostFile]]
    """Lost files that a request meets, by topic."""
    as_of_ms: int
    policies: Policies

    @property
    def lost_paths(self) -> set[str]:
        """Paths of all lost files."""
        return {each.file.path for files in self.lost.values() for each in files}


def shared_names(lake: str) -> list[tuple[str, int]]:
    """Topics and partitions with several logs (incarnations) in the lake."""
    names = Counter((row.topic, row.partition) for row in archive.read_logs(lake).values())
    return [name for name, count in names.items() if count > 1]


def compared(requests: Sequence[LogRequest], lake: str, archived: ArchivedLogs, executor: Executor) -> list[Looked]:
    """Compare each request with the latest version of the table.

    Raises:
        NewlyLost: A file of the table cannot be read.
    """
    table = open_table(lake, TABLE)
    if table is None:
        raise OutputMismatch(f"Table {TABLE} is gone, and the frontiers with it; restore it, or begin a new lake.")
    lost = archived.lost_paths
    files = by_topic(file for file in live_files(table) if file.path not in lost)
    extra = extra_columns(lake, TABLE)
    laid: list[Laid | str] = []
    for log in requests:
        try:
            with noticed():
                spans = archived.files.of(files.get(log.topic, ()), log.named, log.ranges)
        except MixedFile as mixed:
            laid.append(str(mixed))
            continue
        begins = [each.spans[log.log][0] for each in archived.lost.get(log.topic, ()) if log.log in each.spans]
        parts = parts_of(
            log.named,
            log.log,
            log.ranges,
            log.visible,
            spans,
            archived.held,
            begins=begins,
            extra=extra,
            published_ms=archived.as_of_ms,
            compression=archived.policies.compression_of(log.topic),
        )
        laid.append(Laid(log, spans, tuple(parts)))
    asked = [part for each in laid if isinstance(each, Laid) for part in each.parts if part.stretch.ranges]
    results = iter(unless_lost(executor.run(compare_rows, [p.stretch for p in asked], [p.size for p in asked])))
    looked = []
    for request, each in zip(requests, laid, strict=True):
        if isinstance(each, str):
            looked.append(Looked(request, problem=each))
            continue
        results_of_parts = {part: next(results) for part in each.parts if part.stretch.ranges}
        problem = _problem(request, results_of_parts.values())
        different = connected(each.parts, [part for part, result in results_of_parts.items() if not result.equal])
        gained = sum(
            results_of_parts[part].after - results_of_parts[part].before
            for part in different
            if part in results_of_parts
        )
        rewrite = Rewrite(each, tuple(different), gained) if different and problem is None else None
        looked.append(Looked(request, problem, rewrite))
    return looked


Reported = TypeVar("Reported", RowDifference, WriteResult)


def unless_lost(results: list[Reported]) -> list[Reported]:
    """Return the results of workers.

    Raises:
        NewlyLost: A file of the table cannot be read.
    """
    lost = {result.lost: result.error or "" for result in results if result.lost is not None}
    if lost:
        raise NewlyLost(lost)
    return results


def _problem(request: LogRequest, results: Iterable[RowDifference]) -> str | None:
    decoded = 0
    for result in results:
        if result.error is not None:
            return result.error.rstrip(".")
        decoded += result.after
    if decoded != request.records:
        return f"{decoded} records were decoded where the ledger counts {request.records}"
    return None
