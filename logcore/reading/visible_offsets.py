"""Which offsets of a log are visible.

Like a broker to a consumer, a directory shows the offsets from the log start to the high watermark, or to the last
stable offset. A file that was named, or `ReadRules.show_all`, shows everything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace

from logcore.logs.model import readable_end
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.sources import SourceLog
from logcore.logs.model.transactions import TransactionState, TransactionWalk
from logcore.reading.log_facts import LogBatchFacts
from logcore.reading.read_options import HighWatermark, Notes, OffsetRange, ReadRules
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scanning.scan import ScannedBatch


@dataclass(frozen=True, slots=True)
class Window:
    """The visible offsets of a log: start..end (exclusive) without `hidden`.

    Attributes:
        start: The first visible offset.
        end: The offset after the last visible one.
        hidden: Ascending half-open ranges of batches of aborted transactions.
    """

    start: int
    end: int
    hidden: tuple[tuple[int, int], ...] = ()

    def shows(self, batch: ScannedBatch) -> bool:
        """Whether any offset of a batch may be visible."""
        header = batch.header
        if header.last_offset < self.start or header.base_offset >= self.end:
            return False
        at = bisect_right(self.hidden, (header.base_offset, MAX_OFFSET)) - 1
        return at < 0 or header.base_offset >= self.hidden[at][1]

    def ranges(self, chosen: OffsetRange) -> tuple[tuple[int, int], ...]:
        """Return the visible offsets of a chosen range, as ascending half-open ranges."""
        start = max(self.start, chosen.start or 0)
        end = self.end if chosen.end is None else min(self.end, chosen.end)
        visible = []
        for hidden_start, hidden_end in self.hidden:
            if start < min(hidden_start, end):
                visible.append((start, min(hidden_start, end)))
            start = max(start, hidden_end)
        return (*visible, (start, end)) if start < end else tuple(visible)


def visible_window(log: SourceLog, rules: ReadRules) -> Window:
    """Return the visible offsets of a log. For `read_committed` the whole log is read.

    Args:
        log: The log.
        rules: The isolation level, the high watermark, and whether everything is visible.
    """
    everything = rules.show_all or log.named_files
    start = 0 if everything else log.log_start_offset
    choice = rules.high_watermark
    high_watermark = visible_high_watermark(log, "log-end" if everything and choice == "checkpoint" else choice)
    if rules.isolation_level == "read_uncommitted":
        return Window(start, high_watermark)
    # A consumer of a compacted log does not see why offsets are gone; so gaps are not losses here.
    walk = TransactionWalk(high_watermark=high_watermark, rules=GapRules(compacted_by_policy=True))
    facts = LogBatchFacts(log, Notes(), walk, (high_watermark,))  # damage is reported where the records are read
    spans = [
        (fact.base_offset, fact.next_offset, fact.producer_id)
        for fact in walk.over(facts)
        if fact.is_transactional and not fact.is_control
    ]
    view = facts.view()
    lost: dict[int, list[tuple[int, int]]] = {}
    for transaction in view.transactions:
        if transaction.state in (TransactionState.ABORTED, TransactionState.UNKNOWN):
            lost.setdefault(transaction.producer_id, []).append((transaction.first_offset, transaction.last_offset))
    return Window(start, view.last_stable_offset, _hidden(spans, lost))


def requested_high_watermark(log: SourceLog, choice: HighWatermark) -> int | None:
    """Return the high watermark by the caller's choice; None if the log end replaces it.

    Args:
        log: The log.
        choice: The choice. An offset is used as given, also below the log start or after the log end.
    """
    if isinstance(choice, int):
        return choice
    if choice == "log-end" or log.named_files or log.high_watermark is None:
        return None
    return readable_end.high_watermark(log.high_watermark, log_start_offset=log.log_start_offset)


def with_high_watermark(log: SourceLog, choice: HighWatermark) -> SourceLog:
    """Return the log with the high watermark of the caller's choice in place of the one in its files.

    Args:
        log: The log.
        choice: The choice. With `log-end` no committed offset can be missing there.
    """
    if choice == "checkpoint":
        return log
    return replace(log, high_watermark=choice if isinstance(choice, int) else None, high_watermark_ms=None)


def visible_high_watermark(log: SourceLog, choice: HighWatermark, *, log_end_offset: int = MAX_OFFSET) -> int:
    """Return the end of the visible offsets by the caller's choice of the high watermark.

    KRaft's metadata log is visible to its end: each of its lines shows whether it is committed.

    Args:
        log: The log.
        choice: The choice.
        log_end_offset: The offset after the last batch, if it is known.
    """
    if log.is_metadata and choice == "checkpoint":
        choice = "log-end"
    return readable_end.high_watermark(requested_high_watermark(log, choice), log_end_offset=log_end_offset)


def committed_end(log: SourceLog, choice: HighWatermark) -> int:
    """Return the offset up to which a log is committed, by its files or the caller's choice of the high watermark."""
    stated = None if choice == "log-end" else log.high_watermark
    return readable_end.high_watermark(choice if isinstance(choice, int) else stated)


def _hidden(
    spans: Iterable[tuple[int, int, int]], lost: dict[int, list[tuple[int, int]]]
) -> tuple[tuple[int, int], ...]:
    """Select the ranges of batches (base offset, next offset, producer id) in lost transactions of their producer.
    Neighbours are one range.
    """
    hidden: list[tuple[int, int]] = []
    for base, after, producer_id in spans:
        of_producer = lost.get(producer_id, [])
        at = bisect_right(of_producer, (base, MAX_OFFSET)) - 1
        if at >= 0 and base <= of_producer[at][1]:
            start = hidden.pop()[0] if hidden and hidden[-1][1] == base else base
            hidden.append((start, after))
    return tuple(hidden)
