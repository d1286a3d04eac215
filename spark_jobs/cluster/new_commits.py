"""Which rows of commits the table lacks.

A commit has one row: the table records the offset up to which each log was read. Bytes that cannot be read do not stop
the log. The table records where they begin, and the next run reads from there again, so that what becomes readable
later gets its rows too. The same is done with rows from before the id of the cluster was known. Rows that were written
without a high watermark are `tentative`. When the source states one, their part of the log is read again, and what it
has now replaces them.

Rows from the time when no run knew the id of the cluster. They become rows of the cluster.

A source without `meta.properties` states no cluster, and its rows are those of the cluster `unknown`. A lake holds one
cluster. So when a run that reads the same internal log knows the id, these rows get it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from logcore.logs.model.sources import SourceLog
from spark_jobs.cluster.internal_sources import ClusterLogs, standing
from spark_jobs.cluster.read_tasks import COMMITS, ReadCommits
from spark_jobs.lake.cluster_columns import COMMITTED, SOURCE, TENTATIVE, UNKNOWN_CLUSTER
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard, TableVersions
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.table_specs import TABLES


def unnamed(log: str) -> str | None:
    """Return the name that an internal log has while the id of its cluster is not known; None if this is its name."""
    cluster, _, place = log.rpartition("/")
    return None if cluster == UNKNOWN_CLUSTER else f"{UNKNOWN_CLUSTER}/{place}"


def both_names(logs: Iterable[str]) -> tuple[str, ...]:
    """Return names of internal logs, and those that they have while the id is not known."""
    return tuple(name for log in logs for name in (log, unnamed(log)) if name is not None)


def has_unnamed_rows(lake: str, table: str, log: str) -> bool:
    """Return whether a table has rows of an internal log from the time before the id was known.

    Raises:
        TableUnreadable: The table is damaged.
    """
    name = unnamed(log)
    return name is not None and read_rows(lake, table, [SOURCE], [(SOURCE, "==", name)]).num_rows > 0


def known_rows(lake: str, table: str, logs: Sequence[str]) -> pa.Table:
    """Return the rows of internal logs. A log without any has those from before the id was known, with its name.

    Raises:
        TableUnreadable: The table is damaged.
    """
    schema = TABLES[table].schema
    rows = read_rows(lake, table, schema.names, [(SOURCE, "in", list(logs))]).cast(schema)
    there = set(rows[SOURCE].unique().to_pylist())
    return pa.concat_tables([rows, *(named_rows(lake, table, log) for log in logs if log not in there)])


def named_rows(lake: str, table: str, log: str) -> pa.Table:
    """Return the rows of an internal log from before the id was known, with its name.

    Raises:
        TableUnreadable: The table is damaged.
    """
    schema, name = TABLES[table].schema, unnamed(log)
    if name is None:
        return schema.empty_table()
    rows = read_rows(lake, table, schema.names, [(SOURCE, "==", name)]).cast(schema)
    for column, text in ((SOURCE, log), ("cluster", log.rpartition("/")[0])):
        rows = rows.set_column(schema.get_field_index(column), schema.field(column), pa.repeat(text, rows.num_rows))
    return rows


_GAP, _NO_GAP = "/gap", (1 << 63) - 1
"""After the application id of a log: the offset from which it is read again; the greatest if nothing is left out."""


@dataclass(frozen=True, slots=True)
class LogStart:
    """What the table records of a log.

    Attributes:
        log: The log.
        place: Its name in the rows.
        key: Its application id.
        start: Where to begin to read.
        end: Up to where it was read; None: never.
        gap: Where the first bytes begin that could not be read, as it is recorded.
        tentative: Offsets of rows that can be confirmed now.
        is_renamed: Whether rows have it under another name.
    """

    log: SourceLog
    place: str
    key: str
    start: int
    end: int | None
    gap: int | None
    tentative: frozenset[int]
    is_renamed: bool


@dataclass(slots=True)
class NewCommits:
    """Rows that the table lacks.

    Attributes:
        rows: Rows to append, or to write in place of others, by internal log.
        replaced: Internal logs of which all rows are replaced; `rows` has all of them.
        guards: What the table records of the logs.
        expected: The table that was compared; None if no log was.
        changed: How many rows are new or other ones.
    """

    rows: list[pa.Table] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    expected: TableVersions | None = None
    changed: int = 0

    def starts(self, lake: str, cluster: ClusterLogs, logs: Sequence[SourceLog]) -> Iterator[LogStart]:
        """Look up in the table from where some logs of `__consumer_offsets` are to be read.

        Args:
            lake: The lake.
            cluster: The cluster of the logs.
            logs: The logs.

        Raises:
            TableUnreadable: The table is damaged.
        """
        if not logs:
            return
        self.expected = self.expected or TableVersions.of(lake, COMMITS)
        places = {log: str(cluster.place(log)[SOURCE]) for log in logs}
        keys = {log: f"{places[log]}/{log.topic_id or ''}" for log in logs}
        recorded = commits.versions(lake, COMMITS, [name for key in keys.values() for name in (key, key + _GAP)])
        tentative = _tentative(lake, {places[log]: log for log in logs if standing(log) == COMMITTED})
        for log in logs:
            end, gap = recorded[keys[log]], recorded[keys[log] + _GAP]
            is_renamed = has_unnamed_rows(lake, COMMITS, places[log])
            of_log = tentative.get(places[log], set())
            start = 0 if is_renamed else min(end or 0, _NO_GAP if gap is None else gap, *of_log)
            yield LogStart(log, places[log], keys[log], start, end, gap, frozenset(of_log), is_renamed)

    def add(self, lake: str, of: LogStart, read: ReadCommits) -> None:
        """Compare what was read of a log with the table.

        Args:
            lake: The lake.
            of: Where the reading began.
            read: What was read.

        Raises:
            TableUnreadable: The table is damaged.
        """
        end = of.end or 0
        read_to = max(read.end, end)
        if read_to > end:
            self.guards.append(Guard(of.key, of.end, read_to))
        next_gap = read.gap if read.gap is not None and read.gap < read_to else _NO_GAP
        if next_gap != (_NO_GAP if of.gap is None else of.gap):
            self.guards.append(Guard(of.key + _GAP, of.gap, next_gap))
        if of.is_renamed:
            self._rename(lake, of.place, read.rows)
        else:
            self._take(lake, of.place, read.rows, of.tentative, of.start < end)

    def table(self) -> pa.Table:
        """All rows, by internal log and offset."""
        of_logs = sorted((rows for rows in self.rows if rows.num_rows), key=lambda rows: str(rows[SOURCE][0]))
        return pa.concat_tables([TABLES[COMMITS].schema.empty_table(), *of_logs])

    def _rename(self, lake: str, place: str, rows: pa.Table) -> None:
        """Give all rows of a log its name, and take what it has now in place of them."""
        named = read_rows(lake, COMMITS, rows.schema.names, [(SOURCE, "==", place)]).cast(rows.schema)
        for known in (named, named_rows(lake, COMMITS, place)):
            rows = pa.concat_tables([rows, _without(known, rows["record_offset"])])
        self.replaced += both_names([place])
        self.changed += rows.num_rows - named.num_rows
        self.rows.append(rows.sort_by("record_offset"))

    def _take(self, lake: str, place: str, rows: pa.Table, tentative: frozenset[int], is_read_again: bool) -> None:
        """Add those of the rows that the table lacks, or that take the place of tentative ones."""
        if is_read_again:
            again = tentative.intersection(rows["record_offset"].to_pylist())
            columns = TABLES[COMMITS].schema.names if again else ["record_offset"]
            known = read_rows(lake, COMMITS, columns, [(SOURCE, "==", place)])
            if again:
                known = _without(known, pa.array(sorted(again), pa.int64()))
                self.replaced.append(place)
            rows = _without(rows, known["record_offset"])
            self.changed += rows.num_rows
            if again:
                rows = pa.concat_tables([known.cast(rows.schema), rows]).sort_by("record_offset")
        else:
            self.changed += rows.num_rows
        self.rows.append(rows)


def _without(rows: pa.Table, offsets: pa.Array[Any] | pa.ChunkedArray[Any]) -> pa.Table:
    """Rows of other offsets than these."""
    known = offsets.combine_chunks() if isinstance(offsets, pa.ChunkedArray) else offsets
    return rows.filter(pc.invert(pc.is_in(rows["record_offset"], known)))


def _tentative(lake: str, logs: Mapping[str, SourceLog]) -> dict[str, set[int]]:
    """Offsets of tentative rows by internal log, below the high watermark that the source states now."""
    found: dict[str, set[int]] = {}
    columns = [SOURCE, "record_offset"]
    for row in _rows(lake, columns, [("standing", "==", TENTATIVE)]):
        log = logs.get(str(row[SOURCE]))
        offset = int(str(row["record_offset"]))
        if log is not None and log.high_watermark is not None and offset < log.high_watermark:
            found.setdefault(str(row[SOURCE]), set()).add(offset)
    return found


def _rows(lake: str, columns: list[str], where: Sequence[tuple[str, str, object]]) -> Iterable[Mapping[str, object]]:
    rows: list[dict[str, object]] = read_rows(lake, COMMITS, columns, where).to_pylist()
    return rows
