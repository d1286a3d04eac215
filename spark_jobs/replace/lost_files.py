"""Files of ``records`` that can no longer be read: their offsets, and how a replacement restores their rows.

A file is lost when it is missing, has another size than its commit says, or cannot be decoded although its bytes can be
read. The commit that restores all its rows also removes it from the table. So a request that meets a lost file is
widened to all offsets that the file may have had, of each possible log. The statistics give these offsets, or the file
itself where only its pages are damaged. A finding names rows that the archive no longer has.

This module finds files and offsets, and writes the findings. ``replace`` compares and writes rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from logcore.logs.model.findings import found
from logcore.ranges import joined
from spark_jobs.lake.delta.files.file_contents import FileUnreadable, read_contents
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.ledger.offset_ranges import Ranges, clipped, meets
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.store import storage
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.replace.request import LogRequest, TopicRequest, Unreplaceable, requests_for
from spark_jobs.replace.rewritten_file import TABLE


@contextmanager
def noticed() -> Iterator[None]:
    """Convert errors of an unreadable file.

    Raises:
        NewlyLost: The file is lost.
        OSError: The file may be readable later.
    """
    try:
        yield
    except FileUnreadable as unreadable:
        if not unreadable.is_lost:
            raise OSError(f"table {TABLE}: {unreadable}") from unreadable
        raise NewlyLost({unreadable.path: unreadable.reason}) from unreadable


class LayoutChanged(Exception):
    """Another engine changed the table's files meanwhile; the layout must be computed again."""


class NewlyLost(Exception):
    """Files turned out to be lost while a replacement read them; the layout must be computed again."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__()
        self.reasons = dict(reasons)


@dataclass(frozen=True, slots=True)
class LostFile:
    """A live file that cannot be read."""

    file: LiveFile
    reason: str
    spans: Mapping[str, tuple[int, int]]
    """Offsets [start, end) in which it may have had rows, by log key."""

    def meets_any(self, log: str, ranges: Ranges) -> bool:
        """Whether it may have had rows in ranges of a log."""
        span = self.spans.get(log)
        return span is not None and meets(ranges, *span)


def missing_or_cut(lake: str, files: Iterable[LiveFile]) -> dict[str, str]:
    """Why files are missing or truncated, by path, from one listing of the table's directory."""
    root = table_uri(lake, TABLE)
    sizes = {storage.relative(file.path, root): file.size for file in storage.files_below(root)}
    reasons = {}
    for file in files:
        size = sizes.get(file.path)
        if size is None:
            reasons[file.path] = "it is not there"
        elif size != file.size:
            reasons[file.path] = f"it has {size} bytes where its commit says {file.size}"
    return reasons


def lost_files(lake: str, files: Iterable[LiveFile], reasons: Mapping[str, str]) -> list[LostFile]:
    """The live files with a known reason, and the offsets that they may have had."""
    lost = [file for file in files if file.path in reasons]
    logs = archive.read_logs(lake) if lost else {}
    return [LostFile(file, reasons[file.path], _spans(lake, file, logs)) for file in lost]


def widened(
    lake: str,
    topics: Sequence[TopicRequest],
    in_vain: Mapping[tuple[str, str], Ranges],
    lost: Sequence[LostFile],
) -> tuple[list[TopicRequest], dict[str, list[LostFile]], list[Unreplaceable]]:
    """Widen requests to all offsets of the lost files that they meet. A topic with such a file is one commit.

    Args:
        in_vain: Requested ranges that cannot be replaced, by topic and log. Files that they meet count too.

    Returns:
        The requests, the files by topic, and the offsets of the files that cannot be replaced.
    """
    requests: dict[str, TopicRequest] = {}
    met: dict[str, list[LostFile]] = {}
    refused: list[Unreplaceable] = []
    unchanged: list[TopicRequest] = []
    for topic in dict.fromkeys([*(topic.topic for topic in topics), *(topic for topic, _ in in_vain)]):
        of_topic = [each for each in topics if each.topic == topic]
        asked = [(request.log, request.ranges) for each in of_topic for request in each.logs]
        asked += [(log, tuple(ranges)) for (name, log), ranges in in_vain.items() if name == topic]
        wanted: dict[str, Ranges] = {}
        for log, ranges in asked:
            wanted[log] = joined([*wanted.get(log, ()), *ranges])
        chosen = _met(wanted, [each for each in lost if each.file.partition_values["topic"] == topic])
        if not chosen:
            unchanged += of_topic
            continue
        logs, not_replaced = requests_for(lake, wanted)
        requests[topic] = TopicRequest(topic, tuple(logs))
        met[topic] = chosen
        refused += not_replaced
    return [*unchanged, *requests.values()], met, refused


