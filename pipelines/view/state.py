"""What a lake holds, log by log, read from its tables: the figures that a person is shown, and what alarms.

Reading only, through :mod:`spark_jobs.lake`; nothing here decides what runs. Everything is read from the tables as
they stand, so that a rerun that finds nothing new shows the same picture.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from pipelines.view.expectations import results_file
from pipelines.view.lakes import lake_name
from pipelines.view.open_transactions import OpenTransaction, read_open_transactions
from pipelines.view.partitions import natural_order
from pipelines.view.standing import ABOUT_A_RANGE, ABOUT_ROWS, alarming_ranges, overlap, standing_findings
from spark_jobs.lake.delta.table_state import STATE_FILE
from spark_jobs.lake.delta.tables import TABLES, read_rows, table_uri
from spark_jobs.lake.ledger.frontier import LedgerRow, read_ledger
from spark_jobs.lake.segments.archive import LogRow, Segment, read_logs, read_segments
from spark_jobs.lake.store import storage

STATES = (
    "present",
    "control",
    "aborted",
    "open",
    "compacted",
    "empty",
    "trimmed",
    "remote",
    "unknown",
    "missing",
    "corrupt",
)
"""Ledger states in the order in which they are shown."""

MEANINGS: Mapping[str, str] = {
    "present": "records that a consumer sees",
    "control": "transaction markers and other records of Kafka's own",
    "aborted": "records of aborted transactions",
    "open": "not decided yet: an open transaction, or above the high watermark",
    "compacted": "gone by cleaning",
    "empty": "batches that cleaning left without records",
    "trimmed": "below the log start when first taken in",
    "remote": "in the remote tier, which is not read",
    "unknown": "a transaction's outcome is lost",
    "missing": "a gap that nothing explains",
    "corrupt": "bytes that cannot be trusted",
}


@dataclass(frozen=True, slots=True)
class LogState:
    """One log of a lake."""

    lake: str
    row: LogRow
    segments: int
    """Live segments of the archive."""
    archive_bytes: int
    ingested: int
    """Segments as they were taken from the source, retired ones included."""
    validated: int
    """Those of the ingested that have their row in ``validations``."""
    batches: int
    records: int
    """Data records of the validated segments, whatever became of them. Control records do not count: the ledger counts
    those that lie in an undecided range."""
    quarantined_bytes: int
    findings: Mapping[str, int]
    """Findings of this log by severity, as far as they still stand."""
    open_transactions: tuple[OpenTransaction, ...]
    """Oldest first: where it begins, publishing waits."""
    ledger: tuple[LedgerRow, ...]

    @property
    def log(self) -> str:
        """Log key ``<log_id>/<partition>``."""
        return self.row.log

    @property
    def topic_partition(self) -> str:
        """Kafka's directory name, and Dagster's partition key."""
        return self.row.topic_partition

    @property
    def label(self) -> str:
        """What a person calls the log: topic and partition, and which of several of that name it is."""
        first = not self.row.incarnation
        return self.topic_partition if first else f"{self.topic_partition} (incarnation {self.row.incarnation})"

    @property
    def offsets_by_state(self) -> dict[str, int]:
        """Offsets by ledger state; a compacted gap inside a range counts as compacted, like its gap state says."""
        counted: Counter[str] = Counter()
        for r in self.ledger:
            gaps = r.gaps if r.gap_state else 0
            counted[r.state] += r.end_offset - r.start_offset - gaps
            if gaps:
                counted[str(r.gap_state)] += gaps
        return {state: counted[state] for state in STATES if counted[state]}

    @property
    def published_to(self) -> int | None:
        """First offset that is not published; None where nothing is."""
        ends = [r.end_offset for r in self.ledger if r.published]
        return max(ends) if ends else None

    @property
    def came_late(self) -> bool:
        """Whether there are visible records behind which others are published already."""
        to = self.published_to or 0
        return any(r.shows and not r.published and r.end_offset <= to for r in self.ledger)

    @property
    def published_records(self) -> int:
        """Rows that ``records`` has to hold for this log."""
        return sum(r.records for r in self.ledger if r.has_rows)


@dataclass(frozen=True, slots=True)
class LakeState:
    """All logs of a lake, by topic and partition; of one name the newest incarnation comes last."""

    lake: str
    logs: tuple[LogState, ...]

    @property
    def name(self) -> str:
        """What a person calls the lake."""
        return lake_name(self.lake)

    @property
    def came_late(self) -> bool:
        """Whether a log has decided records below its frontier that are not published: they were filled late."""
        return any(log.came_late for log in self.logs)

    def of(self, log: str) -> LogState:
        """The log with this key; KeyError where there is none."""
        for state in self.logs:
            if state.log == log:
                return state
        raise KeyError(log)


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing that makes a check red: where it is and what it is."""

    lake: str
    topic_partition: str
    rule: str
    """A ledger state, a verdict, or the rule id of a finding."""
    message: str
    file: str | None = None
    position: int | None = None
    nbytes: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    log: str | None = None
    """Log key."""

    @property
    def where(self) -> str:
        """``orders-0 of lake shop, offsets 4..9, file …/0000.log, position 512``; the end is exclusive."""
        place = [f"{self.topic_partition} of lake {lake_name(self.lake)}"]
        if self.start_offset is not None:
            place.append(f"offset{'' if self.end_offset is None else 's'} {self.offsets}")
        if self.file is not None:
            place.append(f"file {self.file}" + ("" if self.position is None else f", position {self.position}"))
        return ", ".join(place)

    @property
    def offsets(self) -> str:
        """``4..9``, end exclusive; one offset where the end is not known; empty where no offset is meant."""
        if self.start_offset is None:
            return ""
        return str(self.start_offset) if self.end_offset is None else f"{self.start_offset}..{self.end_offset}"


