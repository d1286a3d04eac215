"""Data files of a table: they exist, are complete and undamaged, and have the recorded rows and statistics.

A file is read once. During this pass its row digest is computed again, least and greatest values are compared with the
Delta log and the footer, and offsets of records are kept for the verification of their logs. Rows of ``records`` that
no digest verifies are compared with the archive in the same pass.

Statistics in the footers of Parquet files that may be damaged, read by a process of their own.

A damaged footer can end the process that reads its columns with Arrow, by a C++ exception that Python cannot catch. So
a child process reads first. If it dies, the file is damaged, another child is started, and the verification continues.
A process that verifies has at most one child, and only if the digest of some file does not prove its footer.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from logcore.texts import sentences
from spark_jobs.lake.delta.files import row_digest
from spark_jobs.lake.delta.files.live_files import LiveFile, open_parquet
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.published.held_offsets import LogRuns, OffsetRuns
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import RECORD_TABLES, TABLES
from spark_jobs.lake_verification.commits import read_table_log
from spark_jobs.lake_verification.comparison import MAX_INT64, SCHEMA, Archive, RowComparison, by_log
from spark_jobs.lake_verification.state import StateTables, file_name, way_out
from spark_jobs.lake_verification.verified_thing import (
    LISTED,
    DataUnreadable,
    Thing,
    ThingCounts,
    ThingResult,
    finding,
    identity_of,
    readable,
    stored_as,
)
from spark_jobs.placed_finding import PlacedFinding

GroupStatistics = dict[str, tuple[Any, Any, int | None]]
"""By column: least value, greatest value (None: not recorded) and number of nulls."""


class Footers:
    """Reads footers in a child, which ends with this process.

    It is no pool: a worker that ends without Python's own end would leak the semaphores of a pool.
    """

    def __init__(self) -> None:
        self._child: Connection | None = None

    def statistics(self, path: str) -> list[GroupStatistics]:
        """Statistics by row group.

        Raises:
            DataUnreadable: The footer is damaged.
            OSError: The file can't be read.
        """
        if self._child is None:
            # Not forked: locks that other threads of this process hold would never be released in the child.
            context = get_context("spawn")
            self._child, theirs = context.Pipe()
            context.Process(target=_answer, args=(theirs,), daemon=True).start()
            theirs.close()
        try:
            self._child.send((read_statistics, path))
            found: list[GroupStatistics] | Exception = self._child.recv()
        except (EOFError, ConnectionError) as error:
            self._child.close()
            self._child = None
            raise DataUnreadable("its footer ends the process that reads it") from error
        if isinstance(found, Exception):
            raise found
        return found


@cache
def footers() -> Footers:
    """The ones of this process."""
    return Footers()


def read_statistics(path: str) -> list[GroupStatistics]:
    """Read what :meth:`Footers.statistics` returns; called in the child."""
    found: list[GroupStatistics] = []
    with open_parquet(path) as parquet:
        metadata = parquet.metadata
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            of_group: GroupStatistics = {}
            for at in range(group.num_columns):
                column = group.column(at)
                said = column.statistics if column.is_stats_set else None
                if said is not None:
                    bounds: tuple[Any, Any] = None, None
                    with suppress(OverflowError):  # a column of another program, with times that Python does not have
                        bounds = (said.min, said.max) if said.has_min_max else bounds
                    of_group[column.path_in_schema] = (*bounds, said.null_count if said.has_null_count else None)  # type: ignore[attr-defined]
            found.append(of_group)
    return found


def _answer(asked: Connection) -> None:
    """Answer until the other process has ended. Stderr is discarded: what C++ says at its end is not ours."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with suppress(EOFError):
        while True:
            read, path = asked.recv()
            try:
                found: list[GroupStatistics] | Exception = read(path)
            except Exception as error:  # noqa: BLE001 - the other process raises it
                found = error
            asked.send(found)


CHUNK_ROWS = 65_536
_NAMES = pa.dictionary(pa.int32(), pa.string())
_PLACE = pa.schema([SCHEMA.field("partition"), SCHEMA.field("offset"), pa.field("log_id", _NAMES)])


