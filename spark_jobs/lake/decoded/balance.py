"""Whether decoded and undecoded rows of a topic are together the rows of ``records`` below its frontier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, topic_table
from spark_jobs.lake.delta.files.file_contents import of_log
from spark_jobs.lake.delta.files.live_files import LiveFile, newest_files
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.segments.archive import LogRow


@dataclass(frozen=True, slots=True)
class LogBalance:
    """The rows of a log below the frontier of its decoded table."""

    log: str
    partition: int
    end: int
    """The frontier."""
    records: int
    decoded: int
    undecoded: int

    @property
    def holds(self) -> bool:
        """Whether no row is missing and none is there twice."""
        return self.records == self.decoded + self.undecoded


def balances(lake: str, topic: str, logs: Sequence[LogRow]) -> list[LogBalance]:
    """Return the balance of each log of a topic that has a frontier; empty: nothing was looked at.

    Raises:
        TableUnreadable: A table or a file whose rows have to be counted can't be read.
    """
    decoded, undecoded = topic_table(lake, DECODED, topic), topic_table(lake, UNDECODED, topic)
    frontiers = decoded.versions([log.log for log in logs])
    good, bad = decoded.files(), undecoded.files()
    published = [file for file in newest_files(lake, "records") if file.partition_values["topic"] == topic]
    found = []
    for log in logs:
        end = frontiers[log.log]
        if end is None:
            continue
        records = published_below(lake, published, log, end)
        rows, others = _below(decoded, good, log, end), _below(undecoded, bad, log, end)
        found.append(LogBalance(log.log, log.partition, end, records, rows, others))
    return found


def published_below(lake: str, files: Sequence[LiveFile], log: LogRow, end: int) -> int:
    """Return the number of rows of a log below an offset, in some files of ``records``.

    Raises:
        TableUnreadable: A file whose rows have to be counted can't be read.
    """
    return _below(Table(lake, "records"), files, log, end)


def _below(table: Table, files: Sequence[LiveFile], log: LogRow, end: int) -> int:
    with table.reading():
        return sum(_rows(table, file, log, end) for file in files)


def _rows(table: Table, file: LiveFile, log: LogRow, end: int) -> int:
    """Rows of a log below an offset: by the file's statistics, or else counted."""
    if not file.may_have(log.log_id, log.partition, end=end):
        return 0
    if file.max_offset is not None and file.max_offset < end and file.rows >= 0 and file.log == log.log:
        return file.rows
    key, batches = (log.log_id, log.partition), table.batches(file, ["log_id", "partition", "offset"])
    return sum(int(np.count_nonzero(np.asarray(of_log(batch, key)["offset"]) < end)) for batch in batches)
