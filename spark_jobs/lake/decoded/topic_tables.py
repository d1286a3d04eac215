"""The tables ``decoded/<topic>``, ``undecoded/<topic>``, ``latest/<topic>``: place, columns, commits with their guards.

Each topic has its own columns, so these tables are not among ``TABLES``. They are Delta tables with the same settings.
All commits are guarded, and record the digests of the files' bytes, as ``delta/commits`` does for the other tables.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from logcore.columns.schema import HEADER_TYPE
from logcore.storage.objects.answers import said
from logcore.values.evolution.merged_type import merged_type
from logcore.values.form import ValueColumn, column_of
from spark_jobs.lake.delta.commits.commit_guards import Guard
from spark_jobs.lake.delta.commits.table_commit import answered, removals
from spark_jobs.lake.delta.files.live_files import LiveFile, live_files
from spark_jobs.lake.delta.files.row_counts import new_count, row_counts
from spark_jobs.lake.delta.tables.delta_location import LOG_DIRECTORY, delta_uri, prepare
from spark_jobs.lake.errors import ConcurrentChange, JobError, OutputMismatch, TableUnreadable
from spark_jobs.lake.store import disk_sync, storage
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_spec import TableSpec

DECODED, UNDECODED, LATEST = "decoded", "undecoded", "latest"
_STATISTICS = ("log_id", "partition", "offset", "timestamp", "published_at")
_TIME = pa.timestamp("us", tz="UTC")
_COORDINATES = (
    ("log_id", pa.string(), "topic id and incarnation; offsets are unique within a log only"),
    ("partition", pa.int32(), "partition number"),
    ("offset", pa.int64(), "offset in the log"),
    ("timestamp", _TIME, "record time in UTC, as in `records`"),
    ("headers", pa.list_(HEADER_TYPE), "record headers in their order; null where there are none"),
    ("published_at", _TIME, "clock of the run that published the row to `records`"),
)
_REASONS = (
    ("key", pa.binary(), "key as written"),
    ("value", pa.binary(), "value as written"),
    ("part", pa.string(), "`key` or `value`: the first part that could not be decoded"),
    ("schema_id", pa.int64(), "schema id before the bytes; null where there is none"),
    ("reason", pa.string(), "why it could not be decoded, one of a fixed list"),
    ("place", pa.string(), "place in the key or value; empty for the whole"),
    ("detail", pa.string(), "the reason as a phrase, without content of the record"),
)
_BYTES = _REASONS[:2]
_BY_US = CommitProperties(custom_metadata={"userMetadata": json.dumps({"run_id": "tables"})})


def decoded_spec(topic: str, key: pa.Field[Any], value: pa.Field[Any]) -> TableSpec:
    """Return the columns of a topic's decoded table.

    Args:
        key: Field with the type of decoded keys; its metadata may have a comment.
        value: The same of values.
    """
    columns = (
        *_COORDINATES,
        ("key", key.type, _comment(key, "decoded key; null where the record has none")),
        ("value", value.type, _comment(value, "decoded value; null for a tombstone")),
        ("is_tombstone", pa.bool_(), "whether the record has no value"),
    )
    fields = pa.schema([key.with_name("key"), value.with_name("value")])
    one_row = f"A record of the topic {topic} whose key and value were decoded."
    return _spec(f"{DECODED}/{topic}", one_row, columns, fields)


def undecoded_spec(topic: str) -> TableSpec:
    """Return the columns of the table of rows that could not be decoded."""
    one_row = f"A record of the topic {topic} whose key or value could not be decoded."
    return _spec(f"{UNDECODED}/{topic}", one_row, (*_COORDINATES, *_REASONS), pa.schema([]))


def latest_spec(topic: str) -> TableSpec:
    """Return the columns of the table of the newest row of each key."""
    columns = (*_COORDINATES, *_BYTES, ("is_deleted", pa.bool_(), "whether the newest record of the key has no value"))
    one_row = f"The newest record of a key of the topic {topic}, in one log."
    return _spec(f"{LATEST}/{topic}", one_row, columns, pa.schema([]))


def _comment(field: pa.Field[Any], usual: str) -> str:
    said_of_it = (field.metadata or {}).get(b"comment", b"").decode()
    return f"{usual}; {said_of_it}" if said_of_it else usual


def _spec(name: str, one_row: str, columns: Sequence[tuple[str, pa.DataType, str]], fields: pa.Schema) -> TableSpec:
    schema = pa.schema(
        [
            pa.field(column, kind, metadata=(fields.field(column).metadata or {}) | {b"comment": meaning.encode()})
            if column in fields.names
            else pa.field(column, kind, metadata={"comment": meaning})
            for column, kind, meaning in columns
        ]
    )
    meanings = tuple((column, meaning) for column, _, meaning in columns)
    return TableSpec(name, schema, _STATISTICS, (), ("log_id", "partition", "offset"), one_row, meanings)


@dataclass(frozen=True, slots=True)
class TopicTable:
    """The place of one table."""

    lake: str
    kind: str
    """``decoded``, ``undecoded`` or ``latest``."""
    topic: str

    @property
    def name(self) -> str:
        """Name for people."""
        return f"{self.kind}/{self.topic}"

    @property
    def directory(self) -> str:
        """Directory below that of all tables."""
        return f"{self.kind}/{_folder(self.topic)}"

    @property
    def uri(self) -> str:
        """Location of the table."""
        return storage.join(self.lake, "tables", self.directory)

    def application_id(self, what: str) -> str:
        """Return the application id of a log, or of something else that the table records."""
        return f"{self.kind}/{self.topic}/{what}"

    def open(self) -> DeltaTable | None:
        """Return the table at its latest version; None if it was never created.

        Raises:
            TableUnreadable: Its log is damaged.
        """
        with self.reading():
            try:
                return DeltaTable(delta_uri(self.uri), storage_options=storage.delta_options(self.uri))
            except TableNotFoundError:
                return None

    def files(self) -> list[LiveFile]:
        """Return its live files; none if it was never created."""
        table = self.open()
        if table is None:
            return []
        with self.reading():
            return live_files(table)

    def column(self, name: str) -> ValueColumn | None:
        """Return a column; None if the table was never created."""
        table = self.open()
        if table is None:
            return None
        with self.reading():
            return column_of(_arrow_schema(table).field(name))

    def versions(self, what: Sequence[str]) -> dict[str, int | None]:
        """Return the recorded version of each application id; None if there is none."""
        table = self.open()
        if table is None:
            return dict.fromkeys(what)
        with self.reading():
            return {each: table.transaction_version(self.application_id(each)) for each in what}

    def row_counts(self) -> tuple[int, int]:
        """See :func:`~spark_jobs.lake.delta.files.row_counts.row_counts`.

        Raises:
            TableUnreadable: The table is damaged.
        """
        table = self.open()
        with self.reading():
            return (0, 0) if table is None else row_counts(table, self.name)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Turn errors of Arrow and Delta into ours.

        Raises:
            TableUnreadable: The table or a file of it is missing or damaged.
        """
        try:
            with storage.answers(self.uri):
                yield
        except JobError:
            raise
        except (pa.ArrowException, DeltaError, OSError, ValueError, KeyError, TypeError) as error:
            raise TableUnreadable(
                f"Table {self.name}: {self.uri} can't be read ({said(error)[:300]}) Remove its directory, then: "
                f"loglake {LATEST if self.kind == LATEST else 'decode'} {self.lake} --replace {self.topic}"
            ) from error

    def commit(
        self,
        spec: TableSpec,
        files: Sequence[WrittenFile],
        run_id: str,
        guards: Sequence[Guard],
        *,
        whole: bool,
        removed: Sequence[LiveFile] = (),
    ) -> None:
        """Add files in one commit together with the guards' new versions; create the table if it does not exist.

        Fields that the table does not have yet are added before.

        Args:
            removed: Files that are no longer part of the table.
            guards: Their application ids are those of :meth:`application_id`.
            whole: The files are the whole table from now on, with the columns of ``spec``.

        Raises:
            ConcurrentChange: A guarded version has changed since the plan.
            CommitUnanswered: It is not known whether the commit succeeded.
        """
        with answered(self.lake, self.name):
            table = self._open_or_create(spec)
            begun = table.version()
            if not whole:
                self._grow(table, spec)  # before the guards: it reads what others committed
            for guard in guards:
                found = table.transaction_version(guard.application_id)
                if found != guard.planned:
                    raise ConcurrentChange(
                        f"Table {self.name}: {guard.application_id} is at {found}, the plan was made at "
                        f"{guard.planned}."
                    )
            live = {file.path for file in live_files(table)} if removed else set()
            if any(file.path not in live for file in removed):
                raise ConcurrentChange(f"Table {self.name}: a file to be replaced is no longer part of it.")
            recorded = {guard.application_id: guard.next_version for guard in guards}
            recorded |= new_count(table, self.name, removed, files, whole=whole)
            contents = {file.path: file.content for file in files}
            metadata = {"run_id": run_id, "digests": {}, "contents": contents}
            table.create_write_transaction(
                [
                    *removals(removed, data_change=True),
                    *(AddAction(file.path, file.size, {}, file.modified_ms, True, file.statistics) for file in files),
                ],
                mode="overwrite" if whole else "append",
                schema=Schema.from_arrow(spec.schema) if whole else table.schema(),
                commit_properties=CommitProperties(
                    custom_metadata={"userMetadata": json.dumps(metadata)},
                    max_commit_retries=0,
                    app_transactions=[Transaction(name, recorded[name]) for name in recorded],
                ),
            )
        self._sync(begun, table)

    def swap(self, removed: Sequence[str], written: Sequence[WrittenFile], run_id: str) -> None:
        """Replace live files by others with the same rows, in one commit that records no version.

        If the new files are live already, an earlier attempt succeeded, and nothing is written.

        Args:
            removed: Paths relative to the table.

        Raises:
            ConcurrentChange: A file to be replaced is no longer part of the table, or another commit came meanwhile.
            OutputMismatch: The new files have another number of rows.
            CommitUnanswered: It is not known whether the commit succeeded.
        """
        with answered(self.lake, self.name):
            table = self.open()
            live = {} if table is None else {file.path: file for file in live_files(table)}
            if all(file.path in live for file in written):
                return
            if table is None or any(path not in live for path in removed):
                raise ConcurrentChange(f"Table {self.name}: a file to be replaced is no longer part of it.")
            before, after = sum(live[path].rows for path in removed), sum(file.rows for file in written)
            if before != after:
                raise OutputMismatch(f"Table {self.name}: {after} rows were written instead of {before}.")
            begun = table.version()
            contents = {file.path: file.content for file in written}
            metadata = {"run_id": run_id, "digests": {}, "contents": contents}
            table.create_write_transaction(
                [
                    *removals([live[path] for path in removed], data_change=False),
                    *(
                        AddAction(file.path, file.size, {}, file.modified_ms, False, file.statistics)
                        for file in written
                    ),
                ],
                mode="append",
                schema=table.schema(),
                commit_properties=CommitProperties(
                    custom_metadata={"userMetadata": json.dumps(metadata)}, max_commit_retries=0
                ),
            )
        self._sync(begun, table)

    def columns(self) -> pa.Schema:
        """Return the columns of the table, also those that its user added; none if it was never created."""
        table = self.open()
        if table is None:
            return pa.schema([])
        with self.reading():
            return _arrow_schema(table)

    def _open_or_create(self, spec: TableSpec) -> DeltaTable:
        prepare(self.uri)
        return self.open() or DeltaTable.create(
            delta_uri(self.uri),
            schema=Schema.from_arrow(spec.schema),
            mode="ignore",
            description=spec.one_row,
            storage_options=storage.delta_options(self.lake),
            configuration={
                "delta.enableDeletionVectors": "false",
                "delta.checkpointPolicy": "classic",
                "delta.dataSkippingStatsColumns": ",".join(spec.statistics),
            },
            commit_properties=_BY_US,
        )

    def _grow(self, table: DeltaTable, spec: TableSpec) -> None:
        """Add fields that only ``spec`` has, in a commit of their own: a commit of files can't do it."""
        known, wanted = (pa.struct(list(each)) for each in (_arrow_schema(table), spec.schema))
        if merged_type(known, wanted).added:
            fields = list(Schema.from_arrow(spec.schema).fields)
            table.alter.add_columns(fields, commit_properties=_BY_US)
            table.update_incremental()

    def _sync(self, begun: int, table: DeltaTable) -> None:
        """Wait until the commits are on disk; the files that they add are synced before."""
        if storage.is_remote(self.lake):
            return
        table.update_incremental()
        folder = storage.join(self.uri, LOG_DIRECTORY)
        for version in range(begun + 1 if begun else 0, table.version() + 1):
            with contextlib.suppress(FileNotFoundError):
                disk_sync.sync(storage.join(folder, f"{version:020d}.json"))
        disk_sync.sync(folder)