def file_things(state: StateTables, archived: Archive) -> Iterator[Thing]:
    """Yield every live file of every table."""
    for name, opened in sorted(state.tables.items()):
        log = read_table_log(state, name)
        for file in opened.files:
            yield Thing(
                name=file_name(name, file),
                identity=_identity(state, name, file, log.digests.get(file.path)),
                size=file.size,
                verify=data_file(state, archived, name, file).verify,
            )


def data_file(state: StateTables, archived: Archive, name: str, file: LiveFile) -> DataFile:
    """A file with what the state says of it."""
    log, logs = read_table_log(state, name), _logs_in(state, name, file)
    start, end = (0, MAX_INT64) if file.max_offset is None else (file.min_offset or 0, file.max_offset + 1)
    return DataFile(
        state.lake,
        name,
        file,
        state.tables[name].columns,
        log.digests.get(file.path),
        log.contents.get(file.path),
        {log: topic for log in logs if (topic := state.topic_of(log)) is not None},
        archived.part(logs, start, end) if logs else None,
    )


def _logs_in(state: StateTables, name: str, file: LiveFile) -> Sequence[str]:
    """The logs that a file of records may have rows of, by its statistics."""
    if name not in RECORD_TABLES:
        return ()
    if file.log is not None:
        return (file.log,)
    split = ((log, *log.rpartition("/")[::2]) for log in sorted(state.known_logs()))
    return [log for log, log_id, partition in split if file.may_have(log_id, int(partition))]


