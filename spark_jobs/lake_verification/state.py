"""The content of a lake's state tables, read once; a table that cannot be read is a finding and counts as empty.

``records`` is opened before the ledger is read. If a run continues meanwhile, the ledger is only ahead of the rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from deltalake import DeltaTable

from logcore.logs.model.offset_ledger import OffsetState
from logcore.logs.rules.advice import made_again
from spark_jobs.archived_rows.archived_bytes import ArchivedBytes
from spark_jobs.groups import by_key
from spark_jobs.lake.delta.files.live_files import LiveFile, live_files
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.snapshots import open_table, read_rows, table_uri
from spark_jobs.lake.delta.tables.table_features import refuse_table
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.published.held_offsets import LogRuns
from spark_jobs.lake.repair_commands import rebuild_command, replace_command, run_command
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.setup.identity import LAKE_FILE, read_identity
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import RECORD_TABLES, TABLES
from spark_jobs.lake_verification.verified_thing import DataUnreadable, finding, readable
from spark_jobs.placed_finding import PlacedFinding

Value = TypeVar("Value")

STATE_FILE = "tables.json"

_WITHOUT_SEGMENT = frozenset({OffsetState.TRIMMED, OffsetState.REMOTE, OffsetState.MISSING})


def way_out(lake: str, table: str) -> str:
    """Say how to repair a table with damaged files."""
    if table == "records":
        return f"Run `{replace_command(lake)}` to publish the rows again from the archive."
    return way_out_of_log(lake, table)


def way_out_of_log(lake: str, table: str) -> str:
    """Say how to repair a table whose log is damaged: nothing can be committed to it."""
    return made_again(table, f"{rebuild_command(lake, table)} && {run_command(lake)}")


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A table at the version that is verified."""

    name: str
    version: int
    files: tuple[LiveFile, ...]
    columns: frozenset[str]
    """Columns of the table's schema, with users' columns."""


@dataclass(slots=True)
class TableLog:
    """What the kept part of a table's log records."""

    digests: dict[str, str] = field(default_factory=dict)
    """Row digest by path, as the commit that added the file recorded it."""
    contents: dict[str, str] = field(default_factory=dict)
    """Digest of the bytes by path, from the same commit."""
    findings: list[PlacedFinding] = field(default_factory=list)


@dataclass(slots=True)
class StateTables:
    """The state of a lake, as far as it could be read."""

    lake: str
    tables: dict[str, OpenedTable] = field(default_factory=dict)
    opened: dict[str, DeltaTable] = field(default_factory=dict)
    """The same tables, for what this process reads."""
    unreadable: set[str] = field(default_factory=set)
    """Tables that exist, but whose rows or log cannot be read."""
    recorded: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By table: version, rows, files, bytes and digest of the latest commit, as the last run recorded them."""
    logs: Mapping[str, LogRow] = field(default_factory=dict)
    segments: Sequence[Segment] = ()
    validations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Rows by segment id."""
    ledger: Mapping[str, Sequence[LedgerRow]] = field(default_factory=dict)
    """Stored rows by log, in offset order."""
    frontiers: Mapping[str, int | None] = field(default_factory=dict)
    findings: list[PlacedFinding] = field(default_factory=list)
    table_logs: dict[str, TableLog] = field(default_factory=dict)
    """The logs of the tables, as far as they were read."""
    offsets: dict[str, LogRuns] = field(default_factory=dict)
    """By the name of a file of records: the offsets by log, as far as the file was read."""
    _feeding: dict[str, list[Segment]] | None = None
    _by_log: dict[str, list[Segment]] | None = None

    def segments_of(self, log: str) -> Sequence[Segment]:
        """All segments of a log, also retired ones."""
        if self._by_log is None:
            self._by_log = by_key(self.segments, lambda segment: segment.log)
        return self._by_log.get(log, ())

    @property
    def feeding(self) -> Mapping[str, Sequence[Segment]]:
        """Segments from which ledger and rows are derived, by log, in offset order."""
        if self._feeding is None:
            self._feeding = by_key((s for s in self.segments if s.feeds), lambda segment: segment.log)
        return self._feeding

    def held(self) -> ArchivedBytes:
        """The bytes of the archive, for decoders."""
        splits: dict[str, tuple[tuple[int, int], ...]] = {}
        for identity, row in self.validations.items():
            try:
                splits[identity] = tuple((int(at), int(offset)) for at, offset in json.loads(row["split_points"]))
            except (TypeError, ValueError):
                continue  # without split points a segment is one piece
        return ArchivedBytes(self.lake, self.feeding, splits, {})

    def topic_of(self, log: str) -> str | None:
        """Return the topic of a log; None if no table has the log."""
        row = self.logs.get(log)
        if row is not None:
            return row.topic
        ranges = self.ledger.get(log)
        return ranges[0].topic if ranges else None

    def of_log(self, log: str, files: Iterable[LiveFile]) -> StateTables:
        """What the state says of one log, and its offsets in some files of ``records``: small enough for a task."""
        segments = self.segments_of(log)
        names = (file_name("records", file) for file in files)
        return StateTables(
            self.lake,
            tables={name: replace(table, files=(), columns=frozenset()) for name, table in self.tables.items()},
            unreadable=self.unreadable,
            logs=only(self.logs, [log]),
            segments=segments,
            validations=only(self.validations, [segment.segment_id for segment in segments]),
            ledger=only(self.ledger, [log]),
            frontiers=only(self.frontiers, [log]),
            offsets={name: only(self.offsets[name], [log]) for name in names if name in self.offsets},
        )

    def known_logs(self) -> set[str]:
        """Logs that any state table names.

        The name of a log ends with its partition. A damaged file can give a name without one, or null.
        """
        named = {*self.logs, *self.ledger, *(segment.log for segment in self.segments)}
        return {log for log in named if log and re.fullmatch("[0-9]+", log.rpartition("/")[2])}


