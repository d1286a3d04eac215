"""What may be missing in a state: offsets below the cut whose records the lake never had, or no longer has.

    compacted   cleaning at the source removed them before they were read; a removed record may have been the newest of
                its key below the cut
    missing, corrupt, unknown   lost, damaged, or of a transaction with a lost outcome
    remote, trimmed             in the remote tier, or below the log start when the log was first read
    withdrawn   deleted from `records` on purpose
    unpublished not, or not yet, in `records`

Cleaning of the archive itself is none of these: `records` keeps what was published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from logcore.errors import LogError
from logcore.logs.model.offset_ledger import OffsetState
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.segments import ledger_ranges

_LOST = {
    OffsetState.COMPACTED: "compacted",
    OffsetState.EMPTY: "compacted",
    OffsetState.MISSING: "missing",
    OffsetState.CORRUPT: "corrupt",
    OffsetState.UNKNOWN: "unknown",
    OffsetState.REMOTE: "remote",
    OffsetState.TRIMMED: "trimmed",
}
UNPUBLISHED, WITHDRAWN, COMPACTED = "unpublished", "withdrawn", "compacted"


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets [start, end) among which records are missing, and why."""

    start: int
    end: int
    why: str

    def __str__(self) -> str:
        return f"[{self.start}, {self.end}) {self.why}"


def lost_below(lake: str, ledger: Sequence[LedgerRow], cut: int, end: int, *, asks_for_all: bool) -> list[Lost]:
    """Return what may be missing in the state of a log; neighbours of one kind are joined.

    Args:
        ledger: The ranges of the log, in offset order.
        cut: The first offset that does not belong to the state.
        end: The same, at most the frontier.
        asks_for_all: No record is at or after the requested time, so that later offsets may belong to it.
    """
    found = [
        Lost(row.start_offset, min(row.end_offset, cut), why)
        for row in ledger
        if row.start_offset < cut and (why := _why(lake, row, cut)) is not None
    ]
    last = max((row.end_offset for row in ledger), default=0)
    beyond = last if asks_for_all else cut
    if beyond > end and not any(each.end >= beyond for each in found):
        found.append(Lost(max(end, found[-1].end if found else 0), beyond, UNPUBLISHED))
    joined: list[Lost] = []
    for each in found:
        if joined and (joined[-1].end, joined[-1].why) == (each.start, each.why):
            each = Lost(joined.pop().start, each.end, each.why)
        joined.append(each)
    return joined


def _why(lake: str, row: LedgerRow, cut: int) -> str | None:
    if row.state in _LOST:
        return _LOST[row.state]
    if row.state is not OffsetState.PRESENT:
        return UNPUBLISHED if row.state is OffsetState.OPEN else None
    if row.withdrawn:
        return WITHDRAWN
    if not row.published:
        return UNPUBLISHED
    return COMPACTED if row.compacted and _compacted_below(lake, row, cut) else None


def _compacted_below(lake: str, row: LedgerRow, cut: int) -> bool:
    """Whether cleaning left gaps of a range below an offset."""
    if row.end_offset <= cut:
        return True
    try:
        counts = ledger_ranges.count_below(lake, row, cut)
    except (LogError, OSError):  # the batch at the cut is no longer in the archive: nothing is claimed
        return True
    return counts.records + counts.markers < cut - row.start_offset