def read_state(lake: str, logs: Collection[str] | None = None) -> LakeState:
    """The lake as its tables stand now; ``logs`` restricts it to these log keys.

    Steps ask for it before and after each job: what was read is kept until a table has another version.
    """
    chosen = None if logs is None else tuple(sorted(logs))
    return _read_state(lake, chosen) if storage.is_remote(lake) else _kept_state(lake, chosen, _versions(lake))


def _versions(lake: str) -> tuple[str, ...]:
    """The newest commit file of each table of a lake in a local directory, and when what runs remember was written."""
    newest = []
    for name in TABLES:
        try:
            names = os.listdir(os.path.join(table_uri(lake, name), "_delta_log"))
        except OSError:
            names = []
        newest.append(max((each for each in names if each.endswith(".json")), default=""))
    for memory in (os.path.join(lake, STATE_FILE), results_file(lake)):
        try:
            newest.append(str(os.stat(memory).st_mtime_ns))
        except OSError:
            newest.append("")
    return tuple(newest)


@lru_cache(maxsize=4)
def _kept_state(lake: str, chosen: tuple[str, ...] | None, versions: tuple[str, ...]) -> LakeState:
    """``versions`` were looked at before reading, so that what is kept is never older than they are."""
    return _read_state(lake, chosen)


def _read_state(lake: str, chosen: tuple[str, ...] | None) -> LakeState:
    rows = read_logs(lake, chosen)
    segments = read_segments(lake, chosen, live=False)
    where = None if chosen is None else [("log", "in", list(chosen))]
    columns = ["segment_id", "log", "batches", "records", "quarantined_bytes"]
    validations = {v["segment_id"]: v for v in read_rows(lake, "validations", columns, where).to_pylist()}
    findings: dict[str, Counter[str]] = {}
    for finding in standing_findings(lake, rows, alarming_ranges(lake)):
        findings.setdefault(finding["log"], Counter())[finding["severity"]] += 1
    ledger = read_ledger(lake, chosen)
    undecided = read_open_transactions(lake, chosen)
    held: dict[str, list[Segment]] = {log: [] for log in rows}
    for segment in segments:
        held.setdefault(segment.log, []).append(segment)
    states = []
    for log, row in rows.items():
        live = [s for s in held[log] if s.retired_ms is None]
        ingested = [s for s in held[log] if s.feeds]
        validated = [v for s in ingested if (v := validations.get(s.segment_id)) is not None]
        states.append(
            LogState(
                lake=lake,
                row=row,
                segments=len(live),
                archive_bytes=sum(s.size for s in live),
                ingested=len(ingested),
                validated=len(validated),
                batches=sum(v["batches"] for v in validated),
                records=sum(v["records"] for v in validated),
                quarantined_bytes=sum(v["quarantined_bytes"] for v in validated),
                findings=findings.get(log, {}),
                open_transactions=tuple(undecided.get(log, ())),
                ledger=tuple(ledger.get(log, ())),
            )
        )
    return LakeState(
        lake, tuple(sorted(states, key=lambda s: (*natural_order(s.topic_partition), s.row.incarnation, s.log)))
    )


def read_alarms(lake: str) -> tuple[Alarm, ...]:
    """Damage that the lake's tables know of, wherever it is; reads only what alarms, not the whole lake.

    One alarm an error that stands, and one a ledger range that no such error covers.
    """
    ranges = alarming_ranges(lake)
    logs = read_logs(lake)
    errors = [
        f
        for f in standing_findings(lake, logs, ranges, errors_only=True)
        if f["rule"] not in ABOUT_ROWS and f["rule"] != logs[f["log"]].stopped
    ]
    placed = [f for f in errors if f["rule"] not in ABOUT_A_RANGE]
    alarms = []
    for f in errors:
        name = f"{f['topic']}-{f['partition']}"
        start, end = f["start_offset"], f["end_offset"]
        if f["rule"] in ABOUT_A_RANGE and any(overlap(f, other) for other in placed):
            continue
        same = next((r for r in ranges if overlap(f, r)), None)
        if same is not None and end is None:
            end = same["end_offset"]
        place = (f["file"], f["position"], f["nbytes"], start, end, f["log"])
        alarms.append(Alarm(lake, name, f["rule"], f["message"], *place))
    for r in ranges:
        if not any(overlap(f, r) for f in errors):
            what = r["state"] + (f" ({r['evidence']})" if r["evidence"] else "")
            name = f"{r['topic']}-{r['partition']}"
            place = (None, None, None, r["start_offset"], r["end_offset"], r["log"])
            alarms.append(Alarm(lake, name, r["state"], what, *place))
    return tuple(sorted(alarms, key=lambda a: (*natural_order(a.topic_partition), a.start_offset or 0)))


def read_stops(lake: str) -> tuple[Alarm, ...]:
    """Logs that do not grow any more, and why."""
    rows = read_logs(lake).values()
    return tuple(
        Alarm(lake, row.topic_partition, row.stopped, row.stopped_because or "", file=row.source, log=row.log)
        for row in sorted(rows, key=lambda row: natural_order(row.topic_partition))
        if row.stopped is not None
    )
