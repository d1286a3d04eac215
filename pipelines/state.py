"""What a lake holds, log by log, read from its tables: the figures that a person is shown, and what alarms.

Reading only, through :mod:`spark_jobs.lake`; nothing here decides what runs. Everything is read from the tables as
they stand, so that a rerun that finds nothing new shows the same picture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from logcore.logs.findings import RULES, Outcome
from pipelines.lakes import lake_name
from pipelines.partitions import natural_order
from spark_jobs.lake.archive import LogRow, Segment, read_logs, read_segments
from spark_jobs.lake.frontier import LedgerRow, read_frontiers, read_ledger
from spark_jobs.lake.tables import open_table, read_rows

STATES = (
    "present",
    "control",
    "aborted",
    "open",
    "compacted",
    "empty",
    "trimmed",
    "unknown",
    "missing",
    "corrupt",
)
"""Ledger states in the order in which they are shown."""

ALARMING = ("unknown", "missing", "corrupt")
"""States that mean damage; all others are ordinary life of a log."""

MEANINGS: Mapping[str, str] = {
    "present": "records that a consumer sees",
    "control": "transaction markers and other records of Kafka's own",
    "aborted": "records of aborted transactions",
    "open": "not decided yet: an open transaction, or above the high watermark",
    "compacted": "gone by cleaning",
    "empty": "batches that cleaning left without records",
    "trimmed": "below the log start when first taken in",
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
    """Data records in the validated segments; control records are not counted."""
    quarantined_bytes: int
    findings: Mapping[str, int]
    """Findings of this log by severity, as far as they still stand."""
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
        return any(r.state == "present" and not r.published and r.end_offset <= to for r in self.ledger)

    @property
    def published_records(self) -> int:
        """Rows that ``records`` has to hold for this log."""
        return sum(r.records for r in self.ledger if r.published and r.state == "present")


@dataclass(frozen=True, slots=True)
class LakeState:
    """All logs of a lake, by topic and partition."""

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
    """The lake as its tables stand now; ``logs`` restricts it to these log keys."""
    chosen = None if logs is None else sorted(logs)
    rows = read_logs(lake, chosen)
    segments = read_segments(lake, chosen, live=False)
    where = None if chosen is None else [("log", "in", chosen)]
    columns = ["segment_id", "log", "batches", "records", "control_records", "quarantined_bytes"]
    validations = {v["segment_id"]: v for v in read_rows(lake, "validations", columns, where).to_pylist()}
    findings = _standing_findings(lake, rows)
    ledger = read_ledger(lake, chosen)
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
                records=sum(v["records"] - v["control_records"] for v in validated),
                quarantined_bytes=sum(v["quarantined_bytes"] for v in validated),
                findings=findings.get(log, {}),
                ledger=tuple(ledger.get(log, ())),
            )
        )
    return LakeState(lake, tuple(sorted(states, key=lambda s: (*natural_order(s.topic_partition), s.log))))


def _standing_findings(lake: str, rows: Mapping[str, LogRow]) -> dict[str, dict[str, int]]:
    counted: dict[str, Counter[str]] = {}
    found = read_rows(lake, "findings", ["log", "rule", "severity", "end_offset"]).to_pylist()
    published = _published_where_refused(lake, found)
    for finding in found:
        row = rows.get(finding["log"])
        if row is not None and stands(finding["rule"], row, finding["end_offset"], published.get(row.log)):
            counted.setdefault(row.log, Counter())[finding["severity"]] += 1
    return {log: dict(counter) for log, counter in counted.items()}


STOPPING = frozenset({"topic-recreated", "source-diverged", "source-behind"})
"""Rules by which a log stops growing, besides those for what could not be read at all."""

ABOUT_A_RANGE = frozenset({"corrupt-offsets", "missing-offsets"})
"""Rules that say of a ledger range what other findings say of the bytes in it, with their place."""

ABOUT_ROWS = frozenset({"expectation-failed"})
"""Rules on published rows: another check's matter."""


