"""What a request differs in from the archive, on one version of ``records``: which files it meets, which parts differ.

Comparing the rows is ``rewritten_file``'s, in workers; what becomes of a difference ``replace``'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.lake.delta.live_files import live_files
from spark_jobs.lake.delta.tables import open_table
from spark_jobs.lake.errors import OutputMismatch
from spark_jobs.lake.segments import archive
from spark_jobs.replace.layout import FileSpan, MixedFile, RecordFiles, SizedStretch, by_topic, connected, parts_of
from spark_jobs.replace.lost_files import LostFile, NewlyLost, noticed
from spark_jobs.replace.request import LogRequest
from spark_jobs.row_files.pieces import ArchivedBytes
from spark_jobs.row_files.rewritten_file import TABLE, compare_rows
from spark_jobs.row_files.table_columns import extra_columns

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor


@dataclass(frozen=True, slots=True)
class Laid:
    """A log's request on one version of the table: the files it meets, and what becomes of them."""

    request: LogRequest
    files: tuple[FileSpan, ...]
    parts: tuple[SizedStretch, ...]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The parts of a log that differ, with those that share a file with them."""

    laid: Laid
    parts: tuple[SizedStretch, ...]
    gained: int
    """Rows more, or fewer, than the files had."""

    @property
    def removed(self) -> list[FileSpan]:
        """The files that they stand for."""
        gone = {path for part in self.parts for path in part.stretch.files}
        return [span for span in self.laid.files if span.path in gone]


@dataclass(frozen=True, slots=True)
class Looked:
    """What became clear of a request by comparing."""

    request: LogRequest
    problem: str | None = None
    """Why it can't be done."""
    rewrite: Rewrite | None = None
    """None: nothing differs."""


@dataclass(frozen=True, slots=True)
class ArchivedLogs:
    """Where a log's bytes lie, whose rows the table's files have, and which of these are lost."""

    held: ArchivedBytes
    files: RecordFiles
    lost: Mapping[str, list[LostFile]]
    """By topic, those that a request meets."""

    @property
    def lost_paths(self) -> set[str]:
        return {each.file.path for files in self.lost.values() for each in files}


def shared_names(lake: str) -> list[tuple[str, int]]:
    """Topics and partitions of which the lake has several logs: incarnations."""
    names = Counter((row.topic, row.partition) for row in archive.read_logs(lake).values())
    return [name for name, count in names.items() if count > 1]


def compared(requests: Sequence[LogRequest], lake: str, archived: ArchivedLogs, executor: Executor) -> list[Looked]:
    """What the newest version of the table has of each request, and where it differs.

    Raises:
        NewlyLost: a file of the table cannot be read.
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
        parts = parts_of(log.named, log.log, log.ranges, log.visible, spans, archived.held, begins=begins, extra=extra)
        laid.append(Laid(log, spans, tuple(parts)))
    asked = [part for each in laid if isinstance(each, Laid) for part in each.parts if part.stretch.ranges]
    results = iter(unless_lost(executor.run([asdict(p.stretch) for p in asked], compare_rows, [p.size for p in asked])))
    looked = []
    for request, each in zip(requests, laid, strict=True):
        if isinstance(each, str):
            looked.append(Looked(request, problem=each))
            continue
        told = {part: next(results) for part in each.parts if part.stretch.ranges}
        problem = _problem(request, told.values())
        different = connected(each.parts, [part for part, result in told.items() if not result["equal"]])
        gained = sum(told[part]["after"] - told[part]["before"] for part in different if part in told)
        rewrite = Rewrite(each, tuple(different), gained) if different and problem is None else None
        looked.append(Looked(request, problem, rewrite))
    return looked


def unless_lost(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What workers said.

    Raises:
        NewlyLost: a file of the table cannot be read.
    """
    lost = {result["lost"]: result["error"] for result in results if result["lost"] is not None}
    if lost:
        raise NewlyLost(lost)
    return results


def _problem(request: LogRequest, results: Iterable[Mapping[str, Any]]) -> str | None:
    decoded = 0
    for result in results:
        if result["error"]:
            return str(result["error"]).rstrip(".")
        decoded += result["after"]
    if decoded != request.records:
        return f"{decoded} records were decoded where the ledger counts {request.records}"
    return None
