"""Whether the files of ``records`` hold just what the ledger says is published, told without opening one of them.

The Delta log keeps of each file how many rows it has and between which offsets they lie. So a log's published rows can
be proved file by file: offsets of one file lie wholly before those of the next, and each has as many rows as the ledger
counts published records up to its end. Where a file ends inside a range whose gaps are only counted, it is taken
together with the next one.

Belongs here: that comparison. Whether rows are those of the archive is what ``expectations`` and ``replace`` look at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import pyarrow.compute as pc

from spark_jobs.lake import frontier, storage
from spark_jobs.lake.frontier import LedgerRow
from spark_jobs.lake.live_files import LiveFile, newest_files, open_parquet
from spark_jobs.lake.tables import table_uri


@dataclass(frozen=True, slots=True)
class Difference:
    """Offsets [start_offset, end_offset) of a log, of which ``records`` holds something else than it should."""

    log: str
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    expected: int
    """Published records by the ledger."""
    found: int
    """Rows by the files' statistics."""
    what: str


def differences(lake: str, logs: Sequence[str] | None = None) -> tuple[Difference, ...]:
    """Where table and ledger differ, by log and offset; none where every published record is there once.

    Args:
        logs: log keys to look at; None: all, rows of logs that have no ledger among them.
    """
    ledger = frontier.read_ledger(lake, logs)
    frontiers = frontier.read_frontiers(lake, list(ledger))
    files: dict[str, list[LiveFile]] = {}
    found: list[Difference] = []
    for file in newest_files(lake, "records"):
        log, why = _log_of(lake, file)
        if log is not None:
            files.setdefault(log, []).append(file)
        elif logs is None:
            found.append(_strange(file, why))
    for log in sorted(ledger if logs is not None else ledger.keys() | files.keys()):
        rows = frontier.with_published(ledger.get(log, ()), frontiers.get(log))
        found += _of_log(log, rows, files.get(log, []))
    return tuple(found)


def _log_of(lake: str, file: LiveFile) -> tuple[str | None, str]:
    """Log key of a file's rows, or why there is none."""
    if "partition" not in file.least or "offset" not in file.least or file.rows < 0:
        return None, f"the file {file.path} has no statistics"
    partition = file.least["partition"]
    if partition != file.greatest["partition"]:
        return None, f"the file {file.path} holds several partitions"
    names = {file.least.get("log_id"), file.greatest.get("log_id")}
    if None in names:  # written before its statistics were kept: the one case in which a file is opened
        with open_parquet(storage.join(table_uri(lake, "records"), file.path)) as parquet:
            names = set(pc.unique(parquet.read(["log_id"])["log_id"]).to_pylist())
    if len(names) != 1:
        return None, f"the file {file.path} holds several logs"
    return f"{names.pop()}/{partition}", ""


def _strange(file: LiveFile, why: str) -> Difference:
    topic, partition = file.partition_values.get("topic", ""), file.least.get("partition", -1)
    end = file.greatest.get("offset", -1) + 1
    return Difference("", topic, partition, file.least.get("offset", 0), end, 0, max(file.rows, 0), why)


def _of_log(log: str, ledger: Sequence[LedgerRow], files: list[LiveFile]) -> Iterator[Difference]:
    published = [r for r in ledger if r.has_rows]
    files.sort(key=lambda file: (file.least["offset"], file.greatest["offset"]))
    if ledger:
        topic, partition = ledger[0].topic, ledger[0].partition
    elif files:
        topic, partition = files[0].partition_values["topic"], files[0].least["partition"]
    else:
        return

    def difference(start: int, end: int, expected: int, found: int, what: str) -> Difference:
        return Difference(log, topic, partition, start, end, expected, found, what)

    count = _Counts(published)
    for before, after in pairwise(files):
        start, end = after.least["offset"], before.greatest["offset"] + 1
        if start < end:
            yield difference(start, end, 0, 0, f"the files {before.path} and {after.path} both hold offsets there")
    start = rows = 0
    first = None
    for number, file in enumerate(files):
        rows += file.rows
        first = file if first is None else first
        border = file.greatest["offset"] + 1
        is_last = number == len(files) - 1
        room = count.end if is_last else files[number + 1].least["offset"]
        at = count.countable(border, max(border, room))
        if at is None and not is_last:
            continue
        end = max(count.end, border) if at is None or is_last else at
        expected = count.below(end) - count.below(start)
        if rows != expected:
            yield difference(start, end, expected, rows, "rows and published records differ in number")
        elif not (count.holds(first.least["offset"]) and count.holds(border - 1)):
            yield difference(first.least["offset"], border, expected, rows, "rows lie where none is published")
        start, rows, first = end, 0, None
    if not files and count.below(count.end):
        yield difference(published[0].start_offset, count.end, count.below(count.end), 0, "no file holds any of them")


class _Counts:
    """How many published records lie below an offset."""

    def __init__(self, published: Sequence[LedgerRow]) -> None:
        self._ranges = published
        self._starts = [r.start_offset for r in published]
        self._before = [0, *accumulate(r.records for r in published)]
        self.end = published[-1].end_offset if published else 0

    def below(self, offset: int) -> int:
        """Records below an offset that does not go through gaps."""
        place = bisect_right(self._starts, offset) - 1
        if place < 0:
            return 0
        each = self._ranges[place]
        inside = each.records if offset >= each.end_offset else offset - each.start_offset
        return self._before[place] + inside

    def countable(self, offset: int, latest: int) -> int | None:
        """The first offset from ``offset`` to ``latest`` up to which records can be counted; None: there is none."""
        place = bisect_right(self._starts, offset) - 1
        if place < 0:
            return offset
        each = self._ranges[place]
        if not each.gaps or offset >= each.end_offset or offset == each.start_offset:
            return offset
        return each.end_offset if each.end_offset <= latest else None

    def holds(self, offset: int) -> bool:
        """Whether an offset lies in a published range."""
        place = bisect_right(self._starts, offset) - 1
        return place >= 0 and offset < self._ranges[place].end_offset
