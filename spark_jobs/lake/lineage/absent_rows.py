"""Why a table has no row of an offset, in one sentence: from the ledger, the batch, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Mapping

from logcore.cli.output.record_lines import time_text
from logcore.logs.model.offset_ledger import BLOCKING, EVIDENCE_HIGH_WATERMARK, OffsetState
from spark_jobs.lake.delta.tables.table_rows import read_rows
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.published import withdrawals
from spark_jobs.lake.published.withdrawals import Withdrawal
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.segments.archived_batch import ArchivedBatch

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
    """Describe a row that was deleted on purpose."""
    if withdrawal is None:
        return "withdrawn: its row was deleted from records on purpose; the table withdrawals does not say by whom"
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
    if batch is None or not batch.is_transactional:
        return ""
    columns = ["producer_id", "producer_epoch", "first_offset", "last_offset", "marker_offset"]
    where: list[tuple[str, str, object]] = [
        ("log", "==", log),
        ("producer_id", "==", batch.producer_id),
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