def file_name(table: str, file: LiveFile) -> str:
    """The name of a file among the things that are verified."""
    return f"file/{table}/{file.path}"


def only(found: Mapping[str, Value], keys: Iterable[str]) -> dict[str, Value]:
    """Return what is there of these keys."""
    return {key: found[key] for key in keys if key in found}


def read_lake(lake: str) -> StateTables:
    """Open every table and read the state.

    Raises:
        StorageError: The object store does not answer.
        TableRefused: A table has a feature that Loglake cannot read correctly.
    """
    state = StateTables(lake)
    state.recorded = _recorded(state)
    for name in (*RECORD_TABLES, *(name for name in TABLES if name not in RECORD_TABLES)):
        _open(state, name)
    rows = {name: _rows(state, name) for name in ("logs", "segments", "validations")}
    with _noted(state, "logs"):
        state.logs = {row["log"]: LogRow(**row) for row in rows["logs"]}
    state.findings += _of_identity(lake, state.logs.values())
    with _noted(state, "segments"):
        found = [Segment(**row) for row in rows["segments"]]
        if any(None in (s.log, s.path, s.start, s.size, s.base_offset, s.next_offset) for s in found):
            raise ValueError("a segment without log, path, size or offsets")
        state.segments = sorted(found, key=lambda s: (s.log, s.base_offset, s.generation))
    state.validations = {row["segment_id"]: row for row in rows["validations"]}
    if "offset_ledger" in state.tables:
        with _noted(state, "offset_ledger"):
            state.ledger = frontier.read_ledger(lake)
    state.frontiers = _frontiers(state)
    _missing(state)
    return state


def _open(state: StateTables, name: str) -> None:
    with _noted(state, name):
        table = open_table(state.lake, name)
        if table is not None:
            refuse_table(state.lake, name, table)
            columns = frozenset(field.name for field in table.schema().fields)
            state.tables[name] = OpenedTable(name, table.version(), tuple(live_files(table)), columns)
            state.opened[name] = table


def _of_identity(lake: str, logs: Iterable[LogRow]) -> Iterator[PlacedFinding]:
    """Check that ``lake.json`` names the cluster of the logs."""
    identity = read_identity(lake)
    clusters = {row.cluster for row in logs if row.cluster is not None}
    if identity is not None and clusters and identity.cluster not in clusters:
        names = ", ".join(sorted(clusters))
        yield finding(
            "lake-identity-differs",
            f"{LAKE_FILE} names the cluster {identity.cluster}. The logs were taken from {names}: write that name into "
            "the file.",
            file=storage.join(lake, LAKE_FILE),
        )


