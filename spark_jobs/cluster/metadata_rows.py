"""Rows of what `__cluster_metadata` says over time: each row is a state of one thing, from one record to another.

Of a ZooKeeper's data only the state at its end is read. Each row begins with the transaction that changed its node.

The log is read from its beginning: from the first snapshot that reaches it, if it does not begin at offset 0. A record
in a transaction counts from the record that ends the transaction.

If the log ends before its newest whole snapshot, the state goes on with that snapshot. All rows end there and begin
again, because nobody knows what was between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from logcore.garbage_collection import collector_paused
from logcore.logs.model.findings import found
from logcore.logs.model.sources import SourceLog
from logcore.reading.internal_topics.cluster_metadata import (
    MetadataRecords,
    Moment,
    ReadSnapshot,
    note_snapshots_at_one_offset,
    note_what_does_not_count,
    read_cluster_state,
    snapshot_state,
)
from logcore.reading.read_options import Notes
from logcore.segments.filenames import DirectoryKind
from logcore.topics.cluster_states import RESOURCES, TOPIC_RESOURCE, ClusterState, StateRow
from spark_jobs.cluster.internal_sources import ClusterLogs, Row, time_of
from spark_jobs.lake.cluster_columns import COMMITTED, DOUBTFUL, TENTATIVE


@dataclass(slots=True)
class _Clock:
    """The offset and time of the record that is being added."""

    offset: int = 0
    time_ms: int | None = None


@dataclass(slots=True)
class _Period:
    """A state of one thing."""

    key: Any
    fields: dict[str, Any]
    start: int
    start_ms: int | None
    end: int | None = None
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _Lost:
    """Where records are lost.

    Attributes:
        from_offset: The first of them in the log; None: there is none.
        begun_again: The offset of the snapshot at which all periods began again; None: they did not.
        in_snapshot: As `from_offset`, of the state in that snapshot.
    """

    from_offset: int | None
    begun_again: int | None = None
    in_snapshot: int | None = None

    @property
    def at_end(self) -> int | None:
        """The first lost record on which the state at the end depends."""
        return self.from_offset if self.begun_again is None else self.in_snapshot

    def before(self, period: _Period) -> int | None:
        """The first lost record on which a period may depend."""
        if self.begun_again is not None and period.start >= self.begun_again:
            return self.in_snapshot
        return self.from_offset


class _Followed(dict[Any, StateRow]):
    """A part of the state that keeps what it was: a change of a thing ends one period and begins another."""

    def __init__(self, clock: _Clock, now: dict[Any, StateRow]) -> None:
        super().__init__()
        self._clock = clock
        self._open: dict[Any, _Period] = {}
        self.periods: list[_Period] = []
        """Those that ended at the record that began them are among them: nobody could see these states."""
        for key, row in now.items():
            self[key] = row

    def __setitem__(self, key: Any, row: StateRow) -> None:
        known = self._open.get(key)
        if known is None or known.fields != row.fields:
            self._end(key)
            period = _Period(key, row.fields, self._clock.offset, self._clock.time_ms)
            self._open[key] = period
            self.periods.append(period)
        super().__setitem__(key, row)

    def __delitem__(self, key: Any) -> None:
        self._end(key)
        super().__delitem__(key)

    def pop(self, key: Any, *default: Any) -> Any:
        self._end(key)
        return super().pop(key, *default)

    def begin_again(self, now: dict[Any, StateRow]) -> None:
        """End all periods, and begin those of another state."""
        for key in list(self):
            del self[key]
        for key, row in now.items():
            self[key] = row

    def _end(self, key: Any) -> None:
        period = self._open.pop(key, None)
        if period is not None:
            period.end, period.end_ms = self._clock.offset, self._clock.time_ms


class _FollowedByOwner(dict[Any, dict[Any, StateRow]]):
    """A part of the state with a mapping for each topic or resource, which keeps what it was."""

    def __init__(self, clock: _Clock, now: dict[Any, dict[Any, StateRow]]) -> None:
        super().__init__()
        self._clock = clock
        self._parts: list[_Followed] = []
        for owner, rows in now.items():
            self.setdefault(owner, rows)

    @property
    def periods(self) -> list[_Period]:
        return [period for part in self._parts for period in part.periods]

    def setdefault(self, owner: Any, rows: dict[Any, StateRow] | None = None) -> dict[Any, StateRow]:
        if owner not in self:
            part = _Followed(self._clock, rows or {})
            self._parts.append(part)
            self[owner] = part
        return self[owner]

    def pop(self, owner: Any, *default: Any) -> Any:
        rows = self.get(owner, {})
        for key in list(rows):
            del rows[key]
        return super().pop(owner, *default)

    def begin_again(self, now: dict[Any, dict[Any, StateRow]]) -> None:
        """End all periods, and begin those of another state."""
        for owner in list(self):
            self.pop(owner)
        for owner, rows in now.items():
            self.setdefault(owner, rows)


_PARTS: Mapping[str, tuple[str, type[_Followed] | type[_FollowedByOwner]]] = {
    "cluster_topics": ("topics", _Followed),
    "cluster_topic_configs": ("settings", _FollowedByOwner),
    "cluster_partitions": ("partitions", _FollowedByOwner),
    "cluster_brokers": ("brokers", _Followed),
    "cluster_features": ("features", _Followed),
}
"""By table: the part of the state that it shows, and what keeps its history."""
TABLES_OVER_TIME = tuple(_PARTS)


@dataclass(frozen=True, slots=True)
class MetadataRows:
    """What a metadata log says.

    Attributes:
        rows: By table.
        start: The offset at which the log begins; rows of states before it have `start - 1` or 0.
        end: The offset after its last record.
        lost_from: The offset of the first record that is lost or cannot be read, if the state at the end depends on
            it; None: there is none.
    """

    start: int
    end: int
    lost_from: int | None
    rows: dict[str, list[Row]] = field(default_factory=dict)


@collector_paused()  # it makes many objects that stay
def metadata_rows(cluster: ClusterLogs, log: SourceLog, notes: Notes) -> MetadataRows:
    """Read a metadata log from its beginning to its end.

    Args:
        cluster: Its cluster.
        log: A log of `__cluster_metadata`, or the data of a ZooKeeper.
        notes: Gets the findings.
    """
    if log.kind is DirectoryKind.ZOOKEEPER:
        return _zookeeper_rows(cluster, log, notes)
    first = log.segments[0].base_offset if log.segments else 0
    state, start, time_ms, lost_from = _beginning(log, first, notes)
    clock = _Clock(max(start - 1, 0), time_ms)
    parts = {table: followed(clock, getattr(state, name)) for table, (name, followed) in _PARTS.items()}
    for table, (name, _) in _PARTS.items():
        setattr(state, name, parts[table])
    end, records = start, MetadataRecords(log, notes, start, lost_from)
    for record in records.read():
        clock.offset, clock.time_ms = record.offset, record.timestamp
        end = record.offset + 1
        records.add_to(state, record)
    note_what_does_not_count(state, log, notes)
    lost = _Lost(records.lost_from)
    newest = _newest_snapshot(log, end, notes)
    if newest is not None:
        end, snapshot = newest
        in_snapshot = snapshot.lost_from
        if in_snapshot is None and any(later > end for later, _ in log.metadata_snapshots):
            in_snapshot = end  # a later snapshot is not whole: it has what was said after this one
        lost = _Lost(records.lost_from, end - 1, in_snapshot)
        clock.offset, clock.time_ms = end - 1, snapshot.time_ms
        for table, (name, _) in _PARTS.items():
            parts[table].begin_again(getattr(snapshot.state, name))
    names = {period.key: period.fields["topic"] for period in parts["cluster_topics"].periods}
    committed_end = log.high_watermark or 0
    made: dict[str, list[Row]] = {}
    for table, part in parts.items():
        made[table] = []
        for period in part.periods:
            if period.start == period.end:
                continue
            columns = _COLUMNS[table](period, names)
            if columns is not None:
                made[table].append(cluster.place(log) | columns | _validity(period, committed_end, lost))
    return MetadataRows(start, end, lost.at_end, made)


def _zookeeper_rows(cluster: ClusterLogs, log: SourceLog, notes: Notes) -> MetadataRows:
    read = read_cluster_state(log, notes, Moment())
    state, lost = read.state, _Lost(read.lost_from)
    names = {key: str(row.fields["topic"]) for key, row in state.topics.items()}
    parts: dict[str, Iterable[StateRow]] = {
        "cluster_topics": state.topics.values(),
        "cluster_topic_configs": (row for rows in state.settings.values() for row in rows.values()),
        "cluster_partitions": (
            row._replace(fields={"topic": names[key], **row.fields})
            for key, rows in state.partitions.items()
            for row in rows.values()
        ),
        "cluster_brokers": state.brokers.values(),
        "cluster_features": state.features.values(),
    }
    made: dict[str, list[Row]] = {}
    for table, rows in parts.items():
        periods = [_Period(None, row.fields, row.offset, row.timestamp_ms) for row in rows]
        made[table] = [
            cluster.place(log) | columns | _validity(period, read.committed_end, lost)
            for period in periods
            if (columns := _COLUMNS[table](period, {})) is not None
        ]
    return MetadataRows(read.end_offset, read.end_offset, read.lost_from, made)


def _newest_snapshot(log: SourceLog, end: int, notes: Notes) -> tuple[int, ReadSnapshot] | None:
    """The newest whole snapshot that ends after an offset, and its end."""
    for snapshot_end, path in reversed(log.metadata_snapshots):
        if snapshot_end <= end:
            break
        snapshot = snapshot_state(path, snapshot_end, notes)
        if snapshot is not None:
            return snapshot_end, snapshot
    return None


def _beginning(log: SourceLog, first: int, notes: Notes) -> tuple[ClusterState, int, int | None, int | None]:
    """The state before the first record to read, its offset, the time of the state, and where records are lost."""
    note_snapshots_at_one_offset(log, notes)
    latest_epochs_first = log.metadata_snapshots[::-1]
    for end, path in sorted(latest_epochs_first, key=lambda snapshot: snapshot[0]):
        if end < first or (first == 0 and end > 0):
            continue
        snapshot = snapshot_state(path, end, notes)
        if snapshot is not None:
            return snapshot.state, end, snapshot.time_ms, snapshot.lost_from
    if first > 0:
        message = f"{log.topic_partition} begins at offset {first}, and no usable snapshot ends there or after it."
        notes.say(found("metadata-log-starts-late", message, start_offset=0, end_offset=first))
    return ClusterState(), first, None, 0 if first > 0 else None


def _validity(period: _Period, committed_end: int, lost: _Lost) -> Row:
    known = period.start if period.end is None else period.end
    standing = COMMITTED if known < committed_end else TENTATIVE
    lost_from = lost.before(period)
    if lost_from is not None and (period.end is None or period.end >= lost_from):
        standing = DOUBTFUL
    return {
        "valid_from_offset": period.start,
        "valid_from_time": time_of(period.start_ms),
        "valid_to_offset": period.end,
        "valid_to_time": time_of(period.end_ms),
        "standing": standing,
    }


def _as_it_is(period: _Period, names: dict[str, str]) -> Row | None:
    return dict(period.fields)


def _setting(period: _Period, names: dict[str, str]) -> Row | None:
    fields = period.fields
    if fields["resource_type"] != RESOURCES[TOPIC_RESOURCE]:
        return None
    return {"topic": fields["resource"], "name": fields["name"], "value": fields["value"]}


def _partition(period: _Period, names: dict[str, str]) -> Row | None:
    return {"topic": names.get(period.fields["topic_id"]), **period.fields}


def _broker(period: _Period, names: dict[str, str]) -> Row | None:
    points = [f"{point['name']}://{point['host']}:{point['port']}" for point in period.fields["end_points"]]
    return period.fields | {"end_points": points}


_COLUMNS: dict[str, Callable[[_Period, dict[str, str]], Row | None]] = {
    "cluster_topics": _as_it_is,
    "cluster_topic_configs": _setting,
    "cluster_partitions": _partition,
    "cluster_brokers": _broker,
    "cluster_features": _as_it_is,
}