def _identity(state: StateTables, name: str, file: LiveFile, digest: str | None) -> str:
    there = stored_as(storage.join(table_uri(state.lake, name), file.path))
    return identity_of(there, file.size, file.rows, file.partition_values, file.least, file.greatest, digest)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file, and what is recorded about it."""

    lake: str
    table: str
    file: LiveFile
    columns: frozenset[str]
    """Columns of its table."""
    row_digest: str | None
    """Digest of its rows, as the commit that added it recorded it."""
    content_digest: str | None
    """Digest of its bytes, from the same commit."""
    topics: Mapping[str, str]
    """The topics of the logs that it may have rows of."""
    archived: Archive | None
    """The archive of these logs; None: it is no file of records."""

    @property
    def path(self) -> str:
        """Where it is."""
        return storage.join(table_uri(self.lake, self.table), self.file.path)

    def verify(self) -> ThingResult:
        """Read the file to its end."""
        result = ThingResult(counts=ThingCounts(table_files=1))
        repair = way_out(self.lake, self.table)
        try:
            size = storage.stat(self.path).size
        except (FileNotFoundError, NotADirectoryError):
            result.findings.append(self.finding("table-file-missing", f"it is gone. {repair}"))
            return result
        if size != self.file.size:
            message = f"it has {size} bytes, its commit records {self.file.size}. {repair}"
            result.findings.append(self.finding("table-file-size", message))
        result.counts.table_bytes = size
        try:
            with readable():
                written = self.content_digest
                is_intact = written is not None and written == row_digest.of_bytes(self.path)
                if written is not None and not is_intact:
                    message = f"its bytes are not those that were written. {repair}"
                    result.findings.append(self.finding("table-file-damaged", message))
                # The digest proves the footer. Any other may end the process that reads it.
                footer = read_statistics(self.path) if is_intact else footers().statistics(self.path)
                _Reader(self, result).read(footer)
        except (DataUnreadable, FileNotFoundError) as error:
            rule = "page-checksum-differs" if "checksum" in str(error).lower() else "table-file-damaged"
            result.findings.append(self.finding(rule, f"it cannot be read: {error}. {repair}"))
        return result

    def finding(self, rule: str, message: str, log: str | None = None, **place: Any) -> PlacedFinding:
        """A finding about it."""
        file, span = self.file, {}
        if self.table in RECORD_TABLES and file.min_offset is not None and file.max_offset is not None:
            span = {"start_offset": file.min_offset, "end_offset": file.max_offset + 1}
        topic = file.partition_values.get("topic")
        partition = file.partition
        name = "" if topic is None else f" of {topic}-{partition}" if partition is not None else f" of topic {topic}"
        return finding(
            rule,
            f"Table {self.table}: the file {file.path}{name}: {message}",
            table=self.table,
            log=log or file.log,
            topic=topic,
            partition=partition,
            file=self.path,
            **span | place,
        )


class _Reader:
    """One pass over a file."""

    def __init__(self, where: DataFile, result: ThingResult) -> None:
        self._where, self._verified = where, result
        self._spec = TABLES[where.table]
        left_out = set(self._spec.partition_by)
        separated_by = self._spec.separated_by
        if separated_by is not None and separated_by not in where.file.nulls:
            left_out.add(separated_by)  # a user chose the columns with statistics
        self._bounds = _Bounds(tuple(name for name in self._spec.statistics if name not in left_out))
        self._runs: LogRuns = {}

    def read(self, footer: Sequence[GroupStatistics]) -> None:
        """Read it, given the statistics of its footer."""
        table, file = self._where.table, self._where.file
        is_records = table in RECORD_TABLES
        with open_parquet(self._where.path, page_checksum_verification=True) as parquet:
            schema = self._declared(parquet)
            if schema is None:
                return
            lasting = [field for field in schema if field.name not in self._spec.run_columns]
            digest = row_digest.RowDigest(pa.schema(lasting))
            recorded = self._recorded(parquet.metadata)
            if recorded is not None:
                self._types(parquet.schema_arrow)
            compared = None
            if is_records and recorded is None:
                compared = self._comparison()
            for rows in self._chunks(parquet, schema):
                digest.update(rows)
                self._bounds.add(rows)
                if is_records:
                    self._offsets(rows)
                if compared is not None:
                    compared.take(rows.select(SCHEMA.names))
            rows_read = digest.rows
            if is_records:
                self._verified.counts.rows = rows_read
            if file.rows != rows_read:
                self._say("table-file-damaged", f"it has {rows_read} rows, its commit records {file.rows}.")
            self._statistics(footer, has_digest=recorded is not None)
        if is_records:
            self._verified.offsets = self._runs
            self._order()
        if recorded is not None and recorded != digest.hexdigest():
            self._say("row-digest-differs", "its rows are not those that were written: the row digest differs.")
            if is_records:
                compared = self._compared_again(schema)
        elif recorded is not None and is_records:
            self._verified.counts.rows_by_digest = rows_read
        if compared is not None:
            self._result(compared)
        elif recorded is None:
            self._verified.undigested.append(table)

    def _say(self, rule: str, message: str, **place: Any) -> None:
        where = self._where
        self._verified.findings.append(
            where.finding(rule, sentences([message, way_out(where.lake, where.table)]), **place)
        )

    def _declared(self, parquet: pq.ParquetFile) -> pa.Schema | None:
        """Return the declared columns of the file; None if columns that identify rows are missing."""
        there = set(parquet.schema_arrow.names)
        is_records = self._where.table in RECORD_TABLES
        missing = [name for name in SCHEMA.names if name not in there] if is_records else []
        if missing:
            self._say("table-file-damaged", f"it has no column {', '.join(missing)}.")
            return None
        return pa.schema([field for field in self._spec.file_schema if field.name in there])

    def _types(self, there: pa.Schema) -> None:
        """Check that our own file has the declared types; another engine may store the same values in other types."""
        other = [f.name for f in self._spec.file_schema if f.name in there.names and there.field(f.name).type != f.type]
        if other:
            self._say("table-file-damaged", f"its footer gives other types to {', '.join(other)}.")
        strange = [name for name in there.names if name not in self._where.columns]
        if strange:
            self._say("table-file-damaged", f"its footer names columns that the table does not have: {strange}.")

    def _recorded(self, metadata: pq.FileMetaData) -> str | None:
        """Return the digest in footer and commit; if they differ, that of the footer."""
        footer, commit = row_digest.recorded(metadata), self._where.row_digest
        if commit is not None and footer != commit:
            said = "no digest" if footer is None else "another digest"
            self._say("row-digest-differs", f"its footer records {said} than its commit.")
        return commit if footer is None else footer

    def _chunks(self, parquet: pq.ParquetFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for group in range(parquet.num_row_groups):
            self._bounds.begin_group()
            # Read users' columns too: their pages can be damaged as well.
            for chunk in parquet.iter_batches(CHUNK_ROWS, [group], use_threads=False):
                yield chunk.select(schema.names).cast(schema)

    def _offsets(self, rows: pa.RecordBatch) -> None:
        if rows.column("offset").null_count:
            self._say("rows-differ-from-ledger", "it has rows without an offset.")
        add_offsets(self._runs, rows)

    def _order(self) -> None:
        topic = self._where.file.partition_values.get("topic")
        for log, runs in self._runs.items():
            if not runs.rises:
                place = self._where.finding("rows-out-of-order", "its rows are not in offset order.", log)
                self._verified.findings.append(place)
            known = self._where.topics.get(log)
            if known is not None and known != topic:
                self._say("rows-differ-from-ledger", f"its rows are of topic {known} by their log.", log=log)

    def _statistics(self, footer: Sequence[GroupStatistics], *, has_digest: bool) -> None:
        file = self._where.file
        for name, (least, greatest) in self._bounds.of_file().items():
            said = file.least.get(name), file.greatest.get(name)
            if None in said or least is None:
                continue
            if not _covers(said, (least, greatest), is_exact=has_digest):
                message = (
                    f"its commit says that {name} lies between {said[0]} and {said[1]}, "
                    f"it lies between {least} and {greatest}."
                )
                self._say("table-file-damaged", message)
        for group, name in self._bounds.wrong_groups(footer, is_exact=has_digest):
            self._say("table-file-damaged", f"its footer's statistics of {name} in row group {group} are wrong.")

    def _compared_again(self, schema: pa.Schema) -> RowComparison:
        """Read a file with a wrong digest once more, to name the rows."""
        compared = self._comparison()
        with open_parquet(self._where.path) as parquet:
            for rows in parquet.iter_batches(CHUNK_ROWS, use_threads=False):
                compared.take(rows.select(SCHEMA.names).cast(SCHEMA))
        return compared

    def _comparison(self) -> RowComparison:
        assert self._where.archived is not None
        return RowComparison(self._where.archived, self._where.file.partition_values.get("topic", ""))

    def _result(self, compared: RowComparison) -> None:
        result, table = compared.finish(), self._where.table
        self._verified.counts.rows_by_archive = result.equal
        self._verified.counts.rows_not_provable = result.unproved
        self._verified.findings += [
            self._where.finding(rule, text, log, start_offset=start, end_offset=end)
            for rule, log, start, end, text in comparison_findings(table, result.ranges(), result.doubts())
        ]


def comparison_findings(
    table: str, differences: Sequence[tuple[str, int, int, str]], doubts: Sequence[tuple[str, int, int, str]]
) -> Iterator[tuple[str, str, int, int, str]]:
    """Yield rule, log, start, end and text of what a comparison with the archive found."""
    for at, (log, start, end, what) in enumerate(differences):
        if at == LISTED:
            what, end = f"and {len(differences) - LISTED} further ranges", max(each[2] for each in differences)
        rest = "" if table == "records" else " The next run with read_uncommitted writes them again."
        yield (
            "rows-differ-from-archive",
            log,
            start,
            end,
            f"offsets [{start}, {end}) differ from the archive: {what}.{rest}",
        )
        if at == LISTED:
            break
    for log, start, end, why in doubts:
        text = f"offsets [{start}, {end}) cannot be verified: the file has no row digest, and {why}."
        yield "not-provable", log, start, end, text


def offsets_of(state: StateTables, table: str, file: LiveFile) -> LogRuns:
    """Return which offsets a file has, by log; read the file if its verification was left out.

    Raises:
        DataUnreadable: The file is damaged.
        FileNotFoundError: The file is missing.
    """
    known = state.offsets.get(file_name(table, file))
    return offsets_in(state.lake, table, file.path) if known is None else known


def offsets_in(lake: str, table: str, path: str) -> LogRuns:
    """Return which offsets a file has, by log. Raises as :func:`offsets_of`."""
    runs: LogRuns = {}
    with readable(), open_parquet(storage.join(table_uri(lake, table), path), read_dictionary=["log_id"]) as parquet:
        for rows in parquet.iter_batches(CHUNK_ROWS, columns=_PLACE.names, use_threads=False):
            # Files of other engines have types of their own, such as views of strings.
            add_offsets(runs, rows.select(_PLACE.names).cast(_PLACE))
    return runs


def add_offsets(runs: LogRuns, rows: pa.RecordBatch) -> None:
    """Add the offsets of rows to those of their logs."""
    for log, some in by_log(rows.filter(pc.is_valid(rows.column("offset")))):
        runs.setdefault(log, OffsetRuns()).add(some.column("offset").to_numpy(zero_copy_only=False))


class _Bounds:
    """Least and greatest values by column, of the file and of its row groups."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._groups: list[dict[str, tuple[Any, Any]]] = []
        self._nulls: list[dict[str, int]] = []

    def begin_group(self) -> None:
        """Start the next row group."""
        self._groups.append({})
        self._nulls.append({})

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the next rows."""
        group, nulls = self._groups[-1], self._nulls[-1]
        for name in self._names:
            if name not in rows.schema.names:
                continue
            column = rows.column(name)
            nulls[name] = nulls.get(name, 0) + column.null_count
            least, greatest = _least_and_greatest(column)
            if least is None:
                continue
            before = group.get(name)
            group[name] = (least, greatest) if before is None else (min(least, before[0]), max(greatest, before[1]))

    def of_file(self) -> Mapping[str, tuple[Any, Any]]:
        """Return the bounds over all row groups."""
        whole: dict[str, tuple[Any, Any]] = {}
        for group in self._groups:
            for name, (least, greatest) in group.items():
                before = whole.get(name, (least, greatest))
                whole[name] = min(least, before[0]), max(greatest, before[1])
        return whole

    def wrong_groups(self, footer: Sequence[GroupStatistics], *, is_exact: bool) -> Iterator[tuple[int, str]]:
        """Yield row groups and columns whose statistics in the footer do not match the rows.

        Args:
            is_exact: Whether we wrote the file: then statistics must exist and must be exact.
        """
        for number, group in enumerate(self._groups):
            for name, found in group.items():
                said = footer[number].get(name)
                if said is None:
                    if is_exact:
                        yield number, name
                    continue
                least, greatest, nulls = said
                if least is None:
                    wrong = is_exact
                elif is_exact:
                    wrong = (_comparable(least), _comparable(greatest)) != found
                else:
                    wrong = not _covers((least, greatest), found, is_exact=False)
                counted = self._nulls[number].get(name)
                if wrong or (nulls != counted and (is_exact or nulls is not None)):
                    yield number, name


def _least_and_greatest(column: pa.Array[Any]) -> tuple[Any, Any]:
    if pa.types.is_timestamp(column.type):  # as numbers: Python's times have a smaller range than Arrow's
        bounds = pc.min_max(column.cast(pa.int64()))
        least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
        return (None, None) if least is None else (_moment(least), _moment(greatest))
    bounds = pc.min_max(column)
    return bounds["min"].as_py(), bounds["max"].as_py()


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _moment(microseconds: int) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(microseconds=microseconds)


def _covers(said: tuple[Any, Any], found: tuple[Any, Any], *, is_exact: bool) -> bool:
    """Return whether recorded bounds match the rows: for times to the millisecond. In files of other engines bounds may
    be wider, because they shorten long texts.
    """
    try:
        if isinstance(found[0], datetime.datetime):
            # A difference of two times always exists; a time that is a step earlier or later does not.
            step = datetime.timedelta(milliseconds=1)
            least, greatest = _utc(said[0]), _utc(said[1])
            inside = least <= found[0] and found[1] - greatest < step
            return inside and (not is_exact or (found[0] - least < step and greatest - found[1] < step))
        if is_exact:
            return bool(said == found)
        return bool(said[0] <= found[0] and said[1] >= found[1])
    except TypeError:
        return False


def _utc(value: datetime.datetime) -> datetime.datetime:
    return value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value


def _comparable(value: Any) -> Any:
    return _utc(value) if isinstance(value, datetime.datetime) else value