def _arrow_schema(table: DeltaTable) -> pa.Schema:
    exported: Any = table.schema()  # Arrow's C interface
    return pa.schema(exported)


def _folder(topic: str) -> str:
    # A topic's name has no other characters than these two that a path would follow. A table in a directory with the
    # name of a log is taken for a log by Delta's library.
    return storage.folder_name(topic) if topic not in (".", "..", LOG_DIRECTORY) else f"~{topic}"


def existing(lake: str, kinds: Sequence[str] = (DECODED, UNDECODED)) -> list[str]:
    """Return folder names of topics that have a table of one of these kinds."""
    found = set()
    for kind in kinds:
        root = storage.join(lake, "tables", kind)
        if storage.is_remote(lake):
            paths = (storage.relative(file.path, root) for file in storage.files_below(root))
            found |= {path.split("/", 1)[0] for path in paths}
        else:
            with contextlib.suppress(FileNotFoundError):
                found |= set(os.listdir(root))
    return sorted(found)


def topics_with_tables(lake: str, kinds: Sequence[str]) -> list[str]:
    """Return topics that have a table of one of these kinds, by the names of the folders: for a lake without `logs`."""
    return [folder.removeprefix("~") for folder in existing(lake, kinds) if not storage.is_shortened(folder)]


def written_spec(table: TopicTable, columns: pa.Schema) -> TableSpec:
    """Return how files of a table that exists are written."""
    return TableSpec(table.name, columns, _STATISTICS, (), ("log_id", "partition", "offset"), table.name, ())


def tables_of(lake: str, topics: Iterable[str]) -> list[TopicTable]:
    """Return the decoded and undecoded tables of topics, where the topic has one of them."""
    folders = set(existing(lake))
    return [
        TopicTable(lake, kind, topic)
        for topic in sorted(set(topics))
        if _folder(topic) in folders
        for kind in (DECODED, UNDECODED)
    ]