def _met(wanted: dict[str, Ranges], lost: Sequence[LostFile]) -> list[LostFile]:
    """Lost files that meet the wanted ranges. Their offsets are added to ``wanted``, and may meet other files."""
    chosen: list[LostFile] = []
    while True:
        more = [
            each
            for each in lost
            if each not in chosen and any(each.meets_any(log, ranges) for log, ranges in wanted.items())
        ]
        if not more:
            return chosen
        chosen += more
        for each in more:
            for log, span in each.spans.items():
                wanted[log] = joined([*wanted.get(log, ()), span])


def _spans(lake: str, file: LiveFile, logs: Mapping[str, LogRow]) -> dict[str, tuple[int, int]]:
    try:
        held = read_contents(lake, TABLE, file.path).logs
    except FileUnreadable:
        held = {}
    if held:
        return {f"{log_id}/{partition}": (o.start, o.end) for (log_id, partition), o in held.items()}
    topic = file.partition_values["topic"]
    span = file.min_offset or 0, (1 << 63) - 1 if file.max_offset is None else file.max_offset + 1
    return {log: span for log, row in logs.items() if row.topic == topic and file.may_have(row.log_id, row.partition)}


def rows_lost(
    lake: str, lost: Sequence[LostFile], refused: Iterable[Unreplaceable], others: Sequence[LiveFile]
) -> list[PlacedFinding]:
    """Findings for offsets whose rows were in lost files only and which the archive does not have.

    Args:
        others: Files of the table that can be read.
    """
    missing: dict[tuple[str, str], list[tuple[Unreplaceable, int, int]]] = {}
    for each in refused:
        for file in lost:
            span = file.spans.get(each.row.log)
            for start, end in clipped([(each.start, each.end)], *span) if span is not None else ():
                if each.rows and _rows_in(lake, others, each, start, end) < each.rows_between(start, end):
                    missing.setdefault((file.file.path, each.row.log), []).append((each, start, end))
    by_path = {each.file.path: each for each in lost}
    return [
        _rows_are_lost(by_path[path], found_there[0][0], start, end)
        for (path, _), found_there in missing.items()
        for start, end in joined((start, end) for _, start, end in found_there)
    ]


def _rows_in(lake: str, files: Sequence[LiveFile], of: Unreplaceable, start: int, end: int) -> int:
    rows = 0
    for file in files:
        is_of_topic = file.partition_values["topic"] == of.row.topic
        if is_of_topic and file.may_have(of.row.log_id, of.row.partition, start, end):
            held = read_contents(lake, TABLE, file.path).logs.get((of.row.log_id, of.row.partition))
            rows += held.below(end) - held.below(start) if held is not None else 0
    return rows


def _rows_are_lost(lost: LostFile, of: Unreplaceable, start: int, end: int) -> PlacedFinding:
    row = of.row
    finding = found(
        "replacement-refused",
        f"{row.topic}-{row.partition}: rows of offsets [{start}, {end}) are lost: the file {lost.file.path} of the "
        f"table {TABLE} held them and cannot be read ({lost.reason}), and {of.why}.",
        start_offset=start,
        end_offset=end,
    )
    return PlacedFinding(finding, row.log, row.topic, row.partition)


def rebuilt(lost: LostFile, logs: Mapping[str, LogRequest]) -> PlacedFinding:
    """Build the finding that a lost file was removed, and which offsets were compared with the archive."""
    topic = lost.file.partition_values["topic"]
    places = [
        f"[{start}, {end}) of {topic}-{request.partition}"
        for log, span in sorted(lost.spans.items())
        if (request := logs.get(log)) is not None
        for start, end in clipped(request.ranges, *span)
    ]
    finding = found(
        "table-file-rebuilt",
        f"Table {TABLE}: the file {lost.file.path} cannot be read ({lost.reason}) and was taken out of the table. All "
        f"that it may have held was compared with the archive and written again where it was missing: offsets "
        f"{', '.join(places)}.",
    )
    return PlacedFinding(finding, topic=topic)
