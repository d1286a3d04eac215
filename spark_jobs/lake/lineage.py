"""Where a row of ``records`` comes from, down to the batch in its file; or why an offset has no row.

All is read from the lake's present tables and archive, without a JVM: the row, its segment and the source of it, the
batch with its checksum computed again, the ledger's range, and the commits that wrote the row.

``loglake lineage`` prints the result, and that of a whole version of the table. Keys and values of
records are never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from logcore.errors import LogError
from logcore.logs.model.findings import Finding, Severity
from logcore.logs.model.offset_ledger import BLOCKING, EVIDENCE_HIGH_WATERMARK, OffsetState
from logcore.reading.nearest_names import nearest
from logcore.texts import time_text
from spark_jobs.errors import UsageError
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.delta_log import Commit
from spark_jobs.lake.delta.tables.snapshots import open_dataset, open_table, read_rows, scan_file
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.published import withdrawals
from spark_jobs.lake.published.withdrawals import Cause, Withdrawal
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.segments.archived_batch import ArchivedBatch, is_held, read_batch
from spark_jobs.lake.setup.identity import not_there, read_identity
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import RECORD_TABLES
from spark_jobs.lake.view.open_findings import read_open_findings

SAID: Mapping[OffsetState, str] = {
    OffsetState.CONTROL: "a control record (a transaction marker, or another of Kafka's own); consumers never see it",
    OffsetState.COMPACTED: "compacted: cleaning removed it before it was ingested ({evidence})",
    OffsetState.EMPTY: "compacted: cleaning left a batch without records there",
    OffsetState.TRIMMED: "it was below the log start when the log was first ingested",
    OffsetState.REMOTE: "it lies in the remote tier of its cluster, and was not read from there ({evidence})",
    OffsetState.UNKNOWN: "its transaction's outcome is lost ({evidence}): it is unknown whether it was committed",
    OffsetState.MISSING: "missing: no byte of it was found and nothing explains it ({evidence})",
    OffsetState.CORRUPT: "corrupt: its bytes cannot be trusted ({evidence})",
}


# --- why there is no row ---------------------------------------------------------------------------------------------


def absence_of(
    lake: str,
    log: LogRow,
    offset: int,
    ledger: LedgerRow | None,
    recorded: int | None,
    batch: ArchivedBatch | None,
) -> tuple[str, list[str]]:
    """Return why the table has no such row, and problems of that if there are any."""
    if offset >= log.next_offset and ledger is None:
        return f"the lake has nothing of this log from offset {log.next_offset} on", []
    if ledger is None:
        return "the offset was ingested and is not validated yet; run loglake run again", []
    state = ledger.state
    if state is OffsetState.ABORTED:
        return f"its transaction was aborted{_transaction(lake, log.log, offset, batch)}", []
    if state is OffsetState.OPEN:
        return _open(lake, log, offset, ledger, batch), []
    if state is not OffsetState.PRESENT:
        return SAID[state].format(evidence=ledger.shown_by), []
    if recorded is None or offset >= recorded:
        return _held_back(lake, log.log, recorded or 0), []
    if takes_up(ledger, batch):
        return "compacted: its batch includes the offset, and cleaning left no record there", []
    if not ledger.published:
        return "its bytes came late, below the frontier; the next run of loglake run publishes them", []
    lost = f"the ledger says that offset {offset} is published, and the table has no row of it"
    return lost, [lost]


def takes_up(ledger: LedgerRow, batch: ArchivedBatch | None) -> bool:
    """Return whether a batch includes the offset and has no record of it."""
    return (batch is not None and batch.holds_offset is False) or (batch is None and bool(ledger.gaps))


def withdrawal_of(lake: str, log: str, offset: int) -> Withdrawal | None:
    """Return the latest withdrawal of an offset; None if the table no longer has it."""
    found = withdrawals.read_withdrawals(lake, [log]).get(log, [])
    fitting = [each for each in found if each.start_offset <= offset < each.end_offset]
    return max(fitting, key=lambda each: each.withdrawn_ms, default=None)


def withdrawn(withdrawal: Withdrawal | None) -> str:
    """Describe a row that was deleted on purpose, or has expired."""
    if withdrawal is None:
        return "withdrawn: its row was deleted from records on purpose; the table withdrawals does not say by whom"
    if withdrawal.cause == Cause.EXPIRED:
        setting = "records.retention.ms"  # another reason: the table was lost, and is recorded again
        at = f" at {time_text(withdrawal.withdrawn_ms)}" if withdrawal.reason == setting else ""
        return f"expired: retention removed its row{at}, because it was older than {setting} of its topic"
    if withdrawal.cause == Cause.UNKNOWN:
        return (
            "withdrawn or expired: its row was deleted from records on purpose, or was older than records.retention.ms "
            "of its topic. The table withdrawals was lost and does not say which. The archive may still hold its bytes"
        )
    reason = "" if withdrawal.reason is None else f", because: {withdrawal.reason}"
    return (
        f"withdrawn: its row was deleted from records on purpose, as {withdrawal.who} said at "
        f"{time_text(withdrawal.withdrawn_ms)}{reason}; gone as of version {withdrawal.table_version} of the table. "
        "The archive still holds its bytes"
    )


def _open(lake: str, log: LogRow, offset: int, ledger: LedgerRow, batch: ArchivedBatch | None) -> str:
    if ledger.evidence == EVIDENCE_HIGH_WATERMARK:
        return f"not final yet: it is at or above the high watermark {log.publish_limit()}"
    reason = _transaction(lake, log.log, offset, batch)
    if reason:
        return f"not final yet: its transaction is open{reason}"
    return f"not final yet: after the first offset of an open transaction, {ledger.start_offset} or below"


def _transaction(lake: str, log: str, offset: int, batch: ArchivedBatch | None) -> str:
    """Describe the transaction of a batch: `` (producer 7 epoch 0, offsets 4 to 9, marker at 12)``."""
    if batch is None or not batch.header.is_transactional:
        return ""
    columns = ["producer_id", "producer_epoch", "first_offset", "last_offset", "marker_offset"]
    where: list[tuple[str, str, object]] = [
        ("log", "==", log),
        ("producer_id", "==", batch.header.producer_id),
        ("first_offset", "<", offset + 1),
    ]
    rows = [r for r in read_rows(lake, "transactions", columns, where).to_pylist() if r["last_offset"] >= offset]
    if not rows:
        return ""
    row = rows[-1]
    marker = "" if row["marker_offset"] is None else f", marker at {row['marker_offset']}"
    return (
        f" (producer {row['producer_id']} epoch {row['producer_epoch']}, "
        f"offsets [{row['first_offset']}, {row['last_offset'] + 1}){marker})"
    )


def _held_back(lake: str, log: str, recorded: int) -> str:
    """Describe why the frontier is not further."""
    for row in frontier.read_ledger(lake, [log]).get(log, []):
        if row.end_offset > recorded and row.state in BLOCKING:
            return (
                f"above the frontier {recorded}: nothing is published from offset {row.start_offset} on, "
                f"where the log is {row.state} ({row.shown_by})"
            )
    return f"above the frontier {recorded}: final, and not published yet; run loglake run again"


BEYOND_LOG_END = "high-watermark-beyond-log-end"

DAMAGED = frozenset({OffsetState.MISSING, OffsetState.CORRUPT, OffsetState.UNKNOWN})


@dataclass(frozen=True, slots=True)
class RowPlace:
    """A row of the table: its file, and its recorded origin."""

    file: str
    """Path of the file, relative to the table."""
    log_id: str
    segment_id: str
    position: int
    transaction_state: str | None


@dataclass(frozen=True, slots=True)
class OffsetLineage:
    """All that is known about one offset of one log."""

    log: LogRow
    offset: int
    row: RowPlace | None
    why_not: str | None
    """Explanation if the table has no such row."""
    ledger: LedgerRow | None
    frontier: int | None
    segment: Segment | None
    """The ingested segment that has the offset."""
    held: bool
    """Whether its file still exists."""
    successors: tuple[Segment, ...]
    """Segments that have replaced it since, oldest first."""
    batch: ArchivedBatch | None
    commit: Commit | None
    """The commit that added the file of the row."""
    published_by: Commit | None
    """The commit that moved the frontier past the offset; different if the file was rewritten since."""
    findings: tuple[Finding, ...]
    """Open errors and warnings about the offset."""
    problems: tuple[str, ...]
    """Descriptions of problems; empty if the tables, the archive and the checksum agree."""
    withdrawal: Withdrawal | None = None
    """The record that its row was deleted on purpose."""

    @property
    def is_damaged(self) -> bool:
        """Whether this offset is lost or cannot be trusted."""
        return bool(self.problems) or (self.ledger is not None and self.ledger.state in DAMAGED)


def parse_table(path: str) -> tuple[str, str]:
    """Return lake and table name of ``<lake>/tables/records``; of a lake alone, its ``records``.

    Raises:
        UsageError: The path does not name such a table.
    """
    parts = storage.absolute(path).split("/")
    if parts[-1] not in RECORD_TABLES and read_identity("/".join(parts)) is not None:
        return "/".join(parts), "records"
    if len(parts) < 3 or parts[-2] != "tables" or parts[-1] not in RECORD_TABLES:
        raise UsageError(f"{path}: name a lake, or its table: LAKE/tables/records or LAKE/tables/records_uncommitted.")
    return "/".join(parts[:-2]) or "/", parts[-1]


def application_id(name: str, log: str) -> str:
    """Return the application id under which a table keeps the frontier of a log."""
    return f"{name}/{log}"


def offset_lineage(lake: str, name: str, topic: str, partition: int, offset: int) -> list[OffsetLineage]:
    """Return what became of an offset, once for every log of that name that has it: a recreated topic is another log.

    Raises:
        JobError: There is no lake, or it has no such topic partition or table.
    """
    known = list(archive.read_logs(lake).values())
    rows = [row for row in known if (row.topic, row.partition) == (topic, partition)]
    if not rows:
        names = nearest(f"{topic}-{partition}", (f"{row.topic}-{row.partition}" for row in known))
        more = f"The nearest names are {', '.join(names)}." if names else ""
        raise not_there(lake, f"topic partition {topic}-{partition}", more)
    found = _rows(lake, name, topic, partition, offset)
    ordered = sorted(rows, key=lambda row: row.incarnation)
    having = [row for row in ordered if offset < row.next_offset or any(p.log_id == row.log_id for p in found)]
    return [
        _lineage(lake, name, row, offset, [place for place in found if place.log_id == row.log_id])
        for row in having or ordered[-1:]
    ]


def _lineage(lake: str, name: str, log: LogRow, offset: int, places: Sequence[RowPlace]) -> OffsetLineage:
    problems = []
    if len(places) > 1:
        problems.append(f"offset {offset} is {len(places)} times in the table")
    place = places[0] if places else None
    segments = {s.segment_id: s for s in archive.read_segments(lake, [log.log], live=False)}
    rows = frontier.read_ledger(lake, [log.log]).get(log.log, [])
    covering = [r for r in rows if r.end_offset > offset]
    ledger = covering[0] if covering and covering[0].start_offset <= offset else None
    app = application_id(name, log.log)
    recorded = commits.versions(lake, name, [app])[app]
    findings = _findings(lake, log, offset, segments.values(), rows)
    if ledger is None:
        ledger = _lost_end(log, offset, findings)
    noted, is_marker = None, False
    if place is not None:
        noted = place.segment_id, place.position
    elif (recorded_batch := _noted_batch(lake, log.log, offset, segments)) is not None:
        noted, is_marker = recorded_batch
    segment = segments.get(noted[0]) if noted is not None else _covering(segments.values(), offset)
    held = segment is not None and is_held(lake, segment)
    if noted is not None and segment is not None and not held:
        moved = _moved(lake, segment, noted[1], segments.values())
        if moved is not None:
            segment, noted, held = moved[0], (moved[0].segment_id, moved[1]), True
    batch = None
    if noted is not None and segment is None:
        problems.append(f"the row names the segment {noted[0]}, which the table segments does not have")
    elif noted is not None and segment is not None and held:
        batch, wrong = _batch(lake, segment, noted[1], offset)
        problems += wrong
    elif segment is not None and not held and segment.retired_ms is None:
        problems.append(f"the archived file {segment.local_path(lake)} is gone")
    newest = delta_log.newest_version(lake, name) or 0
    added = None if place is None else delta_log.commit_that_added(lake, name, place.file, newest)
    passed = None if place is None else delta_log.commit_that_passed(lake, name, app, offset, newest)
    why_not = None
    withdrawal = withdrawal_of(lake, log.log, offset) if ledger is not None and ledger.withdrawn else None
    if place is None and ledger is not None and ledger.state is OffsetState.PRESENT and is_marker:
        why_not = SAID[OffsetState.CONTROL]
    elif place is None and ledger is not None and ledger.withdrawn and not takes_up(ledger, batch):
        why_not = withdrawn(withdrawal)
    elif place is None:
        why_not, wrong = absence_of(lake, log, offset, ledger, recorded, batch)
        problems += wrong
    elif name == "records" and (ledger is None or ledger.state is not OffsetState.PRESENT or not ledger.published):
        said = "nothing" if ledger is None else f"{ledger.state}, {'' if ledger.published else 'not '}published"
        problems.append(f"the table has the row, the ledger says of its offset: {said}")
    elif name == "records" and ledger is not None and ledger.withdrawn:
        problems.append(f"the table has the row, and it is withdrawn: {withdrawn(withdrawal)}")
    return OffsetLineage(
        log=log,
        offset=offset,
        row=place,
        why_not=why_not,
        ledger=ledger,
        frontier=recorded,
        segment=segment,
        held=held,
        successors=_successors(segment, segments),
        batch=batch,
        commit=added,
        published_by=passed,
        findings=findings,
        problems=tuple(problems),
        withdrawal=withdrawal,
    )


def _rows(lake: str, name: str, topic: str, partition: int, offset: int) -> list[RowPlace]:
    """Return rows of the table at an offset, each with its file; statistics select the file to open."""
    import pyarrow.dataset as ds

    table = open_table(lake, name)
    if table is None:
        raise not_there(lake, f"table {name}")
    wanted = (ds.field("topic") == topic) & (ds.field("partition") == partition) & (ds.field("offset") == offset)
    columns = ["log_id", "segment_id", "position"]
    if name == "records_uncommitted":
        columns.append("transaction_state")
    dataset = open_dataset(lake, name, table)
    return [
        RowPlace(fragment.path, row["log_id"], row["segment_id"], row["position"], row.get("transaction_state"))
        for fragment in dataset.get_fragments(filter=wanted)
        for batch in scan_file(dataset, fragment, columns, wanted)
        for row in batch.to_pylist()
    ]


def _covering(segments: Iterable[Segment], offset: int) -> Segment | None:
    """Return the ingested segment whose offsets include this one, if no batch with it is known."""
    fitting = [s for s in segments if s.feeds and s.base_offset <= offset < s.next_offset]
    return fitting[0] if fitting else None


def _moved(lake: str, gone: Segment, position: int, segments: Iterable[Segment]) -> tuple[Segment, int] | None:
    """Find the bytes of a segment whose file is gone, by their recorded position at the source: slices are joined, and
    damaged ones are cut in parts.
    """
    at = gone.origin_position + position
    for each in segments:
        is_same = (each.log, each.origin_file, each.origin_base_offset) == (
            gone.log,
            gone.origin_file,
            gone.origin_base_offset,
        )
        inside = each.origin_position <= at < each.origin_position + each.size
        if each.feeds and is_same and inside and is_held(lake, each):
            return each, at - each.origin_position
    return None


def _noted_batch(
    lake: str, log: str, offset: int, segments: Mapping[str, Segment]
) -> tuple[tuple[str, int], bool] | None:
    """Return the place of the batch that includes an offset, and whether it is a control batch, as validation recorded
    it. The place is the segment and the position.
    """
    where: list[tuple[str, str, object]] = [
        ("log", "==", log),
        ("base_offset", "<", offset + 1),
        ("last_offset", ">=", offset),
        ("verdict", "==", "ok"),
    ]
    for row in read_rows(lake, "batches", ["segment_id", "position", "is_control"], where).to_pylist():
        segment = segments.get(row["segment_id"])
        if segment is not None and segment.feeds:
            return (row["segment_id"], row["position"]), bool(row["is_control"])
    return None


def _batch(lake: str, segment: Segment, position: int, offset: int) -> tuple[ArchivedBatch | None, list[str]]:
    """Read the batch as it is now; return it and its problems."""
    file = segment.local_path(lake)
    try:
        batch = read_batch(lake, segment, position, offset)
    except LogError as error:
        return None, [f"the batch at position {segment.start + position} of {file} cannot be read: {error}"]
    if not batch.crc_ok:
        found_here = f"its checksum is {batch.header.crc:#010x}, its bytes give {batch.crc_computed:#010x}"
        return batch, [f"the batch at position {batch.archive_position} of {file} has changed: {found_here}"]
    header = batch.header
    if not header.base_offset <= offset <= header.last_offset:
        found_here = f"holds offsets [{header.base_offset}, {header.next_offset}), not {offset}"
        return batch, [f"the batch at position {batch.archive_position} of {file} {found_here}"]
    return batch, []


def _successors(segment: Segment | None, segments: Mapping[str, Segment]) -> tuple[Segment, ...]:
    """Return the segments that replaced a segment, and those that replaced them."""
    chain: list[Segment] = []
    following = segment
    while following is not None and following.replaced_by is not None and len(chain) < len(segments):
        following = segments.get(following.replaced_by)
        if following is not None:
            chain.append(following)
    return tuple(chain)


def _findings(
    lake: str, log: LogRow, offset: int, segments: Iterable[Segment], ledger: Sequence[LedgerRow]
) -> tuple[Finding, ...]:
    """Return the open errors and warnings about this offset; one without an end is about its ledger range."""
    found_here = []
    for placed in read_open_findings(lake, {log.log: log}, segments, {log.log: ledger}).get(log.log, ()):
        finding = placed.finding
        start, end = finding.start_offset, finding.end_offset
        if start is None or start > offset or finding.severity is Severity.INFO:
            continue
        row = next((row for row in ledger if row.start_offset <= offset < row.end_offset), None)
        if end is None and row is not None and row.start_offset <= start:
            end = row.end_offset if row.state in DAMAGED else start + 1
        if offset < (end or start + 1):
            found_here.append(finding)
    return tuple(sorted(found_here, key=lambda each: (each.start_offset or 0, each.rule)))


def _lost_end(log: LogRow, offset: int, findings: Iterable[Finding]) -> LedgerRow | None:
    """Return committed offsets after the last readable one, which the ledger in the table does not reach.

    None if that is not certain. Ingest reports it only for a log that it read to its end, and it must be about the
    present state of the log. Bytes that were left for a later run are not missing.
    """
    start, end = log.source_end_offset, log.high_watermark
    if end is None or not start <= offset < end:
        return None
    said = {(each.start_offset, each.end_offset) for each in findings if each.rule == BEYOND_LOG_END}
    if (start, end) not in said:
        return None
    names: dict[str, Any] = {"log": log.log, "topic": log.topic, "log_id": log.log_id, "partition": log.partition}
    return LedgerRow(start, end, OffsetState.MISSING, evidence=EVIDENCE_HIGH_WATERMARK, **names)
