"""One log of a lake: the figures that users see, as values."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from logcore.errors import CorruptIndexError
from logcore.logs.model import readable_end
from logcore.logs.model.findings import Severity
from logcore.logs.model.offset_ledger import (
    EVIDENCE_FILLED,
    EVIDENCE_HIGH_WATERMARK,
    LedgerHole,
    OffsetState,
    first_hole,
    offsets_by_state,
)
from logcore.segments.filenames import HIGH_WATERMARK_FILE, TopicPartition, is_internal_topic
from logcore.segments.side_files.checkpoints import parse_offset_checkpoint
from logcore.storage.objects.addresses import is_object
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.referenced_bytes import is_gone
from spark_jobs.lake.store.silent_paths import is_silent
from spark_jobs.lake.view.ledger_states import STATES, is_alarming
from spark_jobs.lake.view.open_transactions import OpenTransaction
from spark_jobs.placed_finding import PlacedFinding

ACCEPTED = "transaction-accepted"


@dataclass(frozen=True, slots=True)
class LogState:
    """One log of a lake."""

    lake: str
    row: LogRow
    segments: int
    """Number of live segments of the archive."""
    archive_bytes: int
    ingested: int
    """Number of segments as taken from the source, with those retired since."""
    validated: int
    """Number of ingested segments that have a row in ``validations``."""
    batches: int
    records: int
    """Data records of the validated segments in any state. Control records are not included: the ledger counts those
    that lie in an undecided range."""
    quarantined_bytes: int
    findings: tuple[PlacedFinding, ...]
    """Open findings of this log."""
    open_transactions: tuple[OpenTransaction, ...]
    """Open transactions, oldest first; publishing waits at its beginning."""
    ledger: tuple[LedgerRow, ...]
    segment_offsets: tuple[int, ...] = ()
    """First offsets of the live segments, ascending."""
    unarchived: tuple[tuple[int, int], ...] = ()
    """Ranges of offsets that the log has by its ledger, and that lie in no segment."""

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
        """The name of the log for users: topic and partition, and the incarnation if there are several."""
        first = not self.row.incarnation
        return self.topic_partition if first else f"{self.topic_partition} (incarnation {self.row.incarnation})"

    @property
    def findings_by_severity(self) -> Mapping[Severity, int]:
        """Number of open findings; a severity without any is left out."""
        return Counter(placed.finding.severity for placed in self.findings)

    @property
    def offsets_by_state(self) -> dict[str, int]:
        """Offsets by ledger state; a gap inside a range counts as what it is, compacted or control."""
        counted = offsets_by_state(self.ledger)
        return {state: counted[state] for state in STATES if counted[state]}

    @property
    def is_damaged(self) -> bool:
        """Whether offsets of the log are in a state that means damage."""
        return any(map(is_alarming, self.ledger))

    @property
    def hole(self) -> LedgerHole | None:
        """The first offsets that the ledger leaves out or has twice; None if it covers all up to the log's end."""
        return first_hole(self.ledger, self.row.next_offset)

    @property
    def last_stable_offset(self) -> int:
        """Up to here the outcome of every transaction is decided, by the transactions in the lake."""
        first = min((each.first_offset for each in self.open_transactions), default=None)
        return readable_end.last_stable_offset(
            first,
            high_watermark=self.row.readable_high_watermark(),
            log_start_offset=self.row.log_start_offset,
        )

    @property
    def not_read(self) -> int:
        """Number of committed offsets after the last one that was read."""
        return max((self.row.high_watermark or 0) - self.row.source_end_offset, 0)

    @property
    def unread_rest(self) -> str:
        """Why the log goes on after what the lake has of it; empty if it was read to its high watermark."""
        if self.row.stopped is not None:
            return f"it has stopped: {self.row.stopped}"
        if self.not_read:
            return f"its high watermark is {self.row.high_watermark}, and it was read to {self.row.next_offset}"
        return ""

    @property
    def is_source_gone(self) -> bool:
        """Whether its source is no longer where it was; an object store is not asked, it costs a listing a log."""
        if any(placed.finding.rule == "log-gone" for placed in self.findings):
            return True
        return not is_object(self.row.source) and is_gone(self.row.source)

    @property
    def lacks_line(self) -> bool:
        """Whether its high watermark is 0 because the checkpoint at the source has no line of it now."""
        name = TopicPartition(self.row.topic, self.row.partition)
        if self.row.high_watermark != 0 or is_object(self.row.source) or is_silent(self.row.source):
            return False
        try:
            content = storage.read(os.path.join(os.path.dirname(self.row.source), HIGH_WATERMARK_FILE))
            return name not in parse_offset_checkpoint(content)
        except (OSError, CorruptIndexError):
            return False

    @property
    def is_vanished(self) -> bool:
        """Whether its log directory is there and no longer has it."""
        return self.is_source_gone and os.path.isdir(os.path.dirname(self.row.source))

    def hanging(self, as_of_ms: int) -> OpenTransaction | None:
        """The oldest open transaction, if it is older than its coordinator allows and no rest of the log waits."""
        oldest = next(iter(self.open_transactions), None)
        is_hanging = oldest is not None and oldest.hangs(as_of_ms) and not self.unread_rest
        return oldest if is_hanging and not self.is_given_up else None

    @property
    def is_given_up(self) -> bool:
        """Whether a user accepted its oldest open transaction, and `records_uncommitted` has what waits for it."""
        first = next((each.first_offset for each in self.open_transactions), None)
        found = (placed.finding for placed in self.findings)
        if not any(each.rule == ACCEPTED and each.start_offset == first for each in found):
            return False
        if is_internal_topic(self.row.topic) and self.published_to is None:
            return True  # runs publish nothing of it
        last = self._last_waiting()
        if last is None:
            return False
        where = [("log_id", "==", self.row.log_id), ("partition", "==", self.row.partition), ("offset", ">=", last)]
        return read_rows(self.lake, "records_uncommitted", ["offset"], where).num_rows > 0

    def _last_waiting(self) -> int | None:
        """The last offset of a record below the high watermark that is not decided; None if no batch has one.

        Of a batch that lost its last record this is too high, so the warning stays.
        """
        waiting = [r for r in self.ledger if r.state is OffsetState.OPEN and r.evidence != EVIDENCE_HIGH_WATERMARK]
        if not waiting:
            return None
        start, end = waiting[0].start_offset, waiting[-1].end_offset
        where = [("log", "==", self.log), ("base_offset", "<", end), ("last_offset", ">=", start)]
        batches = read_rows(self.lake, "batches", ["last_offset", "is_control"], where).to_pylist()
        return max((min(each["last_offset"], end - 1) for each in batches if not each["is_control"]), default=None)

    @property
    def published_to(self) -> int | None:
        """First offset that is not published; None if nothing is."""
        ends = [r.end_offset for r in self.ledger if r.published]
        return max(ends) if ends else None

    @property
    def lag(self) -> int:
        """Number of offsets that are ingested and not published yet.

        It is 0 for an internal topic that was never published: runs leave internal topics out.
        """
        begin = self.published_to
        if begin is None:
            if is_internal_topic(self.row.topic):
                return 0
            begin = self.ledger[0].start_offset if self.ledger else self.row.log_start_offset
        return max(self.row.next_offset - begin, 0)

    @property
    def came_late(self) -> bool:
        """Whether there are visible records below offsets that are published already."""
        to = self.published_to or 0
        return any(
            r.shows and not r.published and (r.end_offset <= to or r.evidence == EVIDENCE_FILLED) for r in self.ledger
        )

    @property
    def published_records(self) -> int:
        """Number of rows that ``records`` must have for this log."""
        return sum(r.records for r in self.ledger if r.has_rows)


def states_seen(logs: Iterable[LogState]) -> list[str]:
    """Return the ledger states that any of the logs has, in the order in which they are shown."""
    found = {state for log in logs for state in log.offsets_by_state}
    return [state for state in STATES if state in found]


def natural_order(topic_partition: str) -> tuple[str, int, str]:
    """Return the sort key of a topic partition's name: by topic, then by number (``orders-2`` before ``orders-10``)."""
    topic, _, number = topic_partition.rpartition("-")
    is_number = number.isascii() and number.isdigit()
    return (topic, int(number), topic_partition) if is_number else (topic_partition, -1, topic_partition)