def stands(rule: str, row: LogRow, end_offset: int | None = None, published_to: int | None = None) -> bool:
    """Whether a finding of a log still says something about it.

    Why a log once stopped is history when it goes on; so is a high watermark that the log has reached meanwhile, and
    rows that were refused once and published later. That a path was left alone, or
    a replacement refused, is of the run that asked for it.
    """
    if rule in ("second-source", "replacement-refused"):
        return False
    if rule == "output-mismatch":
        return end_offset is None or end_offset > (published_to or 0)
    if rule == "high-watermark-fell":  # until the source has come past where it once was
        return end_offset is None or row.high_watermark is None or row.high_watermark <= end_offset
    if rule == "high-watermark-beyond-log-end":
        return end_offset is None or end_offset > row.next_offset
    known = RULES.get(rule)
    could_not_look = known is not None and known.outcome is Outcome.UNCHECKED
    return rule == row.stopped if could_not_look or rule in STOPPING else True


def _published_where_refused(lake: str, found: Iterable[Mapping[str, Any]]) -> dict[str, int | None]:
    """Frontiers of the logs of which publishing refused something once."""
    return read_frontiers(lake, sorted({f["log"] for f in found if f["rule"] == "output-mismatch" and f["log"]}))


def read_alarms(lake: str) -> tuple[Alarm, ...]:
    """Damage that the lake's tables know of, wherever it is; reads only what alarms, not the whole lake.

    One alarm an error that stands, and one a ledger range that no such error covers.
    """
    columns = ["log", "topic", "partition", "start_offset", "end_offset", "state", "evidence"]
    alarming: list[tuple[str, str, object]] = [("state", "in", list(ALARMING))]
    ranges = read_rows(lake, "offset_ledger", columns, alarming).to_pylist()
    errors = read_rows(lake, "findings", where=[("severity", "==", "error")]).to_pylist()
    logs = read_logs(lake) if errors else {}
    published = _published_where_refused(lake, errors)
    standing = [
        f
        for f in errors
        if f["log"] in logs and f["rule"] not in ABOUT_ROWS and f["rule"] != logs[f["log"]].stopped
        if stands(f["rule"], logs[f["log"]], f["end_offset"], published.get(f["log"]))
    ]
    placed = [f for f in standing if f["rule"] not in ABOUT_A_RANGE]
    alarms = []
    for f in standing:
        name = f"{f['topic']}-{f['partition']}"
        start, end = f["start_offset"], f["end_offset"]
        if f["rule"] in ABOUT_A_RANGE and any(_overlap(f, other) for other in placed):
            continue
        same = next((r for r in ranges if _overlap(f, r)), None)
        if same is not None and end is None:
            end = same["end_offset"]
        alarms.append(Alarm(lake, name, f["rule"], f["message"], f["file"], f["position"], f["nbytes"], start, end))
    for r in ranges:
        if not any(_overlap(f, r) for f in standing):
            what = r["state"] + (f" ({r['evidence']})" if r["evidence"] else "")
            name = f"{r['topic']}-{r['partition']}"
            alarms.append(Alarm(lake, name, r["state"], what, None, None, None, r["start_offset"], r["end_offset"]))
    return tuple(sorted(alarms, key=lambda a: (*natural_order(a.topic_partition), a.start_offset or 0)))


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two things of one log have an offset in common; without an end, the first offset is meant."""
    if one["log"] != other["log"] or one["start_offset"] is None or other["start_offset"] is None:
        return False
    ends = [each["end_offset"] or each["start_offset"] + 1 for each in (one, other)]
    return bool(one["start_offset"] < ends[1] and other["start_offset"] < ends[0])


def read_stops(lake: str) -> tuple[Alarm, ...]:
    """Logs that do not grow any more, and why."""
    rows = read_logs(lake).values()
    return tuple(
        Alarm(lake, row.topic_partition, row.stopped, row.stopped_because or "", file=row.source)
        for row in sorted(rows, key=lambda row: natural_order(row.topic_partition))
        if row.stopped is not None
    )


def row_counts(lake: str) -> dict[tuple[str, int], int]:
    """Rows of ``records`` by topic and partition, from the file statistics: no data file is opened.

    Raises:
        ValueError: a file that holds more than one partition, or lacks statistics; the layout forbids both.
    """
    table = open_table(lake, "records")
    counted: Counter[tuple[str, int]] = Counter()
    if table is None:
        return {}
    import pyarrow as pa

    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    for file in files:
        low, high = file.get("min.partition"), file.get("max.partition")
        if low is None or low != high or file["num_records"] is None:
            raise ValueError(f"{file['path']} in table records does not hold exactly one partition by its statistics.")
        counted[file["partition.topic"], low] += file["num_records"]
    return dict(counted)
