"""Compares a request with the archive on one version of ``records``: the files that it meets, and the parts that
differ.

``rewritten_file`` compares the rows, in workers. ``replace`` handles the differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from spark_jobs.errors import OutputMismatch
from spark_jobs.lake.delta.files.file_contents import LogKey
from spark_jobs.lake.delta.files.live_files import LiveFile, live_files
from spark_jobs.lake.delta.tables.snapshots import open_table
from spark_jobs.lake.store.written_file import WriteResult
from spark_jobs.policies.policies_file import Policies
from spark_jobs.replace.layout import FileSpan, RecordFiles, SizedStretch, by_topic, connected, parts_of
from spark_jobs.replace.lost_files import LayoutChanged, LostFile, NewlyLost, noticed
from spark_jobs.replace.request import LogRequest, TopicRequest
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


def with_mixed_files(
    topics: Sequence[TopicRequest], files: RecordFiles, live: Sequence[LiveFile]
) -> list[TopicRequest]:
    """Add to requests that meet a file with rows of several logs the other logs of the file, without ranges.

    A topic with such a file is one commit, because the file is replaced as a whole.

    Raises:
        FileUnreadable: A file that a request meets cannot be read.
    """
    by_name = by_topic(live)
    done: list[TopicRequest] = []
    for topic in dict.fromkeys(each.topic for each in topics):
        of_topic = [each for each in topics if each.topic == topic]
        requests = [request for each in of_topic for request in each.logs]
        met = [span for request in requests for span in files.of(by_name.get(topic, ()), request)]
        mixed = {span.path: span.logs for span in met if len(span.logs) > 1}
        if not mixed:
            done += of_topic
            continue
        parts: dict[LogKey, list[LogRequest]] = {}
        for request in requests:
            parts.setdefault((request.log_id, request.partition), []).append(request)
        logs = [
            LogRequest(
                f"{key[0]}/{key[1]}",
                topic,
                *key,
                tuple(span for part in parts.get(key, ()) for span in part.ranges),
                tuple(span for part in parts.get(key, ()) for span in part.visible),
                sum(part.records for part in parts.get(key, ())),
                frozenset(path for path, held in mixed.items() if key in held),
            )
            for key in sorted({*parts, *(key for held in mixed.values() for key in held)})
        ]
        done.append(TopicRequest(topic, tuple(logs)))
    return done


def compared(requests: Sequence[LogRequest], lake: str, archived: ArchivedLogs, executor: Executor) -> list[Looked]:
    """Compare each request with the latest version of the table.

    Raises:
        LayoutChanged: A request meets a file with rows of several logs that it does not know yet.
        NewlyLost: A file of the table cannot be read.
    """
    table = open_table(lake, TABLE)
    if table is None:
        raise OutputMismatch(f"Table {TABLE} is gone, and the frontiers with it; restore it, or begin a new lake.")
    lost = archived.lost_paths
    files = by_topic(file for file in live_files(table) if file.path not in lost)
    extra = extra_columns(lake, TABLE)
    laid: list[Laid] = []
    for log in requests:
        with noticed():
            spans = archived.files.of(files.get(log.topic, ()), log)
        if any(len(span.logs) > 1 and span.path not in log.mixed for span in spans):
            raise LayoutChanged
        begins = [each.spans[log.log][0] for each in archived.lost.get(log.topic, ()) if log.log in each.spans]
        parts = parts_of(
            log,
            spans,
            archived.held,
            begins=begins,
            extra=extra,
            published_ms=archived.as_of_ms,
            compression=archived.policies.compression_of(log.topic),
        )
        laid.append(Laid(log, spans, tuple(parts)))
    parts = [part for each in laid for part in each.parts]
    asked = [part for part in parts if part.stretch.ranges]
    results = unless_lost(executor.run(compare_rows, [p.stretch for p in asked], [p.size for p in asked]))
    compared_parts = dict(zip(asked, results, strict=True))
    different = {part for part in parts if part.is_disordered}
    different |= {part for part, result in compared_parts.items() if not result.equal}
    chosen = set(connected(parts, different))
    return [_looked(each, [part for part in each.parts if part in chosen], compared_parts) for each in laid]


def _looked(laid: Laid, chosen: Sequence[SizedStretch], results: Mapping[SizedStretch, RowDifference]) -> Looked:
    of_log = {part: results[part] for part in laid.parts if part in results}
    problem = _problem(laid.request, of_log.values())
    if problem is not None or not chosen:
        return Looked(laid.request, problem)
    gained = sum(of_log[part].after - of_log[part].before for part in chosen if part in of_log)
    parts = tuple(_copied(part) if part in of_log and of_log[part].equal else part for part in chosen)
    return Looked(laid.request, rewrite=Rewrite(laid, parts, gained))


def _copied(part: SizedStretch) -> SizedStretch:
    """The part without ranges: its rows are right, and only go into other files."""
    return replace(part, stretch=replace(part.stretch, ranges=()))


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