def _rows(state: StateTables, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, object]] = []
    if name in state.tables:
        with _noted(state, name):
            rows = read_rows(state.lake, name).to_pylist()
    return rows


@contextmanager
def _noted(state: StateTables, name: str) -> Iterator[None]:
    """Turn the error of a table that cannot be read into a finding."""
    try:
        with readable():
            yield
    except DataUnreadable as unreadable:
        if name not in state.unreadable:
            state.unreadable.add(name)
            _say(state, "table-missing", name, f"cannot be read: {unreadable}.")


def _say(state: StateTables, rule: str, name: str, what: str) -> None:
    uri = table_uri(state.lake, name)
    state.findings.append(finding(rule, f"The table {name} {what}", table=name, file=uri))


def _recorded(state: StateTables) -> dict[str, dict[str, Any]]:
    """Return what the last run recorded about the tables; nothing if the file is missing or damaged."""
    path = storage.join(state.lake, STATE_FILE)
    try:
        tables = json.loads(storage.read(path))["tables"]
        return {str(name): dict(said) | {"version": int(said["version"])} for name, said in tables.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        message = f"{path} cannot be parsed ({error}); delete it, and the next run writes it again."
        state.findings.append(finding("broken-root-file", message, file=path))
        return {}


def _frontiers(state: StateTables) -> dict[str, int | None]:
    opened = state.tables.get("records")
    logs = sorted(state.known_logs())
    if opened is None:
        return dict.fromkeys(logs)
    ids = {log: frontier.application_id(log) for log in logs}
    found: dict[str, int | None] = {}
    with _noted(state, "records"):
        every, table = delta_log.recorded_versions(state.lake, "records", opened.version), state.opened["records"]
        for log, application in ids.items():
            found[log] = every.get(application) if every is not None else table.transaction_version(application)
    return dict.fromkeys(logs) | found


def _missing(state: StateTables) -> None:
    """Report missing tables that others imply or that the last run recorded."""
    there = {*state.tables, *state.unreadable}
    implied = {name: "the last run recorded it" for name in state.recorded if name in TABLES}
    if _had_segments(state):
        implied.setdefault("segments", "the archive has files or other tables name segments")
    if "segments" in there and state.segments:
        implied.setdefault("logs", "there are segments")
    if state.validations:
        implied.setdefault("batches", "segments were validated")
        implied.setdefault("offset_ledger", "segments were validated")
    if _has_read_offsets(state):
        implied.setdefault("validations", "there is an offset ledger")
    if any(row.published and row.records for rows in state.ledger.values() for row in rows):
        implied.setdefault("records", "the offset ledger counts published records")
    if any(row.withdrawn for rows in state.ledger.values() for row in rows):
        implied.setdefault("withdrawals", "the offset ledger has withdrawn offsets")
    for name in TABLES:
        if name in there or name in implied or not storage.has_files(table_uri(state.lake, name)):
            continue
        if state.recorded:
            what = "was never made: its directory has files and no log, and no run recorded it."
            _say(state, "table-not-complete", name, what)
        else:
            implied[name] = "its directory has files"
    for name, why in implied.items():
        if name not in there:
            _say(state, "table-missing", name, f"is gone, but {why}.")


def _had_segments(state: StateTables) -> bool:
    """Whether the lake ever had a segment. A log that is empty at its source has rows in other tables, and none."""
    unread = state.unreadable & {"logs", "validations", "offset_ledger", "records"}
    if unread or state.validations or storage.has_files(storage.join(state.lake, "archive")):
        return True
    if any(state.tables[name].files for name in RECORD_TABLES if name in state.tables) or _has_read_offsets(state):
        return True
    grown = any(row.next_offset > row.log_start_offset for row in state.logs.values())
    return grown and "offset_ledger" not in state.tables


def _has_read_offsets(state: StateTables) -> bool:
    """Whether the ledger has offsets that a segment had."""
    return any(row.state not in _WITHOUT_SEGMENT for rows in state.ledger.values() for row in rows)


def of_log(segment: Segment) -> dict[str, Any]:
    """Return the log of a segment, as :func:`~spark_jobs.lake_verification.verified_thing.finding` takes it."""
    return {"log": segment.log, "topic": segment.topic, "partition": segment.partition}
